"""All files of a run: the two logs and the checkpoints. A disk that is full stops them, not the training.

Checkpoints are GGUF files with the weights and all that AdamW remembers, so that training goes on as if never stopped.
A checkpoint gets its name when it is whole, so that a process that is killed leaves none that is half written.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gguf import GGUFReader, GGUFWriter, LlamaFileType

from toyspec.core.directories import Directory, directory_of
from toyspec.core.errors import ToyspecError
from toyspec.core.format.profiles import METRICS_FILE
from toyspec.core.metrics.log import MetricsLog
from toyspec.core.system_calls import SYSTEM_CALLS, cause_of, say
from toyspec.core.writing.opening import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from toyspec.core.generated.metrics_v1 import MetricsEntry
    from toyspec.core.writing.run_writer import RunWriter
    from toyspec.trainer.language_model import LanguageModel


WEIGHTS_DIRECTORY = "weights"
LATEST = "latest"
_NAME = re.compile(r"step_(0|[1-9][0-9]{0,17})\.gguf")
_MOMENTS = ("m", "v")
# Which size of the model is which key of GGUF, after the name of the architecture.
_SIZES = {
    "d_model": "embedding_length",
    "n_layers": "block_count",
    "d_ff": "feed_forward_length",
    "vocab": "vocab_size",
}
_NO_LINKS = frozenset([errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP])


class CheckpointError(ToyspecError, ValueError):
    """A file is not a checkpoint of this run; the message names it."""


class TrainingProgress(NamedTuple):
    """How far a run has come; NaN stands for what was not measured yet, or was not finite."""

    step: int = 0
    """Number of the last step; 0 before the first."""
    first_loss: float = math.nan
    """Loss of step 1."""
    loss: float = math.nan
    """Loss of the last step."""
    eval_loss: float = math.nan
    """Loss of the last evaluation."""
    ppl_ratio: float = math.nan
    """Ratio in the last compare event."""


_MEASURES = TrainingProgress._fields[1:]


class CheckpointFacts(NamedTuple):
    """What a checkpoint says beside the numbers."""

    run_id: str
    config: Mapping[str, Any]
    """``config`` of the run's run_start; a checkpoint with other settings is refused."""
    vocabulary: list[str]
    """The characters, in the order of their tokens."""


def save_checkpoint(directory: str, model: LanguageModel, progress: TrainingProgress, facts: CheckpointFacts) -> str:
    """Write ``step_<N>.gguf`` in *directory*, which is created, let ``latest`` point to it, and return its path.

    Raises OSError, and leaves nothing half written behind.
    """
    name = f"step_{progress.step}.gguf"
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with directory_of(directory) as (above, last), above.folder(last) as weights:
        with weights.replaced(name, beside=_unfinished(name)) as unfinished:
            _write(unfinished, model, progress, facts)
        weights.sync()
        _point_to(weights, name)
    return os.path.join(directory, name)


def saved_steps(directory: str) -> list[int]:
    """Return the steps of the checkpoints in *directory*, the last first; none when there is no such directory."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted((int(found.group(1)) for name in names if (found := _NAME.fullmatch(name))), reverse=True)


def load_checkpoint(directory: str, step: int, model: LanguageModel, facts: CheckpointFacts) -> TrainingProgress:
    """Put the numbers of ``step_<N>.gguf`` into *model* and return how far the run had come.

    Raises CheckpointError when the file is damaged or of other settings than *facts*, and OSError; *model* is then
    unchanged.
    """
    path = os.path.join(directory, f"step_{step}.gguf")
    try:
        reader = GGUFReader(path)
        tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
        said = {key: field.contents() for key, field in reader.fields.items() if key.startswith("toyspec.")}
        progress = TrainingProgress(step, *(float(said[f"toyspec.{measure}"]) for measure in _MEASURES))
        is_of_run = step == said["toyspec.step"] and facts.config == json.loads(said["toyspec.config"])
    except OSError:
        raise
    except Exception as error:  # any error of the reader in a damaged file
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not is_of_run:
        raise CheckpointError(
            f"{path} is a checkpoint of a run with other settings; give the same options, or --out alone"
        )
    _fill(path, model, tensors, step)
    return progress


def _fill(path: str, model: LanguageModel, tensors: Mapping[str, Any], step: int) -> None:
    for parameter in model.parameters:
        for name, kind in ((parameter.name, np.float16), *((_moment(m, parameter.name), np.float32) for m in _MOMENTS)):
            found = tensors.get(name)
            if found is None or found.shape != parameter.weight.shape or found.dtype != kind:
                raise CheckpointError(f"{path} is damaged: no tensor {name} of the right shape and type")
    for parameter in model.parameters:
        parameter.weight = tensors[parameter.name]
        parameter.m, parameter.v = (tensors[_moment(m, parameter.name)] for m in _MOMENTS)
        parameter.step = step


def _write(path: str, model: LanguageModel, progress: TrainingProgress, facts: CheckpointFacts) -> None:
    described = model.described()
    writer = GGUFWriter(path, described["arch"])
    writer.add_name(described["name"])
    writer.add_file_type(LlamaFileType.MOSTLY_F16)
    writer.add_uint32(f"{described['arch']}.context_length", model.context)
    for size, key in _SIZES.items():
        writer.add_uint32(f"{described['arch']}.{key}", described[size])
    writer.add_array("tokenizer.ggml.tokens", facts.vocabulary)
    writer.add_string("toyspec.run_id", facts.run_id)
    writer.add_string("toyspec.config", json.dumps(facts.config))
    writer.add_uint64("toyspec.step", progress.step)
    for measure in _MEASURES:
        writer.add_float64(f"toyspec.{measure}", getattr(progress, measure))
    for parameter in model.parameters:
        writer.add_tensor(parameter.name, parameter.weight)
    for moment in _MOMENTS:
        for parameter in model.parameters:
            writer.add_tensor(_moment(moment, parameter.name), getattr(parameter, moment))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.flush()
        for file in writer.fout or ():
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno is not None:
            raise
        # NumPy tells how many elements it has written, but not why it stopped.
        raise OSError(errno.EIO, "only a part could be written") from error
    finally:
        # All was flushed before, or has failed already; a second failure would hide the first.
        for file in writer.fout or ():
            with contextlib.suppress(OSError):
                file.close()


def _moment(moment: str, name: str) -> str:
    return f"adamw.{moment}.{name}"


def _unfinished(name: str) -> str:
    return f".{name}.unfinished"


def _point_to(directory: Directory, name: str) -> None:
    try:
        with directory.replaced(LATEST, beside=_unfinished(LATEST)) as unfinished:
            os.symlink(name, unfinished)
    except (NotImplementedError, OSError) as error:
        # Without links, and for most users on Windows, the newest checkpoint is found by its number all the same.
        if os.name != "nt" and getattr(error, "errno", errno.ENOSYS) not in _NO_LINKS:
            raise


class TrainingFiles:
    """The files of one run beside and including its stream, which *log* writes.

    What fails is said once on standard error, and not tried again. When the stream could not be opened, nothing
    else is written: the directory may be another writer's.
    """

    def __init__(self, log: RunWriter, facts: CheckpointFacts) -> None:
        self.log = log
        self._directory = log.directory
        self.facts = facts
        """What each checkpoint says beside the numbers."""
        self._metrics: MetricsLog | None = None
        self._measured = 0
        self._is_usable = log.active
        self._given_up: set[str] = set()

    @property
    def weights(self) -> str:
        """Path of the directory with the checkpoints."""
        return os.path.join(self._directory, WEIGHTS_DIRECTORY)

    def start(self) -> None:
        """Begin a new run, after its run_start; files of one that it replaces move to ``.prev``."""
        for name in (METRICS_FILE, WEIGHTS_DIRECTORY):
            self._attempt(name, lambda name=name: _move_to_prev(os.path.join(self._directory, name)))  # type: ignore[misc]
        self._attempt(METRICS_FILE, self._open_metrics)

    def resume(self, furthest_step: int) -> float:
        """Resume a run that had reached *furthest_step*; return the seconds that its metrics log covers.

        The steps that are repeated compute the same numbers, so the metrics log keeps the lines that it has.
        """
        self._attempt(METRICS_FILE, self._open_metrics)
        if self._measured > furthest_step:
            # It is left from a run that this one had begun to replace when it was killed.
            self._attempt(METRICS_FILE, self._replace_metrics)
        entries = list(self._metrics or ())
        return entries[-1].wall_time_ms / 1000 if entries else 0.0

    def measure(self, entry: MetricsEntry) -> None:
        """Write *entry* to the metrics log, unless the log has its step already."""
        metrics = self._metrics
        if metrics is not None and entry.step > self._measured:
            self._attempt(METRICS_FILE, lambda: metrics.record(entry))

    def checkpoint(self, model: LanguageModel, progress: TrainingProgress) -> None:
        """Save what is needed to go on from here."""
        self._attempt(WEIGHTS_DIRECTORY, lambda: save_checkpoint(self.weights, model, progress, self.facts))

    def close(self) -> None:
        """Close the metrics log."""
        if self._metrics is not None:
            self._attempt(METRICS_FILE, self._metrics.close)

    def _open_metrics(self) -> None:
        self._metrics = MetricsLog.open(os.path.join(self._directory, METRICS_FILE))
        self._measured = max((entry.step for entry in self._metrics), default=0)

    def _replace_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        _move_to_prev(os.path.join(self._directory, METRICS_FILE))
        self._open_metrics()

    def _attempt(self, what: str, action: Callable[[], object]) -> None:
        if not self._is_usable or what in self._given_up:
            return
        try:
            action()
        except (OSError, ToyspecError) as error:
            self._given_up.add(what)
            if what == METRICS_FILE:
                self._metrics = None
            say(f"{os.path.join(self._directory, what)}: {cause_of(error)}; training continues without it")


def _move_to_prev(path: str) -> None:
    if os.path.lexists(path):
        keep(path, SYSTEM_CALLS)
