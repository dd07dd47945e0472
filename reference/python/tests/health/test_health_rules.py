"""Health rules as data: presets, settings, and what is wrong with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from toyspec.core.files import read_resource
from toyspec.core.reading.configuration import Configuration, ConfigurationError, find_configuration
from toyspec.health import PRESETS
from toyspec.health.actions import AlertAction, AlertDispatcher, action_of, actions_by
from toyspec.health.rules import (
    AnyRule,
    HealthAlert,
    HealthRuleError,
    is_among,
    preset_rules,
    rule_of,
    rules_of,
)


def _meta(name: str = "health.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_resource("schemas", "meta", name))
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def _written(folder: Path, text: str) -> Configuration:
    (folder / "toyspec.toml").write_text(text)
    return find_configuration(str(folder))


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_follows_its_schema(preset: str) -> None:
    """Each preset that is shipped has the form that the meta-schema describes, and is read."""
    document = json.loads(read_resource("schemas", "health", f"{preset}.json"))
    assert [] == [error.message for error in jsonschema.Draft202012Validator(_meta()).iter_errors(document)]
    assert [each["name"] for each in document["rules"]] == [rule.name for rule in preset_rules(preset)]


@pytest.mark.parametrize("kind", [*get_args(AnyRule), AlertAction], ids=lambda kind: kind.__name__)
def test_meta_schema_describes_what_is_read(kind: type[msgspec.Struct]) -> None:
    """The meta-schemas and the package have the same members of each type, with the same defaults."""
    tag = kind.__struct_config__.tag
    definition = _meta("alerts.json") if tag is None else _meta()["$defs"][tag]
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    assert set(definition["properties"]) == {*fields, *([] if tag is None else ["type"])}
    for name, described in definition["properties"].items():
        if "default" in described:
            assert described["default"] == fields[name].default


def test_rules_of_the_settings_change_those_of_the_preset(tmp_path: Path) -> None:
    """A rule without a type changes members of the one with its name, and a rule that is off is left out."""
    text = '[[health]]\npreset = "default"\n[[health]]\nname = "loss-spike"\nbeyond = 5\n'
    text += (
        '[[health]]\nname = "stall"\noff = true\n[[health]]\nname = "cold"\ntype = "bound"\nmetric = "t"\nbelow = 1\n'
    )
    rules = {rule.name: rule for rule in rules_of(_written(tmp_path, text))}
    default = {rule.name: rule for rule in preset_rules("default")}
    assert msgspec.structs.replace(default["loss-spike"], beyond=5.0) == rules["loss-spike"]
    assert {*default, "cold"} - {"stall"} == set(rules)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('name = "a"\ntype = "spik"', r" key type: unknown type 'spik'; did you mean 'spike'\?"),
        (
            'name = "a"\ntype = "spike"\nbeyond = "far"',
            r" key beyond: beyond: Expected `float`, got `str`",
        ),
        (
            'name = "a"\ntype = "spike"\n\n# closer\n"metrik" = "x"',
            r" key metrik: .*did you mean 'metric'",
        ),
        ('name = "a"\ntype = "bound"', r": a rule of type bound needs above or below"),
        ('name = "a"\ntype = "bound"\nabove = 1\nbelow = 0', r": .*not both"),
        ('name = "a"\ntype = "expect"\nfile = "gone.json"', r" key file: .*/gone.json: No such file"),
        ('type = "stall"', r": a rule needs a name"),
        ('name = "a"', r": a rule needs a type: nonfinite, spike"),
        ('preset = "defualt"', r" key preset: .*did you mean 'default'"),
        (
            'name = "a"\ntype = "bound"\nabove = nan',
            r" key above: above is nan; it must be a finite number",
        ),
        (
            'name = "a"\ntype = "spike"\nmetric = 3',
            r" key metric: metric is 3; it must be a name, or a list",
        ),
        (
            'name = "a"\ntype = "stall"\nlevel = "fatal"',
            r" key level: .*known are info, warning, error",
        ),
        (
            'name = "a"\ntype = "stall"\n[[health]]\nname = "a"\ntype = "nonfinite"',
            r" key name: a table before has the name 'a' too",
        ),
        (
            'preset = "rl"\nlevel = "info"',
            r" key level: a table with preset has nothing else; put rules into",
        ),
        ('name = "b"\noff = true', r" key name: no rule 'b' to turn off"),
        (
            'name = "a"\ntype = "stall"\ndescription = """\n[[health]]\n"""\nsecond = 1',
            r" key second",
        ),
    ],
)
def test_wrong_rule_is_reported_with_its_number_and_key(tmp_path: Path, table: str, expected: str) -> None:
    """An error names the file, the number of the table, the key, and what was expected."""
    with pytest.raises(ConfigurationError, match=r"toyspec\.toml: \[\[health\]\] \d+" + expected):
        rules_of(_written(tmp_path, f'[[health]]\npreset = "default"\n[[health]]\n{table}\n[[alerts]]\nline = true\n'))


def test_tables_must_be_arrays(tmp_path: Path) -> None:
    """[health] in place of [[health]] is an error with what to write."""
    with pytest.raises(ConfigurationError, match=r"begin each with \[\[health\]\]"):
        _written(tmp_path, '[health]\npreset = "default"\n')


def test_program_names_rules_as_a_preset_or_a_list() -> None:
    """A program passes a preset, or rules as mappings; what is neither is an error that names the table."""
    assert preset_rules("strict") == rules_of("strict")
    assert (rule_of({"name": "a", "type": "stall"}),) == rules_of([{"name": "a", "type": "stall"}])
    with pytest.raises(ValueError, match="unknown preset of health rules 'x'; known are default, rl, strict"):
        rules_of("x")
    with pytest.raises(ValueError, match=r"\[\[health\]\] 1 key x: a rule of type stall has no key 'x'"):
        rules_of([{"name": "a", "type": "stall", "x": 1}])
    with pytest.raises(TypeError, match="pass the name of a preset"):
        rules_of(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [
        ("train/loss", ["@loss"], True),
        ("val_loss", ["@loss"], True),
        ("Loss/train", ["@loss"], True),
        ("loss_scale", ["@loss"], False),
        ("gloss", ["@loss"], False),
        ("perf/Tokens_Per_Second", ["*tokens_per_sec*"], True),
        ("a.b", ["a?b"], False),
        ("anything\nat all", ["*"], True),
    ],
)
def test_names_of_metrics_match_patterns(name: str, patterns: list[str], expected: bool) -> None:
    """A star is any text, in any case, and @loss is every loss."""
    assert expected == is_among(name, patterns)


SECRET = "hf_" + "a" * 24
ALERT = HealthAlert(rule="loss-spike", level="warning", text=f"loss of {SECRET} is 9", metric="loss", value=9.0, step=7)
RECOVERED = msgspec.structs.replace(ALERT, event="recovered", level="info", text="recovered: loss is 2 again")


def _dispatcher(*tables: dict[str, Any]) -> AlertDispatcher:
    return AlertDispatcher([action_of(table) for table in tables], run="r-1", path="runs/r-1")


def _keeping(path: Path) -> list[str]:
    """Return a command that keeps what it gets in the file *path*, a line for each alert."""
    return [sys.executable, "-c", f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read() + chr(10))"]


def _got(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_command_that_fails_blocks_nothing_and_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each failing command is reported once, without secrets in its name; the others get each alert."""
    dispatcher = _dispatcher(
        {"command": [sys.executable, "-c", "raise SystemExit(3)"]},
        {"command": str(tmp_path / SECRET)},
        {"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout": 0.1},
        {"command": "a\0b"},
        {"command": _keeping(tmp_path / "got")},
    )
    dispatcher.send(ALERT)
    dispatcher.send(RECOVERED)
    dispatcher.finish(seconds=60)
    begun, recovered = _got(tmp_path / "got")
    assert ("loss of *** is 9", "recovered") == (begun["text"], recovered["event"])
    output = capsys.readouterr().err
    for fact in ("it ended with status 3", "No such file", "it did not end within 0.1 s", "embedded null byte"):
        assert 1 == output.count(f"failed: {fact}"), fact
    assert SECRET not in output


def test_queue_is_bounded_and_what_is_lost_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While an action does not end, no more than 100 alerts wait; the others are counted."""
    dispatcher = _dispatcher({"command": [sys.executable, "-c", "import time; time.sleep(60)"], "timeout": 0.5})
    for at in range(150):
        dispatcher.send(msgspec.structs.replace(ALERT, rule=f"r{at}"))
    dispatcher.finish(seconds=0.1)
    assert dispatcher.lost >= 48
    output = capsys.readouterr().err
    assert f"{dispatcher.lost} were not handed over" in output
    assert "given up" in output


def test_action_gets_one_incident_of_a_rule_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens again within an hour is not sent again, unless it asks to stop."""
    now = [0.0]
    monkeypatch.setattr("toyspec.health.actions.time.monotonic", lambda: now[0])
    dispatcher = _dispatcher({"command": _keeping(tmp_path / "got")})
    for at, stop in ((0, False), (3599, False), (3601, False), (3602, True), (3603, True)):
        now[0] = float(at)
        dispatcher.send(msgspec.structs.replace(ALERT, step=at, stop=stop))
    monkeypatch.undo()
    dispatcher.finish()
    assert [0, 3601, 3602, 3603] == [each["step"] for each in _got(tmp_path / "got")]


def test_action_gets_its_levels_and_rules(tmp_path: Path) -> None:
    """An action gets alerts of its level and rules, and the end of an incident only after its begin."""
    dispatcher = _dispatcher({"command": _keeping(tmp_path / "got"), "level": "error", "rules": "loss-*"})
    error = msgspec.structs.replace(ALERT, level="error", rule="loss-diverged")
    for alert in (ALERT, RECOVERED, error, msgspec.structs.replace(error, rule="stall")):
        dispatcher.send(alert)
    dispatcher.send(msgspec.structs.replace(error, event="recovered", level="info"))
    dispatcher.finish()
    assert [("loss-diverged", "begun"), ("loss-diverged", "recovered")] == [
        (each["rule"], each["event"]) for each in _got(tmp_path / "got")
    ]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, "needs a command"),
        ({"comand": "a"}, "did you mean 'command'"),
        ({"command": []}, "command"),
        ({"command": "a", "timeout": 0}, "timeout"),
        ({"command": "a", "level": "bad"}, "level"),
    ],
)
def test_wrong_action_is_refused(table: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """A wrong table is an error that says what was expected; in a file with the number of the table."""
    with pytest.raises(HealthRuleError, match=expected) as refused:
        action_of(table)
    assert refused.value.key in {"", *table}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    with pytest.raises(ConfigurationError, match=rf"toyspec\.toml: \[\[alerts\]\] 1.*{expected}"):
        actions_by(_written(tmp_path, "\n".join(["[[alerts]]", *lines])))
