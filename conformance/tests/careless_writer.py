"""A writer that does what naive writers do: no lock, no look at what is there, buffers, swallowed errors."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import IO, Any


def _record(command: str, rest: str) -> dict[str, Any]:
    number, _, size = rest.partition(" ")
    if command == "step":
        return {"kind": "step", "t": 1.0, "step": int(number), "loss": 0.5}
    if command == "note":
        return {"kind": "note", "t": 1.0, "text": "x" * int(size), "step": int(number)}
    return {"kind": {"start": "run_start", "resume": "run_resume", "end": "run_end"}[command], "t": 0.0}


def _answer(command: str, rest: str, files: list[IO[str]]) -> str:
    if command in {"open", "append"}:
        directory = rest.partition(" ")[2] if command == "open" else os.path.dirname(rest)
        os.makedirs(directory, exist_ok=True)
        mode = "w" if rest.startswith("replace") else "a"
        files.append(open(os.path.join(directory, "events.jsonl"), mode))  # noqa: SIM115
    elif command == "dropped":
        return "ok 0"
    elif command == "fork":
        return "ok"
    elif command == "value":
        files[-1].write(json.dumps({"kind": "mine", "m": float("nan")}) + "\n")
    elif command == "close":
        files[-1].close()
    else:
        files[-1].write(json.dumps(_record(command, rest)) + "\n")
    return "ok"


def main() -> None:
    """Answer every line of standard input."""
    files: list[IO[str]] = []
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        answer = "ok"
        with contextlib.suppress(OSError):
            answer = _answer(command, rest, files)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        for file in files:
            file.close()


if __name__ == "__main__":
    main()
