"""Facts of the format that the corpus and the oracle need, as ``schemas/`` states them."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec


def _specification() -> str:
    """Return the folder of ``schemas/`` and ``spec/``: the source tree, else that of the installed package toyspec."""
    tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.isdir(os.path.join(tree, "schemas")):
        return tree
    package = find_spec("toyspec")  # which is not imported
    if package is None or package.origin is None:
        raise ImportError("the corpus reads the schemas of the package toyspec, which is not installed")
    return os.path.join(os.path.dirname(package.origin), "data")


SCHEMAS = os.path.join(_specification(), "schemas")
"""The folder of the schemas."""

REQUIREMENTS = os.path.join(_specification(), "spec", "requirements.json")
"""The file of the statements."""

with open(os.path.join(SCHEMAS, "bundled", "tables.json"), encoding="utf-8") as _file:
    _tables = json.load(_file)

MAX_LINE_BYTES: int = _tables["limits"]["max_line_bytes"]
"""The default limit of a line in bytes, LF excluded."""

MAX_DEPTH: int = _tables["limits"]["max_depth"]
"""How deep objects and arrays may be nested."""

BINARY32_LIMIT: float = _tables["limits"]["binary32_limit"]
"""Every number of smaller magnitude rounds to a finite binary32 value."""

MAX_LISTED_GAPS: int = _tables["limits"]["max_listed_gaps"]
"""How many gaps a report has to list; it counts the others."""

MAX_SAFE_RUN_ID_CHARS: int = _tables["limits"]["max_safe_run_id_chars"]
"""The longest run id that a writer takes as the name of a directory, in characters."""

TAG_KEYS: dict[str, str | None] = {name: profile["tag"] for name, profile in _tables["profiles"].items()}
"""The key that names the kind of a record, by profile; None if there is none."""

RECORD_ERRORS: frozenset[str] = frozenset(
    rule["id"] for rule in _tables["rules"] if rule["layer"] == "record" and "error" in rule["severity"].values()
)
"""Rules that make a member invalid: the rules that relate records and the views of a run ignore it."""

WHOLE_FLOATS: frozenset[str] = frozenset(
    profile for rule in _tables["rules"] if rule["id"] == "integer-as-float" for profile in rule["profiles"]
)
"""Profiles in which a whole number with a fraction or an exponent is an integer."""

UNREADABLE: frozenset[str] = frozenset(
    rule["id"]
    for rule in _tables["rules"]
    if rule["layer"] in ("bytes", "json") and "error" in rule["severity"].values() and rule["id"] != "duplicate-key"
)
"""Rules that make a committed line unreadable: see ``reading/`` in the specification."""
