"""Makes media, histograms, samples and alerts of what Trackio keeps beside numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.alerts import alert_event
from toyspec.convert.incoming_files import MISSING_FILE, IncomingMedia, file_below
from toyspec.convert.losses import NO_PLACE, PART_DROPPED
from toyspec.convert.shown_tables import table_of
from toyspec.convert.sources import json_of
from toyspec.writing.media import File, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toyspec.convert.losses import Ledger

TYPES = {"image": "trackio.image", "audio": "trackio.audio", "video": "trackio.video"}
"""The type of a file with media of each group."""
TABLE, HISTOGRAM, MARKDOWN, TRACE = "trackio.table", "trackio.histogram", "trackio.markdown", "trackio.trace"


class TrackioMedia:
    """The objects in the rows of one run."""

    def __init__(self, folder: str, ledger: Ledger) -> None:
        """Look for files in *folder*, never outside of it."""
        self._folder = folder
        self._ledger = ledger

    def events(self, record: dict[str, Any], name: str, value: Any, place: str) -> Iterator[dict[str, Any]]:
        """Yield the events of the object *value*, one item, with time and step of *record*."""
        several = value if isinstance(value, list) else [value]
        if not several or not all(isinstance(each, dict) and "_type" in each for each in several):
            self._ledger.drop(NO_PLACE, place, value)
            return
        self._ledger.items += len(several) - 1
        for index, each in enumerate(several):
            at = {"index": index} if len(several) > 1 else {}
            yield from self._event({key: record[key] for key in ("t", "step") if key in record}, at, name, each, place)

    def _event(
        self, record: dict[str, Any], at: dict[str, Any], name: str, value: dict[str, Any], place: str
    ) -> Iterator[dict[str, Any]]:
        kind, content = value["_type"], value.get("_value")
        if kind == HISTOGRAM and isinstance(value.get("bins"), list) and isinstance(value.get("values"), list):
            bins = Histogram(edges=value["bins"], counts=value["values"])
            yield {**record, "kind": "histogram", "name": name, "file": IncomingMedia(bins, place)}
        elif kind == TABLE and isinstance(content, list) and all(isinstance(row, dict) for row in content):
            columns = list(dict.fromkeys(key for row in content for key in row))
            table = table_of(columns, [[row.get(key) for key in columns] for row in content])
            yield {**record, "kind": "media", "name": name, **at, "file": IncomingMedia(table, place)}
        elif kind == MARKDOWN and isinstance(content, str):
            self._ledger.done()
            yield {**record, "kind": "scalars", "values": {}, "texts": {name: content}}
        elif kind == TRACE and (sample := _sample(name, value.get("messages"))) is not None:
            self._count_metadata(value.get("metadata"), place)
            self._ledger.done()
            yield {**record, **sample}
        elif "file_path" in value:
            yield from self._file({**record, "kind": "media", "name": name, **at}, value, place)
        else:
            self._ledger.drop(NO_PLACE, place, value)

    def _file(self, record: dict[str, Any], value: dict[str, Any], place: str) -> Iterator[dict[str, Any]]:
        path, caption = file_below(self._folder, value["file_path"]), value.get("caption")
        if path is None:
            self._ledger.drop(MISSING_FILE, place, value["file_path"])
            return
        content = File(path, caption=caption if isinstance(caption, str) and caption else None)
        yield {**record, "file": IncomingMedia(content, place)}

    def _count_metadata(self, metadata: Any, place: str) -> None:
        if metadata:
            self._ledger.changed(PART_DROPPED, place, metadata)


def _sample(name: str, messages: Any) -> dict[str, Any] | None:
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return None
    said = [{"role": str(each.get("role") or "unknown"), "content": _content(each.get("content"))} for each in messages]
    prompts = [each["content"] for each in said if each["role"] == "user"]
    answers = [each["content"] for each in said if each["role"] == "assistant"]
    ends = {"prompt": prompts[-1] if prompts else "", "text": answers[-1] if answers else ""}
    return {"kind": "sample", **ends, "messages": said, **({"group": name} if name else {})}


def _content(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def sample_of(row: list[Any], place: str, ledger: Ledger) -> dict[str, Any] | None:
    """Return the sample of a trace: its name, messages and metadata; None if it cannot be read."""
    name, messages, metadata = row
    found = _sample(str(name or ""), json_of(messages))
    said = json_of(metadata)
    if found is not None and said:
        ledger.changed(PART_DROPPED, place, said)
    return found


def alert_of(row: list[Any], place: str, ledger: Ledger) -> dict[str, Any] | None:
    """Return the alert of a title, a text and a level."""
    del place, ledger
    title, said, level = row
    return alert_event(str(title), str(said) if said else "", str(level))


def reference_of(row: list[Any], place: str, ledger: Ledger) -> dict[str, Any] | None:
    """Return the reference to an artifact: its name, version, type, direction and size."""
    name, version, kind, direction, size = row
    ledger.changed(PART_DROPPED, place, f"the files of artifact {name}")
    role = "input" if direction == "input" else str(kind or "artifact")
    sized = {"size_bytes": size} if type(size) is int and size >= 0 else {}
    return {"kind": "reference", "uri": f"trackio-artifact:{name}:v{version}", "role": role, **sized}
