"""A store on loopback that fails by chance, is down at times, and looks at every version that it is given."""

from __future__ import annotations

import io
import random
import time
from collections import Counter, deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from loopback_store import Handler, Store, served, status

if TYPE_CHECKING:
    from collections.abc import Callable

_SHARE = 0.06
"""How many of all requests fail."""
_LOG = "events.jsonl"


class Bucket(Store):
    """The store. *wrong* has what was found in a version that must not be there."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        # Only the last requests: there are hundreds a second.
        self.requests = deque(maxlen=100)  # type: ignore[assignment]
        self.every = self._meddle
        self.wrong: list[str] = []
        self.failed: Counter[str] = Counter()
        """How often each failure was made."""
        self.is_calm = self._is_down = False
        self._seen: dict[str, bytes] = {}
        self._chance = chance
        self._server = ExitStack()

    def start(self) -> None:
        """Listen, after the first time at the same port."""
        self._is_down = False
        self._server.enter_context(served(self))

    def stop(self) -> None:
        """Be down: connections end, and no new one is taken."""
        self._is_down = True
        self._server.close()

    def kept(self, key: str, data: bytes) -> None:
        """Look at a new version: whole lines, and nothing of an earlier one is gone."""
        directory, _, name = key.rpartition("/")
        earlier = self._seen.get(key, b"") if name.startswith(_LOG) else data
        self._seen[key] = data
        # A log has no line between its creation and its first one.
        if name == _LOG and data and not data.endswith(b"\n"):
            self.wrong.append(f"the bucket got half a line of {key}")
        if not data.startswith(earlier):
            others = (other for path, other in self._seen.items() if path.startswith(f"{directory}/") and path != key)
            if not any(other.startswith(earlier) for other in others):
                self.wrong.append(f"the bucket lost a version of {key} of {len(earlier)} bytes")

    def _meddle(self, handler: Handler) -> bool:
        if self._is_down:
            # A connection from before.
            return _hang_up(handler)
        if self.is_calm or self._chance.random() > _SHARE:
            return False
        name, fault = self._chance.choice(_FAULTS)
        self.failed[name] += 1
        return fault(handler)


def _hang_up(handler: Handler) -> bool:
    handler.close_connection = True
    return True


def _lose_answer(handler: Handler) -> bool:
    """Do what was asked, and cut the connection before the answer."""
    handler.wfile = io.BytesIO()
    handler.close_connection = True
    return False


def _cut_answer(handler: Handler) -> bool:
    """Do what was asked, and cut the connection within the answer."""
    handler.wfile = _Cut(handler.wfile, 150)  # type: ignore[assignment]
    handler.close_connection = True
    return False


def _delay(_: Handler) -> bool:
    time.sleep(1.0)
    return False


class _Cut:
    """A connection that takes some bytes more and loses the rest."""

    def __init__(self, connection: Any, size: int) -> None:
        self._connection, self._left = connection, size

    def write(self, data: bytes) -> int:
        """Write what is left."""
        self._connection.write(data[: self._left])
        self._left -= min(self._left, len(data))
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


_FAULTS: list[tuple[str, Callable[[Handler], bool]]] = [
    ("connection cut before the answer", _hang_up),
    ("answer lost", _lose_answer),
    ("answer cut", _cut_answer),
    ("answer late", _delay),
    ("status 503", status(503, b"<Error><Code>SlowDown</Code></Error>")),
    ("status 500", status(500, b"")),
    ("empty answer with status 200", status(200, b"")),
    ("page of a proxy with status 200", status(200, b"<html><body>Sign in</body></html>")),
]
