"""Installs packages with pip, and shows on one line what it is at: a first installation takes minutes.

Usage: ``python .ci/install.py PYTHON ARGUMENT…``; the arguments are those of ``pip install``. Only the standard library
is used.
"""

from __future__ import annotations

import subprocess
import sys
import time

WIDTH = 78


def main() -> int:
    """Run pip; return its exit status. Its whole output is shown if it fails."""
    python, *arguments = sys.argv[1:]
    began, lines, packages = time.monotonic(), [], 0
    with subprocess.Popen(
        [python, "-m", "pip", "install", "--progress-bar", "off", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as pip:  # fmt: skip
        assert pip.stdout is not None
        for line in pip.stdout:
            lines.append(line)
            packages += line.startswith("Collecting ")
            if line.startswith(("Collecting ", "Installing ", "  Downloading ")):
                show(f"  {packages} packages, {time.monotonic() - began:.0f} s: {line.split('(')[0].strip()}")
    show("")
    if pip.returncode:
        sys.stderr.writelines(lines)
    elif packages:
        print(f"  installed {packages} packages in {time.monotonic() - began:.0f} s")
    return pip.returncode


def show(text: str) -> None:
    """Show *text* in place of what was shown before, on a terminal; elsewhere the last line says enough."""
    if sys.stdout.isatty():
        print(f"\r{text[:WIDTH]:{WIDTH}}" if text else f"\r{'':{WIDTH}}", end="" if text else "\r", flush=True)


if __name__ == "__main__":
    sys.exit(main())
