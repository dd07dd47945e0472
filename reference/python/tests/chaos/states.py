"""What a writer of the chaos notes for each record, in a file that survives its kill: a byte for each."""

from __future__ import annotations

import mmap
from pathlib import Path

UNTRIED, TRIED, ACKNOWLEDGED, REFUSED = 0, 1, 2, 3
"""The states of a record. A refused one is not acknowledged: the writer has said so."""

FINISH = 1
"""The first byte is an order: the run is to end."""

_SIZE = 1 << 22


class States:
    """The states of the records of one run, by their numbers from 1 on. A store into memory survives a kill."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(_SIZE)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    def __getitem__(self, number: int) -> int:
        return self._map[number]

    def __setitem__(self, number: int, state: int) -> None:
        self._map[number] = state

    @property
    def next(self) -> int:
        """The first number that was not tried."""
        return self._map.find(bytes([UNTRIED]), 1)

    @property
    def is_finishing(self) -> bool:
        """Whether the run is to end."""
        return self._map[0] == FINISH

    def finish(self) -> None:
        """Order the run to end."""
        self._map[0] = FINISH

    def having(self, state: int) -> set[int]:
        """Return the numbers in *state*."""
        data = self._map[1 : self.next]
        return {number for number, found in enumerate(data, 1) if found == state}
