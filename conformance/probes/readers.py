"""Questions to readers: every mode, the default, and the latest attempt."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from conformance.accounting import MODES, account
from conformance.comparing import record_differences
from conformance.oracle.adapter import Oracle
from conformance.probes.expected import (
    bundle_request,
    capabilities,
    contents,
    file_differences,
    has_ranks,
    is_of_a_rank,
    other_ranks,
    stream_request,
    with_defaults,
)
from conformance.probes.question import Needs, Question, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.accounting import Mode
    from conformance.cases import Case

MAX_COMPARED_GAPS = 100
_SHOWN = 5


def questions(case: Case) -> Iterator[Question]:
    """Yield what a reader is asked about *case*."""
    if case.stream is None or case.follow:
        return
    needed = capabilities(case)
    for mode in MODES:
        needs = Needs(profile=case.profile, mode=mode, capabilities=needed)
        yield Question(case=case, role="reader", detail=mode, needs=needs, play=partial(_read, case, mode, mode))
    if "#" not in case.name and case.state != "complete":
        needs = Needs(profile=case.profile, mode="tail", capabilities=needed)
        yield Question(case=case, role="reader", detail="default", needs=needs, play=partial(_read, case, None, "tail"))
    if case.scope == "bundle" and not is_of_a_rank(case) and has_ranks(case):
        needs = Needs(profile=case.profile, mode="salvage", capabilities=needed | {"ranks"})
        yield Question(case=case, role="reader", detail="ranks", needs=needs, play=partial(_ranks, case))
    if _resumes(case):
        needs = Needs(profile=case.profile, mode="salvage", capabilities=needed | {"latest_attempt"})
        yield Question(case=case, role="reader", detail="latest", needs=needs, play=partial(_latest, case))


def _read(case: Case, named: Mode | None, mode: Mode, stage: Stage) -> list[str]:
    request = _request(case, stage)
    if named is not None:
        request["mode"] = named
    elif request.get("name") == "events.jsonl":
        del request["name"]  # a stream without a name is treated like this one
    answer = stage.answer(request)
    found = list(_report_differences(case, mode, request, answer))
    if "records" in answer:
        count = account(case, mode).records
        found += _record_differences(case, case.records[:count], answer)
    if "directory" in request:
        found.extend(file_differences(case.regular_files, contents(request["directory"])))
    return found


def _latest(case: Case, stage: Stage) -> list[str]:
    request = _request(case, stage) | {"mode": "salvage", "view": "latest"}
    right = Oracle().read(request)
    answer = stage.answer(request)
    # The rest of the report is about the whole stream, which no page said before 1.3.
    found = list(_report_differences(case, "salvage", request, answer)) if stage.compares("1.3") else []
    return found + _record_differences(case, right["records"], answer)


def _ranks(case: Case, stage: Stage) -> list[str]:
    answer = stage.answer(_request(case, stage) | {"mode": "salvage"})
    expected = other_ranks(case)
    return [] if answer.get("ranks") == expected else [f"ranks is {answer.get('ranks')}, expected {expected}"]


def _request(case: Case, stage: Stage) -> dict[str, Any]:
    return (
        bundle_request(case, "reader", stage.new_folder()) if case.scope == "bundle" else stream_request(case, "reader")
    )


def _record_differences(case: Case, expected: Any, answer: Mapping[str, Any]) -> list[str]:
    given = with_defaults(answer["records"], case.profile)
    found = list(record_differences(with_defaults(expected, case.profile), given))
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more"]


def _report_differences(case: Case, mode: Mode, request: dict[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    expected = account(case, mode)
    gap_bytes = sum(gap.length for gap in expected.gaps)
    for part, value in (
        ("outcome", expected.outcome),
        ("profile", _profile(case, mode, request)),
        ("state", case.state),
        ("count", expected.records),
        ("committed", expected.committed),
        ("fragment", expected.fragment),
        ("gap_bytes", gap_bytes),
    ):
        if answer[part] != value:
            yield f"{part} is {answer[part]}, expected {value}"
    gaps = expected.as_json()["gaps"]
    if answer["gaps"][:MAX_COMPARED_GAPS] != gaps[:MAX_COMPARED_GAPS]:
        pairs = zip(answer["gaps"], gaps, strict=False)
        index = next((i for i, (one, other) in enumerate(pairs) if one != other), min(len(gaps), len(answer["gaps"])))
        one, other = (listed[index] if index < len(listed) else "absent" for listed in (answer["gaps"], gaps))
        yield f"gap {index} is {one}, expected {other}"
    if expected.outcome == "fails" and expected.gaps:
        gap = expected.gaps[0]
        error = {"line": case.data.count(b"\n", 0, gap.offset) + 1, "offset": gap.offset, "reason": gap.reason}
        if answer.get("error") != error:
            yield f"error is {answer.get('error')}, expected {error}"


def _profile(case: Case, mode: Mode, request: dict[str, Any]) -> str | None:
    """Return the profile that a reading in *mode* must report; records after the gap at which it stops do not count."""
    expected = account(case, mode)
    if mode == "salvage" or expected.records or not expected.gaps:
        return case.profile
    profile: str = Oracle().read(request | {"mode": mode})["profile"]
    return profile


def _resumes(case: Case) -> bool:
    return case.profile == "toy/v1" and any(record.get("kind") == "run_resume" for record in case.records)
