"""The cases about single fields are those that the schemas generate."""

from __future__ import annotations

from pathlib import Path

from conformance.authoring.fields import cases
from conformance.loading import CASES


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


def test_every_kind_has_its_cases() -> None:
    """Each kind of each profile has numbers, and required keys besides its tag."""
    folders = [folder for folder, _ in cases()]
    for kind in ("tap", "op-timing", "run-resume", "system", "region-exit"):
        assert f"toy-v1/fields/{kind}-t-accepted" in folders
        assert f"toy-v1/fields/{kind}-t-refused" in folders
        assert f"toy-v1/required-keys/{kind}-without-each-of-its-keys" in folders
    assert {"toy-v1/fields/run-start-model-vocab", "toy-v1/fields/run-end-quality-gate-value"} <= set(folders)
