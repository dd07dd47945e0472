"""Several runs as one table in Markdown, and one run as a badge."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.escaping import markdown, markup, printable
from conformance.probes.question import ROLES
from conformance.verdicts import BAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.reports.run import Run

_CHARACTER_PIXELS = 7
_PADDING = 10


def matrix(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a table with a row for each implementation and a column for each role."""
    yield f"| implementation | language | {' | '.join(ROLES)} |"
    yield f"|---|---|{'---|' * len(ROLES)}"
    for run in runs:
        cells = " | ".join(cell(run, role) for role in ROLES)
        yield f"| {markdown(run.name)} | {markdown(str(run.hello['language']))} | {cells} |"


def cell(run: Run, role: str) -> str:
    """Return how *run* went in one role."""
    if role not in run.roles:
        return "-"
    tally = run.tally(role)
    bad = sum(tally.counts[verdict] for verdict in BAD)
    if bad:
        return f"**{bad} failed** of {tally.expected}"
    known = tally.counts["xfail"]
    deviations = tally.counts["deviation"]
    notes = [f", {known} known failures"] * bool(known) + [f", {deviations} deviations"] * bool(deviations)
    return f"{tally.counts['pass']} of {tally.expected}{''.join(notes)}"


def badge_text(run: Run) -> tuple[str, str]:
    """Return the message of a badge and its colour."""
    if not run.is_good:
        return "does not conform", "#c0392b"
    if run.is_minimal:
        return "minimal", "#2e7d32"
    if not run.is_whole:
        return "partly run", "#8d6e00"
    # The claim in the report names what else was not asked.
    lacking = ", ".join(run.lacking())
    return ", ".join(run.roles) + (f" (without {lacking})" if lacking else ""), "#2e7d32"


def badge_json(run: Run) -> str:
    """Return the badge for a service that draws it."""
    message, color = badge_text(run)
    return json.dumps({"schemaVersion": 1, "label": "toyspec", "message": message, "color": color}) + "\n"


def badge_svg(run: Run) -> str:
    """Return the badge as an image."""
    message, color = badge_text(run)
    left, right = (len(text) * _CHARACTER_PIXELS + _PADDING for text in ("toyspec", message))
    title = markup(printable(f"toyspec: {message}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'<rect width="{left}" height="20" fill="#555"/><rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2}" y="14">toyspec</text>'
        f'<text x="{left + right / 2}" y="14">{markup(message)}</text></g></svg>\n'
    )
