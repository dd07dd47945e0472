"""Questions to summarizers: the views of a run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from conformance.comparing import value_differences
from conformance.probes.expected import bundle_request, capabilities, has_ranks, is_of_a_rank, stream_request
from conformance.probes.question import Needs, Question, Stage
from conformance.views import summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.cases import Case

_SHOWN = 5


def questions(case: Case) -> Iterator[Question]:
    """Yield what a summarizer is asked about *case*."""
    # Suppressed findings do not name their members, and members of families are too similar to ask about each.
    if is_of_a_rank(case) or case.stream is None or case.follow or case.suppressed or "#" in case.name:
        return
    ranks = {"ranks"} if has_ranks(case) else set()
    needs = Needs(profile=case.profile, capabilities=capabilities(case) | ranks)
    yield Question(case=case, role="summarizer", needs=needs, play=partial(_summarize, case))


def _summarize(case: Case, stage: Stage) -> list[str]:
    is_bundle = case.scope == "bundle"
    asked = bundle_request(case, "summarizer", stage.new_folder()) if is_bundle else stream_request(case, "summarizer")
    answer = stage.answer(asked)
    found = [
        f"{part} is {answer[part]}, expected {getattr(case, part)}"
        for part in ("profile", "state")
        if answer[part] != getattr(case, part)
    ]
    found.extend(value_differences(summary(case), answer["summary"], "summary"))
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more"]
