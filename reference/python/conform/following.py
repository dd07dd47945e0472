"""The role follower: each follower runs in a thread, which goes to sleep when there is nothing new."""

from __future__ import annotations

import queue
import threading
from typing import Any

import toyspec
from tagged import tagged_record
from toyspec.core.generated.limits import MAX_LINE_BYTES

Message = dict[str, Any]


class Followers:
    """Every follower that was started, by its number."""

    def __init__(self) -> None:
        self._looks: dict[int, _Looks] = {}

    def look(self, request: Message) -> Message:
        """Answer as a follower."""
        number = request["follower"]
        if "stop" in request:
            looks = self._looks.pop(number, None)
            if looks is not None:
                looks.stop()
            return {"items": []}
        if number not in self._looks:
            self._looks[number] = _Looks(request["path"], request.get("max_line_bytes", MAX_LINE_BYTES))
        return {"items": self._looks[number].look()}


class _Looks:
    """One follower that polls on request: its sleep lasts until then."""

    def __init__(self, path: str, max_line_bytes: int) -> None:
        self._go = threading.Semaphore(0)
        self._seen: queue.SimpleQueue[list[Message] | Exception] = queue.SimpleQueue()
        self._items: list[Message] = []
        self._is_over = False
        self._follower = toyspec.follow(
            path,
            until="forever",
            dialect=None,
            max_line_bytes=max_line_bytes,
            sleep=self._sleep,
            stop=lambda: self._is_over,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look(self) -> list[Message]:
        """Return what is new."""
        self._go.release()
        seen = self._seen.get()
        if isinstance(seen, Exception):
            raise seen
        return seen

    def stop(self) -> None:
        """End the follower; its file is closed when this returns."""
        self._is_over = True
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self._go.acquire()
        try:
            for item in self._follower:
                self._items.append(_as_item(item))
        except Exception as error:  # noqa: BLE001  (raised again in the waiting thread)
            self._seen.put(error)

    def _sleep(self, seconds: float) -> None:
        del seconds
        items, self._items = self._items, []
        self._seen.put(items)
        self._go.acquire()


def _as_item(item: toyspec.Record | toyspec.TailEvent) -> Message:
    if isinstance(item, toyspec.Record):
        return {"record": tagged_record(item.value, item.profile)}
    if item.kind == "gap":
        return {"gap": {"offset": item.offset, "length": item.length, "reason": item.reason}}
    return {"event": item.kind}
