"""Questions that no corpus has: streams, records and sessions that are drawn with a seed, answered by the oracle."""

from __future__ import annotations

import json
import os
import random
import struct
import tempfile
import time
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from conformance.cases import Case, Finding
from conformance.comparing import finding_of
from conformance.corpus import cases
from conformance.drawn import mutated, shrunk
from conformance.format_facts import MAX_LISTED_GAPS
from conformance.inside import Inside, reasons_of
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import is_safe_run_id
from conformance.probes.expected import with_defaults
from conformance.probes.question import ROLES, Question, Stage
from conformance.probes.roles import questions
from conformance.probes.writers import declared, is_clean, record_questions
from conformance.revisions import CURRENT, FIRST_LISTED
from conformance.session_cases import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

COUNT, ONE_SHOTS = 100, 4
"""How many streams, lists of records and sessions are drawn; fewer where each question starts a program."""
SEEDS = 1_000_000
SINCE = "1.3"
"""The first revision of which a run asks fresh questions."""
_MOST_SHOWN = 1500
_SLOW_DETAILS = frozenset({"whole", "pieces", "always-written"})
"""Questions that take long, or that another one of the same stream implies."""
_GZIP = b"\x1f\x8b"
_FOREIGN = {"kind": "mine", "n": {"int": "1"}}


@dataclass(frozen=True)
class Drawn:
    """What was drawn: a stream, records to write, or both for a session; each can be made smaller."""

    sort: str
    """``stream``, ``records`` or ``session``."""
    data: bytes = b""
    records: tuple[Any, ...] = ()
    profile: str = "toy/v1"
    file: str = "events.jsonl"
    exist: str = ""
    end: str = ""

    def __str__(self) -> str:
        """Return what is asked, as one can type it."""
        shown = {"sort": self.sort, "profile": self.profile, "exist": self.exist, "end": self.end}
        words = [f"{key} {value}" for key, value in shown.items() if value and self.sort != "stream"]
        words += [f"stream {ascii(self.data)[1:]}"] if self.data else []
        words += [f"records {json.dumps(self.records)}"] if self.records else []
        text = ", ".join(words)
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"


def draw(chance: random.Random, revision: str) -> Drawn:
    """Return the next thing that *chance* draws."""
    sort = chance.choice(("stream", "stream", "records", "session"))
    if sort == "stream":
        name = "metrics.jsonl" if chance.random() < 0.1 else "events.jsonl"
        return Drawn(sort, mutated(chance, revision), file=name)
    profile = chance.choice(("toy/v1", "toy/v1", "metrics/v1", "kaun/v1"))
    records = _records(chance, profile, revision)
    if sort == "records":
        return Drawn(sort, records=records, profile=profile)
    data = chance.choice((b"", mutated(chance, revision), mutated(chance, revision)))
    exist = chance.choice(("replace", "fail", "resume", "resume")) if profile == "toy/v1" else "append"
    if exist == "resume" and data:
        step = {"int": str(chance.randrange(5))}
        records = ({"kind": "run_resume", "t": {"float": "0.0"}, "from_step": step}, *records[1:])
    file = "metrics.jsonl" if profile == "metrics/v1" else "events.jsonl"
    return Drawn(sort, data, records, profile, file, exist, chance.choice(("closed", "interrupted", "killed")))


def _records(chance: random.Random, profile: str, revision: str) -> tuple[Any, ...]:
    """Return records of the corpus, some with other numbers, in an order of their own."""
    pool = _pool(profile, revision)
    records = [_changed(chance.choice(pool), chance) for _ in range(chance.randint(1, 6))]
    if profile != "toy/v1":
        return tuple(records)
    records = [record for record in records if record.get("kind") not in {"run_start", "run_end", "run_resume"}]
    if chance.random() < 0.4:
        records.insert(chance.randint(0, len(records)), dict(_FOREIGN))
    found = [{"kind": "run_start", "schema": "toy/v1", "run_id": "demo"}, *records]
    t = 0.0
    for record in found:
        if record["kind"] == _FOREIGN["kind"]:
            record["t"] = {"float": repr(t + chance.choice((-1.0, 0.0, 50.0)))}
            continue
        t = max(0.0, t + (chance.choice((0.0, 0.125, 1.5)) if chance.random() < 0.95 else -1.0))
        record["t"] = {"float": repr(t)}
    step = chance.randrange(3)
    for record in found:
        if record["kind"] == "step":
            step += 1
            record["step"] = {"int": str(step)}
            record.pop("phase", None)
    return tuple(found)


@cache
def _pool(profile: str, revision: str) -> list[Any]:
    return [
        record
        for case in cases((), revision)
        if case.profile == profile and len(case.data) < 4000 and "#" not in case.name and is_clean(case)
        for record in case.records
    ]


def _changed(value: Any, chance: random.Random, *, least: float = 0.9) -> Any:
    """Return a copy of a tagged value, rarely with another number in it."""
    if isinstance(value, list):
        return [_changed(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() <= {"int", "float", "f32"} and len(value) == 1 and chance.random() > least:
        (tag,) = value
        return {tag: str(chance.choice((0, 1, -1, 7, 2**53 - 1, 2**53, 10**25)))} if tag == "int" else _float(chance)
    return {key: _changed(item, chance) for key, item in value.items()}


def _float(chance: random.Random) -> dict[str, str]:
    number = struct.unpack("<d", chance.randbytes(8))[0]
    return {"float": "nan" if number != number else repr(number)}  # noqa: PLR0124  (only nan differs from itself)


def cases_of(drawn: Drawn, name: str, revision: str) -> Iterator[Question]:
    """Yield the questions about *drawn*, with the answers of the oracle; none where no answer is the only one."""
    tables.follow(revision)
    if drawn.sort == "stream":
        case = _stream_case(drawn, name, revision)
        if case is not None:
            is_packed = drawn.data.startswith(_GZIP)  # a follower, which is asked about a file, may unpack it
            for asked in questions(case, ROLES):
                if asked.detail not in _SLOW_DETAILS and not (is_packed and asked.role == "follower"):
                    yield asked
    elif drawn.sort == "records":
        yield from _record_questions(drawn, name, revision)
    elif (session := _session(drawn, name, revision)) is not None:
        # Some records are legal and have warnings, which the stream of a session must not have.
        with tempfile.TemporaryDirectory() as folder:
            own = Stage(Inside(Oracle()), partial(tempfile.mkdtemp, dir=folder), Oracle().hello(), revision)
            yield from [question for question in questions(session, ROLES) if not question.play(own)]


def _case(drawn: Drawn, name: str, revision: str, **members: Any) -> Case:
    known: dict[str, Any] = {
        "name": name,
        "folder": "",
        "why": str(drawn),
        "since": revision,
        "files": {drawn.file: drawn.data},
    }
    empty = {"profile": drawn.profile, "state": None, "records": drawn.records, "findings": (), "stream": drawn.file}
    return Case(**(known | empty | members))


def _stream_case(drawn: Drawn, name: str, revision: str) -> Case | None:
    request = {"stream": drawn.data, "name": drawn.file}
    read = Oracle().read({**request, "mode": "salvage"})
    check = Oracle().check(request)
    if check["suppressed"] or len(read["gaps"]) == MAX_LISTED_GAPS:
        return None  # what is suppressed, or not listed, has no lines, from which the report of a reading is derived
    lines = [Finding(rule=gap["reason"], line=_line(drawn.data, gap["offset"]), pointer="") for gap in read["gaps"]]
    return _case(
        drawn,
        name,
        revision,
        until=revision if revision == FIRST_LISTED else None,
        profile=read["profile"],
        state=read["state"],
        records=tuple(read["records"]),
        findings=tuple(map(finding_of, check["findings"])),
        gaps=() if read["profile"] else tuple(lines),
    )


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _record_questions(drawn: Drawn, name: str, revision: str) -> Iterator[Question]:
    given = [declared(record) for record in with_defaults(drawn.records, drawn.profile)]
    # Before 1.4, no page said what a canonical writer does with records out of order.
    for role in ("writer", "canonical-writer") if tables.has("1.4") else ("writer",):
        answer = Oracle().write({"role": role, "profile": drawn.profile, "records": given})
        stream = answer.get("stream", b"")
        read = Oracle().read({"stream": stream, "mode": "salvage", "profile": drawn.profile})
        case = _case(drawn, name, revision, files={drawn.file: stream}, records=tuple(read["records"]))
        yield from record_questions(case, role, given, is_refused=answer["outcome"] == "refused")


def _session(drawn: Drawn, name: str, revision: str) -> Session | None:
    """Return the session with what the oracle leaves in the directory; None where writers may do different things."""
    before = Oracle().read({"stream": drawn.data, "name": drawn.file, "mode": "salvage"})["records"]
    kinds = [record.get("kind") for record in (*before[:1], *drawn.records[:1])]
    if not drawn.records or (drawn.profile == "toy/v1" and not all("t" in record for record in drawn.records)):
        return None  # times that a writer gives are those of its clock
    if drawn.exist == "resume" and kinds != (["run_start", "run_resume"] if before else ["run_start"]):
        return None
    given = [declared(record) for record in with_defaults(drawn.records, drawn.profile)]
    run = {"exist": drawn.exist, "end": drawn.end, "records": given}
    # A run is resumed under its own id; under another one, a writer may refuse it.
    old = before[0].get("run_id") if before and drawn.exist == "resume" else None
    run_id = old if isinstance(old, str) else "demo"
    if not is_safe_run_id(run_id):
        return None
    with tempfile.TemporaryDirectory() as folder:
        directory = os.path.join(folder, run_id)
        path = os.path.join(directory, drawn.file)
        if drawn.data:
            os.mkdir(directory)
            with open(path, "wb") as file:
                file.write(drawn.data)
        request = {"role": "writer", "profile": drawn.profile, "run_id": run_id, "directory": directory, **run}
        outcome = Oracle().write(request)["outcome"]
        content = run | {"profile": drawn.profile, "run_id": run_id, "outcome": outcome}
        if outcome == "refused":
            if _is_refused_later(request):
                return None
            content["unchanged"] = True
        else:
            names = {found for found in os.listdir(directory) if found != drawn.file}
            sides = {found: "previous" if found.endswith(".prev") else "fragment" for found in names}
            with open(path, "rb") as file:
                read = Oracle().read({"stream": file.read(), "mode": "salvage", "profile": drawn.profile})
            content |= {"beside": sides, "expected": [_without_t(record) for record in read["records"]]}
    files = {drawn.file: drawn.data} if drawn.data else {}
    case = _case(drawn, name, revision, files=files, records=tuple(given), stream=drawn.file if files else None)
    return Session(**{**vars(case), "content": content})


def _is_refused_later(request: Mapping[str, Any]) -> bool:
    """Return whether it is not the directory that refuses the records, but what is wrong with one of them."""
    first = request["records"][0]
    known = {key: first[key] for key in ("kind", "schema", "run_id", "from_step", "t") if key in first}
    harmless = [known] if request["profile"] == "toy/v1" else []
    return bool(Oracle().write({**request, "end": "killed", "records": harmless})["outcome"] == "written")


def _without_t(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in record.items() if key != "t"}


def fresh_questions(seed: int, count: int, roles: Collection[str], revision: str = CURRENT) -> Iterator[Question]:
    """Yield the questions about what *seed* draws *count* times."""
    chance = random.Random(seed)  # noqa: S311  (a seed gives the same questions again)
    for number in range(count):
        found = cases_of(draw(chance, revision), f"fresh/{seed}/{number}", revision)
        yield from (question for question in found if question.role in roles)


def hunt(
    stages: Mapping[str, Stage], seed: int, seconds: float, revision: str, *, least: int = COUNT
) -> tuple[int, list[str]]:
    """Ask all implementations until the time is over; return how many questions, and each difference.

    A difference is one from the oracle, about the smallest input that shows it. Each is reported once for one
    implementation, role and rule.
    """
    chance = random.Random(seed)  # noqa: S311  (a seed gives the same questions again)
    end, number, asked = time.monotonic() + seconds, 0, 0
    found: dict[tuple[str, str, str], str] = {}
    while number < least or time.monotonic() < end:
        number += 1
        drawn = draw(chance, revision)
        for question in cases_of(drawn, f"fresh/{number}", revision):
            for name, stage in stages.items():
                if question.needs.missing(stage.hello, question.role) or question.role not in stage.hello["roles"]:
                    continue
                asked += 1
                reasons = reasons_of(question, stage)
                key = (name, question.role, _sort(reasons))
                if reasons and key not in found:
                    small, reasons = _smallest(drawn, question, stage, revision)
                    found[key] = f"{name}, {question.role} {question.detail}: {small}: {'; '.join(reasons)}"
    return asked, list(found.values())


def _sort(reasons: Sequence[str]) -> str:
    return "".join(letter for letter in (reasons[0] if reasons else "")[:30] if letter.isalpha())


def _smallest(drawn: Drawn, question: Question, stage: Stage, revision: str) -> tuple[Drawn, list[str]]:
    """Return the smallest input for which the same question has another answer, with what is wrong about it."""

    def reasons(smaller: Drawn) -> list[str]:
        same = (question.role, question.detail)
        for one in cases_of(smaller, question.case.name, revision):
            if (one.role, one.detail) == same and not one.needs.missing(stage.hello, one.role):
                return reasons_of(one, stage)
        return []

    def smaller(part: Any, change: Callable[[Any], Drawn]) -> Drawn:
        return change(shrunk(part, lambda candidate: bool(reasons(change(candidate)))))

    drawn = smaller(drawn.data, partial(_with, drawn, "data"))
    drawn = smaller(drawn.records, partial(_with, drawn, "records"))
    for index, record in enumerate(drawn.records):
        drawn = smaller(tuple(record.items()), partial(_with_members, drawn, index))
    return drawn, reasons(drawn)


def _with(drawn: Drawn, part: str, value: Any) -> Drawn:
    return replace(drawn, **{part: value})


def _with_members(drawn: Drawn, index: int, members: Any) -> Drawn:
    return replace(drawn, records=(*drawn.records[:index], dict(members), *drawn.records[index + 1 :]))
