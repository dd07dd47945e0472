"""A run for programs: JSON Lines and JUnit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from conformance.baseline import STALE
from conformance.escaping import markup
from conformance.verdicts import BAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.reports.run import Run
    from conformance.verdicts import Result


def jsonl(run: Run) -> Iterator[str]:
    """Yield the hello, every result, and a summary, each as one line."""
    yield json.dumps({"hello": dict(run.hello), "corpus": run.corpus, "cases": run.cases})
    for result in run.results:
        yield json.dumps(result.as_json())
    for entry in run.stale:
        yield json.dumps({"stale": entry.question, "reason": entry.reason})
    tally = run.tally()
    summary = {"required": tally.required, "expected": tally.expected, "ran": tally.ran, "good": run.is_good}
    yield json.dumps({"summary": summary | {"verdicts": dict(tally.counts)}})


def junit(run: Run) -> Iterator[str]:
    """Yield a report that CI systems read: a suite for each role, a test case for each question."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    tally = run.tally()
    failures = sum(tally.counts[verdict] for verdict in BAD if verdict != "error") + len(run.stale)
    yield (
        f'<testsuites name="toyspec conform: {markup(run.name)}" tests="{len(run.results)}" failures="{failures}" '
        f'errors="{tally.counts["error"]}">'
    )
    for role in run.roles:
        yield from _suite(run, role)
    for entry in run.stale:
        yield f'<testsuite name="baseline" tests="1" failures="1"><testcase name="{markup(entry.question)}">'
        yield f'<failure message="{STALE}"/></testcase></testsuite>'
    yield "</testsuites>"


def _suite(run: Run, role: str) -> Iterator[str]:
    results = [result for result in run.results if result.question.role == role]
    counts = run.tally(role).counts
    skipped = counts["not-applicable"] + counts["untestable"] + counts["xfail"] + counts["deviation"]
    yield (
        f'<testsuite name="{markup(role)}" tests="{len(results)}" failures="{counts["fail"] + counts["xpass"]}" '
        f'errors="{counts["error"]}" skipped="{skipped}">'
    )
    for result in results:
        yield from _test_case(result)
    yield "</testsuite>"


def _test_case(result: Result) -> Iterator[str]:
    question = result.question
    topic = question.case.name.rpartition("/")[0].replace("/", ".")
    head = f'<testcase classname="{markup(topic)}" name="{markup(question.name)}" time="{result.seconds:.4f}"'
    if result.verdict == "pass":
        yield f"{head}/>"
        return
    message = markup("; ".join([result.verdict, *result.reasons]))
    element = {"fail": "failure", "xpass": "failure", "error": "error"}.get(result.verdict, "skipped")
    yield f'{head}><{element} message="{message}"/></testcase>'
