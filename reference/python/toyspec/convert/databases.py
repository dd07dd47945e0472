"""Opens SQLite databases of other programs, for reading only."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

from toyspec.errors import SourceError

DATABASE_MAGIC = b"SQLite format 3\0"
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises: Python decodes the names and messages of SQLite strictly."""


def opened(path: str) -> sqlite3.Connection:
    """Return a connection to the database *path* that cannot write; raise SourceError."""
    # Without a log of changes beside it, nothing writes the database; SQLite then makes no file beside it either.
    log = f"{path}-wal"
    is_still = not os.path.exists(log) or not os.path.getsize(log)
    address = f"file:{quote(os.path.abspath(path))}?{'immutable=1' if is_still else 'mode=ro'}"
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(address, uri=True)
        # Bytes that are not UTF-8 must not end an import.
        connection.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA schema_version")
    except DATABASE_ERRORS as error:
        if connection is not None:
            connection.close()
        raise SourceError(path, f"the database cannot be read: {error}") from error
    return connection


def tables_of(path: str) -> set[str]:
    """Return the names of the tables of the database *path*; raise SourceError."""
    with closing(opened(path)) as database:
        try:
            return {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except DATABASE_ERRORS as error:
            raise SourceError(path, f"the database cannot be read: {error}") from error
