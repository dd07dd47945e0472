"""What reading costs: followers that read or keep too much, and readers that look at all before each record."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from conformance.command import BAD, GOOD, main
from conformance.faults import costs
from conformance.tests.adapters_for_tests import HEAD, program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or not shutil.which("strace"), reason="strace is not installed"),
]

FOLLOWER = """
files = {}
def follow(request):
    number, path = request["follower"], request.get("path")
    file = files.pop(number, None)
    if "stop" in request or (file and os.stat(path).st_ino != os.fstat(file.fileno()).st_ino):
        file.close()
        file = None
    if "stop" not in request:
        files[number] = file = file or open(path, "rb", buffering=0)
        file.read()
    return {"items": []}
for request in ask():
    answer = follow(request) if request["role"] == "follower" else oracle.answer(request)
    say({"id": request["id"], **answer})
"""
"""A follower that costs what it must, and gives nothing."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for less than the command does."""
    monkeypatch.setattr(costs, "_STEPS", 200)
    monkeypatch.setattr(costs, "_LEAST_SECONDS", 0.2)


@pytest.mark.parametrize(
    ("expected", "old", "new"),
    [
        ("", "", ""),
        ("a stream that grew to ", "        file.read()", "        file.seek(0)\n        file.read()"),
        ("a line that grew to ", "        file.read()", "        file.seek(0)\n        file.read()"),
        (
            "30 files followed one another at the path, and 30 descriptors are open",
            "        file.close()",
            "        pass",
        ),
        (
            "1 of its descriptors are open after the follower was stopped",
            "def follow(request):",
            "def follow(request):\n    if 'stop' in request:\n        return {'items': []}",
        ),
        (
            "checker: 200 records took ",
            "    say(",
            "    time.sleep(len(request['stream']) ** 2 / 1e9 if request['role'] == 'checker' else 0)\n    say(",
        ),
    ],
)
def test_costs(expected: str, old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sort of waste is named, and a program without any is ok."""
    body = FOLLOWER.replace(old, new) if old else FOLLOWER
    if new == "        pass":
        body = body.replace("files = {}", "files = {}\nkept = []").replace("pass", "kept.append(file)")
    head = HEAD.replace('["checker"]', '["checker", "follower"]')
    code = main(["costs", "--adapter", " ".join(program(tmp_path, body, head=head)), "--mode", "lines"])
    found = capsys.readouterr().out
    assert (BAD if expected else GOOD) == code, found
    assert expected in found
    assert expected or 3 == found.count(": ok\n")


def test_what_an_adapter_cannot_do_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A writer reads nothing, so nothing is counted."""
    head = HEAD.replace('["checker"]', '["writer"]')
    assert GOOD == main(["costs", "--adapter", " ".join(program(tmp_path, "", head=head))])
    assert 3 == capsys.readouterr().out.count(": left out: the adapter lacks the role ")
    assert os.listdir(tmp_path) == ["adapter.py"]
