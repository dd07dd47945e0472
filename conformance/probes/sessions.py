"""Questions to writers that own a directory: its content after a session."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from conformance import locking
from conformance.comparing import record_differences
from conformance.oracle import tables
from conformance.oracle.adapter import Oracle
from conformance.oracle.bundles import is_safe_run_id
from conformance.oracle.writing import is_number, number_of
from conformance.probes.expected import change, contents, file_differences, with_defaults
from conformance.probes.question import Needs, Question, Stage, UntestableError
from conformance.probes.writers import says_what_nulls_were
from conformance.session_cases import EITHER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.session_cases import Session

# Kinds to which a writer may add members, such as the machine and the date.
_OPEN_KINDS = frozenset({"run_start", "run_resume"})
# Members that a writer may add to these kinds: the program does not give them.
_ADDED = {"run_end": frozenset({"t", "ended_at", "exit_code"}), "media": frozenset({"t", "size_bytes"})}
_SHOWN = 5
_WRONG_IN_WRITERS = frozenset({"integer-as-float", "final-step-mismatch"})
"""Rules of severity info that the records of a session give a writer no reason to break."""
_STANDS_FOR = {"previous": "replaced stream", "fragment": "fragment"}
_CLOCK_SECONDS, _CLOCK_SECONDS_1_2 = 0.1, 1.0
"""How much more time a clock of a writer may count than that of the runner."""
_PAUSE_SECONDS = 7200.0
"""How long ago the files that exist before a session seem to have been written, since 1.3: no time of the run."""


def questions(session: Session) -> Iterator[Question]:
    """Yield what a writer is asked about *session*."""
    is_held = any(run["end"] == "held" for run in session.runs)
    media = {"media"} if any("media" in run for run in session.runs) else set()
    needed = frozenset({"session"} | media)
    needs = Needs(profile=session.profile, capabilities=needed, locks=session.locks, is_in_lines=is_held or bool(media))
    yield Question(case=session, role="writer", needs=needs, play=partial(_play, session))


def _play(session: Session, stage: Stage) -> list[str]:
    run_id = session.content["run_id"]
    directory = os.path.join(stage.new_folder(), run_id if is_safe_run_id(run_id) else "run")
    for kind in session.locks.difference(locking.KINDS):
        raise UntestableError(f"this system has no {kind} lock of its own")
    _prepare(directory, session, _PAUSE_SECONDS if stage.compares("1.3") else 0.0)
    before: Mapping[str, bytes] = {}
    seconds = 0.0
    for run in session.runs:
        before = _found(directory)
        members = {key: run[key] for key in ("exist", "end", "records", "error") if key in run}
        if "media" in run:
            members["media"] = [text.encode() for text in run["media"]]
        request = {"role": "writer", "profile": session.profile, "run_id": run_id, "directory": directory, **members}
        stream = os.path.join(directory, session.stream_name)
        with _other_writer(run, stream):
            asked = time.monotonic()
            answer = stage.answer(request)
            seconds = time.monotonic() - asked
        if run["outcome"] == EITHER and answer["outcome"] == "refused":
            return file_differences(before, _found(directory))[:_SHOWN]
        if answer["outcome"] != run["outcome"] != EITHER:
            reason = f": {answer['reason']!a}" if "reason" in answer else ""
            return [f"outcome is {answer['outcome']}, expected {run['outcome']}{reason}"]
    after = _found(directory)
    found = list(_differences(session, before, after))
    if run["end"] == "held":
        # What an open writer has acknowledged is in the file already, and its locks are taken.
        found += _released(stage, session, directory, after)
    if session.is_timed_by_writer:
        seconds += _CLOCK_SECONDS if stage.compares("1.3") else _CLOCK_SECONDS_1_2
        found += _clock_differences(_times(session, before), _times(session, after), seconds)
    return found[:_SHOWN]


def _times(session: Session, files: Mapping[str, bytes]) -> list[float]:
    stream = files.get(session.stream_name, b"")
    records = Oracle().read({"role": "reader", "mode": "salvage", **_read_request(session, stream)})["records"]
    known = (record for record in records if str(record.get("kind")) in tables.kinds("toy/v1"))
    return [number_of(record["t"]) for record in known if is_number(record.get("t"))]


def _clock_differences(before: list[float], after: list[float], seconds: float) -> Iterator[str]:
    """Yield what is wrong with the times that a writer gave in *seconds* to the records that it wrote."""
    base, last = (times[-1] if times else 0.0 for times in (before, after))
    expected = f"expected {base} plus the time since the writer opened the stream"
    if last <= base:
        count = len(after) - len(before)
        yield f"/t of the last record is {last}, {expected}: time passes while {count} records are written"
    elif last > base + seconds:
        yield f"/t of the last record is {last}, {expected}: the request took less than {seconds:.3f} seconds"


def _other_writer(run: Mapping[str, Any], stream: str) -> AbstractContextManager[None]:
    """Return the context in which another writer has the *stream* during *run*; one that does nothing if none does."""
    by = run.get("held_by_another")
    if not by:
        return nullcontext()
    return locking.holding(stream) if by is True else locking.holding(stream, (by,))


def _released(stage: Stage, session: Session, directory: str, held: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what is wrong with a stream that the writer still holds, and with its release; *held* are its files."""
    stream = os.path.join(directory, session.stream_name)
    if os.path.exists(stream):
        for kind in locking.not_held(stream, stage.hello.get("locks", locking.KINDS)):
            yield f"{session.stream_name} has no {kind} lock while the writer holds it"
    answer = stage.answer({"role": "writer", "release": directory})
    if answer["outcome"] != "written":
        yield f"outcome of the release is {answer['outcome']}, expected written"
    yield from (f"after the release {error}" for error in file_differences(held, _found(directory)))
    if os.path.exists(stream) and len(locking.not_held(stream)) < len(locking.KINDS):
        yield f"{session.stream_name} is locked after the release"


def _prepare(directory: str, session: Session, pause: float) -> None:
    if session.files or session.special:
        os.mkdir(directory)
    long_ago = time.time() - pause
    for name, data in session.files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, (long_ago, long_ago))
    for name, kind in session.special.items():
        path = os.path.join(directory, name)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "outside":
            os.mkdir(_outside(directory))
            os.symlink(_outside(directory), path)
        else:
            os.symlink(kind, path)


def _outside(directory: str) -> str:
    return f"{directory}.outside"


def _found(directory: str) -> dict[str, bytes]:
    """Return the content of each file in *directory*, and what is there that is not a regular file."""
    found = contents(directory) if os.path.isdir(directory) else {}
    if os.path.isdir(_outside(directory)):
        found |= {f"outside/{name}": data for name, data in contents(_outside(directory)).items()}
    for entry in os.scandir(directory) if os.path.isdir(directory) else ():
        if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
            found[entry.name] = b"a link" if entry.is_symlink() else b"not a regular file"
    return found


def _differences(session: Session, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the errors in the files *after* the last run; *before* are the files that it found."""
    name, last = session.stream_name, session.runs[-1]
    if session.is_unchanged:
        yield from file_differences(before, after)
        return
    old, stream = before.get(name, b""), after.get(name, b"")
    committed = old[: old.rfind(b"\n") + 1]
    if last["exist"] in {"resume", "append"} and not stream.startswith(committed):
        yield "a committed record was lost or changed"
    if last["outcome"] != "refused":
        if name not in after:
            yield f"the file {name} is missing"
        yield from _stream_differences(session, stream, len(committed) if last["exist"] in {"resume", "append"} else 0)
    streams = (f"{name}.", "events.rank-")
    for beside in sorted({found for found in after if found.startswith(streams)} - session.beside.keys()):
        yield f"{beside} was not expected"
    wanted = {"previous": old, "fragment": old[len(committed) :]}
    media = {name: data for name, data in after.items() if name.startswith(("media/", "outside/"))}
    yield from file_differences(session.media, media)
    yield from _size_differences(session, stream)
    for beside, content in session.beside.items():
        yield from _side_file_differences(session, beside, content, after.get(beside), wanted)


def _size_differences(session: Session, stream: bytes) -> Iterator[str]:
    """Yield the records in *stream* that say another size than the file that they name has."""
    sizes = {path.partition("/")[2].partition(".")[0]: len(data) for path, data in session.media.items()}
    for record in Oracle().read({"role": "reader", "mode": "salvage", **_read_request(session, stream)})["records"]:
        size = record.get("size_bytes")
        if record.get("kind") == "media" and size not in (None, {"int": str(sizes.get(record.get("sha256")))}):
            yield f"/size_bytes is {size}, but the file has {sizes.get(record.get('sha256'))} bytes"


def _side_file_differences(
    session: Session, name: str, content: Any, found: bytes | None, wanted: Mapping[str, bytes]
) -> Iterator[str]:
    if found is None:
        yield f"the file {name} is missing"
    elif isinstance(content, str):
        if found != wanted[content]:
            yield f"{name} must hold the {_STANDS_FOR[content]}: {change(wanted[content], found)}"
    elif "before" in content:
        kept = session.files[content["before"]]
        if found != kept:
            yield f"{name} must hold the bytes that {content['before']} had before: {change(kept, found)}"
    else:
        yield from (f"{name}: {error}" for error in _records_differences(session, content["records"], found))


def _stream_differences(session: Session, stream: bytes, kept: int) -> Iterator[str]:
    """Yield the errors in *stream*; its first *kept* bytes are those of an earlier writer."""
    is_open = session.runs[-1]["end"] in {"killed", "held"}
    for finding in Oracle().check({"role": "checker", **_read_request(session, stream)})["findings"]:
        is_legal = finding["offset"] < kept or (is_open and finding["rule"] == "run-end-missing")
        is_harmless = finding["severity"] == "info" and finding["rule"] not in _WRONG_IN_WRITERS
        if not is_harmless and not is_legal:
            yield f"wrote {finding['rule']} at line {finding['line']}, {finding['pointer'] or 'the whole line'}"
    yield from _records_differences(session, session.expected, stream)


def _records_differences(session: Session, expected: list[Any], stream: bytes) -> Iterator[str]:
    report = Oracle().read({"role": "reader", "mode": "salvage", **_read_request(session, stream)})
    if report["gaps"] or report["fragment"]:
        yield f"the stream has {len(report['gaps'])} unreadable lines and {report['fragment']} bytes after the last LF"
    wanted = with_defaults(expected, session.profile)
    actual = with_defaults(report["records"], session.profile)
    reached = _reached(wanted)
    sources = [record for run in session.runs for record in run["records"]]
    for one, other in zip(wanted, actual, strict=False):
        # A step that is there gives the final step, which then no run_end that is expected lacks.
        if one.get("kind") == "run_end" and "final_step" not in one and other.get("final_step") == reached:
            other.pop("final_step", None)
        if "nonfinite" not in one and any(says_what_nulls_were(given, other.get("nonfinite")) for given in sources):
            other.pop("nonfinite")  # a writer may say what a null was
    trimmed = [_trimmed(one, other) for one, other in zip(wanted, actual, strict=False)]
    yield from record_differences(wanted, [*trimmed, *actual[len(trimmed) :]])


def _reached(records: list[Any]) -> dict[str, str] | None:
    """Return the largest step of phase train that the values of the latest attempt have reached, None without one."""
    phase = next((record["phase"] for record in records[:1] if "phase" in record), "train")
    found: list[int] = []
    for record in records:
        key = {"run_resume": "from_step", "scalars": "step"}.get(str(record.get("kind")), "")
        found = [] if key == "from_step" else found
        step = record.get(key)
        is_integer = isinstance(step, dict) and "int" in step
        if is_integer and (key == "from_step" or record.get("phase", phase) == "train"):
            found.append(int(step["int"]))
    return {"int": str(max(found))} if found else None


def _read_request(session: Session, stream: bytes) -> dict[str, Any]:
    return {"stream": stream, "name": session.stream_name, "profile": session.profile}


def _trimmed(expected: Any, actual: Any) -> Any:
    """Return *actual* without the members that a writer may add; a longer error text is cut to the expected one."""
    if str(expected.get("kind")) in _OPEN_KINDS:
        return {key: item for key, item in actual.items() if key in expected}
    added = _ADDED.get(str(expected.get("kind")), frozenset({"t"}))
    if expected.get("reason") == "interrupted":
        added |= {"error"}
    kept = {key: item for key, item in actual.items() if key in expected or key not in added}
    error = expected.get("error")
    if isinstance(error, str) and error in str(kept.get("error")):
        kept["error"] = error
    return kept
