"""The runs whose streams are held open, since they grow: the last ones that were read."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toyspec.view.viewed_runs import ViewedRun

_MOST = 32


class OpenRuns:
    """At most so many open streams. Its user holds a lock."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, ViewedRun] = OrderedDict()

    def keep(self, entry: ViewedRun) -> None:
        """Keep the stream of *entry* open, and close those that were not read for long."""
        self._kept[entry.run] = entry
        self._kept.move_to_end(entry.run)
        while len(self._kept) > _MOST:
            _, oldest = self._kept.popitem(last=False)
            if oldest.lock.acquire(blocking=False):
                if oldest.file is not None:
                    oldest.file.close()
                oldest.file = None
                oldest.lock.release()

    def close(self, entry: ViewedRun) -> None:
        """Close the stream of *entry*, for good."""
        self._kept.pop(entry.run, None)
        if entry.file is not None:
            entry.file.close()
