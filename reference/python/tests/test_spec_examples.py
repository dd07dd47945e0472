"""The examples of the specification are what they say: valid records, and streams with the findings named."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from referencing import Registry, Resource

from toyspec.core.findings import Profile

ROOT = Path(__file__).resolve().parents[3]
SPEC = ROOT / "spec"
_BLOCK = re.compile(
    r"(?:^<!-- example (?P<note>[^\n]*) -->\n)?^```(?P<language>[a-z]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NOTE = re.compile(r'profile=(?P<profile>\S+) findings="(?P<findings>[^"]*)"(?P<flag>| unterminated| python-bytes)\Z')


class Block(msgspec.Struct, frozen=True):
    """One fenced block of a page."""

    page: str
    number: int
    """Position among the blocks of the page, from 0."""
    note: str | None
    """What the comment above says; None where there is none."""
    language: str
    body: str

    @property
    def name(self) -> str:
        """Return the page and the position on it."""
        return f"{self.page}:{self.number}"


class Example(msgspec.Struct, frozen=True):
    """A stream on a page, and the findings that a checker gives on it."""

    name: str
    profile: Profile | None
    """None for a stream without profile."""
    findings: list[str]
    """Rule, line and pointer of each, in order."""
    data: bytes


@cache
def _blocks() -> list[Block]:
    found = []
    for file in sorted(SPEC.rglob("*.md")):
        page = file.relative_to(SPEC).as_posix()
        for number, block in enumerate(_BLOCK.finditer(file.read_text(encoding="utf-8"))):
            found.append(Block(page, number, block["note"], block["language"], block["body"]))
    return found


def _streams() -> list[Block]:
    return [block for block in _blocks() if block.note is not None and block.note != "bundle"]


def _records() -> list[Block]:
    return [block for block in _blocks() if block.language == "json"]


def _example(block: Block) -> Example:
    assert block.note is not None
    note = _NOTE.match(block.note)
    assert note is not None, f"{block.name}: cannot read the comment {block.note!r}"
    if note["flag"] == " python-bytes":
        data = _bytes(ast.parse(block.body.strip(), mode="eval").body)
    else:
        data = block.body.encode()
    if note["flag"] == " unterminated":
        data = data.removesuffix(b"\n")
    return Example(block.name, _profile(note["profile"]), note["findings"].split(), data)


def _profile(name: str) -> Profile | None:
    return None if name == "none" else msgspec.convert(name, Profile)


def _bytes(node: ast.expr) -> Any:
    """Return the value of an expression of bytes literals, integers, ``+`` and ``*``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes | int):
        return node.value
    assert isinstance(node, ast.BinOp)
    left, right = _bytes(node.left), _bytes(node.right)
    return left + right if isinstance(node.op, ast.Add) else left * right


@cache
def _registry() -> Registry[Any]:
    files = [*(ROOT / "schemas").glob("*/v1/*.json")]
    schemas = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.stem != "stream"]
    return Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in schemas)


@pytest.mark.parametrize("block", _blocks(), ids=lambda block: block.name)
def test_block_is_an_example_or_text(block: Block) -> None:
    """Every fenced block is executable, a record, or plain text, so that none can go stale unseen."""
    if block.language == "text":
        assert block.note in (None, "bundle")
    elif block.language == "json":
        assert re.match(r"(toy|metrics|kaun)/v1/", block.page) is not None
    else:
        assert block.note is not None
        assert ("python" if "python-bytes" in block.note else "jsonl") == block.language


@pytest.mark.parametrize(
    "rule", [rule["id"] for rule in json.loads((ROOT / "schemas/rules.json").read_text())["rules"]]
)
def test_rule_page_shows_its_finding(rule: str) -> None:
    """The examples on the page of a rule give this rule and no other, or are bundles, which cases cover."""
    blocks = [block for block in _blocks() if block.page == f"rules/{rule}.md"]
    assert blocks
    for block in blocks:
        if block.note != "bundle":
            assert {rule} == {finding.partition("@")[0] for finding in _example(block).findings}
            shown = re.findall(r"line (\d+), pointer `([^`]*)`", _after(block), re.IGNORECASE)
            places = [finding.partition("@")[2] for finding in _example(block).findings]
            assert places == [f"{line}:{pointer.replace(chr(34) * 2, '')}" for line, pointer in shown]


def _after(block: Block) -> str:
    text = (SPEC / block.page).read_text(encoding="utf-8")
    return text.partition(block.body + "```\n\n")[2].partition("\n\n")[0]


@pytest.mark.parametrize("block", _streams(), ids=lambda block: block.name)
def test_example_gives_its_findings(block: Block) -> None:
    """The checker gives on each example exactly the findings that the page promises, in this order."""
    from toyspec.core.checker import check_bytes

    example = _example(block)
    for profile in dict.fromkeys((None, example.profile)):
        report = check_bytes(example.data, profile=profile)
        found = [f"{finding.rule}@{finding.line}:{finding.pointer}" for finding in report.findings]
        assert example.findings == found
        assert example.profile == report.profile


@pytest.mark.parametrize("block", _records(), ids=lambda block: block.name)
def test_record_is_valid_and_canonical(block: Block) -> None:
    """The record of a kind follows its schema, with known keys in their order and, but for the manifest, no spaces."""
    schema = json.loads((ROOT / "schemas" / block.page).with_suffix(".json").read_text(encoding="utf-8"))
    record = json.loads(block.body)
    errors = jsonschema.Draft202012Validator(schema, registry=_registry()).iter_errors(record)
    assert [] == [error.message for error in errors]
    assert [key for key in schema["properties"] if key in record] == list(record)
    if block.page != "kaun/v1/run.md":
        assert json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n" == block.body
