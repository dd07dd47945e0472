"""One run as a row of the catalog, as a line of JSON, and back."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.catalog.tables import decoded
from toyspec.findings import DialectUse
from toyspec.reading.annotations import NONE, Annotations
from toyspec.reading.placing import is_listed
from toyspec.runs.columns import ALERT_FIELDS
from toyspec.runs.curves import Curve
from toyspec.runs.rank_states import unended_in
from toyspec.runs.run_facts import RankState, finite
from toyspec.runs.summary import Extent, RunState, RunSummary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.findings import Ended, FileReport, Severity
    from toyspec.health.alerts import Incidents

    Findings = Mapping[str, tuple[Severity, int]]
    """The severity of each rule that a run breaks, and the number of its findings."""


def row_of(summary: RunSummary, findings: Findings, incidents: Incidents | None = None) -> dict[str, Any]:
    """Return the row of a run from its *summary*, its *findings*, and its *incidents* by health rules, where known."""
    start, by_rule = summary.start, {} if incidents is None else incidents.by_rule
    rest = {name: value for name, value in start.items() if name not in ("config", "model")}
    counts = _counts(findings)
    # The order in which they are found depends on how many lines are read at once.
    metrics = {name: _metric(summary, name) for name in sorted(summary.series)}
    facts = summary.facts
    loss, says = finite(summary.final_loss), summary.says_final_loss
    return {
        "stream": summary.path,
        **facts.all(),
        # A database has integers of 64 bits.
        **{name: None for name in ("first_step", "last_step") if not is_listed(getattr(facts, name))},
        "annotations": summary.annotations if summary.annotations.count else None,
        "dialect": summary.dialect,
        "world_size": summary.world_size,
        "unended_ranks": unended_in(summary) or None,
        "day": day_of(facts.started_at),
        "as_of": None,
        **(dict.fromkeys(ALERT_FIELDS) if incidents is None else incidents.counts),
        **{f"{severity}s": counts.pop(severity, 0) for severity in ("error", "warning", "info")},
        "config": _object(start.get("config")),
        "model": _object(start.get("model")),
        "run_start": rest,
        "run_end": summary.end,
        "metrics": metrics,
        "findings": counts | {f"health-{rule}": number for rule, number in sorted(by_rule.items())},
        "said_loss": msgspec.json.encode(loss).decode() if says else None,
        "settings": facts.settings,
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


def _metric(summary: RunSummary, name: str) -> dict[str, Any]:
    curve = summary.series[name]
    smaller = summary.smaller_is_better(name)
    best = summary.best(name)
    step, last = curve.last or (None, None)
    found: dict[str, Any] = {"step": step, "last": last, "count": curve.count, "nan": curve.not_finite}
    # A list shows the last finite value of a run whose last one is not.
    found |= {} if last is not None or curve.last_finite is None else {"finite": curve.last_finite}
    found |= {} if smaller is None else {"goal": "min" if smaller else "max"}
    return found | ({} if best is None else {"best_step": best[0], "best": best[1]})


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


class CatalogRun(RunSummary):
    """A run as its catalog has it: what ``RunSummary`` has, without reading the run.

    A list asks for little of very many runs, so JSON is decoded when something asks for what is in it.
    """

    first_step: int | None = None
    last_step: int | None = None

    def __init__(self, row: dict[str, Any]) -> None:
        """*row* has the columns of COLUMNS."""
        super().__init__(row["stream"])
        # These are decoded when they are asked for.
        for name in ("start", "end", "series"):
            del self.__dict__[name]
        self.catalog_row = row
        self.as_of = row["as_of"]
        dialect = decoded(row["dialect"])
        self.dialect = None if dialect is None else msgspec.convert(dialect, DialectUse)
        self.first_step, self.last_step = row["first_step"], row["last_step"]
        self.profile = None if dialect is not None else row["profile"]
        state: RunState = row["state"]
        self.extent = Extent("torn" if state == "running" else state, row["records"], row["bytes"])
        self.__dict__["is_running"] = state == "running"

    @cached_property
    def start(self) -> dict[str, Any]:  # type: ignore[override]  # nothing writes it
        """See RunSummary."""
        row = self.catalog_row
        parts = {part: decoded(row[part]) for part in ("config", "model") if row[part] is not None}
        return {**(decoded(row["run_start"]) or {}), **{name: part for name, part in parts.items() if part}}

    @cached_property
    def end(self) -> dict[str, Any] | None:  # type: ignore[override]  # nothing writes it
        """See RunSummary."""
        found: dict[str, Any] | None = decoded(self.catalog_row["run_end"])
        return found

    @cached_property
    def annotations(self) -> Annotations:
        """See RunSummary."""
        found = decoded(self.catalog_row["annotations"])
        return NONE if found is None else msgspec.convert(found, Annotations)

    @property
    def world_size(self) -> int | None:
        """See RunSummary."""
        found: int | None = self.catalog_row["world_size"]
        return found

    @cached_property
    def known_ranks(self) -> list[RankState]:  # type: ignore[override]  # nothing writes it
        """Those of the other ranks whose logs were torn or damaged when the catalog read them."""
        return [RankState(*each) for each in decoded(self.catalog_row["unended_ranks"]) or ()]

    @cached_property
    def _metrics(self) -> dict[str, dict[str, Any]]:
        return decoded(self.catalog_row["metrics"]) or {}

    @cached_property
    def series(self) -> dict[str, Curve]:  # type: ignore[override]  # nothing writes it
        """See RunSummary."""
        return {name: _curve(metric) for name, metric in self._metrics.items()}

    @property
    def has_alerts(self) -> bool:  # type: ignore[override]  # nothing writes it
        """See RunSummary."""
        return self.count_alerts() is not None

    def count_alerts(self) -> Mapping[str, int | None] | None:
        """See RunSummary."""
        counts: dict[str, int | None] = {name: self.catalog_row[name] for name in ALERT_FIELDS}
        return None if None in counts.values() else counts

    def smaller_is_better(self, name: str) -> bool | None:
        """See RunSummary."""
        goal = self._metrics.get(name, {}).get("goal")
        return None if goal is None else goal == "min"

    @property
    def findings(self) -> dict[str, int]:
        """The number of its findings by severity."""
        return {severity: self.catalog_row[f"{severity}s"] for severity in ("error", "warning", "info")}

    @property
    def state(self) -> RunState:
        """See RunSummary."""
        found: RunState = self.catalog_row["state"]
        return found

    @property
    def name(self) -> str:
        """See RunSummary."""
        found: str = self.catalog_row["run"]
        return found

    @property
    def ended(self) -> Ended:
        """See RunSummary."""
        found: Ended = self.catalog_row["ended"]
        return found

    @property
    def reason(self) -> Any:
        """See RunSummary."""
        found = self.catalog_row["reason"]
        # The column has text only.
        return super().reason if found is None and self.catalog_row["run_end"] is not None else found

    @property
    def final_loss(self) -> float | None:
        """See RunSummary."""
        found: float | None = decoded(self.catalog_row["said_loss"])
        return found

    @property
    def says_final_loss(self) -> bool:
        """See RunSummary."""
        return self.catalog_row["said_loss"] is not None

    @property
    def directory(self) -> str:
        """See RunSummary."""
        path: str = self.catalog_row["path"]
        return path

    @property
    def sealed(self) -> bool:
        """See RunSummary."""
        return bool(self.catalog_row["sealed"])

    @property
    def seconds(self) -> float | None:
        """See RunSummary."""
        found: float | None = self.catalog_row["seconds"]
        return found

    @property
    def started_at(self) -> str | None:
        """See RunSummary."""
        found: str | None = self.catalog_row["started_at"]
        return found


def _curve(metric: Mapping[str, Any]) -> Curve:
    curve = Curve()
    curve.count, curve.not_finite = metric["count"], metric["nan"]
    curve.last = None if metric["step"] is None else (metric["step"], metric["last"])
    curve.last_finite = metric.get("finite", metric["last"])
    if "best" in metric:
        curve.lowest = curve.highest = (metric["best_step"], metric["best"])
    return curve
