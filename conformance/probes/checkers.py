"""Questions to checkers: findings in order, suppressed ones, state, profile and validity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.comparing import differences
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.oracle.sealing import SEAL
from conformance.probes.expected import bundle_request, capabilities, contents, file_differences, stream_request
from conformance.probes.question import Needs, Question, Stage, capabilities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.cases import Case


def questions(case: Case) -> Iterator[Question]:
    """Yield what a checker is asked about *case*."""
    if case.follow or (case.stream is None and case.scope != "bundle"):
        return
    seals = {"seal"} if case.scope == "bundle" and SEAL in {*case.files, *case.entries} else set()
    needs = Needs(profile=case.profile, capabilities=capabilities(case) | seals)
    yield Question(case=case, role="checker", needs=needs, play=partial(_check, case))


def _check(case: Case, stage: Stage) -> list[str]:
    is_bundle = case.scope == "bundle"
    request = bundle_request(case, "checker", stage.new_folder()) if is_bundle else stream_request(case, "checker")
    answer = stage.answer(request)
    found = differences(case, {key: answer[key] for key in ("profile", "state", "findings", "suppressed")})
    valid = is_valid(case)
    if answer["valid"] != valid:
        found.append(f"valid is {answer['valid']}, expected {valid}")
    if not found and "findings_offset" in capabilities_of(stage.hello, "checker"):
        found.extend(_place_differences(Oracle().check(request)["findings"], answer["findings"]))
    if is_bundle:
        found.extend(file_differences(case.regular_files, contents(request["directory"])))
    return found


def is_valid(case: Case) -> bool:
    """Return whether no finding of *case*, listed or suppressed, is an error."""
    profile = case.profile or "toy/v1"
    fragment_line = case.data.count(b"\n") + 1
    severities = [
        tables.severity(finding.rule, profile, at_end=finding.sidecar is None and finding.line == fragment_line)
        for finding in case.findings
    ]
    return "error" not in [*severities, *(tables.severity(rule, profile) for rule in case.suppressed)]


def _place_differences(right: list[dict[str, Any]], actual: list[dict[str, Any]]) -> Iterator[str]:
    for index, (one, other) in enumerate(zip(right, actual, strict=True)):
        for part in ("offset", "severity"):
            if other.get(part) != one[part]:
                yield f"finding {index}, {one['rule']}: {part} is {other.get(part)}, expected {one[part]}"
