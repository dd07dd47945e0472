"""What a run has besides numbers, by name: pictures and other media, tables, histograms, samples, alerts, files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.command_line.figures import figure
from toyspec.core.escaping import shortened
from toyspec.core.format.numbers import number
from toyspec.core.reading.run_files import media_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toyspec.core.reading.records import Record

_TITLES: Final = {
    "media": "media",
    "histogram": "histogram",
    "sample": "samples",
    "alert": "alert",
    "artifact": "artifact",
    "reference": "reference",
}
_TEXTS: Final = b'"texts"'
_PIECE_BYTES: Final = 1 << 20
_TABLE: Final = "text/csv"
_MOST_LISTED: Final = 12
_MOST_NAMES: Final = 1000
"""Further names are counted together."""
_NAME_CHARS: Final = 40
_TEXT_CHARS: Final = 60


def has_things(path: str, kinds: Mapping[str, int]) -> bool:
    """Return whether records of these *kinds* name anything, or those of the stream at *path* may have texts."""
    return not _TITLES.keys().isdisjoint(kinds) or ("scalars" in kinds and _may_have_texts(path))


def _may_have_texts(path: str) -> bool:
    """Return whether the bytes of the stream have the name of that member: most logs of numbers need no second look."""
    from toyspec.core.reading.stream_files import open_source

    source = open_source(path)
    rest = b""
    try:
        while data := source.read(_PIECE_BYTES):
            if _TEXTS in rest + data:
                return True
            rest = data[-len(_TEXTS) :]
    finally:
        source.close()
    return False


def named_things(path: str) -> Iterator[tuple[str, str]]:
    """Yield title and text for each thing that the stream at *path* names, of the latest attempt; damage is skipped.

    Things of one sort and name are one text: how many there are, of which steps. Raises StreamError.
    """
    found, more = _things(path)
    for title in dict.fromkeys(title for title, _ in found):
        of_title = [(name, thing) for (each, name), thing in found.items() if each == title]
        for name, thing in of_title[:_MOST_LISTED]:
            yield title, thing.text(name)
        left = sum(thing.count for _, thing in of_title[_MOST_LISTED:]) + more.get(title, 0)
        if left:
            yield title, f"and {left} more under other names"


def thing_objects(path: str) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return what ``named_things`` names as JSON objects, unshortened, and the number of others by their sort."""
    found, more = _things(path)
    return [{"sort": sort, "name": name, **thing.members()} for (sort, name), thing in found.items()], more


def _things(path: str) -> tuple[dict[tuple[str, str], _Thing], dict[str, int]]:
    # Imported here: start-up time counts.
    from toyspec.core.reading.reader import read

    found: dict[tuple[str, str], _Thing] = {}
    more: dict[str, int] = {}
    with read(path, mode="salvage", attempts="latest", dialect=None) as reading:
        for record in reading:
            for key, said in _named(record):
                if key not in found and len(found) >= _MOST_NAMES:
                    more[key[0]] = more.get(key[0], 0) + 1
                else:
                    found.setdefault(key, _Thing()).take(record, said)
    return found, more


def _named(record: Record) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Yield title and name of each thing that *record* is or has, with the members that describe it."""
    if record.kind == "scalars":
        texts = record.get("texts")
        for name, text in texts.items() if isinstance(texts, dict) else ():
            yield ("text", name), {"text": text} if isinstance(text, str) else {}
        return
    key = _key(record)
    if key is not None:
        yield key, _described(record)


def _key(record: Record) -> tuple[str, str] | None:
    title = _TITLES.get(record.kind or "")
    if title is None:
        return None
    if title == "samples":
        return title, ""
    if title == "media" and str(record.get("media_type")).partition(";")[0].strip().lower() == _TABLE:
        title = "table"
    if title == "alert":
        return title, f"{record.get('level')} {record.get('rule')}"
    value = record.get({"artifact": "path", "reference": "uri"}.get(title, "name"))
    return title, value if isinstance(value, str) else ""


class _Thing:
    """The records of one name."""

    def __init__(self) -> None:
        self.count = 0
        self._first: int | float | None = None
        self._last: int | float | None = None
        self._said: dict[str, str] = {}
        self._reward_low, self._reward_high = math.inf, -math.inf
        self._reward_sum = 0.0
        self._reward_count = 0

    def take(self, record: Record, said: dict[str, str]) -> None:
        """Take in one record, with the members that describe it."""
        self.count += 1
        if record.step is not None:
            self._first = record.step if self._first is None else min(self._first, record.step)
            self._last = record.step if self._last is None else max(self._last, record.step)
        self._said = said or self._said
        reward = number(record.get("reward"))
        if record.kind == "sample" and reward is not None:
            self._reward_low, self._reward_high = min(self._reward_low, reward), max(self._reward_high, reward)
            self._reward_sum += reward
            self._reward_count += 1

    def text(self, name: str) -> str:
        """Return the text for people."""
        parts = [shortened(name, _NAME_CHARS)] if name else []
        parts += [str(self.count)] if self.count > 1 or not name else []
        if self._first is not None:
            at = figure(self._first)
            parts.append(f"at step {at}" if self._first == self._last else f"steps {at} to {figure(self._last)}")
        if self._reward_count:
            low, high, mean = map(figure, (self._reward_low, self._reward_high, self._reward_sum / self._reward_count))
            parts.append(f"reward {low} to {high}, mean {mean}")
        said = [_text(value) for key, value in self._said.items() if key != "file" and value]
        said += [f"last in {self._said['file']}"] if "file" in self._said else []
        return "  ".join([*parts, *([", ".join(said)] if said else [])])

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON object: those of the last record, and sums over all."""
        steps = {} if self._first is None else {"first_step": self._first, "last_step": self._last}
        count = self._reward_count
        mean = self._reward_sum / count if count and math.isfinite(self._reward_sum) else None
        reward = {"reward": {"lowest": self._reward_low, "highest": self._reward_high, "mean": mean}} if count else {}
        return {"count": self.count, **steps, **reward, **self._said}


def _described(record: Record) -> dict[str, str]:
    """Return what the last record of a name says."""
    if record.kind == "media":
        sha256, media_type = record.get("sha256"), record.get("media_type")
        file = media_file(sha256, media_type) if isinstance(sha256, str) and isinstance(media_type, str) else None
        found = {"media_type": media_type, "file": file}
    else:
        key = {"alert": "text", "artifact": "role", "reference": "role"}.get(record.kind or "", "")
        found = {key: record.get(key)} if key else {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _text(value: Any) -> str:
    return shortened(value, _TEXT_CHARS) if isinstance(value, str) else ""
