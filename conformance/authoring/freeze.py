"""Writes the list of the cases of a revision, which then is never changed.

python -m conformance.authoring.freeze 1.2
"""

from __future__ import annotations

import os
import sys

from conformance import frozen
from conformance.pipes import quietly


def main() -> None:
    """Write the list of the revision that is named, and print its digest."""
    (revision,) = sys.argv[1:]
    os.makedirs(frozen.FOLDER, exist_ok=True)
    with open(frozen.path_of(revision), "w", encoding="utf-8", newline="\n") as file:
        file.write(frozen.text(revision))
    sys.stdout.write(f"{frozen.digest(revision)}\n")


if __name__ == "__main__":
    sys.exit(quietly(main))
