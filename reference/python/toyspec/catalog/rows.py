"""One run as a row of the catalog, as a line of JSON."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toyspec.core.reading.attempts import is_listed
from toyspec.core.runs.columns import ALERT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.findings import FileReport, Severity
    from toyspec.core.runs.summary import RunSummary
    from toyspec.health.alerts import Incidents

    Findings = Mapping[str, tuple[Severity, int]]
    """The severity of each rule that a run breaks, and the number of its findings."""


def row_of(summary: RunSummary, findings: Findings, incidents: Incidents | None = None) -> dict[str, Any]:
    """Return the row of a run from its *summary*, its *findings*, and its *incidents* by health rules, where known."""
    facts, start, by_rule = summary.facts, summary.start, {} if incidents is None else incidents.by_rule
    counts = _counts(findings)
    metrics = facts.metrics or {}
    return {
        **{name: getattr(facts, name) for name in facts.__struct_fields__},
        # A database has integers of 64 bits.
        **{name: None for name in ("first_step", "last_step") if not is_listed(getattr(facts, name))},
        "said": facts.said or None,
        "unended_ranks": facts.unended_ranks or None,
        "day": day_of(facts.started_at),
        **(dict.fromkeys(ALERT_FIELDS) if incidents is None else incidents.counts),
        **{f"{severity}s": counts.pop(severity, 0) for severity in ("error", "warning", "info")},
        "config": _object(start.get("config")),
        "model": _object(start.get("model")),
        "run_start": {name: value for name, value in start.items() if name not in ("config", "model")},
        "run_end": summary.end,
        # The order in which they are found depends on how many lines are read at once.
        "metrics": {name: metrics[name] for name in sorted(metrics)},
        "findings": counts | {f"health-{rule}": number for rule, number in sorted(by_rule.items())},
    }


def day_of(started_at: str | None) -> str | None:
    """Return the day in UTC of a time in RFC 3339; None if it is not one."""
    try:
        return datetime.fromisoformat(started_at or "").astimezone(UTC).date().isoformat()
    except (ValueError, OverflowError):
        return None


def findings_of(report: FileReport | None) -> Findings:
    """Return the findings of a *report*; none of a run that cannot be checked."""
    if report is None:
        return {}
    counts = Counter(finding.rule for finding in report.findings)
    severities = {finding.rule: finding.severity for finding in report.findings}
    counts.update(report.suppressed)
    return {rule: (severities[rule], number) for rule, number in counts.items()}


def _counts(findings: Findings) -> dict[str, int]:
    """Return the number of findings of each severity, and of each rule."""
    by_severity: Counter[str] = Counter()
    for severity, number in findings.values():
        by_severity[severity] += number
    return {**by_severity, **{rule: findings[rule][1] for rule in sorted(findings)}}


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
