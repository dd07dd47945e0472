"""The mutants of the crate: what cargo-mutants lists, without what no question can compare."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.mutation import changes
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CRATE = os.path.join(ROOT, "reference", "rust")
INSTALL = "cargo install cargo-mutants --locked"
NOT_MUTATED: Mapping[str, str] = {
    "src/bin/**": "the adapter, which the runner itself tests, and the command line",
    "src/tables.rs": "generated from schemas/",
    "src/columns.rs": "numbers for plots, which no statement defines",
    "src/check/discover.rs": "finds streams for the command line",
    "src/check/foreign.rs": "shows the start of a stream of another format",
    "src/escape.rs": "text of messages",
    "src/messages.rs": "text of messages",
    "src/nearest.rs": "text of messages",
    "src/phrases.rs": "text of messages",
    "src/check/fast_test.rs": "a test",
    "src/test_random.rs": "a test",
}
"""Files that are left out, as cargo-mutants matches them, each with the reason."""
_FUNCTION_BODY = "FnValue"


class ListingError(Exception):
    """cargo-mutants is missing or failed; the text says what to do."""


@dataclass(frozen=True)
class Mutant(changes.Mutant):
    """One change of one file of the crate. Its module is the path of the file below ``src/``, without its suffix.

    The original source is the line that is changed; of a function whose body is replaced, its name and type.
    """

    path: str
    """Path of the file, from the folder of the crate."""
    span: tuple[int, int]
    """Where the replaced text starts and ends, in characters of the file."""
    replacement: str
    digest: str
    """Changes with the source of the function, or with the line of a constant."""

    def source(self, folder: str = CRATE) -> str:
        """Return the changed text of the file, which is read from the crate in *folder*."""
        text = _text(os.path.join(folder, self.path))
        return f"{text[: self.span[0]]}{self.replacement}{text[self.span[1] :]}"


def listed() -> list[Mutant]:
    """Return every mutant of the crate, in the order of cargo-mutants; raise ListingError."""
    words = ["cargo", "mutants", "--list", "--json", "--colors=never", "--dir", CRATE]
    words += [f"--exclude={pattern}" for pattern in NOT_MUTATED]
    try:
        done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise ListingError(f"cargo does not start ({error.strerror}); install Rust from https://rustup.rs") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        if "no such command" in said:
            raise ListingError(f"cargo-mutants is not installed; run `{INSTALL}` (minutes)")
        raise ListingError(f"`{' '.join(words)}` ended with {done.returncode}: {said}")
    return list(mutants_of(json.loads(done.stdout)))


def mutants_of(entries: Sequence[Mapping[str, Any]], folder: str = CRATE) -> Iterator[Mutant]:
    """Yield the mutants of *entries*, which cargo-mutants listed for the crate in *folder*."""
    seen: Counter[tuple[str, ...]] = Counter()
    for entry in entries:
        path, replacement = entry["file"], entry["replacement"]
        text = _text(os.path.join(folder, path))
        span = tuple(_offset(text, entry["span"][end]) for end in ("start", "end"))
        function = entry["function"] or {"function_name": "", "return_type": ""}
        original, mutated = _shown(text, span, replacement)
        if entry["genre"] == _FUNCTION_BODY:
            original = f"{function['function_name']} {function['return_type']}".strip()
            mutated = replacement
        module = path.removeprefix("src/").removesuffix(".rs")
        place = (module, function["function_name"], original, mutated)
        seen[place] += 1
        around = function.get("span", {"start": entry["span"]["start"], "end": entry["span"]["start"]})
        yield Mutant(
            *(module, function["function_name"], entry["genre"], original, mutated, seen[place]),
            path=path,
            span=(span[0], span[1]),
            replacement=replacement,
            digest=_digest(text[_offset(text, around["start"]) : _offset(text, around["end"])] or original),
        )


def sample(mutants: Sequence[Mutant], size: int | None) -> list[Mutant]:
    """Return *size* of *mutants* in an order that their names alone decide; all where *size* is None."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.key.encode()).digest())[:size]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _text(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def _offset(text: str, place: Mapping[str, int]) -> int:
    """Return the offset of a line and a column, both counted from 1."""
    start = 0
    for _ in range(place["line"] - 1):
        start = text.index("\n", start) + 1
    return start + place["column"] - 1


def _shown(text: str, span: tuple[int, ...], replacement: str) -> tuple[str, str]:
    """Return the line of a change, before and after, each on one line."""
    start = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", span[1])
    end = len(text) if end < 0 else end
    before, after = text[start:end], f"{text[start : span[0]]}{replacement}{text[span[1] : end]}"
    return " ".join(before.split()), " ".join(after.split())
