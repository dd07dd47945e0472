"""Profiles of users: what a directory of schemas gives, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec
from toyspec import ProfileError, check, check_bytes, follow, list_runs, read
from toyspec.core.format.own_profiles import load_profile
from toyspec.core.reading.log_detection import DialectChoice

STREAM: dict[str, Any] = {
    "$schema": "urn:toyspec:meta:stream:v1",
    "profile": "probes/v1",
    "tag": "kind",
    "file": "probes.jsonl",
    "complete": {"last": "end"},
    "rules": [
        {"rule": "run-start-missing", "type": "first", "kind": "start"},
        {"rule": "run-end-missing", "type": "present", "kind": "end"},
        {"rule": "step-goes-backwards", "type": "monotone", "field": "n", "repeats": "refused", "cleared_by_gap": True},
    ],
}
KINDS: dict[str, Any] = {
    "start": {"type": "object", "properties": {"kind": {"const": "start"}}, "required": ["kind"]},
    "probe": {
        "$id": "urn:probes:probe",
        "$defs": {"count": {"type": "integer", "minimum": 0}},
        "type": "object",
        "description": 'A probe with "quotes" and a | bar.',
        "properties": {
            "kind": {"const": "probe"},
            "n": {"$ref": "#/$defs/count", "description": "Its number."},
            "result": {"enum": ["good", "bad"]},
            "class": {"type": "object", "properties": {"deep-er": {"type": ["number", "null"]}}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "parts": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["kind", "n"],
    },
    "end": {
        "type": "object",
        "properties": {"kind": {"const": "end"}, "n": {"$ref": "urn:probes:probe#/$defs/count"}},
        "required": ["kind"],
    },
}
GOOD = b'{"kind":"start"}\n{"kind":"probe","n":1,"result":"good","counts":{"a":1}}\n{"kind":"end"}\n'


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a profile."""
    return written(tmp_path_factory.mktemp("probes"))


def written(folder: Path, stream: dict[str, Any] | None = None, **kinds: Any) -> Path:
    """Write a profile into *folder*, with members that are replaced."""
    (folder / "stream.json").write_text(json.dumps(STREAM | (stream or {})), encoding="utf-8")
    for name, schema in (KINDS | kinds).items():
        (folder / f"{name}.json").write_text(json.dumps(schema), encoding="utf-8")
    return folder


def findings(data: bytes, profile: Path) -> list[tuple[str, int, str]]:
    """Return the findings: rule, line and pointer."""
    report = check_bytes(data, profile=str(profile))
    assert "probes/v1" == report.profile
    return [(finding.rule, finding.line, finding.pointer) for finding in report.findings]


def test_records_are_checked_by_their_schemas(profile: Path) -> None:
    """Each keyword has the rule that it has in toyspec's own profiles, at its place."""
    assert [] == findings(GOOD, profile)
    lines = [
        b'{"kind":"start"}',
        b'{"kind":"probe","n":-1,"result":"fair"}',
        b'{"kind":"probe","result":1,"class":{"deep-er":"x"},"clas":1}',
        b'{"kind":"prob","n":3}',
        b'{"kind":"end"}',
    ]
    assert [
        ("out-of-range", 2, "/n"),
        ("unexpected-value", 2, "/result"),
        ("missing-key", 3, "/n"),
        ("unexpected-value", 3, "/result"),
        ("wrong-type", 3, "/class/deep-er"),
        ("unknown-key", 3, "/clas"),
        ("unknown-kind", 4, "/kind"),
    ] == sorted(findings(b"\n".join(lines) + b"\n", profile), key=lambda each: each[1])


def test_stream_rules_and_states(profile: Path) -> None:
    """The rules of stream.json, the last kind, fragments and damage work as in toyspec's own profiles."""
    report = check_bytes(b'{"kind":"probe","n":2}\n{"kind":"probe","n":2}\n', profile=str(profile))
    assert "torn" == report.state
    assert ["run-start-missing", "step-goes-backwards", "run-end-missing"] == [each.rule for each in report.findings]
    assert ("complete", "torn") == tuple(check_bytes(data, profile=str(profile)).state for data in (GOOD, GOOD[:-1]))
    assert "damaged" == check_bytes(GOOD + b"{\n", profile=str(profile)).state
    assert ["stream-empty"] == [each.rule for each in check_bytes(b"", profile=str(profile)).findings]


def test_reader_and_follower_take_the_directory(profile: Path, tmp_path: Path) -> None:
    """Records have their kind, and integers are ints whatever their spelling."""
    path = tmp_path / "probes.jsonl"
    path.write_bytes(GOOD.replace(b'"n":1', b'"n":1.0'))
    reading = read(path, profile=str(profile), mode="strict")
    records = list(reading)
    assert ["start", "probe", "end"] == [record.kind for record in records]
    assert (1, int) == (records[1]["n"], type(records[1]["n"]))
    assert ("probes/v1", "complete", None) == (reading.report.profile, reading.report.state, records[1].event)
    with follow(path, profile=str(profile)) as follower:
        assert ["start", "probe", "end", "ended"] == [item.kind for item in follower]


def test_command_line(profile: Path, tmp_path: Path) -> None:
    """Check exits as elsewhere, in parallel too, and its JSON names the profile."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").write_bytes(GOOD + (b"" if name == "a" else b'{"kind":"probe"}\n'))
    done = toyspec("check", "--profile", str(profile), "-j", "2", str(tmp_path))
    assert (1, 1) == (done.returncode, done.stdout.count(b": missing-key"))
    wrong = toyspec("check", "--profile", str(tmp_path), "x")
    assert (2, True) == (wrong.returncode, b"not a profile: it has no stream.json" in wrong.stderr)
    assert 2 == toyspec("check", "--profile", "nope/v1", "x").returncode
    assert "probes/v1" == check(tmp_path / "a", profile=str(profile)).files[0].profile


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    """Return a folder with a profile, a complete and a torn run of it, and a toy/v1 run."""
    (tmp_path / "scores").mkdir()
    probe = KINDS["probe"]["properties"] | {"score": {"type": ["number", "null"]}, "t": {"type": "number"}}
    stream = {"profile": "scores/v1", "file": "scores.jsonl", "view": {"step": "n", "goals": {"score": "max"}}}
    start = {"properties": {"kind": {"const": "start"}, "model": {"type": "string"}}, "required": ["kind"]}
    written(
        tmp_path / "scores", stream, probe=KINDS["probe"] | {"properties": probe}, start={"type": "object", **start}
    )
    for name, best in (("good", 0.9), ("poor", 0.5)):
        lines: list[dict[str, Any]] = [{"kind": "start", "model": name}]
        lines += [{"kind": "probe", "n": n, "t": n / 2, "score": n * best / 3} for n in (1, 2, 3)]
        lines += [{"kind": "probe", "n": 4, "score": None}]
        lines += [{"kind": "end"}] if name == "good" else []
        (tmp_path / "runs" / name).mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / "runs" / name / "scores.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "runs" / "toy").mkdir()
    toy = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"toy"}\n'
    (tmp_path / "runs" / "toy" / "events.jsonl").write_text(toy, encoding="utf-8")
    return tmp_path


def test_runs_are_listed_by_their_metrics(bundles: Path) -> None:
    """Steps, states, settings and the best value by the goal of the profile; runs of toyspec stay what they are."""
    listing = ["ls", "--json", "--sort", "best.score", "--columns", "config.model"]
    done = toyspec(*listing, "--profile", str(bundles / "scores"), str(bundles / "runs"))
    runs = json.loads(done.stdout)
    assert ["scores/v1", "scores/v1", "toy/v1"] == [run["profile"] for run in runs]
    assert [("complete", 1, 4, 1.5), ("torn", 1, 4, 1.5)] == [
        (run["state"], run["first_step"], run["last_step"], run["seconds"]) for run in runs[:2]
    ]
    assert [{"config.model": "good", "best.score": 0.9}, {"config.model": "poor", "best.score": 0.5}] == [
        run["columns"] for run in runs[:2]
    ]
    found = list_runs(bundles / "runs", dialect=DialectChoice(profiles=[str(bundles / "scores")]), read="whole")
    assert {"good": 0.9, "poor": 0.5, "toy": None} == {run.facts.run: run.row().get("best.score") for run in found}


def test_settings_name_profiles(bundles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the directory in toyspec.toml, every command recognizes the runs by name or first record."""
    monkeypatch.chdir(bundles)
    (bundles / "toyspec.toml").write_text('profiles = ["scores"]\n', encoding="utf-8")
    (bundles / "runs" / "poor" / "scores.jsonl").rename(bundles / "runs" / "poor" / "events.jsonl")
    profiles = {run["profile"] for run in json.loads(toyspec("ls", "--json", "runs").stdout)}
    assert {"scores/v1", "toy/v1"} == profiles
    report = json.loads(toyspec("check", "--format", "json", "runs").stdout)
    assert ["scores/v1", "scores/v1", "toy/v1"] == [file["profile"] for file in report["files"]]
    assert "scores/v1" == json.loads(toyspec("show", "--json", "runs/poor").stdout)["profile"]
    assert b"probe  n 4" in toyspec("tail", "--once", "runs/poor").stdout
    assert b"highest 0.5 at step 3" in toyspec("show", "runs/poor").stdout
    assert b"config.model      good   poor" in toyspec("compare", "runs/good", "runs/poor").stdout
    survey = json.loads(toyspec("doctor", "--json", "runs").stdout)["paths"][0]
    assert [("scores/v1", 2), ("toy/v1", 1)] == [(each["format"], each["files"]) for each in survey["formats"]]
    (bundles / "toyspec.toml").write_text('profiles = ["nope"]\n', encoding="utf-8")
    wrong = toyspec("ls", "runs")
    assert (2, True) == (wrong.returncode, b"a directory with stream.json" in wrong.stderr)


@pytest.mark.parametrize(
    ("types", "values"), [(("number", "number"), (0.5, 1.5)), (("integer", "string"), (1, "warmup"))]
)
def test_only_an_integer_of_every_kind_is_the_step(
    types: tuple[str, str], values: tuple[Any, Any], tmp_path: Path
) -> None:
    """Anything else named step is a value like the others, and none of it is lost."""
    kinds = {
        name: {"properties": {"kind": {"const": name}, "step": {"type": kind}}}
        for name, kind in zip(("a", "b"), types, strict=True)
    }
    profile = written(tmp_path, {"profile": f"steps-{types[1]}/v1", "rules": []}, **kinds)
    lines = [json.dumps({"kind": kind, "step": value}) for kind, value in zip(("a", "b"), values, strict=True)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    records = list(read(tmp_path / "log.jsonl", profile=str(profile)))
    assert [None, None] == [record.step for record in records]
    found = [value for record in records for value in (*record.values.values(), *record.texts.values())]
    assert list(values) == found


def test_keys_of_several_kinds_are_metrics_of_their_kinds(tmp_path: Path) -> None:
    """Without steps, records with metrics are counted; without a time there is none."""
    (tmp_path / "pairs").mkdir()
    kinds = {
        name: {"type": "object", "properties": {"kind": {"const": name}, "x": {"type": "number"}}}
        for name in ("start", "probe", "end")
    }
    written(tmp_path / "pairs", {"profile": "pairs/v1", "rules": []}, **kinds)
    lines = '{"kind":"start"}\n{"kind":"probe","x":1}\n{"kind":"probe","x":2,"odd":{"y":3}}\n{"kind":"end","x":3}\n'
    (tmp_path / "probes.jsonl").write_text(lines, encoding="utf-8")
    shown = json.loads(toyspec("show", "--json", "--profile", str(tmp_path / "pairs"), str(tmp_path)).stdout)
    assert ({"probe/x": 2, "odd/y": 1, "end/x": 1}, 3, None) == (
        {name: series["count"] for name, series in shown["metrics"].items()},
        shown["last_step"],
        shown["seconds"],
    )


@pytest.mark.parametrize(
    ("stream", "kinds", "fact"),
    [
        ({"profile": "toy/v1"}, {}, "write a name of your own and a version"),
        ({"profile": "Evals"}, {}, "/profile"),
        ({"rules": [{"rule": "nope", "type": "once", "kind": "start"}]}, {}, "unknown rule 'nope'"),
        ({"rules": [{"rule": "step-skipped", "type": "odd"}]}, {}, "/rules/0"),
        ({"rules": [{"rule": "run-end-missing", "type": "present", "kind": "stop"}]}, {}, "there is no kind 'stop'"),
        (
            {},
            {"end": {"properties": {"kind": {"const": "end"}, "n": {"type": "string"}}}},
            "must have the type number",
        ),
        ({"tag": None}, {}, "without a tag the only kind is entry.json"),
        ({}, {"start": {"properties": {"kind": {"const": "stop"}}}}, "must be the const 'start'"),
        ({}, {"start": {"properties": {"kind": {"const": "start"}, "x": {"$ref": "#/$defs/y"}}}}, "nothing is at"),
        (
            {},
            {"start": {"properties": {"kind": {"const": "start"}, "x": {"$ref": "#/properties/x"}}}},
            "back to itself",
        ),
        ({}, {"start": {"properties": {"kind": {"const": "start"}, "x": {"type": 1}}}}, "not a JSON Schema"),
        ({}, {"start": []}, "must be an object"),
        ({"view": {"step": "m"}}, {}, "view: no kind has the step 'm'"),
        ({"view": {"goals": {"x": "up"}}}, {}, "/view/goals/x"),
    ],
)
def test_wrong_profiles(stream: dict[str, Any], kinds: dict[str, Any], fact: str, tmp_path: Path) -> None:
    """What is wrong is named with its file; nothing is entered into the tables."""
    written(tmp_path, stream, **kinds)
    with pytest.raises(ProfileError, match=r": ") as raised:
        load_profile(str(tmp_path))
    assert fact in str(raised.value)
