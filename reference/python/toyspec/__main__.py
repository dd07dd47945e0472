"""Runs the command line where no script is installed: ``python -m toyspec check runs/``."""

from __future__ import annotations

import sys

from toyspec.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
