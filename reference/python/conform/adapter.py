"""The adapter of this library: ``python reference/python/conform/adapter.py``. See conformance/PROTOCOL.md."""

from __future__ import annotations

import sys

from answering import answer_lines, answer_oneshot, say_hello


def main() -> int:
    """Talk as the arguments ask for; return the exit status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--oneshot"]:
        return answer_oneshot(arguments[1], arguments[2:])
    say_hello()
    if arguments == ["--lines"]:
        answer_lines()
    return 0


if __name__ == "__main__":
    sys.exit(main())
