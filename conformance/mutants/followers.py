"""Mutants of following: see spec/following.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.mutants.mutant import Mutant
from conformance.oracle.adapter import Oracle
from conformance.oracle.following import Following, Item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.oracle.lines import Line

Message = dict[str, Any]


class GivesRecordsTooEarly(Oracle):
    """Gives a record before its LF has arrived."""

    class following_type(Following):
        def committed(self, data: bytes) -> bytes:
            done = super().committed(data)
            rest = data[len(done) :]
            return data + b"\n" if rest.endswith(b"}") else done


class LosesWhatWasCut(Oracle):
    """Drops the beginning of a line that arrives in pieces."""

    class following_type(Following):
        half = False

        def committed(self, data: bytes) -> bytes:
            done = super().committed(data)
            was_half, self.half = self.half, len(done) < len(data)
            return done if not was_half or len(done) == len(self.seen) else self._without_first(done)

        def _without_first(self, data: bytes) -> bytes:
            new = data[len(self.seen) :]
            return self.seen + new.replace(b"{", b" ", 1)


class InventsAnEnd(Oracle):
    """Makes up a run_end when the file stops growing."""

    class following_type(Following):
        def look(self) -> list[Item]:
            found = super().look()
            if not found and self.file is not None and not getattr(self, "over", False):
                self.over = True
                return [{"record": {"kind": "run_end", "t": {"float": "0.0"}, "reason": "interrupted"}}]
            return found


class OverlooksTruncation(Oracle):
    """Does not report that the file was cut."""

    class following_type(Following):
        def items(self) -> Iterator[Item]:
            return (item for item in super().items() if item != {"event": "truncated"})


class ComparesSizes(Oracle):
    """Decides by the size alone whether a file was rewritten."""

    class following_type(Following):
        def changed(self) -> str | None:
            found = super().changed()
            import os

            assert self.file is not None
            same = found == "replaced" and os.fstat(self.file.fileno()).st_nlink
            return None if same else found


class KeepsItsPlace(Oracle):
    """Continues at the old position in a new file."""

    class following_type(Following):
        def start_over(self) -> None:
            if not hasattr(self, "seen"):
                super().start_over()


class DoesNotDrain(Oracle):
    """Stops reading a rotated file before its end."""

    class following_type(Following):
        def items(self) -> Iterator[Item]:
            found = list(super().items())
            events = [index for index, item in enumerate(found) if item == {"event": "rotated"}]
            return iter(found[events[0] :] if events else found)


class OverlooksDeletion(Oracle):
    """Does not report that the file was removed."""

    class following_type(Following):
        def items(self) -> Iterator[Item]:
            return (item for item in super().items() if item != {"event": "gone"})


class GivesUpWithoutAFile(Oracle):
    """Fails when the file does not exist yet."""

    def follow(self, request: Message) -> Message:
        """Answer with an error."""
        import os

        number = request["follower"]
        if "path" in request and number not in self.followers and not os.path.exists(request["path"]):
            return {"error": "no such file"}
        return super().follow(request)


class NeverEnds(Oracle):
    """Does not report that the run has ended."""

    class following_type(Following):
        def line(self, line: Line) -> Iterator[Item]:
            return (item for item in super().line(line) if item != {"event": "ended"})


class HidesGaps(Oracle):
    """Does not give unreadable lines."""

    class following_type(Following):
        def line(self, line: Line) -> Iterator[Item]:
            return (item for item in super().line(line) if "gap" not in item)


class ReadsAgain(Oracle):
    """Gives everything again at each poll."""

    class following_type(Following):
        def look(self) -> list[Item]:
            self.lines = 0
            return super().look()


class KeepsItsProfile(Oracle):
    """Reads a new file by the profile of the old one."""

    class following_type(Following):
        def start_over(self) -> None:
            before = vars(self).get("profile"), vars(self).get("is_detected", False)
            super().start_over()
            self.profile, self.is_detected = before


class LooksForAManifestOnce(Oracle):
    """Takes the answer of the first file for whether there is a manifest."""

    class following_type(Following):
        found: bool | None = None

        def manifest(self) -> bool:
            if self.found is None:
                self.found = super().manifest()
            return self.found


class ComparesTheStartsOfLines(Oracle):
    """Compares the first 64 bytes of the first and of the last line."""

    class following_type(Following):
        def changed(self) -> str | None:
            found = super().changed()
            assert self.file is not None
            self.file.seek(0)
            now = self.file.read(len(self.seen))
            return None if found == "replaced" and self.starts(now) == self.starts(self.seen) else found

        def starts(self, data: bytes) -> list[bytes]:
            lines = data.splitlines()
            return [line[:64] for line in (*lines[:1], *lines[-1:])]


class FollowsAnythingAsToy(Oracle):
    """Follows a stream without profile as toy/v1."""

    class following_type(Following):
        def line(self, line: Line) -> Iterator[Item]:
            self.profile = self.profile or "toy/v1"
            return super().line(line)


def _mutant(make: type[Oracle], proves: str, reason: str) -> Mutant:
    return Mutant(make=make, role="follower", proves=proves, reason=reason)


ALL: tuple[Mutant, ...] = (
    _mutant(GivesRecordsTooEarly, "following/committed-only", "which commit|gave"),
    _mutant(LosesWhatWasCut, "following/same-as-reading", "gave"),
    _mutant(HidesGaps, "following/same-as-reading", "gave"),
    _mutant(ReadsAgain, "following/same-as-reading", "gave|which commit"),
    _mutant(InventsAnEnd, "following/no-invention", "gave|which commit"),
    _mutant(OverlooksTruncation, "following/truncated", "gave"),
    _mutant(ComparesSizes, "following/replaced", "gave"),
    _mutant(KeepsItsPlace, "following/start-over", "gave"),
    _mutant(KeepsItsProfile, "following/start-over", "gave|item"),
    _mutant(LooksForAManifestOnce, "following/start-over", "gave|item"),
    _mutant(ComparesTheStartsOfLines, "following/replaced", "gave"),
    _mutant(DoesNotDrain, "following/drain", "gave"),
    _mutant(OverlooksDeletion, "following/gone", "gave"),
    _mutant(GivesUpWithoutAFile, "following/missing", "answered with an error"),
    _mutant(FollowsAnythingAsToy, "following/profile", "gave|item"),
    _mutant(NeverEnds, "following/ended", "gave"),
)
