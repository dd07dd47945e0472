"""The reference agrees with every case of the corpus, in each role that one process can play."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import toyspec
from toyspec.core.errors import DamagedStreamError, TornStreamError
from toyspec.core.files import resource_path
from toyspec.core.findings import FileReport
from toyspec.core.format.canonical import encode
from toyspec.core.generated.limits import MAX_FINDINGS_PER_RULE
from toyspec.core.reading.follower import TailEvent

# Beside the package in a source tree, inside it when it is installed.
sys.path.insert(0, os.path.dirname(resource_path("conformance")))

from conformance.accounting import MODES, Account, Gap, account
from conformance.comparing import differences, item_differences
from conformance.loading import find, load_folder
from conformance.placing import place
from conformance.probes.changes import change
from conformance.tagging import tag_record, untag

if TYPE_CHECKING:
    from conformance.cases import Case

CASES = resource_path("conformance", "cases")
NAMES = {folder: Path(folder).relative_to(CASES).as_posix() for folder in find(CASES)}
SAID = Path(__file__).parents[1].joinpath("finding_messages.jsonl").read_bytes().splitlines()
MESSAGES = {said["case"]: said["messages"] for said in map(json.loads, SAID)}
"""What the findings of a case say: each message of the checker once, whatever it names."""
TOPICS = sorted({os.path.dirname(folder) for folder in NAMES})
"""A test for each case would cost more than the questions."""


def _of(topics: Sequence[str]) -> pytest.MarkDecorator:
    """Ask each of *topics*, by a name that says nothing of where this tree is."""
    return pytest.mark.parametrize("topic", topics, ids=[Path(topic).relative_to(CASES).as_posix() for topic in topics])


by_topic = _of(TOPICS)


@functools.cache
def cases(topic: str) -> tuple[Case, ...]:
    """Return the cases in the folder *topic*, and the members of its families."""
    return tuple(case for folder in NAMES if os.path.dirname(folder) == topic for case in load_folder(folder, CASES))


@by_topic
def test_checker(topic: str) -> None:
    """The checker finds what the case says, in that order, and nothing else; `finding_messages.jsonl` has its words."""
    for case in cases(topic):
        if not case.follow:
            report = checked(case)
            assert [] == differences(case, verdict(report)), case.name
            assert len(case.records) == report.records, case.name
            messages = [found.message for found in report.findings]
            assert MESSAGES.get(case.name, messages) == messages, case.name


def checked(case: Case) -> FileReport:
    """Return the verdict on *case*: on its folder where it is about a bundle, else on its bytes."""
    options = case.options
    if case.scope == "bundle":
        with tempfile.TemporaryDirectory() as folder:
            path = place(case, folder) if case.entries else case.folder
            named = os.path.join(path, options.name) if options.name else path
            report, *_ = toyspec.check(
                named, profile=options.profile, max_line_bytes=options.max_line_bytes, dialect=None
            ).files
        return report
    return toyspec.check_bytes(
        case.data,
        profile=options.profile,
        name=options.name or case.stream,
        max_line_bytes=options.max_line_bytes,
        dialect=None,
    )


def verdict(report: FileReport) -> dict[str, Any]:
    """Return the parts of *report* that a case has."""
    findings = [
        {"rule": found.rule, "line": found.line, "pointer": found.pointer, "sidecar": found.sidecar}
        for found in report.findings
    ]
    return {
        "profile": report.profile,
        "state": report.state,
        "findings": findings,
        "suppressed": report.suppressed,
    }


@by_topic
def test_reader(topic: str) -> None:
    """Reading in each mode gives the records of the case and accounts for every byte."""
    for case in cases(topic):
        if case.stream is None:
            continue
        for mode in MODES:
            expected = account(case, mode)
            expected = dataclasses.replace(expected, gaps=expected.gaps[:MAX_FINDINGS_PER_RULE])
            actual, records = read(case, mode)
            assert expected == actual, (case.name, mode)
            assert [] == differences_of_first(case, expected.records, records), (case.name, mode)


def read(case: Case, mode: Any) -> tuple[Account, list[Any]]:
    """Return the account of reading *case*, and the tagged records that were given."""
    source: Any = os.path.join(case.folder, str(case.stream)) if case.scope == "bundle" else case.data
    options = case.options
    name = None if case.scope == "bundle" else options.name or case.stream
    reading = toyspec.read(
        source, mode=mode, profile=options.profile, max_line_bytes=options.max_line_bytes, name=name, dialect=None
    )
    given: list[Any] = []
    try:
        given.extend(tag_record(record.value, case.profile) for record in reading)
        report, outcome = reading.report, "read"
    except (DamagedStreamError, TornStreamError) as error:
        report, outcome = error.report or pytest.fail("no report"), "fails"
    gaps = tuple(Gap(gap.offset, gap.length, gap.reason) for gap in report.gaps)
    numbers = (report.records, report.committed_bytes, report.fragment_bytes)
    assert report.state == case.state or "stopped" in {gap.reason for gap in gaps}
    # A reading that stopped before the first record does not know it.
    assert report.profile == case.profile or (not report.records and "stopped" in {gap.reason for gap in gaps})
    return Account("read" if outcome == "read" else "fails", *numbers, gaps), given


def differences_of_first(case: Case, count: int, records: list[Any]) -> list[str]:
    """Return how *records* differ from the first *count* of the case."""
    if len(records) != count:
        return [f"{len(records)} records were given, expected {count}"]
    whole = [*records, *case.records[count:]]
    return differences(case, {"records": whole})


@_of([topic for topic in TOPICS if topic.endswith(("canonical", "/golden"))])
def test_canonical_writer(topic: str) -> None:
    """Records in canonical form are written as the bytes of the stream, others otherwise; all read back alike."""
    for case in cases(topic):
        profile = case.profile or "toy/v1"
        values = [untag(record) for record in case.records]
        written = b"".join(encode(value, profile=profile) + b"\n" for value in values)
        if case.form == "canonical":
            assert case.data == written, case.name
        elif "/not-canonical/" in case.name and "encoding/canonical-absent" not in case.rejects:
            # Keys that are always written are the business of the writers above.
            assert case.data != written, case.name
        records = list(toyspec.read(written, mode="salvage", profile=profile, dialect=None))
        assert written.splitlines() == [encode(record.value, profile=profile) for record in records], case.name
        assert [] == differences_of_first(case, len(values), [tag_record(record.value, profile) for record in records])


@_of([topic for topic in TOPICS if topic.endswith("/following")])
def test_follower(topic: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """At each look the follower gives what the case says."""
    for case in cases(topic):
        looks = [step["look"] for step in case.follow if "look" in step]
        given = followed(case, tmp_path_factory.mktemp("case"))
        assert len(looks) == len(given)
        assert [] == [item_differences(*pair) for pair in zip(looks, given, strict=True) if item_differences(*pair)]


def followed(case: Case, folder: Path) -> list[list[Any]]:
    """Play the steps of *case* and return what was given at each look."""
    path = folder / ("metrics.jsonl" if case.profile == "metrics/v1" else "events.jsonl")
    steps = list(case.follow)
    given: list[list[Any]] = [[]]

    def advance(_: float = 0) -> None:
        while steps and "look" not in steps[0]:
            change(str(path), steps.pop(0))

    def next_look(_: float) -> None:
        steps.pop(0)
        advance()
        given.append([])

    advance()
    follower = toyspec.follow(
        path,
        until="forever",
        sleep=next_look,
        stop=lambda: not steps,
        max_line_bytes=case.options.max_line_bytes,
    )
    for item in follower:
        given[-1].append(shown(item))
    return given[:-1]


def shown(item: Any) -> Any:
    """Return what a follower gave in the form that cases have."""
    if not isinstance(item, TailEvent):
        return {"record": tag_record(item.value, item.profile)}
    if item.kind == "gap":
        return {"gap": {"offset": item.offset, "length": item.length, "reason": item.reason}}
    return {"event": item.kind}
