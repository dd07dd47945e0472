"""Writes a toy/v1 bundle through the calls, and in the bytes, of the system that toy/v1 comes from.

The keys of ``model`` and ``config`` are in that system's order; everything else is in canonical form.
New programs should use ``toyspec.start_run``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.format.canonical import InvalidEventError, encode, plain
from toyspec.core.format.profiles import EVENTS_FILE
from toyspec.core.format.scalars import number
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock, utc_text
from toyspec.core.writing.environment import this_host
from toyspec.core.writing.run_ids import ANONYMOUS, check_run_id
from toyspec.core.writing.run_stream import RunStream
from toyspec.core.writing.settings import Settings

if TYPE_CHECKING:
    from toyspec.core.writing.events import Measure

_ENCODER = msgspec.json.Encoder()


class RunBundle:
    """The bundle ``<root>/<run_id>``; an existing stream moves to ``events.jsonl.prev``.

    If the stream cannot be opened or written, one line on standard error reports it; from then on, as after
    ``run_end``, every call does nothing. A call that would make the stream invalid raises InvalidEventError.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        run_id: str = ANONYMOUS,
        *,
        backend: str = "cpu",
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> None:
        """Make both directories and open the stream; raise ValueError for an unsafe *run_id*. An empty one is none."""
        self.root = os.fspath(root)
        self.run_id = check_run_id(run_id or ANONYMOUS)
        self.git_sha = ""
        self.git_branch = ""
        self._backend = backend
        self._clock = clock
        self._stream = RunStream(
            os.path.join(self.dir, EVENTS_FILE), settings=Settings(values="as-given", clock=clock, calls=calls)
        )

    def __repr__(self) -> str:
        return f"<RunBundle {self.dir!r}>"

    @property
    def dir(self) -> str:
        """Path of the bundle."""
        return os.path.join(self.root, self.run_id)

    @property
    def active(self) -> bool:
        """True while calls write records."""
        return self._stream.is_open and not self._stream.progress.ended

    @property
    def events_path(self) -> str:
        """Path of the stream."""
        return self._stream.path

    @property
    def weights_dir(self) -> str:
        """Path of the directory for checkpoints, which is made on first use."""
        path = os.path.join(self.dir, "weights")
        # Saving a checkpoint there will raise the error; asking for the path does not.
        with contextlib.suppress(OSError):
            os.makedirs(path, exist_ok=True)
        return path

    def git(self, sha: str, branch: str = "") -> None:
        """Set the revision that ``run_start`` writes; an empty *sha* leaves it out."""
        self.git_sha = sha
        self.git_branch = branch

    def run_start(  # noqa: PLR0913, PLR0917 - the order of the source
        self,
        arch: str,
        vocab: int,
        d_model: int,
        n_layers: int,
        context: int,
        steps: int,
        lr: Measure,
        seed: int,
    ) -> None:
        """Write the first record."""
        model = {"arch": arch, "vocab": vocab, "d_model": d_model, "n_layers": n_layers}
        self._start(model, {"context": context, "steps": steps, "lr": lr, "seed": seed})

    def run_start_llama(self, cfg: Any, steps: int, lr: Measure, seed: int) -> None:
        """Write the first record of a llama; *cfg* has ``vocab``, ``d_model``, ``n_layers`` and ``ctx``."""
        model = _members(cfg, "vocab", "d_model", "n_layers", "ctx")
        context = model.pop("ctx")
        self._start({"arch": "llama", **model}, {"context": context, "steps": steps, "lr": lr, "seed": seed})

    def run_start_vit(self, cfg: Any, steps: int, lr: Measure, seed: int) -> None:
        """Write the first record of a vision transformer.

        *cfg* has ``image_size``, ``patch_size``, ``d_model``, ``n_layers`` and ``num_classes``; there is no context.
        """
        model = _members(cfg, "image_size", "patch_size", "d_model", "n_layers", "num_classes")
        self._start({"arch": "vit", **model}, {"steps": steps, "lr": lr, "seed": seed})

    def step(self, step: int, loss: Measure) -> None:
        """Write the train step number *step*, counted from 1."""
        if self.active:
            self._stream.write({"kind": "step", "phase": "train", "step": step, "loss": loss}, encoder=encode)

    def run_end(self, final_step: int, final_loss: Measure) -> None:
        """Write the last record, of a run that was completed, and close the stream."""
        if not self.active:
            return
        ending = {"reason": "completed", "final_step": final_step, "final_loss": final_loss, "exit_code": 0}
        self._stream.end(lambda _: {"kind": "run_end", "ended_at": utc_text(self._clock.wall()), **ending})

    def close(self) -> None:
        """Close the stream without a run_end, as a crash would."""
        self._stream.close()

    def _start(self, model: dict[str, Any], config: dict[str, Any]) -> None:
        if not self.active:
            return
        git = {"git": {"sha": self.git_sha, "branch": self.git_branch}} if self.git_sha else {}
        event = {
            "kind": "run_start",
            "schema": "toy/v1",
            "started_at": utc_text(self._clock.wall()),
            "run_id": self.run_id,
            "phase": "train",
            "host": this_host(),
            "backend": {"kind": self._backend},
            **git,
            "model": model,
            "config": config | {"lr": _rate(config["lr"])},
        }
        self._stream.write(event, encoder=_in_source_order)


def _members(cfg: Any, *names: str) -> dict[str, Any]:
    """Return the members of a configuration, which is a mapping or an object with attributes."""
    if isinstance(cfg, Mapping):
        return {name: cfg[name] for name in names}
    return {name: getattr(cfg, name) for name in names}


def _rate(lr: Measure) -> float | None:
    # In an open map an integer would stay an integer, but the source writes a float here.
    try:
        return number(lr)
    except TypeError:
        raise InvalidEventError(f"lr must be a number, got {type(lr).__name__}") from None


def _in_source_order(event: dict[str, Any]) -> bytes:
    """Return the text of a run_start whose ``model`` and ``config`` keep the order that they were given in."""
    members = plain(event)
    for name in ("model", "config"):
        members[name] = {key: members[name][key] for key in event[name]}
    return _ENCODER.encode(members)
