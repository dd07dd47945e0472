"""Rules that relate a record to others: see spec/stream.md."""

from __future__ import annotations

import os
import stat
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from toyspec.checker.observing import Block, Facts, Observation, StreamFinding, identity, phase_of, shown_number
from toyspec.checker.order_rules import Rule
from toyspec.escaping import shortened
from toyspec.format.profiles import EVENTS_FILE
from toyspec.format.run_files import leaves_bundle, media_file
from toyspec.generated import messages
from toyspec.generated.limits import MAX_OPEN_REGIONS

if TYPE_CHECKING:
    from collections.abc import Iterator


class SameAsLast(Rule):
    """A field equals that of the last record of another kind."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self._field: str = rule["field"]
        self._of, self._facts = rule["of"], facts
        self.kinds = frozenset({self._kind, self._of["kind"]})
        self.loud = frozenset({self._kind})
        self._last: Any = UNSET
        self._done = False

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the field differs, at the record of the kind that ends the run."""
        if seen.kind == self._of["kind"]:
            if phase_of(seen, self._facts) == self._of["phase"]:
                self._last = seen.field(self._of["field"])
            return
        value = seen.field(self._field)
        silent = self._done or self._facts.gap_seen or value is UNSET or self._last is UNSET
        self._done = True
        if not silent and value != self._last:
            found, expected = shown_number(value), shown_number(self._last)
            message = messages.differs_from_last(
                field=self._field, found=found, expected=expected, phase=self._of["phase"], kind=self._of["kind"]
            )
            yield StreamFinding(self._rule, f"/{self._field}", message)

    def pass_over(self, block: Block) -> None:
        """Keep the field of the last record of the other kind."""
        records = self._facts.phases(block, self._of["kind"]).get(self._of["phase"])
        if records:
            self._last = getattr(records[-1], self._of["field"], UNSET)

    def reopen(self) -> None:
        """Compare the next end too."""
        self._done = False


class Nested(Rule):
    """Records of two kinds nest like a stack."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._enter, self._exit = rule["rule"], rule["enter"], rule["exit"]
        self._field, self._closed_by, self._cleared = rule["field"], rule["closed_by"], rule["cleared_by_gap"]
        self.kinds = frozenset({self._enter, self._exit, self._closed_by})
        self.loud = frozenset({self._closed_by})
        self._open: list[tuple[str | bytes, str, int]] = []
        self._off = False

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if a region is left out of order, not open, or still open at the end."""
        if self._off:
            return
        if seen.kind == self._closed_by:
            for _, name, line in reversed(self._open):
                yield StreamFinding(self._rule, "", messages.region_left_open(region=name, line=line))
            self._open.clear()
            self._off = True
            return
        region = seen.field(self._field)
        if region is UNSET:
            return
        if seen.kind == self._enter:
            yield from self._push(region, seen.line)
        else:
            yield from self._pop(region)

    def is_quiet(self, block: Block) -> bool:
        """Return whether every exit in the block is from the region entered last."""
        if self._off:
            return True
        names = [name for name, _, _ in self._open]
        for enters, region, _ in self._changes(block):
            if enters:
                names.append(identity(region))
            elif not names or names.pop() != identity(region):
                return False
            if len(names) > MAX_OPEN_REGIONS:
                return False
        return True

    def pass_over(self, block: Block) -> None:
        """Enter and exit the regions of the block."""
        if self._off:
            return
        for enters, region, line in self._changes(block):
            if enters:
                self._open.append((identity(region), shortened(region), line))
            else:
                self._open.pop()

    def gap(self) -> None:
        """Drop the open regions if the rule is cleared by a gap."""
        if self._cleared:
            self._open.clear()

    def reopen(self) -> None:
        """Follow the regions of the run that goes on; none of them is open."""
        self._off = False

    def _changes(self, block: Block) -> list[tuple[bool, str, int]]:
        """Return for each record of a region in *block* whether it enters, its region and its line."""
        entering = {cls: kind == self._enter for cls, kind in block.kinds.items() if kind in (self._enter, self._exit)}
        if not entering:
            return []
        records = block.records
        places = [index for index, cls in enumerate(map(type, records)) if cls in entering]
        return [
            (entering[type(records[index])], getattr(records[index], self._field), block.line + index)
            for index in places
        ]

    def _push(self, region: str, line: int) -> Iterator[StreamFinding]:
        if len(self._open) == MAX_OPEN_REGIONS:
            self._off = True
            self._open.clear()
            yield StreamFinding(self._rule, f"/{self._field}", messages.region_too_many(limit=MAX_OPEN_REGIONS))
        else:
            self._open.append((identity(region), shortened(region), line))

    def _pop(self, region: str) -> Iterator[StreamFinding]:
        name = identity(region)
        if self._open and self._open[-1][0] == name:
            self._open.pop()
            return
        where = f"/{self._field}"
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == name:
                inner = self._open[-1][1]
                del self._open[index]
                message = messages.region_not_innermost(region=shortened(region), inner=inner)
                yield StreamFinding(self._rule, where, message)
                return
        yield StreamFinding(self._rule, where, messages.region_not_entered(region=shortened(region)))


class Requires(Rule):
    """A record of the kind needs a field, in itself or in the first record of another kind."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule: str = rule["rule"]
        self._kind: str = rule["kind"]
        self._when = rule.get("when")
        self._needs, self._facts = rule["needs"], facts
        self.kinds = self.loud = frozenset({self._kind})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the field is missing."""
        if self._when and seen.field(self._when["field"]) != self._when["equals"]:
            return
        field, other = self._needs["field"], self._needs.get("kind")
        if other is None:
            if not seen.has(field):
                yield StreamFinding(self._rule, f"/{field}", self._missing(field))
        elif self._facts.seen(other) and self._facts.value(other, f"/{field}") is UNSET:
            yield StreamFinding(self._rule, "", messages.required_in_other(kind=self._kind, other=other, key=field))

    def _missing(self, key: str) -> str:
        if self._when is None:
            return messages.missing_key(key=key, place=self._kind)
        return messages.required_if(kind=self._kind, field=self._when["field"], value=self._when["equals"], key=key)


class LessThan(Rule):
    """A field is smaller than another one of the same record."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._field, self._than = rule["rule"], rule["field"], rule["than"]
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the field is not smaller."""
        value, bound = seen.field(self._field), seen.field(self._than)
        if value is UNSET or bound is UNSET or value < bound:
            return
        message = messages.not_less(
            field=self._field, found=shown_number(value), bound=shown_number(bound), than=self._than
        )
        yield StreamFinding(self._rule, f"/{self._field}", message)


class Differs(Rule):
    """The value at a pointer differs from a field of the same record."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._field, self._pointer = rule["rule"], rule["field"], rule["pointer"]
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the two are equal."""
        value, other = seen.field(self._field), seen.at(self._pointer)
        if value is not UNSET and value == other:
            message = messages.names_itself(found=shortened(str(other)), field=self._field)
            yield StreamFinding(self._rule, self._pointer, message)


class Inside(Rule):
    """A field is a path that does not leave the directory of the stream."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._field = rule["rule"], rule["field"]
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the path leads out, on any system."""
        path = seen.field(self._field)
        if path is not UNSET and leaves_bundle(path):
            message = messages.leaves_bundle(field=self._field, found=shortened(path))
            yield StreamFinding(self._rule, f"/{self._field}", message)


class Counted(Rule):
    """A field is a map of counts, none of which is greater than 0."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._field = rule["rule"], rule["field"]
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding that names the largest count, the first of equal ones."""
        counts = seen.field(self._field)
        names = [name for name, count in counts.items() if count > 0] if counts is not UNSET else []
        if not names:
            return
        most = max(names, key=counts.__getitem__)
        count, name, others = shown_number(counts[most]), shortened(most), len(names) - 1
        message = (
            messages.log_lacks_more(field=self._field, count=count, name=name, others=str(others))
            if others
            else messages.log_lacks(field=self._field, count=count, name=name)
        )
        yield StreamFinding(self._rule, f"/{self._field}", message)


class RankOfFile(Rule):
    """A field is the rank that the name of the stream's file implies."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule, self._field, self._facts = rule["rule"], rule["field"], facts
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if it is another one."""
        rank, found = self._facts.rank, seen.field(self._field)
        if rank is not None and found is not UNSET and found != rank:
            message = messages.other_rank(field=self._field, found=shown_number(found), expected=str(rank))
            yield StreamFinding(self._rule, f"/{self._field}", message)


class SameRun(Rule):
    """A field of a rank's stream equals that of the first record of the stream of rank 0."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule, self._kind, self._field, self._facts = rule["rule"], rule["kind"], rule["field"], facts
        self.kinds = self.loud = frozenset({self._kind})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if the two differ."""
        directory, found = self._facts.directory, seen.field(self._field)
        if directory is None or not self._facts.rank or found is UNSET:
            return
        expected = _first_value(os.path.join(directory, EVENTS_FILE), self._kind, self._field)
        if expected is not None and expected != found:
            message = messages.other_run(
                field=self._field, found=shortened(found), expected=shortened(expected), name=EVENTS_FILE
            )
            yield StreamFinding(self._rule, f"/{self._field}", message)


class Filed(Rule):
    """The file that two fields name is in the bundle."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        self._rule, self._hash, self._type, self._facts = rule["rule"], rule["hash"], rule["media_type"], facts
        self.kinds = self.loud = frozenset({rule["kind"]})

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding if it is not there as a regular file."""
        directory, sha256, media_type = self._facts.directory, seen.field(self._hash), seen.field(self._type)
        if directory is None or sha256 is UNSET or media_type is UNSET:
            return
        path = media_file(sha256, media_type)
        if path is not None and not _is_regular(os.path.join(directory, *path.split("/"))):
            yield StreamFinding(self._rule, f"/{self._hash}", messages.media_missing(name=path))


class NullNumber(Rule):
    """A null among numbers, reported once."""

    def __init__(self, rule: dict[str, Any], facts: Facts) -> None:
        del facts
        self._rule, self._fields = rule["rule"], rule["fields"]
        self.kinds = frozenset({rule["kind"]}) if "kind" in rule else None
        self._done = False

    def observe(self, seen: Observation) -> Iterator[StreamFinding]:
        """Yield a finding at the first null."""
        if self._done or not seen.known:
            return
        # An object keeps the order of its line; a Struct is only made from a line in schema order.
        order = seen.record if isinstance(seen.record, dict) else self._fields
        for name in order:
            pointer = self._null_in(seen.field(name), name) if name in self._fields else None
            if pointer is not None:
                self._done = True
                message = messages.unexpected(
                    path=shortened(pointer[1:]), found="null", expected=messages.EXPECTED_NUMBER
                )
                yield StreamFinding(self._rule, pointer, message)
                return

    def is_quiet(self, block: Block) -> bool:
        """Return whether a null was reported, or there is none in the block."""
        return (
            self._done
            or not block.may_hold_null
            or not any(_has_null(list(map(attrgetter(name), block.records))) for name in self._fields)
        )

    def _null_in(self, value: Any, name: str) -> str | None:
        if value is None:
            return f"/{name}"
        if isinstance(value, dict):
            for key, item in value.items():
                if item is None:
                    return f"/{name}/" + str(key).replace("~", "~0").replace("/", "~1")
        return None


def _first_value(path: str, kind: str, field: str) -> str | None:
    """Return the string *field* of the first record of the stream at *path*; None unless it is of *kind*."""
    # Imported here: few runs have several ranks.
    from toyspec.errors import StreamError
    from toyspec.reading.reader import read

    try:
        first = next(iter(read(path, mode="salvage", dialect=None)), None)
    except (OSError, StreamError):
        return None
    found = first.value.get(field) if first is not None and first.kind == kind else None
    return found if isinstance(found, str) else None


def _is_regular(path: str) -> bool:
    """Return whether *path* is a regular file, reached without symbolic links below the bundle."""
    try:
        of_folder, of_file = os.lstat(os.path.dirname(path)), os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(of_folder.st_mode) and stat.S_ISREG(of_file.st_mode)


def _has_null(column: list[Any]) -> bool:
    types = set(map(type, column))
    if dict in types:
        maps = column if len(types) == 1 else [value for value in column if type(value) is dict]
        types |= set(map(type, chain.from_iterable(map(dict.values, maps))))
    return type(None) in types
