"""Decides by the first bytes of a file how it is read: as one of toyspec's profiles, or as a dialect.

A manifest beside a stream may decide on its profile: see spec/model.md.
"""

from __future__ import annotations

import copy
import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from toyspec.core.errors import StreamError
from toyspec.core.files import open_file
from toyspec.core.format.flattening import member_at
from toyspec.core.format.line_validation import decode, decode_lenient, validate
from toyspec.core.format.lines import OBJECT
from toyspec.core.format.profiles import (
    EVENTS_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    detect_profile,
    is_manifest,
    profile_named,
    stream_name,
)
from toyspec.core.generated.limits import MAX_LINE_BYTES
from toyspec.core.places.addresses import path_in
from toyspec.core.reading import readers
from toyspec.core.reading.stream_files import GzipDataError, is_packed, read_start, unpacked_head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toyspec.core.findings import Profile
    from toyspec.core.format.own_profiles import OwnProfile
    from toyspec.core.reading.readers import OpenedLog


HEAD_BYTES = 1 << 16
"""Number of bytes by which a file is recognized."""

CONSOLE_BYTES = 1 << 20
"""Number of bytes of text in which the first metrics are looked for: many programs print their settings before them."""

_MANIFESTED: Profile = "kaun/v1"


class DialectChoice:
    """Which dialects a reading may use.

    *name* is ``"auto"`` to recognize one, the name of one, or None for none: files that follow no profile of toyspec
    are then of another format, as the specification says. *keys* are those that the user named, if any. *own* are
    dialects of the user, which are tried first. *profile* is a profile that reads every file: one of toyspec, or
    the directory of one of the user. *profiles* are directories of profiles of the user, which are tried before all
    others.
    """

    def __init__(
        self,
        name: str | None = "auto",
        *,
        keys: Any = None,
        own: Sequence[Any] = (),
        profile: str | None = None,
        profiles: Sequence[str] = (),
    ) -> None:
        self.name = name if profile is None else None
        self.keys = keys
        self.own = tuple(own)
        self.profile = profile
        self.profiles = tuple(profiles)
        self.named: Any = None
        """The dialect of that name; None unless the user named one."""
        self.is_manifested = False
        """True while a manifest beside the file says that it is of a profile: one dialect of a program counts more."""
        if self.name is not None and self.name != "auto":
            own_one = next((each for each in self.own if each.name == name), None)
            self.named = own_one or readers.dialects().named(self.name)

    @classmethod
    def of(cls, dialect: DialectChoice | str | None) -> DialectChoice:
        """Return the choice that *dialect* names: itself, ``"auto"``, the name of a dialect, or None for none."""
        return dialect if isinstance(dialect, DialectChoice) else cls(dialect)

    @property
    def marks(self) -> object:
        """What two choices that read the same files have in common."""
        return self.name, self.keys, self.profile, self.profiles, tuple(each.name for each in self.own)

    @property
    def is_named(self) -> bool:
        """True if the user named a dialect or a profile, which then reads every file."""
        return self.named is not None or self.profile is not None

    @property
    def may_be_own(self) -> bool:
        """True if a stream may be of a profile of the user."""
        return self.profile is not None or bool(self.profiles)

    @property
    def stream_files(self) -> tuple[str, ...]:
        """Names of the streams of the user's profiles in their bundles."""
        return tuple(each.file for each in self._own_profiles())

    def profile_of(self, head: bytes, path: str = "") -> Any:
        """Return the name of the profile that was named, or of the user's one that the file fits; None without one.

        The file begins with *head*. A file that has the name of a profile's stream fits it.
        """
        if not self.may_be_own:
            return None
        if self.profile is not None:
            return profile_named(self.profile)
        first = first_object(head)
        name = stream_name(os.path.basename(path))
        for each in self._own_profiles():
            is_named = name == each.file and name not in (EVENTS_FILE, METRICS_FILE)
            if is_named or (first is not None and each.fits(first)):
                return each.name
        return None

    def _own_profiles(self) -> list[OwnProfile]:
        if not self.may_be_own:
            return []
        from toyspec.core.format.own_profiles import loaded

        named = [profile_named(each) for each in (*filter(None, [self.profile]), *self.profiles)]
        return [own for name in named if (own := loaded(name)) is not None]

    @property
    def is_open(self) -> bool:
        """True if the first bytes of a file may decide that it is of a user's profile, or another program's log."""
        return self.name is not None or self.may_be_own

    def decide(
        self, head: bytes, detect: Callable[..., Profile | None] | None = None, *, path: str = ""
    ) -> tuple[Any, OpenedLog | None]:
        """Return the profile by ``profile_of``, and without one how to read the file by ``choose``."""
        profile = self.profile_of(head, path)
        return profile, self.choose(head, detect, path=path) if profile is None else None

    def choose(
        self, head: bytes, detect: Callable[..., Profile | None] | None = None, *, path: str = ""
    ) -> OpenedLog | None:
        """Return how to read the file that begins with *head*; None for a stream of toyspec, and for unknown formats.

        *detect* returns the profile of a stream by its first record, by default ``detect_profile``. A manifest beside
        the file counts less than a dialect of one program.
        """
        if self.name is None:
            return None
        if self.named is not None:
            return readers.opened(head, path, self)
        first = first_object(head)
        profile = None if first is None else (detect or detect_profile)(first)
        if profile is not None and profile != _MANIFESTED:
            return None
        if first is not None and detect_profile(first) is not None:
            return None
        asked = self
        if profile == _MANIFESTED:
            asked = copy.copy(self)
            asked.is_manifested = True
        return readers.opened(head, path, asked)


class LogNames(tuple[str, ...]):  # noqa: SLOT001 - it has its choice beside the names
    """Patterns of the file names of logs that a choice may read, with which a store is searched.

    On this machine content decides: ``has_log`` returns for any file whether the choice reads it as the log of another
    program.
    """

    choice: DialectChoice
    on_look: Callable[[], object] | None = None
    """Is called for each file that is looked at."""

    def has_log(self, path: str, version: str) -> bool:
        """Return whether the file *path* is a log; True for one with a usual name that cannot be read.

        *version* changes with the file, which is read once for each.
        """
        if not may_be_log(path):
            return False
        if self.on_look is not None:
            self.on_look()
        known = _KNOWN_LOGS.get((path, version, self.choice.marks))
        if known is None:
            known = self._has_log(path)
            if version:
                if len(_KNOWN_LOGS) > _MOST_KNOWN:
                    _KNOWN_LOGS.clear()
                _KNOWN_LOGS[path, version, self.choice.marks] = known
        return known

    def _has_log(self, path: str) -> bool:
        try:
            with open_file(path) as file:
                head = file.read(_FIRST_BYTES)
                # Most files of other programs are not text.
                if is_binary(head) and not is_packed(head):
                    return False
                head += file.read(HEAD_BYTES - len(head))
            if is_packed(head):
                head = unpacked_head(path, HEAD_BYTES)[0]
            if self.choice.profile_of(head, path) is not None:
                return True
            return bool(head) and self.choice.choose(head, path=path) is not None
        except (StreamError, GzipDataError, OSError):
            return any(fnmatchcase(os.path.basename(path), pattern) for pattern in self)


_FIRST_BYTES = 1 << 12
# A longer first line may have NUL bytes after these.
_FIRST_LINE_BYTES = 256
_KNOWN_LOGS: dict[tuple[str, str, object], bool] = {}
_MOST_KNOWN = 100_000
# Files that quote the output of programs, or have none.
_OTHER_KINDS = (
    "py pyi md rst ipynb sh yaml yml toml html css xml svg lock",
    "c h cc cpp hpp cu rs js mjs ts tsx go java rb map",
    "pyc so a o dll dylib exe whl zip tar tgz xz bz2 zst",
    "pl pm pod lua php awk el vim tcl r jl swift kt scala sql",
    "cmake m4 am ac in pc conf cfg ini mo po pot jar class",
    "crt pem ps afm pfb otf xsl dtd rng xsd pom desktop service",
    "png jpg jpeg gif webp mp4 wav mp3 pdf ttf woff woff2",
    "pt pth ckpt bin safetensors npy npz pkl h5 onnx gguf arrow",
    "parquet db sqlite wandb",
)
NOT_LOGS = tuple(f".{end}" for kind in _OTHER_KINDS for end in kind.split())
"""Ends of names of files that are not logs of other programs."""
_PACKED_LOGS = (".jsonl", ".json", ".csv", ".tsv", ".log", ".txt", ".out", ".dat", ".ndjson")
_SIDE_FILE = re.compile(r"\.(?:prev|torn-\d+)(?:-\d+)?$", re.ASCII)
# What is in these is a part of runs that other tools keep there, and that are imported as a whole.
_HOMES_OF_OTHERS = frozenset(["wandb", "mlruns", "dvclive", ".aim"])


def may_be_log(path: str) -> bool:
    """Return whether the file *path* may be a log of another program, by its name and those of its directories."""
    name = os.path.basename(path)
    is_elsewhere = not _HOMES_OF_OTHERS.isdisjoint(os.path.dirname(path).split(os.sep))
    if name.endswith(NOT_LOGS) or _SIDE_FILE.search(name) or is_elsewhere:
        return False
    # Pages of manuals are compressed too, and to unpack them takes long.
    return not name.endswith(".gz") or name.removesuffix(".gz").endswith(_PACKED_LOGS)


def is_binary(head: bytes) -> bool:
    """Return whether the first line of *head* has NUL bytes near its start, as no log has."""
    return b"\0" in head[:_FIRST_LINE_BYTES].partition(b"\n")[0]


def first_object(head: bytes) -> dict[str, Any] | None:
    """Return the first object on a line of *head*; one with bare NaN counts too, since a profile has its keys."""
    committed = head.rfind(b"\n")
    # Programs in many languages have braces, few have one before a quote.
    found = OBJECT.search(head, 0, max(0, committed))
    while found is not None:
        end = head.find(b"\n", found.start())
        line = head[head.rfind(b"\n", 0, found.start()) + 1 : end]
        value = decode(line)
        if value is None and line.lstrip()[:1] == b"{":
            value = decode_lenient(line)
        if value is not None:
            return value
        found = OBJECT.search(head, end, committed)
    return None


def usual_names(choice: DialectChoice) -> tuple[str, ...]:
    """Return the patterns of the file names of the logs that *choice* may read."""
    if choice.name is None:
        return choice.stream_files
    own = (pattern for dialect in choice.own for pattern in dialect.files)
    names = LogNames(dict.fromkeys([*choice.stream_files, *own, *readers.dialects().files()]))
    names.choice = choice
    # A dialect that the user named reads every file: there, only names decide.
    return tuple(names) if choice.is_named else names


def read_manifest(directory: str) -> dict[str, Any] | None:
    """Return the object in the run.json of *directory*; None if there is none or it is unreadable. Never raises."""
    try:
        data = read_start(path_in(directory, MANIFEST_FILE), MAX_LINE_BYTES + 1)
    except (OSError, StreamError):
        return None
    return validate(data, first=True).value if len(data) <= MAX_LINE_BYTES else None


def manifest_start(directory: str, dialect: str) -> dict[str, Any]:
    """Return what the run.json in *directory* has about the run whose log is of *dialect*, in the members of run_start.

    Empty if the dialect has no such file, or it is not there. Never raises.
    """
    members = readers.dialects().manifest(dialect)
    manifest = read_manifest(directory) if members else None
    found: dict[str, Any] = {}
    for name, key in members.items():
        value = None if manifest is None else member_at(manifest, key)
        outer, _, inner = name.rpartition("/")
        if value is not None:
            (found.setdefault(outer, {}) if outer else found)[inner] = value
    return found


def detect_profile_at(path: str, first: Mapping[str, Any] | None, *, has_gap: bool = False) -> Profile | None:
    """Return the profile of the stream at *path*; None if it has none.

    *first* is its first readable record, or None. The manifest beside it is read only if it decides. Never raises: an
    unreadable manifest counts as absent.
    """
    name = os.path.basename(path)
    plain = detect_profile(first, name, has_gap=has_gap)
    manifested = detect_profile(first, name, has_gap=has_gap, has_manifest=True)
    if plain == manifested:
        return plain
    manifest = read_manifest(os.path.dirname(path))
    return manifested if manifest is not None and is_manifest(manifest) else plain
