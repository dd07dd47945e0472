"""Starts a run in one line: names it, makes its directory and writes its run_start."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from toyspec.format.canonical import members_of
from toyspec.writing.clocks import SYSTEM_CLOCK, Clock
from toyspec.writing.environment import git_revision
from toyspec.writing.run_ids import DEFAULT_TEMPLATE, check_run_id, claim_directory, format_run_id
from toyspec.writing.run_writer import RunWriter
from toyspec.writing.synced import synced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toyspec.generated.toy_v1 import Backend, Git, Model
    from toyspec.writing.append_file import Durability
    from toyspec.writing.companions import Companion
    from toyspec.writing.event_arguments import Phase
    from toyspec.writing.settings import Exist, OnError, Sealing
    from toyspec.writing.synced import Sync


def start_run(  # noqa: PLR0913 - each is an option of its own
    root: str | os.PathLike[str] = "runs",
    *,
    arch: str = "model",
    run_id: str | None = None,
    template: str = DEFAULT_TEMPLATE,
    model: Model | Mapping[str, Any] | str | None = None,
    config: Mapping[str, Any] | Any | None = None,
    backend: Backend | Mapping[str, Any] | str | None = None,
    git: Git | Mapping[str, Any] | Literal["around"] | None = "around",
    phase: Phase = UNSET,
    compare_to: str | UnsetType = UNSET,
    name: str | UnsetType = UNSET,
    group: str | UnsetType = UNSET,
    tags: Sequence[str] | UnsetType = UNSET,
    notes: str | UnsetType = UNSET,
    subsample: int | None = None,
    exist: Exist = "replace",
    from_step: int | None = None,
    durability: Durability = "process",
    on_error: OnError = "disable",
    seal: Sealing = "never",
    mirrors: Sequence[Companion] = (),
    sync: Sync | str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> RunWriter:
    """Return the writer of a run in a directory under *root*, its run_start written.

    Without *run_id* the run gets a directory that no other has, named by *template*; with it, *exist* says what
    becomes of a stream that is there. *arch* is the architecture of the *model*, which may also be that text alone.
    *config* is a mapping, a dataclass or a namespace; *name*, *group*, *tags* and *notes* are for people. *subsample* N
    writes every N-th step, and the last; ``step`` is called for all of them, or for those. *git* ``"around"`` takes the
    commit around the working directory where one is checked out. *mirrors* send the run on to other trackers, for
    example ``[toyspec.Mirror(to="wandb")]``. *sync* is a place that gets the runs below *root* while they are written,
    for example ``"s3://bucket/runs"``, or a ``toyspec.Sync``. See RunWriter for the other options.

    With ``exist="resume"`` a stream that is there goes on: it gets a run_resume instead of a run_start, with
    *from_step*, the step of the checkpoint, when that is given. Otherwise the first record writes it: a ``step`` with a
    number goes on from the number before, all else from the last train step of the latest attempt, ``last_step``. A run
    that has ended raises StreamRefusedError.
    """
    if run_id is None and exist == "resume":
        raise ValueError("exist='resume' needs a run_id: without one, every start is a new run")
    if isinstance(model, str):
        arch, model = model, None
    with contextlib.ExitStack() as undoing:
        if run_id is None:
            directory = _claimed(os.fspath(root), template, arch, clock.wall(), on_error)
            undoing.callback(_remove_if_empty, directory)
        else:
            directory = os.path.join(root, check_run_id(run_id))
        run = RunWriter(
            directory,
            exist=exist,
            durability=durability,
            on_error=on_error,
            subsample=subsample,
            resuming="by-itself",
            seal=seal,
            mirrors=mirrors if sync is None else [*mirrors, synced(sync)],
            clock=clock,
        )
        undoing.callback(run.close)
        if run.resumes and from_step is not None:
            run.run_resume(from_step)
        elif not run.resumes:
            run.run_start(
                model={"arch": arch, **members_of(model or {})},
                config=config,
                backend=backend,
                git=git_revision() if git == "around" else git,
                phase=phase,
                compare_to=compare_to,
                name=name,
                group=group,
                tags=tags,
                notes=notes,
            )
        undoing.pop_all()
    return run


def _remove_if_empty(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(directory)


def _claimed(root: str, template: str, arch: str, wall: float, on_error: OnError) -> str:
    try:
        return claim_directory(root, template, arch=arch, wall=wall)
    except OSError:
        if on_error == "raise":
            raise
        # The writer will fail at the same place, and report it.
        return os.path.join(root, format_run_id(template, arch=arch, wall=wall, seq=1))
