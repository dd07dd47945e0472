"""The report that an implementation publishes about one version, and the tables that are made of many of them.

``schema/report.json`` is the schema. What a report has is data of others: it is checked when it is read, and escaped
where it is shown.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from conformance.escaping import markdown
from conformance.probes.question import ROLES
from conformance.verdicts import BAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from conformance.reports.run import Run

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, os.pardir, "schema", "report.json")
REGISTRY = os.path.join(HERE, os.pardir, "published")
"""One TOML file for each implementation, named after it, and its reports beside it."""

_MOST_BYTES = 1 << 20
_ENTRY_KEYS = {"name", "language", "repository"}


class ReportError(ValueError):
    """A report or an entry of the registry cannot be used."""


@dataclass(frozen=True)
class Entry:
    """One registered implementation."""

    name: str
    language: str
    repository: str


def report_of(run: Run, source: str | None) -> dict[str, Any]:
    """Return the report of *run*, whose sources are at the address *source*."""
    roles = {role: _counts(run, role) for role in run.roles}
    return {
        **_head(str(run.hello["name"]), str(run.hello["version"]), source),
        "language": str(run.hello["language"]),
        "corpus": {
            "revision": run.revision,
            "digest": run.corpus,
            "cases": run.cases,
            "is_whole": run.is_whole,
            "rounds": run.rounds,
            "roles": roles,
            "departs_from": run.departs_from(),
            "not_asked": run.limits(),
            "slowest": {result.question.name: round(result.seconds, 3) for result in run.slowest()},
        },
    }


def _counts(run: Run, role: str) -> dict[str, int]:
    tally = run.tally(role)
    return {
        "expected": tally.expected,
        "passed": tally.counts["pass"],
        "failed": sum(tally.counts[verdict] for verdict in BAD),
        "known_failures": tally.counts["xfail"],
        "deviations": tally.counts["deviation"],
        "untestable": tally.counts["untestable"],
    }


def _head(name: str, version: str, source: str | None) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"report": 1, "name": name, "version": version, "at": at} | ({"source": source} if source else {})


def with_durable_writer(path: str, name: str, durable: Mapping[str, Any], source: str | None = None) -> dict[str, Any]:
    """Return the report at *path*, or a new one of *name*, with the results of its writer under injected failures."""
    there = read_report(path) if os.path.exists(path) else _head(name, "unknown", source)
    return {**there, "durable_writer": dict(durable)}


def with_corpus(path: str, run: Run, source: str | None) -> dict[str, Any]:
    """Return the report of *run*, with what the report at *path* has of the same writer under injected failures."""
    report = report_of(run, source)
    # What is there may be no report: a run of minutes is not lost for it.
    with contextlib.suppress(ReportError):
        there = read_report(path)
        if there["name"] == report["name"] and "durable_writer" in there:
            return report | {"durable_writer": there["durable_writer"]}
    return report


def write_report(path: str, report: Mapping[str, Any]) -> None:
    """Write *report* to *path*; raise ReportError for one that the schema refuses."""
    _validate(report, path)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        json.dump(report, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_report(path: str) -> dict[str, Any]:
    """Return the report at *path*; raise ReportError."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ReportError(f"{path} has more than {_MOST_BYTES} bytes; a report has a few kilobytes")
        found: dict[str, Any] = json.loads(data)
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, ReportError) else ReportError(f"{path} is not JSON: {error}") from None
    _validate(found, path)
    return found


def _validate(report: Any, path: str) -> None:
    from jsonschema import Draft202012Validator

    with open(SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    error = next(Draft202012Validator(schema).iter_errors(report), None)
    if error is not None:
        raise ReportError(f"{path} is not a report at {error.json_path}: {error.message[:200]}")


def registered(folder: str = REGISTRY) -> list[Entry]:
    """Return the entries of the registry in *folder*; raise ReportError."""
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.toml"))):
        try:
            with open(path, "rb") as file:
                entry = tomllib.load(file)
        except (OSError, ValueError) as error:
            raise ReportError(f"{path} is not TOML: {error}") from None
        if entry.keys() != _ENTRY_KEYS or not all(isinstance(value, str) and value for value in entry.values()):
            raise ReportError(f"{path} must have exactly the texts {', '.join(sorted(_ENTRY_KEYS))}")
        if os.path.basename(path) != f"{entry['name']}.toml":
            raise ReportError(f"{path} must be named after its implementation: {entry['name']}.toml")
        found.append(Entry(**entry))
    return found


def entry_of(report: Mapping[str, Any]) -> Entry:
    """Return what *report* itself says about its implementation."""
    return Entry(report["name"], report.get("language", "-"), report.get("source", "-"))


def tier(report: Mapping[str, Any]) -> str:
    """Return the tier of *report*, which follows from its counts alone.

    *conforming*: every question about the MUSTs of its roles was answered right; *durable*: its writer also passed
    every test with injected failures; *full*: it also follows every SHOULD that was asked, names none that it does not
    keep, and nothing was untestable. A writer that passed the tests with injected failures, and whose program asked no
    corpus, is *durable alone*.
    """
    corpus, durable = report.get("corpus"), report.get("durable_writer")
    roles = list(corpus["roles"].values()) if corpus else []
    if corpus and (not roles or not corpus["is_whole"]):
        return "partly asked"
    if any(role["failed"] or role["known_failures"] or not role["passed"] for role in roles):
        return "does not conform"
    if durable and durable["not_ok"]:
        return "not durable" if not roles else "conforming, not durable"
    if not roles:
        return "durable alone"
    departs = bool(corpus and corpus.get("departs_from"))
    is_full = not departs and not any(role["deviations"] or role["untestable"] for role in roles)
    return "conforming" + (", durable" if durable else "") + (", full" if durable and is_full else "")


def tables(reports: Sequence[Mapping[str, Any]], entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a table of the newest report of each registered implementation, then one of all reports."""
    by_name = {entry.name: entry for entry in entries}
    dated = sorted(reports, key=lambda report: report["at"], reverse=True)
    known = [report for report in dated if report["name"] in by_name]
    newest = {report["name"]: report for report in reversed(known)}
    yield f"| implementation | version | tier | revision | {' | '.join(ROLES)} | durable writer | not asked |"
    yield f"|---|---|---|---|{'---|' * len(ROLES)}---|---|"
    for name in sorted(newest):
        yield _row(newest[name], by_name[name])
    if not newest:
        yield f"| none yet |{' |' * (5 + len(ROLES))}"
    older = [report for report in known if report is not newest[report["name"]]]
    if older:
        yield ""
        yield "| implementation | version | asked | revision | tier |"
        yield "|---|---|---|---|---|"
        for report in known:
            cells = (report["name"], report["version"], report["at"][:10], _revision(report), tier(report))
            yield f"| {' | '.join(map(markdown, cells))} |"


def unregistered(reports: Sequence[Mapping[str, Any]], entries: Sequence[Entry]) -> list[str]:
    """Return the names of implementations that have a report and no entry."""
    return sorted({str(report["name"]) for report in reports} - {entry.name for entry in entries})


def _row(report: Mapping[str, Any], entry: Entry) -> str:
    corpus, durable = report.get("corpus", {}), report.get("durable_writer")
    roles = corpus.get("roles", {})
    name = f"{markdown(entry.name)} ({markdown(entry.language)}), {markdown(entry.repository)}"
    met = "not asked" if durable is None else f"{durable['ok']} of {durable['ok'] + len(durable['not_ok'])}"
    if durable and durable["left_out"]:
        met += f", {len(durable['left_out'])} left out"
    unasked = "; ".join(map(markdown, corpus["not_asked"])) or "-" if corpus else "the corpus"
    cells = [_cell(roles[role]) if role in roles else "-" for role in ROLES]
    head = (name, markdown(report["version"]), tier(report), _revision(report))
    return f"| {' | '.join((*head, *cells, met, unasked))} |"


def _revision(report: Mapping[str, Any]) -> str:
    return str(report["corpus"]["revision"]) if "corpus" in report else "-"


def _cell(counts: Mapping[str, int]) -> str:
    if counts["failed"]:
        return f"**{counts['failed']} failed** of {counts['expected']}"
    notes = {"known_failures": "known failures", "deviations": "deviations", "untestable": "untestable"}
    said = "".join(f", {counts[key]} {words}" for key, words in notes.items() if counts[key])
    return f"{counts['passed']} of {counts['expected']}{said}"
