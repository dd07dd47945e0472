"""What is mutated: the modules of the oracle, and what of them no question can reach."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

ORACLE = "conformance.oracle"
"""The package of the oracle."""

ADAPTER_CLASS = "Oracle"
"""The class in its module ``adapter`` that answers requests."""

MODULES: Mapping[str, str] = {
    **{
        name: f"{ORACLE}.{name}"
        for name in (
            "adapter",
            "bundles",
            "checking",
            "following",
            "json_text",
            "lines",
            "reading",
            "record_rules",
            "sealing",
            "stream_rules",
            "summarizing",
            "tables",
            "writing",
        )
    },
    "tagging": "conformance.tagging",
}
"""Full names of the mutated modules, by the short name under which the score lists them."""

NOT_MUTATED: Mapping[str, frozenset[str]] = {
    # The transport and the hello: the questions are asked inside one process. The tests of the runner cover them.
    "adapter": frozenset(
        {"_INTEGERS", "run", "oneshot", "say", *(f"{ADAPTER_CLASS}.{name}" for name in ("name", "roles", "hello"))}
        | {f"{ADAPTER_CLASS}.capabilities"}
    ),
}
"""Functions and constants that are left out, by module."""

ONLY: Mapping[str, frozenset[str]] = {
    # The oracle takes the texts of numbers from there; the rest belongs to the runner.
    "tagging": frozenset({"float_text", "f32_text", "to_f32", "_neighbours", "_reads_as", "_distance", "_layout"}),
}
"""The functions that are mutated, for modules of which the oracle uses a part."""

MESSAGES = frozenset({"RefusedError"})
"""Exceptions whose arguments are messages for people, which are not compared."""

ONLY_ASKED_OF: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("whole", "halves", "pieces"), frozenset({"following"})),
    **dict.fromkeys(("strict", "tail", "prefix", "default"), frozenset({"reading", "adapter"})),
}
"""Modules to which some questions matter, by their details. The other modules do the same for all modes of reading,
and for a file that grows what they do for a file that is there, so that these questions would find nothing more."""


def source_path(module: str) -> str:
    """Return the path of the source of *module*, a short name."""
    return os.path.join(ROOT, *MODULES[module].split(".")) + ".py"


def is_mutated(module: str, function: str) -> bool:
    """Return whether *function*, a qualified name or a constant, is mutated."""
    if module in ONLY:
        return function.partition(".")[0] in ONLY[module]
    return function not in NOT_MUTATED.get(module, ())
