"""Interoperability of implementations, and the page with the results."""

from __future__ import annotations

import random
import shlex
import struct
import sys
from pathlib import Path

import pytest

from conformance import command, interop, page
from conformance.adapters import Adapter, AdapterError
from conformance.corpus import selected
from conformance.interop import _finite, _quick_f32, compare_numbers, interop_lines, read_one_another
from conformance.registry import ROOT
from conformance.tagging import f32_text
from conformance.tests.adapters_for_tests import HEAD, program

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def oracle() -> Adapter:
    """Return the adapter of the oracle."""
    adapter = Adapter([sys.executable, "-m", "conformance.oracle"], directory=ROOT)
    adapter.ask_hello()
    return adapter


@pytest.fixture(autouse=True)
def _few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a fifth of the clean cases; ``nox -s conform`` writes all of them."""
    monkeypatch.setattr(interop, "selected", lambda patterns: list(selected(patterns))[::5])


def wrong(folder: Path, change: str) -> Adapter:
    """Return an oracle of another name, with answers that *change* alters."""
    head = HEAD.replace('"name": "for-a-test", "roles": ["checker"]', '"name": "wrong"')
    body = f"""
for request in ask():
    answer = oracle.answer(request)
    {change}
    if "stream" in answer:
        answer["stream"] = base64.b64encode(answer["stream"]).decode()
    say({{"id": request["id"], **answer}})
"""
    adapter = Adapter(program(folder, body, head=head))
    adapter.ask_hello()
    return adapter


def test_reader_that_differs_is_named(oracle: Adapter, tmp_path: Path) -> None:
    """A reader that differs from the others is named with the case and the writer, and its row shows it."""
    forgetful = wrong(tmp_path, "if 'records' in answer: answer['records'] = answer['records'][1:]")
    found = read_one_another([oracle, forgetful])
    assert found.pairs["oracle", "oracle"] > 100
    assert 0 == found.pairs["oracle", "wrong"]
    assert found.errors[0].startswith("wrong reads ")
    assert "| written by | streams | read by oracle | read by wrong |" == next(interop_lines(found))


def test_adapter_is_asked_about_its_profiles(oracle: Adapter, tmp_path: Path) -> None:
    """An adapter of one profile neither writes nor reads streams of another one."""
    narrow = wrong(tmp_path, "")
    narrow.hello["profiles"] = ["kaun/v1"]
    found = read_one_another([oracle, narrow])
    assert not found.errors
    assert 0 < found.pairs["oracle", "wrong"] < found.pairs["oracle", "oracle"] == found.written["oracle"]
    assert found.pairs["wrong", "oracle"] == found.written["wrong"]
    assert {"wrong": (0, 0)} == compare_numbers([narrow], 100)[0]


def test_adapters_of_one_name_are_refused(oracle: Adapter) -> None:
    """Two rows of a table cannot have one name."""
    with pytest.raises(AdapterError, match="2 adapters have the name 'oracle'"):
        read_one_another([oracle, oracle])


def test_adapter_from_outside_meets_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --adapter, no implementation of the registry is built or asked."""
    adapter = wrong(tmp_path, "if 'stream' in answer: answer['stream'] = answer['stream'].replace(b'7e', b'8e')")
    assert 1 == command.main(["interop", "--count", "100", "--adapter", shlex.join(adapter.command)])
    output = capsys.readouterr().out
    assert "| written by | streams | read by oracle | read by wrong |\n" in output
    assert "oracle: 200 of 200 random numbers are right\n" in output
    assert "wrong: wrote " in output
    assert output.endswith("streams of 2 implementations\n")


def test_quick_and_slow_binary32_agree() -> None:
    """The fast method for the shortest binary32 text gives the same as the slow one."""
    source = random.Random(7)
    numbers = [_finite(source, "<f", 4) for _ in range(3000)]
    numbers += [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in (1, 2, 3, 0x7FFFFF, 0x800000, 0x7F7FFFFF)]
    assert [f32_text(number) for number in numbers] == [_quick_f32(number) for number in numbers]


def test_page_keeps_what_is_written_by_hand(tmp_path: Path) -> None:
    """Only the text between the marks of a part is replaced."""
    path = tmp_path / "page.md"
    path.write_text(
        "# Title\n<!-- generated:a -->\nold\n<!-- /generated -->\nprose\n<!-- generated:b -->\n<!-- /generated -->\n"
    )
    page.put(str(path), "a", ["new"])
    assert path.read_text() == (
        "# Title\n<!-- generated:a -->\n\nnew\n\n<!-- /generated -->\nprose\n"
        "<!-- generated:b -->\n<!-- /generated -->\n"
    )
    with pytest.raises(ValueError, match="has no part"):
        page.put(str(path), "c", [])


def test_page_of_the_site_is_filled() -> None:
    """The page that is committed has a full score and no unproven row."""
    text = Path(ROOT, "docs/reference/conformance.md").read_text()
    assert "**not all**" not in text
    assert "**nothing**" not in text
