"""Mutants of the comparison with a seal: see spec/bundle.md and spec/rules/seal-broken.md."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.sealing import SEAL, Sealing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.oracle.reading import Reading


class SealsTheStreamAlone(Oracle):
    """Compares the stream with its seal, and no other file."""

    class sealing_type(Sealing):
        def is_broken(self, line: bytes, seen: set[tuple[bytes, ...]]) -> bool:
            return super().is_broken(line, seen) and line.endswith(self.stream.encode())


class ChecksThatSealedFilesExist(Oracle):
    """Takes any digest for the right one."""

    class sealing_type(Sealing):
        def is_broken(self, line: bytes, seen: set[tuple[bytes, ...]]) -> bool:
            parsed = self.parsed(line)
            parts = (self.parts(parsed[1]) if parsed else None) or ()
            seen.add(parts)
            return self.digest(parts) is None


class SkipsWhatItCannotRead(Oracle):
    """Ignores lines that are not in the format of a seal."""

    class sealing_type(Sealing):
        def is_broken(self, line: bytes, seen: set[tuple[bytes, ...]]) -> bool:
            return self.parsed(line) is not None and super().is_broken(line, seen)


class SkipsComments(Oracle):
    """Ignores lines that begin with a number sign, as sha256sum does."""

    class sealing_type(Sealing):
        def is_broken(self, line: bytes, seen: set[tuple[bytes, ...]]) -> bool:
            return not line.startswith(b"#") and super().is_broken(line, seen)


class TakesCapitalDigits(Oracle):
    """Reads digests in upper case, as sha256sum does."""

    class sealing_type(Sealing):
        def parsed(self, line: bytes) -> tuple[str, bytes] | None:
            return super().parsed(line[:64].lower() + line[64:])


class ComparesSealsOfAnyLength(Oracle):
    """Compares a seal that is longer than the limit of a line."""

    class sealing_type(Sealing):
        def __init__(self, directory: str, stream: str, _limit: int) -> None:
            super().__init__(directory, stream, sys.maxsize)


class FollowsParents(Oracle):
    """Opens files with a path that leaves the bundle."""

    class sealing_type(Sealing):
        def parts(self, name: bytes) -> tuple[bytes, ...] | None:
            return tuple(part for part in name.split(b"/") if part not in {b"", b"."})

        def leaves(self, parts: tuple[bytes, ...]) -> bool:
            return False


class FollowsLinks(Oracle):
    """Opens a file outside of the bundle to which a symbolic link leads."""

    class sealing_type(Sealing):
        def leaves(self, parts: tuple[bytes, ...]) -> bool:
            return False


class ForgivesTornSeals(Oracle):
    """Takes a last line without LF for a line."""

    class sealing_type(Sealing):
        def content(self) -> bytes | None:
            data = super().content()
            return data + b"\n" if data and not data.endswith(b"\n") else data


class AllowsRepetition(Oracle):
    """Compares a file twice if two lines name it."""

    class sealing_type(Sealing):
        def is_repeated(self, parts: tuple[bytes, ...], seen: set[tuple[bytes, ...]]) -> bool:
            return False


class ForgetsTheStream(Oracle):
    """Accepts a seal that does not name the stream."""

    class sealing_type(Sealing):
        def lacks_stream(self, seen: set[tuple[bytes, ...]]) -> bool:
            return False


class DemandsEveryFile(Oracle):
    """Reports a seal that does not name each file of the bundle."""

    class sealing_type(Sealing):
        def problems(self) -> Iterator[tuple[int, int]]:
            yield from super().problems()
            listed = self.content() or b""
            names = [name for name in os.listdir(self.directory) if name != SEAL]
            if not all(name.encode() in listed for name in names):
                yield 1, 0


class SealsEventsOnly(Oracle):
    """Looks for no seal beside metrics.jsonl."""

    def sealing(self, directory: str, reading: Reading) -> Sealing | None:
        return super().sealing(directory, reading) if os.path.exists(os.path.join(directory, "events.jsonl")) else None


def _mutant(make: type[Oracle], reason: str = "not found: seal-broken at") -> Mutant:
    return Mutant(make=make, role="checker", proves="rules/seal-broken", reason=reason)


ALL = (
    _mutant(SealsTheStreamAlone),
    _mutant(ChecksThatSealedFilesExist),
    _mutant(SkipsWhatItCannotRead),
    _mutant(SkipsComments),
    _mutant(TakesCapitalDigits),
    _mutant(ComparesSealsOfAnyLength),
    _mutant(FollowsParents),
    _mutant(FollowsLinks),
    _mutant(ForgivesTornSeals),
    _mutant(AllowsRepetition),
    _mutant(ForgetsTheStream),
    _mutant(DemandsEveryFile, "not expected: seal-broken at"),
    _mutant(SealsEventsOnly),
)
