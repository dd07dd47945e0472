"""What the server of the viewer answers, whole, as a file: ``view_answers.txt``.

``TOYSPEC_UPDATE=1 pytest reference/python/tests/view/test_view_answers.py`` writes it again; read the difference.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fixed_runs import fixed_runs
from toyspec.view.server import ViewHandler
from view_client import END, START, Client, frames, served, write_run

ANSWERS = Path(__file__).parents[1] / "view_answers.txt"
RUNS = fixed_runs("sorts")
_MORE = RUNS.with_name("more")
_IMAGE = "e3ec8b7a95b6c12f4a6f3db24833c42c87d74124c06be8276a9b1a06a7adc459"
_HEADERS = (
    "content-type",
    "content-range",
    "content-disposition",
    "cache-control",
    "accept-ranges",
    "allow",
    "vary",
    "link",
)
_SAFETY = ("content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-resource-policy")


def answers(client: Client, lines: Iterable[str]) -> Iterator[str]:
    """Yield what is answered to each line: a method, an address, and headers as NAME=VALUE.

    Headers about safety are shown where they differ from those of the answer before.
    """
    safe: list[str] = []
    for line in lines:
        method, address, *named = line.split(" ")
        status, headers, body = client.get(address, method=method, **dict(each.split("=", 1) for each in named))
        found = [f"{name}: {headers.get(name)}" for name in _SAFETY]
        told = [f"{name}: {headers[name]}" for name in _HEADERS if name in headers]
        told += [each for each in found if each not in safe]
        safe = found
        yield "\n".join([line, str(status), *told, _text(headers, body)])


def _text(headers: dict[str, str], body: bytes) -> str:
    if not body:
        return ""
    if "json" in headers["content-type"]:
        return "\n".join(_members(json.loads(body))) + "\n"
    if headers["content-type"] == "application/octet-stream" and "content-disposition" not in headers:
        return "".join(
            f"{json.dumps(header)}\n"
            + "".join(f"  {name} {json.dumps(list(map(str, column)))}\n" for name, column in columns.items())
            for header, columns in frames(body)
        )
    return f"{body!r}\n" if len(body) < 1000 else f"{len(body)} bytes\n"


def _members(value: Any) -> list[str]:
    """Return *value* with each of its first members on a line; a revision counts what a machine has time for."""
    if not isinstance(value, dict):
        return [json.dumps(value)]
    found = []
    for name, member in value.items():
        if name == "revision":
            continue
        each = member if isinstance(member, list) else [member]
        found += [f"  {name}: {json.dumps(one)}" for one in each]
    return found


def _long() -> Iterator[bytes]:
    """Yield the lines of a run whose curves are kept in buckets, with a spike, a null and epochs."""
    for at in range(1, 6001):
        loss = None if at == 1234 else 99.5 if at == 777 else at * 37 % 101 / 8
        said: dict[str, Any] = {"kind": "step", "t": at / 4, "step": at, "loss": loss, "tokens": 64}
        yield json.dumps(said).encode() + b"\n"
        if at > 3000 and at % 100 == 0:
            values = {"kind": "scalars", "t": at / 4, "step": at, "epoch": at / 1000, "values": {"acc": at / 8192}}
            yield json.dumps(values).encode() + b"\n"


def _twice() -> Iterator[bytes]:
    """Yield the lines of a run that was resumed twice, each time from before its last step."""
    at = 0.0
    for attempt, (first, last) in enumerate(((1, 6), (4, 8), (6, 9))):
        if attempt:
            yield b'{"kind":"run_resume","t":%d,"from_step":%d}\n' % (at, first - 1)
        for number in range(first, last + 1):
            at += 1
            yield b'{"kind":"step","t":%d,"step":%d,"loss":%d.5}\n' % (at, number, 9 - attempt)


def test_answers_are_those_of_the_file(tmp_path: Path) -> None:
    """Rows, the page of a run, curves on each axis, points, ranks, files, media, and each refusal."""
    root = Path(shutil.copytree(RUNS, tmp_path / "runs"))
    shutil.copytree(_MORE, root / "more")
    shutil.copytree(_MORE.with_name("odd"), root / "odd")
    write_run(root / "long", START, *_long(), END)
    write_run(root / "twice", START, *_twice(), END)
    for path in (root, *root.rglob("*")):
        os.utime(path, (1780221600, 1780221600))
    expected = ANSWERS.read_text(encoding="utf-8")
    lines = [line for line in expected.splitlines() if line.startswith(("GET /", "HEAD /", "POST /", "PUT /"))]
    with served(root) as client:
        client.settled_rows()
        actual = "\n".join(answers(client, (line.replace("IMAGE", _IMAGE) for line in lines)))
    actual = actual.replace(str(tmp_path), "HERE").replace(_IMAGE, "IMAGE").replace(f":{client.server.port}/", ":PORT/")
    if os.environ.get("TOYSPEC_UPDATE"):
        ANSWERS.write_text(actual, encoding="utf-8", newline="\n")
    assert lines
    assert expected == actual


def test_every_route_is_asked() -> None:
    """Each path that the server knows has an answer in the file, but for the stream of changes, which has no end."""
    asked = {line.split()[1].partition("?")[0] for line in ANSWERS.read_text("utf-8").splitlines() if " /" in line}
    assert ViewHandler._routes.keys() - {"/api/changes"} <= asked
