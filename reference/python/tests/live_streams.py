"""Streams that change between two looks of a follower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toyspec.core.reading.follower import TailEvent, follow
from toyspec.core.reading.records import Record

START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"r"}\n'
END = b'{"kind":"run_end","t":9.0,"reason":"completed"}\n'


def step(number: int) -> bytes:
    """Return the line of one step."""
    return b'{"kind":"step","t":1.0,"step":%d}\n' % number


def watch(path: Path, *actions: Callable[[], object], **options: Any) -> list[Record | TailEvent]:
    """Follow *path*, doing one action in each pause between two looks, and stop after the look after the last."""
    script = iter(actions)
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        next(script, lambda: pauses.append(-1))()

    options = {"until": "forever", "stop": lambda: -1 in pauses, **options}
    return list(follow(path, sleep=sleep, **options))


def seen(items: list[Record | TailEvent]) -> list[Any]:
    """Return the step or kind of each record, and the kind of each event in brackets."""
    return [item.get("step", item.kind) if isinstance(item, Record) else f"[{item.kind}]" for item in items]


def append(path: Path, data: bytes) -> Callable[[], object]:
    """Return the action of a writer that appends *data*."""

    def action() -> None:
        with path.open("ab") as file:
            file.write(data)

    return action


def rewrite(path: Path, data: bytes) -> Callable[[], object]:
    """Return the action that cuts and fills the file between two looks, on the same inode."""
    return lambda: path.write_bytes(data)


def put_in_place(path: Path, data: bytes, **_: Any) -> Callable[[], object]:
    """Return the action of an editor that writes a new file and renames it over the old one."""

    def action() -> None:
        new = path.with_name("new")
        new.write_bytes(data)
        new.replace(path)

    return action


def rotate(path: Path, data: bytes) -> Callable[[], object]:
    """Return the action of a rotation: the old file keeps its content under another name."""

    def action() -> None:
        path.rename(path.with_name("old"))
        path.write_bytes(data)

    return action


def nothing() -> None:
    """Let one look go by."""
