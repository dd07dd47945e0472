from __future__ import annotations

import json
from pathlib import Path

import pytest

from toyspec.core.checker import check, check_bytes
from toyspec.core.errors import UnknownFormatError
from toyspec.core.format.known_formats import look_of
from toyspec.core.reading.reader import read, unknown_format
from toyspec.core.runs.summary import summarize_run

CHAT = b'{"type":"user","message":"hi"}\n'
FOREIGN = {
    "zip.bin": (b"PK\x03\x04rest\n", "a zip archive", "unzip"),
    "utf16.jsonl": ('{"kind":"run_start"}\n'.encode("utf-16-le"), "UTF-16 text", "iconv -f UTF-16LE -t UTF-8"),
    "state.json": (json.dumps({"log": [1]}, indent=2).encode(), "a JSON document over several lines", "jq -c ."),
    "all.json": (b'[{"step":1}]\n', "a JSON array on one line", "jq -c '.[]'"),
    "log.csv": (b"name,loss\na,2.5\n", "comma-separated values (CSV)", None),
    "runs.db": (b"SQLite format 3\0rest", "a SQLite database", "toyspec doctor"),
    "tf.events": (bytes(23) + b'brain.Event:2\n"', "a TensorBoard event file", "toyspec import"),
    "run.wandb": (b":W&B\xf5\n", "a W&B run file", "toyspec import"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid x\n", "a Git LFS pointer", "git lfs pull"),
    "chat.jsonl": (CHAT, "the first record is not of a known format: keys type, message", None),
    "many.jsonl": (
        b'{"a":1,"b":2,"c":3,"d":4,"e\\u001b":5,"f":6}\n',
        "the first record is not of a known format: keys a, b, c, d, e\\x1b, …",
        None,
    ),
    "empty.jsonl": (b"{}\n", "the first record is not of a known format: it has no keys", None),
    "notes.txt": (b"hello world\n", "text that is not JSON Lines", None),
    "data.bin": (b"a\0b\n", "binary data", None),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_file_of_another_format_has_one_finding(name: str, tmp_path: Path) -> None:
    """The finding says what the file looks like, and names what reads it; the reader agrees on the rest."""
    data, fact, command = FOREIGN[name]
    path = tmp_path / name
    path.write_bytes(data)
    (report,) = check(path).files
    (finding,) = report.findings
    assert ("unknown-format", "error", fact, "") == (finding.rule, finding.severity, finding.message, finding.pointer)
    assert command is None or f"`{command}`" in finding.help
    assert (None, False, {}) == (report.profile, report.valid, report.suppressed)
    reading = read(path, mode="salvage").report
    assert (None, reading.state, reading.records) == (reading.profile, report.state, report.records)
    assert f"{path}: {fact}" in str(unknown_format(str(path)))
    assert str(unknown_format(str(path))).endswith("; `toyspec check` says what can be done with it")
    with pytest.raises(UnknownFormatError):
        summarize_run(str(path))


def test_what_is_before_the_first_record_is_not_reported() -> None:
    """Damage is a part of the state alone; the place is that of the first record."""
    data = b'\xff\n{"a":1,"a":2}\n' + CHAT * 200 + b"{"
    report = check_bytes(data)
    assert [("unknown-format", 2, 2)] == [(each.rule, each.line, each.offset) for each in report.findings]
    assert ("damaged", 201) == (report.state, report.records)
    assert ("torn", "complete") == (check_bytes(CHAT + b"{").state, check_bytes(CHAT).state)


def test_line_that_does_not_end_in_the_head_matches_nothing() -> None:
    """The first 4096 bytes alone do not prove the format."""
    assert "a JSON array on one line" == look_of(b"[1]", None, is_all=True).fact
    assert "text that is not JSON Lines" == look_of(b"[1]", None, is_all=False).fact
