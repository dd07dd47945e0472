"""The settings of a project: ``toyspec.toml``, or ``[tool.toyspec]`` in ``pyproject.toml``.

::

    roots = ["runs"]                    # what ls and check take where no path is given
    profiles = ["schemas/evals"]        # directories of profiles of your own
    ignore = ["step-goes-backwards"]    # rules that check does not report

    [dialects.reward-log]               # how to read a log of your own; see schemas/meta/dialect.json
    files = ["rewards*.jsonl"]
    recognize = { keys = ["update", "reward"] }
    step = ["update"]

    [[health]]                          # rules over a run while it trains; see schemas/meta/health.json
    preset = "default"

    [[alerts]]                          # what happens when one of them is broken
    command = ["notify-send", "training"]
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from toyspec.core.errors import ToyspecError
from toyspec.core.escaping import printable
from toyspec.core.files import open_file
from toyspec.core.places.addresses import is_address, public

FILE = "toyspec.toml"
_PROJECT_FILE = "pyproject.toml"
ALLOWED = "TOYSPEC_SAFE_SETTINGS"
"""Environment variable with the paths of files whose commands are obeyed though ``distrust`` has a reason not to."""
_TABLE = b"[tool.toyspec"
_KEYS = ("roots", "profiles", "ignore", "dialects", "health", "alerts")


class ConfigurationError(ToyspecError):
    """The settings are wrong; the message begins with the path of the file."""

    def __init__(self, path: str, fact: str) -> None:
        super().__init__(f"{printable(path)}: {printable(fact)}")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say; everything is empty without a file."""

    path: str | None = None
    """Path of the file; None if there is none."""
    roots: tuple[str, ...] = ()
    """Directories with runs, relative to the directory of the file or absolute, or addresses."""
    profiles: tuple[str, ...] = ()
    """Directories of profiles of the user, relative or absolute as the roots are."""
    ignore: tuple[str, ...] = ()
    """Names of rules that are not reported."""
    dialects: tuple[Any, ...] = ()
    """The user's own ``Dialect`` objects."""
    health: tuple[dict[str, Any], ...] = ()
    """Tables of health rules, as they are in the file; see ``toyspec.health.rules``."""
    alerts: tuple[dict[str, Any], ...] = ()
    """Tables of what happens on an alert, as they are in the file; see ``toyspec.health.actions``."""


def find_configuration(directory: str = ".") -> Configuration:
    """Return the settings of the nearest file in *directory* or above; raise ConfigurationError for a wrong one."""
    here = os.path.abspath(directory)
    while True:
        for name in (FILE, _PROJECT_FILE):
            path = os.path.join(here, name)
            data = _content(path)
            if data is not None and (name == FILE or _TABLE in data):
                return _configuration(path, data)
        above = os.path.dirname(here)
        if above == here:
            return Configuration()
        here = above


def distrust(path: str, runs: str | None = None) -> str | None:
    """Return why commands, addresses and variables in the settings at *path* are not obeyed; None if they are.

    The owner must be the user or the system, no other user may write the file, and it may not be in *runs*, the folder
    that is looked at. ``TOYSPEC_SAFE_SETTINGS`` allows other files, each by its path.
    """
    place = os.path.realpath(path)
    if place in map(os.path.realpath, os.environ.get(ALLOWED, "").split(os.pathsep)):
        return None
    if runs is not None and place.startswith(os.path.join(os.path.realpath(runs), "")):
        return "the file is in the folder of runs that is watched"
    try:
        status = os.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    if os.name == "nt":
        is_own = place.startswith(os.path.join(os.path.realpath(os.path.expanduser("~")), ""))
        return None if is_own else "the file is not in your home directory"
    if status.st_uid not in (os.geteuid(), 0):
        return "the file belongs to another user"
    return "other users may write the file" if status.st_mode & 0o022 else None


def _content(path: str) -> bytes | None:
    try:
        with open_file(path) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(path, error.strerror or str(error)) from None


def _configuration(path: str, data: bytes) -> Configuration:
    import tomllib

    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(path, f"not TOML: {error}") from None
    if os.path.basename(path) == _PROJECT_FILE:
        document = document.get("tool", {}).get("toyspec", {})
    for key in document:
        if key not in _KEYS:
            raise ConfigurationError(path, f"unknown key {key!r}; known are {', '.join(_KEYS)}")
    tables = document.get("dialects", {})
    if not isinstance(tables, dict):
        raise ConfigurationError(path, "dialects must be a table: [dialects.NAME]")
    here, roots = os.path.dirname(path), _list(path, document, "roots", str)
    return Configuration(
        path=path,
        roots=tuple(public(root) if is_address(root) else os.path.join(here, root) for root in roots),
        profiles=tuple(os.path.join(here, each) for each in _list(path, document, "profiles", str)),
        ignore=_list(path, document, "ignore", str),
        dialects=tuple(_dialect(path, name, table) for name, table in tables.items()),
        health=_list(path, document, "health", dict),
        alerts=_list(path, document, "alerts", dict),
    )


def _list(path: str, document: dict[str, Any], key: str, kind: type) -> tuple[Any, ...]:
    found = document.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
        wanted = "a list of strings" if kind is str else f"tables: begin each with [[{key}]]"
        raise ConfigurationError(path, f"{key} must be {wanted}")
    return tuple(found)


def _dialect(path: str, name: str, table: Any) -> Any:
    """Return the dialect in a table, in which only the step is required."""
    from toyspec.core.reading import readers

    if not isinstance(table, dict):
        raise ConfigurationError(path, f"dialects.{name} must be a table")
    marks = {"any": table["step"]} if isinstance(table.get("step"), list) else {}
    usual = {"name": name, "title": name, "rank": "program", "form": {"type": "lines"}, "recognize": marks}
    if "parts" in table:
        raise ConfigurationError(path, f"dialects.{name}: parts is for dialects that toyspec ships; leave it out")
    try:
        return readers.dialects().made(usual | table)
    except ValueError as error:
        raise ConfigurationError(path, f"dialects.{name}: {error}") from None
