"""What `check` prints of strange values, and where its carets are; its output as a whole is in transcripts/."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command_line import toyspec_within as toyspec
from toyspec.core.checker import check_bytes
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.objects import inert_json
from toyspec.core.commands.report_formats import FORMATS, FormatOptions, TextFormat

if TYPE_CHECKING:
    pass

RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
RUN_END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


@pytest.mark.posix
def test_github_commands_are_encoded(tmp_path: Path) -> None:
    """What ends a property, a command or a line is encoded in every part of a workflow command."""
    (tmp_path / "a,b:c%\r\nd").mkdir()
    note = b'{"kind":"note","t":1.0%s}\n'
    lines = [RUN_START, note % b',"text":"x","50%: a,b::c":1', *[note % b""] * 107, RUN_END]
    (tmp_path / "a,b:c%\r\nd" / "events.jsonl").write_bytes(b"".join(lines))
    found = toyspec("check", "-v", "--format", "github", ".", "gone", cwd=tmp_path).stdout.decode().splitlines()
    place = "file=a%2Cb%3Ac%25\\x0d\\x0ad/events.jsonl"
    assert found[0].startswith(
        f"::notice {place},line=2,title=unknown-key::unknown key `50%25: a,b::c` in `note`%0Ahelp: "
    )
    assert f"::notice {place},title=missing-key::7 more findings, counted but not listed" in found
    assert "::error title=path could not be read::gone: No such file or directory" in found


@pytest.mark.parametrize("value", ["é\x00\x1f\x7f\x80\u202e\u2028𝄞\uffff", {"\u009b": ["\n"]}])
def test_inert_json_is_the_same_value(value: Any) -> None:
    """The escapes of inert JSON change nothing for a parser, and nothing but printable ASCII is left."""
    text = inert_json(value)
    assert value == json.loads(text)
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.posix
@pytest.mark.parametrize("style", FORMATS)
def test_name_that_is_not_text(style: str, tmp_path: Path) -> None:
    """A directory whose name is not UTF-8 is checked and shown in every format."""
    directory = os.fsencode(tmp_path) + b"/\xff\x80"
    os.mkdir(directory)
    with open(directory + b"/events.jsonl", "wb") as file:
        file.write(RUN_START + b"x\n")
    done = toyspec("check", "--format", style, directory)
    assert (exit_codes.FINDINGS, b"") == (done.returncode, done.stderr)
    assert b"invalid-json" in done.stdout


class _Screen(io.StringIO):
    """A terminal that keeps what it shows."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def excerpt(line: bytes) -> tuple[list[str], str]:
    """Return the excerpt of the only finding on *line*, one item a column, and the line with its caret."""
    screen = _Screen()
    output = TextFormat(screen, FormatOptions(color="never"))
    for each in check_bytes(RUN_START + line + b"\n" + RUN_END).findings:
        assert each.excerpt
        assert len(RUN_START) + each.excerpt.mark == each.offset
        output.finding("log.jsonl", each)
    lines = screen.getvalue().splitlines()
    at = next(index for index, text in enumerate(lines) if text.startswith("    2 | "))
    shown, caret = lines[at], lines[at + 1]
    columns: list[str] = []
    for letter in shown:
        columns += {"\u0301": [], "漢": [letter, ""]}.get(letter, [letter])
    return columns, caret


@pytest.mark.parametrize("columns", [40, 120])
@pytest.mark.parametrize("after", ["", "漢" * 200])
@pytest.mark.parametrize("before", ["", "漢漢", "e\u0301", "\u200b", "x" * 55, "漢" * 40, "é" * 500, "x" * 10_000])
def test_caret_is_under_its_byte(before: str, after: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is cut, wide or escaped, the caret is in the column in which its byte is shown."""
    monkeypatch.setenv("COLUMNS", str(columns))
    line = f'{{"kind":"note","t":1.0,"text":"{before}","extra":NaN,"a":"{after}"}}'.encode()
    shown, caret = excerpt(line)
    column = caret.index("^")
    assert "NaN" == "".join(shown[column : column + 3])
    assert caret[column:] == f"^ byte {line.index(b'NaN')}"
    assert len(shown) <= columns


@pytest.mark.parametrize("cut", range(4))
def test_excerpt_ends_with_a_whole_character(cut: int) -> None:
    """A character that the excerpt cuts in two is left out, not shown as escapes."""
    line = f'{{"kind":"note","t":1.0,"x":NaN,"text":"{"x" * cut}{"𝄞" * 60}"}}'.encode()
    shown, _ = excerpt(line)
    assert "\\" not in shown
    assert shown[-1] == "…"
