"""Decides by the first bytes of a file how it is read: as one of toyspec's profiles, or as a dialect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.format.line_validation import decode
from toyspec.format.lines import first_lines
from toyspec.format.profiles import EVENTS_FILE, METRICS_FILE, detect_profile, stream_name
from toyspec.reading.stream_files import parts_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toyspec.findings import Profile
    from toyspec.format.dialect_mapping import ReadAs
    from toyspec.format.dialects import Dialect
    from toyspec.format.own_profiles import OwnProfile

HEAD_BYTES = 1 << 16
"""Number of bytes by which a file is recognized."""

CONSOLE_BYTES = 1 << 20
"""Number of bytes of text in which the first metrics are looked for: many programs print their settings before them."""

# What only the logs of other programs need is imported with the first of them: start-up time counts.
_MANIFESTED: Profile = "kaun/v1"


class DialectChoice:
    """Which dialects a reading may use.

    *name* is ``"auto"`` to recognize one, the name of one, or None for none: files that follow no profile of toyspec
    are then of another format, as the specification says. *step* is the key of the step, if the user named it. *own*
    are dialects of the user, which are tried first. *profile* is a profile that reads every file: one of toyspec, or
    the directory of one of the user. *profiles* are directories of profiles of the user, which are tried before all
    others.
    """

    def __init__(
        self,
        name: str | None = "auto",
        *,
        step: str | None = None,
        own: Sequence[Dialect] = (),
        profile: str | None = None,
        profiles: Sequence[str] = (),
    ) -> None:
        self.name = name if profile is None else None
        self.step = step
        self.own = tuple(own)
        self.profile = profile
        self.profiles = tuple(profiles)
        self._named: Dialect | None = None
        if name is not None and name != "auto":
            from toyspec.format.dialects import dialect_named

            self._named = next((each for each in self.own if each.name == name), None) or dialect_named(name)

    @property
    def is_named(self) -> bool:
        """True if the user named a dialect or a profile, which then reads every file."""
        return self._named is not None or self.profile is not None

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
            from toyspec.format.own_profiles import profile_named

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
        # Few users have profiles of their own: start-up time counts.
        from toyspec.format.own_profiles import is_loaded, loaded, profile_named

        named = [profile_named(each) for each in (*filter(None, [self.profile]), *self.profiles)]
        return [loaded(name) for name in named if is_loaded(name)]

    def choose(
        self, head: bytes, detect: Callable[..., Profile | None] = detect_profile, *, path: str = ""
    ) -> ReadAs | None:
        """Return how to read the file that begins with *head*; None for a stream of toyspec, and for unknown formats.

        *detect* returns the profile of a stream by its first record. A manifest beside the file counts less than a
        dialect of one program.
        """
        if self.name is None:
            return None
        if self._named is not None:
            from toyspec.format.recognition import read_as, sample

            return _with_files(read_as(self._named, sample(head, self._named), step=self.step, named=True), path)
        first = first_object(head)
        profile = None if first is None else detect(first)
        if profile is not None and profile != _MANIFESTED:
            return None
        if first is not None and detect_profile(first) is not None:
            return None
        from toyspec.format.dialects import dialects
        from toyspec.format.recognition import recognize

        known = [*self.own, *dialects()]
        if profile == _MANIFESTED:
            known = [each for each in known if each.rank == "program"]
        found = recognize(head, known, name=stream_name(os.path.basename(path)), step=self.step)
        if found is None and first is None:
            found = self._in_console(head, path)
        return None if found is None else _with_files(found, path)

    def has_console_text(self, data: bytes) -> bool:
        """Return whether *data* has the text by which the console output of a program is known."""
        from toyspec.format.recognition import has_text

        return self.name == "auto" and any(has_text(data, dialect) for dialect in self._consoles())

    def _in_console(self, head: bytes, path: str) -> ReadAs | None:
        """Return how to read the text file at *path*, whose first metrics come after *head*; None if it has none."""
        if len(head) < HEAD_BYTES or b"\0" in head or not os.path.isfile(path):
            return None
        from toyspec.format.recognition import recognize

        with open(path, "rb") as file:
            text = file.read(CONSOLE_BYTES)
        return recognize(text, self._consoles(), name=stream_name(os.path.basename(path)), step=self.step)

    def _consoles(self) -> list[Dialect]:
        """Return the dialects whose records are lines between other output, and which are known by a text."""
        from toyspec.format.dialects import dialects

        known = (*self.own, *dialects())
        return [each for each in known if each.form.type in ("pattern", "prefixed") and each.recognize.text]


def _with_files(found: ReadAs, path: str) -> ReadAs:
    """Return *found* with the number of files of the log at *path*."""
    if not path or not os.path.isdir(path):
        return found
    return msgspec.structs.replace(found, files=max(1, parts_status(path).st_nlink))


def first_object(head: bytes) -> dict[str, Any] | None:
    """Return the first object on a line of *head*; one with bare NaN counts too, since a profile has its keys."""
    for line in first_lines(head):
        if not line.data:
            continue
        value = decode(line.data)
        if value is None and line.data.lstrip()[:1] == b"{":
            value = _lenient(line.data)
        if value is not None:
            return value
    return None


def _lenient(data: bytes) -> dict[str, Any] | None:
    from toyspec.format.dialect_forms import JsonForm

    return JsonForm(takes_bare=True).validate(data, first=False).value


def usual_names(choice: DialectChoice) -> tuple[str, ...]:
    """Return the patterns of the file names of the logs that *choice* may read."""
    if choice.name is None:
        return choice.stream_files
    from toyspec.format.dialects import dialects

    known = [*choice.own, *dialects()]
    patterns = (pattern for dialect in known for pattern in dialect.files)
    return tuple(dict.fromkeys([*choice.stream_files, *patterns]))
