"""Every state that a crash can leave of a log: each cut, and what may come after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

Variant = Literal["plain", "nul-padded", "nul-only", "glued", "isolated", "hole"]
VARIANTS: tuple[Variant, ...] = ("plain", "nul-padded", "nul-only", "glued", "isolated", "hole")

NEXT = b'{"kind":"note","t":99.0,"text":"the next one"}\n'


def log(records: int) -> bytes:
    """Return a run with characters of several bytes, escapes, nesting and all that cuts can go through."""
    lines = [
        '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"crash","config":{"a":[1,{"b":null}],"c":"\\ud83d\\ude00"}}'
    ]
    for number in range(1, records - 1):
        text = ("grüße 😀", "tab\\t \\u00e9 \\\\", '{\\"x\\":1}', "]}")[number % 4]
        lines.append(f'{{"kind":"note","t":{number}.5,"text":"{text}"}}')
    lines.append(f'{{"kind":"run_end","t":{records}.0,"reason":"completed"}}')
    return "".join(f"{line}\n" for line in lines).encode()


def states(data: bytes, variant: Variant, *, page: int = 64) -> Iterator[bytes]:
    """Yield one state for each place of *data*; in place of 4096, a *page* makes holes smaller than the log."""
    for cut in range(len(data) + 1):
        head = data[:cut]
        match variant:
            case "plain":
                yield head
            case "nul-padded":
                yield head + bytes(-cut % page)
            case "nul-only":
                yield bytes(cut)
            case "glued":
                yield head + NEXT
            case "isolated":
                yield head + b"\n" + NEXT
            case "hole":
                yield head + bytes(min(page, len(data) - cut)) + data[cut + page :]


def committed(state: bytes, data: bytes) -> list[bytes]:
    """Return those lines of *state* that were written as they stand, which are all that may be read."""
    written = {*data.split(b"\n")[:-1], NEXT[:-1]}
    return [line for line in state.split(b"\n")[:-1] if line in written]
