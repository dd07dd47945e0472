"""Which tests count as touching processes, locks or time, and that no wait of a test is a matter of the machine."""

from __future__ import annotations

import ast
import functools
import textwrap
from pathlib import Path

import pytest

from contention import touching

ROOT = Path(__file__).parents[3]
FOLDERS = [ROOT / "reference/python/tests", ROOT / "conformance/tests"]
LEAST_SECONDS = 120
"""A shorter wait for what must come fails on a loaded machine."""
EXPECTED = {
    "mirror_services.py": "a call that ends so is tried again, as one that fails",
    "real_stores.py": "one of many attempts to reach a server that starts",
}
"""Files with a short wait that decides nothing, and why."""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time\ndef test_a(): time.sleep(1)\ndef test_b(): pass", {"test_a"}),
        ("import time\ndef test_a(): time.strftime('%Y')", set()),
        ("from threading import Thread\ndef helper(): Thread()\ndef test_a(): helper()", {"helper", "test_a"}),
        ("import pytest, os\n@pytest.fixture\ndef child(): os.fork()\ndef test_a(child): pass", {"child", "test_a"}),
        ("import os\n@pytest.fixture(autouse=True)\ndef child(): os.fork()\ndef test_a(): pass", {"child", "test_a"}),
        ("from subprocess import Popen\ndef test_a(): Popen('x')\ndef test_b(): run('x')", {"test_a"}),
        ("def test_a(): check('x', workers=2)\ndef test_b(): main(['check', '--workers', '2'])", {"test_a", "test_b"}),
        ("import time\nclass Play:\n    def go(self): time.time()\nTestPlay = Play.TestCase", {"Play", "TestPlay"}),
        ("from helper import slow, quick\ndef test_a(): slow()\ndef test_b(): quick()", {"test_a"}),
    ],
)
def test_what_touches_is_found(source: str, expected: set[str], tmp_path: Path) -> None:
    """A definition counts by itself, by what it uses of its file, by its fixtures and by helpers beside it."""
    helper = "import time\ndef slow(): time.sleep(1)\ndef quick(): pass"
    (tmp_path / "helper.py").write_text(helper)
    path = tmp_path / "test_it.py"
    path.write_text(textwrap.dedent(source))
    assert expected == {name for name in touching(path) if name not in {"slow", "Thread", "Popen"}}


def test_waits_are_long() -> None:
    """A test that waits for what must come waits two minutes at least: only one that hangs is ended by the clock."""
    found = {f"{path.name}:{line}" for path in _files() for line in _short_waits(path) if path.name not in EXPECTED}
    assert set() == found


def test_files_with_short_waits_are_there() -> None:
    """No exception outlives its reason."""
    assert EXPECTED.keys() == {path.name for path in _files() if path.name in EXPECTED and any(_short_waits(path))}


def _files() -> list[Path]:
    every = [path for folder in FOLDERS for path in folder.rglob("*.py")]
    return [path for path in every if not {"samples", "dialects", "chaos"} & set(path.relative_to(ROOT).parts)]


@functools.cache
def _short_waits(path: Path) -> list[int]:
    """Return the lines of the file at *path* on which a wait ends after a few seconds."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "timeout" and _is_short(node.value):
            found.append(node.value.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in {"wait", "join"} and node.args and _is_short(node.args[0]):
                found.append(node.lineno)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and "monotonic()" in ast.unparse(node.left):
            found += [node.lineno] if _is_short(node.right) else []
    return found


def _is_short(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value < LEAST_SECONDS
