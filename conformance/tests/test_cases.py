"""Every case is well formed, names what it proves, and its parts follow from one another."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from conformance.accounting import MODES, account
from conformance.authoring.fields import cases
from conformance.authoring.fill import refreshed
from conformance.cases import Case
from conformance.comparing import value_differences
from conformance.loading import CASES, load_folder
from conformance.views import summary

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*\Z")
SCHEMAS = [json.loads((ROOT / "conformance/schema" / name).read_bytes()) for name in ("case.json", "family.json")]
RULE_LAYERS = {rule["id"]: rule["layer"] for rule in json.loads((ROOT / "schemas/rules.json").read_bytes())["rules"]}
# The members of these families prove the same statements.
DERIVED = "/torn/"


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
    """A case fails for its own reason: the rules that it rejects, and no others, are those of its findings."""
    for case in cases:
        found = {f"rules/{finding.rule}" for finding in case.findings}
        assert set() == (found & set(case.accepts)) - set(case.rejects), case.name
        if DERIVED not in case.name:
            assert found == {name for name in case.rejects if name.startswith("rules/")}, case.name


def test_rules_fire_alone(cases: list[Case]) -> None:
    """Each rule has a case with this one finding and no other."""
    alone = {case.findings[0].rule for case in cases if len(case.findings) == 1 and not case.suppressed}
    assert set() == RULE_LAYERS.keys() - alone


def test_findings_name_rules_and_lines_that_exist(cases: list[Case]) -> None:
    """Each finding is of a known rule, at a line of the stream or of a sidecar; only bundles break rules of bundles."""
    assert len(cases) > 3000
    for case in cases:
        for finding in case.findings:
            assert RULE_LAYERS[finding.rule] != "bundle" or case.scope == "bundle", case.name
            text = case.files.get(finding.sidecar, b"") if finding.sidecar else case.data
            assert 1 <= finding.line <= text.count(b"\n") + 1, case.name


def test_modes_that_are_spelled_out_are_right(cases: list[Case]) -> None:
    """A report that a case lists is the one that follows from its bytes and findings."""
    chosen = [(case, mode) for case in cases for mode in MODES if mode in case.modes]
    assert chosen
    for case, mode in chosen:
        assert account(case, mode).as_json() == case.modes[mode], (case.name, mode)


def test_followed_files_change_before_they_are_looked_at(cases: list[Case]) -> None:
    """A follower case has no stream file, and polls."""
    chosen = [case for case in cases if case.follow]
    assert chosen
    for case in chosen:
        assert (None, ()) == (case.stream, tuple(case.records)), case.name
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
    """An invalid member is left out of the record on its line, also after a line that is not a record."""
    (case,) = load_folder(f"{CASES}/toy-v1/suppression/faults-in-one-line-beyond-one-hundred")
    assert {"float": "99.0"} == summary(case)["duration_seconds"]
