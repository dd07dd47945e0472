"""Every case is well formed, names what it proves, and agrees with simple independent checks."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from conformance.accounting import MODES, account
from conformance.authoring.fields import cases
from conformance.authoring.fill import refreshed
from conformance.cases import Case, Finding
from conformance.comparing import value_differences
from conformance.loading import CASES
from conformance.tests.simple_canonical import line_of
from conformance.tests.simple_lines import RULES, violations
from conformance.views import summary

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*\Z")
SCHEMAS = [json.loads((ROOT / "conformance/schema" / name).read_bytes()) for name in ("case.json", "family.json")]
RULE_LAYERS = {rule["id"]: rule["layer"] for rule in json.loads((ROOT / "schemas/rules.json").read_bytes())["rules"]}
# The members of these families prove the same statements.
DERIVED = ("/torn/",)


def stream_cases(cases: list[Case]) -> list[Case]:
    """Return the cases that are about the bytes of a stream."""
    return [case for case in cases if case.stream is not None]


def test_corpus_is_there(cases: list[Case]) -> None:
    """The corpus is found: an empty one would pass every other test."""
    assert len(cases) > 3000


def test_descriptions_follow_their_schemas(folders: list[str]) -> None:
    """Each case.json and family.json is valid by its schema."""
    resources = [(schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS]
    registry: Registry[Any] = Registry().with_resources(resources)
    case_schema, family_schema = (Draft202012Validator(schema, registry=registry) for schema in SCHEMAS)
    for folder in folders:
        is_family = os.path.exists(f"{folder}/family.json")
        content = json.loads(Path(folder, "family.json" if is_family else "case.json").read_bytes())
        errors = [error.message for error in (family_schema if is_family else case_schema).iter_errors(content)]
        assert [] == errors, folder


def test_folders_hold_one_case_at_the_right_depth(folders: list[str]) -> None:
    """A case is cases/profile/topic/case, in lower case with hyphens; profile `none` means no profile."""
    for folder in folders:
        profile, topic, name = Path(folder).relative_to(ROOT / "conformance/cases").parts
        assert profile in {"toy-v1", "metrics-v1", "kaun-v1", "none"}, folder
        assert NAME.match(topic), folder
        assert NAME.match(name), folder
        assert not any(entry.name == "case.json" for entry in Path(folder).rglob("*/*")), folder


def test_topics_of_rules_are_named_for_rules(cases: list[Case]) -> None:
    """Each rule has a topic of its name in some profile."""
    topics = {case.name.split("/")[1] for case in cases}
    assert set() == RULE_LAYERS.keys() - topics


def test_descriptions_are_filled_and_laid_out(folders: list[str]) -> None:
    """The records and the layout of each description are those that the authoring program writes."""
    for folder in folders:
        path, before, after = refreshed(folder)
        assert after == before, path


def test_run_id_is_the_folder(plain_cases: list[Case]) -> None:
    """The first run_start of each stream names its folder, unless the case is about the name."""
    for case in plain_cases:
        starts = [record for record in case.records if record.get("kind") == "run_start"]
        names = [start["run_id"] for start in starts[:1] if isinstance(start.get("run_id"), str)]
        is_the_point = {"run-id-mismatch", "bad-format", "missing-key"} & {finding.rule for finding in case.findings}
        if names and not is_the_point and "/run-id-mismatch/" not in case.name:
            assert [case.name.rpartition("/")[2]] == names, case.name


def test_rejected_rules_are_those_that_are_found(cases: list[Case]) -> None:
    """A case fails for its own reason: the rules that it rejects are those of its findings."""
    for case in cases:
        if any(part in case.name for part in DERIVED):
            continue
        found = {f"rules/{finding.rule}" for finding in case.findings}
        named = {name for name in case.rejects if name.startswith("rules/")}
        assert found == named, case.name


def test_spared_rules_are_not_found(cases: list[Case]) -> None:
    """A rule that a case accepts is not among its findings, unless another line breaks the rule."""
    for case in cases:
        spared = {name.removeprefix("rules/") for name in case.accepts if name.startswith("rules/")}
        broken = {name.removeprefix("rules/") for name in case.rejects}
        assert set() == (spared - broken) & {finding.rule for finding in case.findings}, case.name


@pytest.mark.parametrize("rule", sorted(RULE_LAYERS))
def test_rule_fires_alone(rule: str, cases: list[Case]) -> None:
    """Each rule has a case with this one finding and no other."""
    assert any([rule] == [finding.rule for finding in case.findings] and not case.suppressed for case in cases)


def test_findings_name_rules_and_lines_that_exist(cases: list[Case]) -> None:
    """Each finding is of a known rule, at a line of the stream or of a sidecar."""
    for case in cases:
        for finding in case.findings:
            assert finding.rule in RULE_LAYERS, case.name
            text = case.files.get(finding.sidecar, b"") if finding.sidecar else case.data
            assert 1 <= finding.line <= text.count(b"\n") + 1, case.name


def test_bundle_findings_are_in_bundle_cases(cases: list[Case]) -> None:
    """Only cases with scope bundle have findings of the bundle layer."""
    for case in cases:
        if case.scope == "stream":
            assert all(RULE_LAYERS[finding.rule] != "bundle" for finding in case.findings), case.name


def test_lines_are_as_unreadable_as_the_case_says(cases: list[Case]) -> None:
    """The findings about bytes and JSON are those that the library of Python finds, line by line."""
    for case in stream_cases(cases):
        if case.profile is None:
            continue
        own: Counter[tuple[int, str]] = Counter()
        for number, line in enumerate(case.data.split(b"\n")[:-1], start=1):
            found = violations(line, first=number == 1, limit=case.options.max_line_bytes)
            own.update({(number, rule): min(count, 100) for rule, count in found.items()})
        fragment_line = case.data.count(b"\n") + 1
        expected = Counter(
            (finding.line, finding.rule)
            for finding in case.findings
            if finding.rule in RULES and finding.sidecar is None and finding.line != fragment_line
        )
        assert own == expected, case.name


def test_gaps_of_streams_without_profile_are_unreadable(cases: list[Case]) -> None:
    """The gaps that a case names are the lines that the library of Python cannot read, each with its rule."""
    chosen = [case for case in stream_cases(cases) if case.profile is None]
    assert len(chosen) > 20
    for case in chosen:
        own = {}
        for number, line in enumerate(case.data.split(b"\n")[:-1], start=1):
            found = set(violations(line, first=number == 1, limit=case.options.max_line_bytes)) - {"duplicate-key"}
            if found:
                own[number] = found
        assert own.keys() == {gap.line for gap in case.gaps}, case.name
        assert all(gap.rule in own[gap.line] for gap in case.gaps), case.name


def test_states_follow_from_bytes(cases: list[Case]) -> None:
    """The state of each case follows from its gaps, its fragment and its last record."""
    for case in stream_cases(cases):
        report = account(case, "salvage")
        assert report.records == len(case.records), case.name
        last = case.records[-1].get("kind") if case.records else None
        is_open = not case.records or (case.profile == "toy/v1" and last != "run_end")
        state = "damaged" if report.gaps else "torn" if report.fragment or is_open else "complete"
        assert state == case.state, case.name


def test_every_byte_is_accounted_for(cases: list[Case]) -> None:
    """In each mode committed bytes, fragment and gaps add up to the size of the stream."""
    for case in stream_cases(cases):
        for mode in MODES:
            report = account(case, mode)
            total = report.committed + report.fragment + sum(gap.length for gap in report.gaps)
            assert len(case.data) == total, (case.name, mode)


def test_modes_that_are_spelled_out_are_right(cases: list[Case]) -> None:
    """A report that a case lists is the one that follows from its bytes and findings."""
    chosen = [case for case in cases if case.modes]
    assert chosen
    for case in chosen:
        for mode in MODES:
            if mode in case.modes:
                assert account(case, mode).as_json() == case.modes[mode], (case.name, mode)


def test_canonical_cases_are_canonical(cases: list[Case]) -> None:
    """The stream of a case in canonical form is the canonical form of its records, byte for byte."""
    chosen = [case for case in cases if case.form == "canonical"]
    assert len(chosen) > 20
    for case in chosen:
        assert b"".join(line_of(record, str(case.profile)) for record in case.records) == case.data, case.name


def test_other_spellings_are_not_canonical(cases: list[Case]) -> None:
    """The streams of the topic not-canonical differ from the canonical form of their records."""
    chosen = [case for case in cases if "/not-canonical/" in case.name]
    assert len(chosen) > 20
    for case in chosen:
        assert b"".join(line_of(record, str(case.profile)) for record in case.records) != case.data, case.name


def test_followed_files_change_before_they_are_looked_at(cases: list[Case]) -> None:
    """A follower case has no stream file, and polls."""
    chosen = [case for case in cases if case.follow]
    assert chosen
    for case in chosen:
        assert case.stream is None, case.name
        assert [] == list(case.records), case.name
        assert any("look" in step for step in case.follow), case.name


def test_committed_cases_are_those_that_are_made() -> None:
    """Generating the cases again changes no byte, and no case is left over."""
    made = {f"{folder}/{name}": data for folder, files in cases() for name, data in files.items()}
    root = Path(CASES)
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for topic in ("fields", "required-keys")
        for path in root.glob(f"*/{topic}/*/*")
    }
    assert sorted(made) == sorted(found)
    assert [] == [name for name in made if made[name] != found[name]]


STEPS = (
    {"kind": "run_start", "t": {"float": "0.0"}, "run_id": "x"},
    {"kind": "step", "t": {"float": "1.0"}, "step": {"int": "1"}, "loss": {"float": "2.5"}},
)


def toy_case(*findings: Finding) -> Case:
    """Return a case of a run with one step."""
    data = b'{"kind":"run_start"}\n\n{"kind":"step"}\n'
    return Case(
        name="x",
        folder="x",
        why="",
        files={"events.jsonl": data},
        stream="events.jsonl",
        profile="toy/v1",
        state="torn",
        records=STEPS,
        findings=findings,
    )


def test_summaries_that_are_spelled_out_are_right(plain_cases: list[Case]) -> None:
    """A summary in a case file is the one that follows from records and findings."""
    chosen = [case for case in plain_cases if case.summary is not None]
    assert len(chosen) > 50
    assert [] == [error for case in chosen for error in value_differences(case.summary, summary(case), case.name)]


def test_cases_about_views_spell_them_out(plain_cases: list[Case]) -> None:
    """A case of the topic views has a summary, and proves a statement about views."""
    for case in plain_cases:
        if "/views/" in case.name:
            assert case.summary is not None, case.name
            assert any(name.startswith("views/") for name in (*case.accepts, *case.rejects)), case.name


def test_findings_are_of_the_line_that_they_name() -> None:
    """An invalid member is left out of the record on its line; blank lines count."""
    assert [{"float": "2.5"}] == summary(toy_case())["loss_curve"]
    invalid = Finding(rule="wrong-type", line=3, pointer="/loss")
    assert [] == summary(toy_case(invalid))["loss_curve"]
    assert [{"float": "2.5"}] == summary(toy_case(replace(invalid, line=1)))["loss_curve"]


def test_order_of_lines_makes_no_member_invalid() -> None:
    """A finding about the order of lines leaves the step in the views."""
    assert {"int": "1"} == summary(toy_case(Finding(rule="step-goes-backwards", line=3, pointer="/step")))["steps"]
