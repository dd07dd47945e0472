"""The plugin for pytest: what a user sees of tests that compare runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "toyspec.expect.pytest_plugin"
PROGRAM = """
import pytest, toyspec

def train(run_id, factor=1.0):
    with toyspec.start_run("runs", run_id=run_id, git=None) as run:
        for step in range(1, 17):
            run.log({"loss": factor / step}, step=step)
"""


TRAINING = """
import toyspec

def train(root, run_id):
    with toyspec.start_run(root, run_id=run_id, git=None, exist="replace") as run:
        for step in range(1, 17):
            run.log({"loss": 1.0 / step, "tokens_per_s": 100.0}, step=step)
"""
ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs/how-to/compare-two-trainings.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(import pytest\n.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(
    ("first", "then", "outcome", "lines"),
    [
        pytest.param(
            "@pytest.mark.toyspec(run='runs/a')\ndef test_loss(): train('a')",
            "@pytest.mark.toyspec(run='runs/b')\ndef test_loss(): train('b')",
            {"passed": 1},
            [],
            id="equal",
        ),
        pytest.param(
            "@pytest.mark.toyspec(run='runs/a')\ndef test_loss(): train('a')",
            "@pytest.mark.toyspec(run='runs/b')\ndef test_loss(): train('b', 2.0)",
            {"failed": 1},
            ["*b/events.jsonl is not as expected: loss", "above  loss *1 to 16*"],
            id="marker",
        ),
        pytest.param(
            "def test_loss(toyspec_expect):\n    train('a')\n    toyspec_expect('runs/a', preset='final')",
            "def test_loss(toyspec_expect):\n    train('b', 0.5)\n    toyspec_expect('runs/b')",
            {"passed": 1},
            [],
            id="better",
        ),
        pytest.param(
            "@pytest.mark.toyspec(run=['runs/a', 'runs/b'])\ndef test_loss(): [train('a'), train('b', 1.5)]",
            "def test_loss(toyspec_expect):\n    train('c', 1.2)\n    toyspec_expect('runs/c', 'runs/a')",
            {"passed": 1},
            [],
            id="several",
        ),
        pytest.param(EXAMPLE, EXAMPLE, {"passed": 2}, [], id="of the page"),
        pytest.param("", "def test_loss(toyspec_expect): 1", {"failed": 1}, ["no run to compare; *"], id="no run"),
        pytest.param(
            "",
            "@pytest.mark.toyspec(run='runs/b')\ndef test_loss(): train('b')",
            {"failed": 1},
            ["*golden.json: No such file*", "`pytest --toyspec-update` writes it"],
            id="no file",
        ),
        pytest.param(
            "",
            "@pytest.mark.toyspec(run='runs/b')\ndef test_loss(): raise OSError('of the test')",
            {"failed": 1},
            ["*OSError: of the test"],
            id="error of the test",
        ),
    ],
)  # fmt: skip
def test_outcome(pytester: pytest.Pytester, first: str, then: str, outcome: dict[str, int], lines: list[str]) -> None:
    """With the option the first program writes the file; the second one is compared with it."""
    pytester.makepyfile(training=TRAINING)
    if first:
        pytester.makepyfile(test_it=PROGRAM + first)
        pytester.runpytest_inprocess("-p", PLUGIN, "--strict-markers", "--toyspec-update").assert_outcomes(
            passed=sum(outcome.values())
        )
        assert (pytester.path / "golden.json").exists()
    pytester.makepyfile(test_it=PROGRAM + then)
    result = pytester.runpytest_inprocess("-p", PLUGIN, "--strict-markers")
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(lines)


def test_plugin_is_installed_with_the_package() -> None:
    """Its entry point names the module."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"toyspec": PLUGIN} == project["project"]["entry-points"]["pytest11"]
