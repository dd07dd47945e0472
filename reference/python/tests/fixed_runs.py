"""The runs and logs that transcripts and other tests ask about: ``fixed_runs.txt``, unpacked once into a folder."""

from __future__ import annotations

import base64
import functools
import re
import tempfile
from pathlib import Path

_PACKED = Path(__file__).with_name("fixed_runs.txt")
_FILE = re.compile(rb"^>>> (.+?)(| base64| without LF)\n((?:(?!>>> ).*\n)*)", re.MULTILINE)


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Write the files; the folder is removed at the end of the process."""
    made = tempfile.TemporaryDirectory(prefix="fixed-runs-")
    for name, form, data in _FILE.findall(_PACKED.read_bytes()):
        path = Path(made.name, name.decode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data) if form == b" base64" else data[: -1 if form else None])
    return made


def fixed_runs(name: str = "") -> Path:
    """Return the folder *name* of the runs, all of them without one; tests that change a run copy it."""
    return Path(_folder().name, name)
