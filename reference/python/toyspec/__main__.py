"""The start of the process: ``toyspec check``, or ``python -m toyspec check`` where no script is installed."""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # ``python -m`` finds modules in the working directory first, and a folder from elsewhere may have some.
    del sys.path[0]

import signal


def run() -> int:
    """Run the command line of this process and return its exit code.

    Until the command begins, Ctrl-C ends the process at once. As an exception within the import of an extension module
    it can be lost, and leaves a module that is not whole.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from toyspec.core.command_line.main import run as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(run())
