"""Which statements each registered implementation keeps, as data for pages of the site."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from conformance.verdicts import BAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from conformance.reports.run import Run
    from conformance.verdicts import Verdict

NOT_KEPT = "not kept"
KNOWN = "not kept, and known"
NOT_ASKED = "cannot be asked"
IN_PART = "kept as far as it can be asked"

_COMMENT = (
    "Written by `make conform`. An implementation keeps each statement of its roles that the corpus asks about, "
    "but for those that `except` names with the role and how far they are kept."
)


def proven_text(runs: Sequence[Run]) -> str:
    """Return the file for *runs*; it changes only when what is proven changes, not with every case."""
    content = {"$comment": _COMMENT, "implementations": [_entry(run) for run in runs]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _entry(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "language": run.hello["language"],
        "revision": run.revision,
        "roles": run.roles,
        "profiles": run.hello["profiles"],
        "except": _exceptions(run),
    }


def _exceptions(run: Run) -> dict[str, dict[str, str]]:
    """Return for each statement that is not kept in full the roles, and how far each keeps it."""
    verdicts: dict[tuple[str, str], set[Verdict]] = defaultdict(set)
    for result in run.results:
        case = result.question.case
        for statement in {*case.accepts, *case.rejects}:
            verdicts[statement, result.question.role].add(result.verdict)
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for (statement, role), seen in sorted(verdicts.items()):
        limit = _limit(seen)
        if limit is not None:
            found[statement][role] = limit
    return dict(found)


def _limit(verdicts: Iterable[Verdict]) -> str | None:
    """Return how far a statement is kept, given the *verdicts* on its questions; None when it is kept in full."""
    seen = set(verdicts) - {"not-applicable"}
    if seen & (BAD | {"deviation"}):
        return NOT_KEPT
    if "xfail" in seen:
        return KNOWN
    if not seen or seen == {"untestable"}:
        return NOT_ASKED
    return IN_PART if "untestable" in seen else None
