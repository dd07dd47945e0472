"""Starts a run in one line: names it, makes its directory and writes its run_start."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from toyspec.core import rooms
from toyspec.core.format.canonical import members_of
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.reading.run_files import rank_file
from toyspec.core.system_calls import say
from toyspec.core.writing import open_runs
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock
from toyspec.core.writing.companions import synced
from toyspec.core.writing.environment import (
    TrainingProcess,
    backend_in_use,
    git_revision,
    package_versions,
    shared_run_id,
    this_process,
)
from toyspec.core.writing.events import StartMembers, check_start_members
from toyspec.core.writing.run_ids import (
    DEFAULT_NAME,
    check_run_id,
    claim_directory,
    dated,
    remove_directories,
    run_id_from,
)
from toyspec.core.writing.run_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import EllipsisType

    from toyspec.core.generated.toy_v1 import Backend
    from toyspec.core.writing.append_file import Durability
    from toyspec.core.writing.companions import Companion, Sync
    from toyspec.core.writing.events import Count, Measure, Phase, Value
    from toyspec.core.writing.settings import Exist, OnError

Ranks = Literal["first", "all"]
"""Which of several processes that train together write: the first, or each one a stream of its own."""


def start_run(  # noqa: PLR0913 - each is an option of its own
    root: str | os.PathLike[str] = "runs",
    *,
    arch: str | None = None,
    run_id: str | None = None,
    config: Mapping[str, Any] | Any | None = None,
    unredacted: Sequence[str] = (),
    exist: Exist = "replace",
    from_step: int | None = None,
    wait_seconds: float = 30.0,
    ranks: Ranks = "first",
    process: TrainingProcess | None = None,
    durability: Durability = "process",
    on_error: OnError = "disable",
    companions: Sequence[Companion] = (),
    sync: Sync | str | None = None,
    health: bool | str | Sequence[Mapping[str, Any]] = False,
    clock: Clock = SYSTEM_CLOCK,
    **members: Unpack[StartMembers],
) -> RunWriter:
    """Return the writer of a run that has just started: its directory under *root* has a log with its run_start.

    **Where it is.** Without *run_id* the run gets a new directory, named by ``name`` or *arch*, the day and a number.
    With *run_id* the directory has that name, and *exist* says what happens to a log that is already in it:
    ``"replace"`` renames it, ``"resume"`` continues it, ``"fail"`` raises FileExistsError.

    **What it is.** *config* has the settings: a mapping, a dataclass or a namespace. Secrets in it are written as
    ``***``, except the settings that *unredacted* names. *members* are those of ``run_start``: ``name``, ``group``,
    ``tags`` and ``notes`` for people, ``model``, of which *arch* is the architecture, ``parent``, ``data``,
    ``compare_to`` and others: see ``StartMembers``. The commit of the clone that contains the working directory is
    recorded, unless ``git`` is given or None, and so are the arguments of the program, the versions of its packages,
    the machine, and the device that JAX or PyTorch already uses.

    **How it ends.** The run ends with the program at the latest: as completed, as errored with the text of the
    exception, or as interrupted with the signal. A record after ``run_end`` or ``close`` opens it again.

    **How it resumes.** With ``exist="resume"`` an existing log continues, also one that has ended. It gets a run_resume
    with the settings that changed, instead of a run_start. *from_step* is the step of the checkpoint. Without it, the
    first step that is logged decides: the run continues from the step before. Values that are logged before that step
    belong to ``last_step``.

    **Who writes.** A log has one writer. If this process already writes the run, that writer is ended first, as
    interrupted. If another process writes it, this call waits *wait_seconds*, and then raises StreamRefusedError.
    Of several processes that train together, the first writes, and the others get a writer that writes nothing. With
    *ranks* ``"all"`` each of them writes a log of its own in the same directory. *process* says which one this is,
    where neither a launcher nor a library does.

    **What goes along with it.** *companions* are values such as ``toyspec.System()``, which samples the machine, and
    ``toyspec.Mirror(to="wandb")``, which sends the run to another tracker. What fails in one never reaches the
    training. *sync* is short for a ``toyspec.Sync``: a place that gets the runs below *root* while they are written,
    for example ``"s3://bucket/runs"``. *health* is short for ``toyspec.Health``: ``"default"``, ``"rl"`` or
    ``"strict"``, a list of rules, or with True those of ``toyspec.toml``, else ``"default"``. Each incident is one
    ``alert`` event and one line on standard error. A wrong rule raises ValueError.

    See RunWriter for the other options.
    """
    at = this_process() if process is None else process
    run_id = _shared_id(run_id, at) if ranks == "all" and at.size > 1 else run_id
    _check_choices(run_id, exist, ranks)
    if ranks == "first" and at.rank:
        _current[:] = [_silent(os.fspath(root), run_id, at)]
        return _current[0]
    check_start_members("start_run", members)
    along = [*companions, *_short(sync, health)]
    access: dict[str, Any] = {"exist": exist, "wait_seconds": wait_seconds, "companions": along, "clock": clock}
    access |= {"durability": durability, "on_error": on_error, "unredacted": unredacted}
    stream_name = rank_file(at.rank) if ranks == "all" else EVENTS_FILE
    model = _model(arch, members.get("model"))
    with contextlib.ExitStack() as undoing:
        directory = None if run_id is None else os.path.join(root, check_run_id(run_id))
        if directory is None:
            name = run_id_from(str(members.get("name") or model.get("arch") or DEFAULT_NAME))
            directory = _claimed(os.fspath(root), name, clock.wall(), on_error)
            undoing.callback(remove_directories, [directory])
        open_runs.start_again(os.path.join(directory, stream_name))
        run = RunWriter(directory, resuming="by-itself", stream_name=stream_name, **access)
        undoing.callback(run.abandon)
        known: dict[str, Any] = {"rank": at.rank, "world_size": at.size} if at.size > 1 else {}
        if run.lacks_start:
            # A resumed stream lacks it if its first line was cut away: whose run it is would stay unknown.
            known |= {"argv": list(getattr(sys, "argv", [])), "packages": package_versions(), "backend": _backend()}
            known["git"] = None if "git" in members else git_revision()
        given = {name: value for name, value in members.items() if value is not None}
        given |= {"model": model} if model else {}
        run.run_start(config=None if config is None else members_of(config), **{**known, **given})
        if from_step is not None and run.resumes:
            run.run_resume(from_step)
        undoing.pop_all()
    _current.append(run)
    del _current[:-1]
    return run


def log(
    values: Mapping[str, Value | Mapping[str, Any]] | None = None,
    /,
    step: Count | EllipsisType = ...,
    *,
    epoch: Measure = None,
    phase: Phase = None,
    **named: Value | Mapping[str, Any],
) -> None:
    """Write values into the run that this process has started last, as its ``log`` does: for code that has no run.

    Raises RuntimeError before the first ``start_run``.
    """
    if not _current:
        raise RuntimeError("no run has been started in this process: call toyspec.start_run first")
    _current[0].log(values, step, epoch=epoch, phase=phase, **named)


_current: list[RunWriter] = []


def _short(sync: Sync | str | None, health: bool | str | Sequence[Mapping[str, Any]]) -> list[Companion]:
    """Return the companions for which an option of ``start_run`` is short."""
    found: list[Companion] = [] if sync is None else [synced(sync)]
    if health is not False:
        found.append(rooms.run_health.Health(health))
    return found


def _model(arch: str | None, model: Any) -> dict[str, Any]:
    if isinstance(model, str):
        return {"arch": model}
    return {**({} if arch is None else {"arch": arch}), **({} if model is None else members_of(model))}


def _check_choices(run_id: str | None, exist: Exist, ranks: Ranks) -> None:
    if run_id is None and exist == "resume":
        raise ValueError("exist='resume' needs a run_id: without one, every start is a new run")
    if ranks not in get_args(Ranks):
        raise ValueError(f"ranks is {ranks!r}; pass 'first' for one log, or 'all' for one of each process")


def _backend() -> Backend | None:
    """Return the device in use, None where there is none so far."""
    try:
        return backend_in_use()
    except Exception:  # noqa: BLE001 - a driver may raise anything, and the run must begin
        return None


def _silent(root: str, run_id: str | None, at: TrainingProcess) -> RunWriter:
    """Return a writer that writes nothing, and say once what makes this process silent."""
    if at.source:
        _say_silent(f"{at.source} says that this is process {at.rank} of {at.size}, and the first one writes the run")
    directory = os.path.join(root, run_id if run_id is not None else "silent")
    return RunWriter(directory, resuming="by-itself", silent=True)


@cache
def _say_silent(fact: str) -> None:
    say(f"nothing is logged here: {fact}; pass ranks='all' for a log of each process")


def _shared_id(run_id: str | None, at: TrainingProcess) -> str:
    found = run_id if run_id is not None else shared_run_id()
    if found is None:
        raise ValueError(
            f"run_id is not given, and nothing tells the {at.size} processes a common one; with ranks='all' pass the "
            "same run_id in each, or start them by srun or torchrun --rdzv-id, or initialize torch.distributed first"
        )
    return run_id_from(found)


def _claimed(root: str, name: str, wall: float, on_error: OnError) -> str:
    try:
        return claim_directory(root, name, wall)
    except OSError:
        if on_error == "raise":
            raise
        # The writer will fail at the same place, and report it.
        return os.path.join(root, f"{dated(name, wall)}001")
