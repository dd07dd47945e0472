"""The tree speaks in the standard terms of the field: phrases that readers stumbled over do not come back."""

import functools
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SCOPE = (
    "spec",
    "schemas",
    "reference",
    "conformance",
    "docs",
    ".ci",
    "noxfile.py",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
)
"""Files and folders that are free of the phrases; a folder is added here once it is."""

EXCLUDED = (
    "docs/search.toml",  # what newcomers say, in their words
    "schemas/bundled/",  # generated
    "reference/python/tests/test_words.py",  # this list
    "reference/python/tests/samples/aim/.aim/",  # binary
    "reference/python/toyspec/view/app/",  # built
    "reference/viewer/test/rows.json",  # written from the corpus, by the names of its cases
)

FAULT = r"(?<!nox -s )(?<![./-])\bfault(?:y|s)?\b(?! test| injection|/)"

FAULT_INJECTION = (
    "noxfile.py",
    "conformance/PROTOCOL.md",
    "conformance/__main__.py",
    "conformance/command.py",
    "conformance/faults/",
    "conformance/published/README.md",
    "conformance/schema/report.json",
    "conformance/tests/test_faults.py",
    "conformance/tests/test_commands.py",
    "docs/reference/cli/core.md",  # generated from the help of the command `faults`, whose sources are above
    "reference/c/Makefile",
    "reference/emitters/conform/",
    "reference/python/bench/health_alarms.py",
    "reference/python/tests/chaos/",
    "reference/c/fault_writer.c",
    "reference/c/test_faults.c",
    "reference/go/cmd/fault-writer/",
    "reference/go/faults_test.go",
    "reference/ocaml/bin/fault_writer.ml",
    "reference/ocaml/test/fault_tests.ml",
    "reference/ruby/test/",
    "reference/rust/examples/fault_writer.rs",
    "reference/rust/tests/faults.rs",
    "docs/explanation/durability.md",
    "reference/python/conform/fault_writer.py",
    "reference/python/tests/faults/",
    "reference/python/tests/test_emitters.py",
    "reference/typescript/probe/fault-writer.ts",
)
"""Where faults are injected, the word is the field's term."""

SUFFIXES = {
    "",
    ".md",
    ".py",
    ".rs",
    ".ts",
    ".go",
    ".c",
    ".h",
    ".rb",
    ".ml",
    ".mli",
    ".json",
    ".js",
    ".css",
    ".sh",
    ".yml",
    ".toml",
}

CODE = frozenset({".py", ".rs", ".ts", ".go", ".c", ".h", ".rb", ".ml", ".mli", ".js"})
"""In such files the parts of names are words too: `set_aside` and `setAside` are read as "set aside"."""

PARTS_OF_NAMES = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")

LF = "\n"

IDS = re.compile(r"\b[a-z_0-9]+(?:/[a-z_0-9-]+)+|\b\w+\.rs\b")
"""Ids of statements and paths are public names and stay, and so do names of files in tables of mutants."""

BANNED = {
    r"\bjudg(?:e|es|ed|ing|e?ments?)\b": "check, validate",
    r"(?<!go )\bvet(?:s|ted|ting)?\b": "validate; line validation",
    FAULT: "problem, finding, defect (in code), error (raised)",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bimpostors?\b": "mutant",
    r"\bminiatures?\b": "oracle",
    r"\bsurroundings?\b": "environment",
    r"\btake-?over\b": "reopen, resume",
    r"\bhe?ld against\b|\bhold(?:s|ing)? against\b": "compare with",
    r"\bside by side\b": "in parallel",
    r"\bsets? (?:it|them|\w+ \w+ \w+) aside\b|\bset(?:ting)?(?: \w+){0,2} aside\b": "move to a side file",
    r"\bone a core\b": "one per core",
    r"\bleast loss\b": "lowest loss",
    r"\bnobody\b|\bsomebody\b|\bstrangers?\b": "the user, another process",
    r"\b(?:is|are|was|were|been|be) told\b": "is reported, is given",
    r"\btells? (?:of|apart)\b": "reports; distinguishes",
    r"\bstands? (?:in|before|behind|between|beside|at|there|under|on|out)\b": "is",
    r"\bbehind (?:it|them|the record|run_end|that|a fragment|each|all|a gap)\b": "after",
    r"\bsa(?:ys|id) of\b": "describes; the description of",
    r"\bsays? so\b": "reports this",
    r"\banew\b": "again; a new …",
    r"\bline feed behind\b": "LF",
    r"\bas (?:it is|they are)(?=$|[.,;:)]| (?:and|but|there|if)\b)": "unchanged",
    r"\bwhat holds\b|\bto be held\b": "rules, conditions",
    r"\blet(?:s|ting)? (?:go of|pass)\b": "release; accept",
    r"(?<!there )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b)\w": "is not a …",
    r"\brules? between lines\b": "rules that relate records",
}
"""Phrases that are not used, and what is written instead."""


def _files() -> Iterator[Path]:
    """Yield the files in scope that git knows, or will know."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SCOPE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if not name.startswith(EXCLUDED) and path.suffix in SUFFIXES and path.is_file():
            yield path


def _prose(path: Path, name: str) -> str:
    """Return the text of a file; of a case only why it exists, since its other files are the bytes to test with."""
    if not name.startswith(("conformance/cases/", "conformance/sessions/")):
        return path.read_text(encoding="utf-8")
    if path.name not in {"case.json", "session.json"}:
        return ""
    return str(json.loads(path.read_bytes())["why"])


@functools.cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches wherever one of *patterns* does, each of which begins where a word does."""
    return re.compile(rf"\b(?=\w)(?:{'|'.join(f'(?:{pattern})' for pattern in patterns)})", re.MULTILINE)


def hits(text: str, *, suffix: str = "", banned: Mapping[str, str] = BANNED) -> list[str]:
    """Return the phrases of *banned* in the *text* of a file with *suffix*, each with its line and its replacement."""
    words = IDS.sub("", text)
    if suffix in CODE:
        words = PARTS_OF_NAMES.sub(" ", words)
    words = words.lower()
    # One pass finds out that a file has none of the phrases, as nearly all files do.
    if not _any(tuple(banned)).search(words):
        return []
    return [
        f"{words.count(LF, 0, match.start()) + 1}: {match[0]!r}: write {instead}"
        for pattern, instead in banned.items()
        for match in re.finditer(pattern, words, re.MULTILINE)
    ]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="there is no git tree")
def test_banned_phrases_are_gone() -> None:
    """No file in scope has a phrase of the list."""
    without_fault = {pattern: instead for pattern, instead in BANNED.items() if pattern != FAULT}
    found = {}
    for path in _files():
        name = path.relative_to(ROOT).as_posix()
        banned = without_fault if name.startswith(FAULT_INJECTION) else BANNED
        found[name] = hits(_prose(path, name), suffix=path.suffix, banned=banned)
    assert found
    assert {} == {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "text",
    [
        "The record is judged.",
        "a faulty step",
        "It stands in the wrong place.",
        "The user is told.",
        "nobody can tell",
        "A tab is no separator.",
        "1 MiB is no better",
        "set_aside(x)",
        "JudgeLine(x)",
    ],
)
def test_phrases_are_found(text: str) -> None:
    """The patterns match what readers stumbled over, in the names of code too."""
    assert len(hits(text, suffix=".py")) == 1


def test_ids_of_statements_stay() -> None:
    """An id is a public name: its words are not those of the prose."""
    assert [] == hits("See [encoding/fragment-not-judged] and `views/faulty-left-out`.")
