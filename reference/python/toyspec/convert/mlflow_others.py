"""Brings what a run in MLflow has besides metrics, params and tags: artifacts, and datasets, which have no place."""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from toyspec.convert.databases import DATABASE_ERRORS, opened, tables_of
from toyspec.convert.incoming_files import IncomingArtifact, IncomingMedia
from toyspec.convert.losses import DAMAGED, NO_PLACE
from toyspec.convert.sources import files_below
from toyspec.places.addresses import without_secrets
from toyspec.writing.media import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

_DATASETS = (
    "SELECT datasets.name FROM inputs LEFT JOIN datasets ON inputs.source_id = datasets.dataset_uuid "
    "WHERE inputs.destination_type = 'RUN' AND inputs.destination_id = ?"
)
_ARTIFACTS = "SELECT artifact_uri FROM runs WHERE run_uuid = ?"
# What log_image(key=, step=) names its files; a slash in the key is a tilde, and was a number sign.
_IMAGE = re.compile(
    r"images/(?P<key>[^/]+?)[+%]step[+%](?P<step>\d{1,15})[+%]timestamp[+%]\d+[+%][^/%+]+\.\w+", re.ASCII
)


def image_name(key: str, step: int, milliseconds: int, name: str) -> str:
    """Return the path of a picture among the artifacts, as ``log_image`` of MLflow has it."""
    return f"images/{key.replace('/', '~')}+step+{step}+timestamp+{milliseconds}+{name}"


def others_of(path: str, run_id: str, t: float, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield the artifacts of a run in the database *path* at the time *t*, and drop its datasets.

    Files below the directory of the database are brought; those elsewhere on this machine are named.
    """
    try:
        with closing(opened(path)) as database:
            # Databases of older versions have no datasets.
            if tables_of(path) >= {"inputs", "datasets"}:
                for (name,) in database.execute(_DATASETS, (run_id,)):
                    ledger.lose(NO_PLACE, "dataset", name)
            addresses = [address for (address,) in database.execute(_ARTIFACTS, (run_id,))]
    except DATABASE_ERRORS as error:
        ledger.lose(DAMAGED, "database", str(error))
        return
    for address in addresses:
        directory = local_directory(address)
        if directory is None:
            note_elsewhere(address, ledger)
        else:
            home = os.path.dirname(os.path.realpath(path))
            yield from artifacts_in(directory, t, ledger, is_own=_is_below(os.path.realpath(directory), home))


def note_elsewhere(address: object, ledger: Ledger) -> None:
    """Note that artifacts at *address*, which is not a directory of this machine, were not looked for."""
    if address:
        shown = without_secrets(str(address))
        ledger.note(f"artifacts at {shown} were not looked for: bring them to this machine to keep them")


def _is_below(path: str, home: str) -> bool:
    return path.startswith(os.path.join(home, ""))


def artifacts_in(directory: str, t: float, ledger: Ledger, *, is_own: bool) -> Iterator[dict[str, Any]]:
    """Yield an event for each file at and below *directory*, which may be missing.

    A directory that is not the run's *own*, but was only named by it, is not copied from: a database may name any.
    """
    if not os.path.isdir(directory):
        return
    home = os.path.realpath(directory)
    for _, files in files_below(directory, bool):
        for file in files:
            ledger.items += 1
            relative = os.path.relpath(file, directory).replace(os.sep, "/")
            if not is_own or not _is_below(os.path.realpath(file), home):
                ledger.done()
                yield {"kind": "reference", "t": t, "uri": Path(os.path.abspath(file)).as_uri(), "role": "artifact"}
                continue
            image = _IMAGE.fullmatch(relative)
            if image is None:
                yield {"kind": "artifact", "t": t, "file": IncomingArtifact(file, relative, relative)}
                continue
            name = re.sub("[~#]", "/", image["key"])
            made = {"kind": "media", "t": t, "step": int(image["step"]), "name": name}
            yield {**made, "file": IncomingMedia(File(file), relative)}


def local_directory(address: object) -> str | None:
    """Return the directory at *address*; None for another kind of place."""
    if not isinstance(address, str):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    directory = unquote(parts.path) if parts.scheme == "file" else address
    return directory if parts.scheme in ("", "file") and os.path.isabs(directory) else None
