"""The process of a ``Sync``: takes one order from standard input, and ends when that ends or the run does."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from toyspec.core.errors import ToyspecError
from toyspec.core.places.addresses import path_in
from toyspec.core.system_calls import say
from toyspec.core.writing.companions import SyncOrder, end_of_training, give_up, order_of_training
from toyspec.stores.run_sync import RunSync, SyncSettings
from toyspec.stores.syncing import destination_of, target_of

if TYPE_CHECKING:
    import threading

    from toyspec.stores.run_sync import RunResult

_RETRY_SECONDS = 2.0


def main() -> int:
    """Keep the run in step, and return an exit status."""
    order = order_of_training(SyncOrder)
    if order is None:
        return 0
    over = end_of_training()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    name = os.path.basename(order.directory)
    settings = SyncSettings(extent=order.sync.files, max_delay=order.sync.max_delay)
    try:
        address = path_in(destination_of(order.sync.to), name)
        run = RunSync(order.directory, address, target_of(address), settings)
    except (ToyspecError, ImportError) as error:
        give_up(f"{error}; nothing of run {name} is sent")
        return 1
    result = _follow(run, order, over)
    if result.outcome in ("same", "sent"):
        return 0
    if result.outcome == "conflict":
        give_up(f"{address}: nothing more is sent: {'; '.join(result.facts)}")
    else:
        parent = os.path.dirname(order.directory)
        say(f"{address}: not complete; `toyspec sync {parent} {order.sync.to}` sends what is missing")
    return 1


def _follow(run: RunSync, order: SyncOrder, over: threading.Event) -> RunResult:
    """Return what became of the last pass, after the training has ended the run, or is gone."""
    said: set[str] = set()
    deadline: float | None = None
    while True:
        is_over = over.is_set()
        result = run.bring("all" if is_over else "due")
        for fact in result.facts:
            if fact not in said:
                said.add(fact)
                say(f"{run.address}: {fact}")
        if result.outcome == "conflict":
            return result
        if not is_over:
            over.wait(order.sync.every)
            continue
        if result.outcome in ("same", "sent", "ahead"):
            return result
        deadline = deadline or time.monotonic() + order.sync.patience
        if time.monotonic() >= deadline:
            return result
        time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
