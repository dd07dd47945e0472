"""Holds the tree to what CONTRIBUTING.md promises and no linter checks."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARTS = (".ci", ".github", "conformance", "docs", "reference", "schemas", "spec")
GENERATED = ROOT / "reference/python/toyspec/core/generated"
BUILT = {"__pycache__", "_build", "build", "dist", "node_modules", "target"}
CASES = ROOT / "conformance/cases"

MAX_FUNCTION_LINES = 40

# A tree that names a machine or a download server works on that machine only.
MACHINE_BOUND = {
    "an absolute path of one machine": r"(?<![\w.])/(?:work|root|Users|home/[a-z])/|\b[A-Z]:\\Users\\|\.\./shared\b",
    "a server that packages are loaded from": (
        r"\b(?:registry|files|static|proxy|index|mirror)\.(?:[a-z-]+\.)+(?:org|io|com|net|dev)\b"
        r"|--(?:extra-)?index-url|--find-links|--trusted-host"
    ),
    "a note to oneself": r"\b(?:TODO|FIXME|XXX)\b",
}

LF = "\n"

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)

PACKAGE = ROOT / "reference/python/toyspec"

# A program imports one of them, by the name that its framework leads it to expect.
OF_FRAMEWORKS = {
    "ToyspecCallback": {f"integrations/{name}" for name in ("huggingface", "keras", "ray_tune", "xgboost")},
    "Run": {"integrations/wandb", "core/runs/run"},
    **{
        name: {"integrations/wandb", "core/writing/media"} for name in ("Audio", "Histogram", "Image", "Table", "Video")
    },
    "ToyspecLogger": {f"integrations/{name}" for name in ("ignite", "lightning", "torchtitan")},
}

LEAST_SECONDS = 120
"""A shorter wait for what must come fails on a loaded machine."""
WITH_SHORT_WAITS = {
    "real_stores.py": "one of many attempts to reach a server that starts",
}
"""Files with a short wait that decides nothing, and why."""

VAGUE_NAMES = {"base", "common", "helper", "helpers", "manager", "misc", "shared", "tools", "util", "utils"}


@functools.cache
def written_files() -> list[Path]:
    """Return every file that a person writes: neither made, nor a corpus case, nor a build product."""
    # In a worktree of git, .git is a file that git writes.
    found = [path for path in sorted(ROOT.iterdir()) if path.is_file() and path.name != ".git"]
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            if not is_made(path.relative_to(ROOT / part)) and not path.is_relative_to(CASES) and path.is_file():
                found.append(path)  # noqa: PERF401
    return found


def is_made(path: Path) -> bool:
    """Return whether *path* is in a folder of build products, or in one with a dot, where tools keep things."""
    return any(name in BUILT or name.startswith(".") for name in path.parts)


def python_files() -> list[Path]:
    """Return the Python files that a person writes."""
    return [path for path in written_files() if path.suffix == ".py" and not path.is_relative_to(GENERATED)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases within *node*: a tenth of all nodes."""
    for block in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, block, ()):
            yield inner
            yield from statements(inner)


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef, source: list[str]) -> int:
    """Return how many lines of *function* hold code: no blank lines, comments or docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    body = function.body[1:] if has_docstring else function.body
    if not body:
        return 0
    lines = source[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.lstrip().startswith("#"))


def shown(path: Path) -> str:
    """Return *path* as it is named from the root."""
    return path.relative_to(ROOT).as_posix()


def test_functions_are_short() -> None:
    """No function has more than 40 lines of code."""
    long = []
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in statements(ast.parse(text, str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_long = code_lines(node, lines) > MAX_FUNCTION_LINES
                long += [f"{shown(path)}:{node.lineno} {node.name}"] if is_long else []
    assert [] == long


def test_modules_are_named_for_their_subject() -> None:
    """No module or folder has a name that says nothing about what is in it."""
    names = {part for path in python_files() for part in (path.stem, path.parent.name)}
    assert set() == names & VAGUE_NAMES


def test_type_names_mean_one_thing() -> None:
    """No class of the package has the name of another one but what programs of different frameworks import."""
    modules: dict[str, set[str]] = {}
    for path in python_files():
        if path.is_relative_to(PACKAGE):
            for name in re.findall(r"^ *class ([a-zA-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
                modules.setdefault(name, set()).add(path.relative_to(PACKAGE).with_suffix("").as_posix())
    assert OF_FRAMEWORKS == {name: found for name, found in modules.items() if len(found) > 1}


def test_no_import_goes_up() -> None:
    """The layers have no exceptions, and a module that is imported by a string is in the same room or below."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "ignore_imports" not in text
    (layers,) = (
        each["layers"] for each in tomllib.loads(text)["tool"]["importlinter"]["contracts"] if each["id"] == "layers"
    )
    height = {room: -at for at, layer in enumerate(layers) for room in re.findall(r"\w+", layer)}
    up = []
    for path in python_files():
        if path.is_relative_to(PACKAGE) and path.parent != PACKAGE:
            own = path.relative_to(PACKAGE).parts[0]
            named = re.findall(r"""import_module\(\s*f?["']toyspec\.(\w+)""", path.read_text(encoding="utf-8"))
            up += [f"{shown(path)} -> {room}" for room in named if room != own and height[room] >= height[own]]
    assert [] == up


def test_the_guide_names_modules_that_are_there() -> None:
    """Each path that CONTRIBUTING.md names leads somewhere, and each function after a module is in it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    guide = text[text.index("## Where a question is answered") : text.index("## Adding a kind of event")]
    guide += text[text.index("## Adding a dialect") : text.index("## Code")]
    named = re.findall(r"`([\w./-]+/[\w.-]*)`(?:: `([\w.]+)`)?", guide)
    assert len(named) > 15
    for path, name in named:
        (found,) = [root / path for root in (ROOT, PACKAGE) if (root / path).exists()] or [None]
        assert found is not None, path
        assert not name or name.partition(".")[0] in found.read_text(encoding="utf-8"), name


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="there is no git tree")
def test_no_build_product_is_committed() -> None:
    """No file in git is one that git ignores."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "" == listed.stdout


def test_conformance_checks_the_reference_from_outside() -> None:
    """No module below conformance/ imports one of the reference implementation or of the generators."""
    imported = re.compile(r"^ *(?:from|import) (?:toyspec|codegen|reference)\b", re.MULTILINE)
    paths = [path for path in python_files() if path.is_relative_to(ROOT / "conformance")]
    assert [] == [shown(path) for path in paths if imported.search(path.read_text(encoding="utf-8"))]


def test_tree_is_bound_to_no_machine() -> None:
    """No written file holds what only one machine knows, or what only its author meant to do."""
    patterns = {finding: re.compile(pattern) for finding, pattern in MACHINE_BOUND.items()}
    found = [
        f"{shown(path)}:{text.count(LF, 0, match.start()) + 1}: {finding}: {match[0][:100]}"
        for path in written_files()
        # The compressed bytes of a picture have any three letters by chance.
        if path != Path(__file__).resolve() and path.suffix != ".png"
        for text in [path.read_bytes().decode("utf-8", "replace")]
        for finding, pattern in patterns.items()
        for match in pattern.finditer(text)
    ]
    assert [] == found


def test_links_lead_somewhere() -> None:
    """Every relative link of a page outside of the site leads to a file that is there; the site checks its own."""
    pages = [path for path in written_files() if path.suffix == ".md" and not path.is_relative_to(ROOT / "docs")]
    broken = [
        f"{shown(page)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", FENCED.sub("", page.read_text(encoding="utf-8")))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert [] == broken


def test_waits_are_long() -> None:
    """A test that waits for what must come waits two minutes at least: only one that hangs is ended by the clock."""
    folders = [ROOT / "reference/python/tests", ROOT / "conformance/tests"]
    found = {
        path.name
        for path in python_files()
        if any(map(path.is_relative_to, folders)) and not {"samples", "dialects", "chaos"} & set(path.parts)
        if _has_short_wait(path)
    }
    assert WITH_SHORT_WAITS.keys() == found


def _has_short_wait(path: Path) -> bool:
    """Return whether a wait in the file at *path* ends after a few seconds."""
    text = path.read_text(encoding="utf-8")
    waits: list[ast.expr] = []
    for node in ast.walk(ast.parse(text)) if re.search(r"timeout|wait|join|monotonic", text) else ():
        if isinstance(node, ast.keyword) and node.arg == "timeout":
            waits.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            waits += node.args[:1] if node.func.attr in {"wait", "join"} else []
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and "monotonic()" in ast.unparse(node.left):
            waits.append(node.right)
    numbers = [each.value for each in waits if isinstance(each, ast.Constant) and isinstance(each.value, int | float)]
    return any(number < LEAST_SECONDS for number in numbers)
