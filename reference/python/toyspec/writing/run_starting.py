"""Starts a run in one line: names it, makes its directory and writes its run_start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from toyspec.format.canonical import members_of
from toyspec.writing.clocks import SYSTEM_CLOCK, Clock
from toyspec.writing.environment import git_revision
from toyspec.writing.run_ids import DEFAULT_TEMPLATE, check_run_id, claim_directory, format_run_id
from toyspec.writing.run_writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.generated.toy_v1 import Backend, Git, Model
    from toyspec.writing.append_file import Durability
    from toyspec.writing.event_arguments import Phase
    from toyspec.writing.run_stream import Exist, OnError


def start_run(  # noqa: PLR0913 - each is an option of its own
    root: str | os.PathLike[str] = "runs",
    *,
    arch: str = "model",
    run_id: str | None = None,
    template: str = DEFAULT_TEMPLATE,
    model: Model | Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    backend: Backend | Mapping[str, Any] | str | None = None,
    git: Git | Mapping[str, Any] | Literal["from-files"] | None = "from-files",
    phase: Phase = UNSET,
    compare_to: str | UnsetType = UNSET,
    exist: Exist = "replace",
    durability: Durability = "process",
    on_error: OnError = "disable",
    clock: Clock = SYSTEM_CLOCK,
) -> RunWriter:
    """Return the writer of a new run in a directory under *root*, its run_start written.

    Without *run_id* the run gets a directory that no other has, named by *template*; with it, *exist* says what
    becomes of a stream that is there. *arch* is the architecture of the *model*. *git* ``"from-files"`` takes the
    commit around the working directory where one is checked out. See RunWriter for the other options.

    With ``exist="resume"`` and a stream to go on in, no run_start is written: call ``run_resume`` next.
    """
    if run_id is None:
        directory = _claimed(os.fspath(root), template, arch, clock.wall(), on_error)
    else:
        directory = os.path.join(root, check_run_id(run_id))
    run = RunWriter(directory, exist=exist, durability=durability, on_error=on_error, clock=clock)
    if run.resumes:
        return run
    try:
        run.run_start(
            model={"arch": arch, **members_of(model or {})},
            config=config,
            backend=backend,
            git=git_revision() if git == "from-files" else git,
            phase=phase,
            compare_to=compare_to,
        )
    except BaseException:
        run.close()
        raise
    return run


def _claimed(root: str, template: str, arch: str, wall: float, on_error: OnError) -> str:
    try:
        return claim_directory(root, template, arch=arch, wall=wall)
    except OSError:
        if on_error == "raise":
            raise
        # The writer will fail at the same place, and says so.
        return os.path.join(root, format_run_id(template, arch=arch, wall=wall, seq=1))
