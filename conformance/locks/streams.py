"""The streams that are held, and the requests to the parties that try to write to them."""

from __future__ import annotations

import os
from typing import Any, Literal

Action = Literal["resume", "replace", "append", "repair"]

RUN_ID = "demo"
_START = {"kind": "run_start", "schema": "toy/v1", "t": {"float": "0.0"}, "run_id": RUN_ID}
_RESUME = {"kind": "run_resume", "t": {"float": "2.0"}, "from_step": {"int": "1"}}
_ENTRY = {
    "loss": {"f32": "2.5"},
    "grad_norm": {"f32": "1.0"},
    "throughput_samples_per_sec": {"f32": "8.0"},
    "extra": {},
}
_TOY = (
    b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'
    b'{"kind":"step","phase":"train","t":1.0,"step":1,"loss":2.5}\n'
)
_METRICS = b'{"step":1,"wall_time_ms":1.0,"loss":2.5,"grad_norm":1.0,"throughput_samples_per_sec":8.0,"extra":{}}\n'
_FRAGMENT = b'{"kind":"st'


def profile_of(action: Action) -> str:
    """Return the profile of the stream that *action* is tried on."""
    return "metrics/v1" if action == "append" else "toy/v1"


def make(directory: str, action: Action) -> str:
    """Make a stream in *directory* on which *action* would succeed; return its path."""
    os.makedirs(directory)
    path = os.path.join(directory, "metrics.jsonl" if action == "append" else "events.jsonl")
    with open(path, "wb") as file:
        file.write(_METRICS if action == "append" else _TOY)
    return path


def tear(path: str, action: Action) -> None:
    """Give the stream at *path* a fragment for a repair to remove."""
    if action == "repair":
        with open(path, "ab") as file:
            file.write(_FRAGMENT)


def request(directory: str, action: Action, end: str) -> dict[str, Any]:
    """Return the request to a writer that does *action* in *directory* and ends the run as *end* says."""
    # A writer after the release appends to what the holder has written.
    number = "2" if end == "held" else "3"
    entry = {**_ENTRY, "step": {"int": number}, "wall_time_ms": {"float": number}}
    records = {"append": [entry], "replace": [_START]}.get(action, [_RESUME])
    return {
        "role": "writer",
        "profile": profile_of(action),
        "directory": directory,
        "run_id": RUN_ID,
        "exist": "resume" if action == "repair" else action,
        "end": end,
        "records": records,
    }


def contents(directory: str) -> dict[str, bytes]:
    """Return the bytes of every file in *directory* by its name."""
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found
