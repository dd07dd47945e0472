"""The schema of ``toyspec.toml``, which editors take from the site, says what the package says."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from codegen.sources import ROOT
from toyspec.core.reading.configuration import _KEYS


def errors_of(settings: str) -> list[str]:
    """Return what the published schema of the settings reports about a text."""
    schemas = {path.stem: json.loads(path.read_bytes()) for path in (ROOT / "schemas/meta").glob("*.json")}
    registry: Registry[Any] = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas.values()
    )
    validator = Draft202012Validator(schemas["settings"], registry=registry)
    return [error.message for error in validator.iter_errors(tomllib.loads(settings))]


def test_schema_of_the_settings() -> None:
    """An editor that has the schema accepts what toyspec accepts, and marks what it refuses."""
    table = 'files = ["rewards*.jsonl"]\nstep = ["u"]\nsteps = "increase"\n'
    settings = f'roots = ["logs"]\nignore = ["step-goes-backwards"]\n[dialects.reward-log]\n{table}'
    assert [] == errors_of(settings)
    assert [] == errors_of('[[health]]\npreset = "default"\n[[alerts]]\ncommand = ["say"]\n')
    for wrong in ("[[health]]\nkind = 1\n", "roots = 1\n", "root = []\n", "[dialects.a]\nstep = 1\n", "[dialects.a]\n"):
        assert [] != errors_of(wrong), wrong


def test_schema_has_every_setting() -> None:
    """What toyspec knows, the schema knows; parts are for dialects that toyspec ships."""
    schema = json.loads((ROOT / "schemas/meta/settings.json").read_bytes())
    dialect = json.loads((ROOT / "schemas/meta/dialect.json").read_bytes())
    assert set(_KEYS) == schema["properties"].keys()
    own = schema["properties"]["dialects"]["additionalProperties"]["properties"]
    assert dialect["properties"].keys() - {"$schema", "$comment", "parts"} == own.keys()
