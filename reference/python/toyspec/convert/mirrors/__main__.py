"""The process of a ``Mirror``: takes one order from standard input, and ends when that ends or the run does."""

from __future__ import annotations

import os
import signal
import sys
import time

from toyspec.convert.mirrors.mirroring import MirrorBusyError, mirror_run
from toyspec.convert.mirrors.settings import MirrorOrder
from toyspec.core.errors import ToyspecError
from toyspec.core.system_calls import cause_of
from toyspec.core.writing.companions import end_of_training, give_up, order_of_training

_BUSY_SECONDS = 1.0


def main() -> int:
    """Mirror the run, and return an exit status."""
    order = order_of_training(MirrorOrder)
    if order is None:
        return 0
    over = end_of_training()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    deadline: float | None = None
    remark: str | None
    while True:
        try:
            outcome, to = mirror_run(order.stream, order.mirror, until="end", over=over), order.mirror.to
            advice = f"`toyspec mirror --backfill {os.path.dirname(order.stream)} --to {to}` sends what is missing"
            remark = f"{to} does not answer; {advice}" if outcome == "abandoned" else None
        except MirrorBusyError as error:
            # The mirror of an earlier attempt at this run still sends.
            now = time.monotonic()
            deadline = deadline or now + order.mirror.patience
            if now < deadline:
                time.sleep(_BUSY_SECONDS)
                continue
            remark = str(error)
        except (ToyspecError, ImportError, OSError) as error:
            remark = (
                f"{order.mirror.to}: {cause_of(error) if isinstance(error, OSError) else error}; nothing is mirrored"
            )
        if remark is not None:
            give_up(remark)
        return int(remark is not None)


if __name__ == "__main__":
    sys.exit(main())
