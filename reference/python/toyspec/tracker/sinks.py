"""Where a ``TrainingLogger`` sends what it is given: a bundle, a metrics/v1 log, the console."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.convert.mirrors.settings import Mirror, Selecting
from toyspec.core.escaping import printable
from toyspec.core.format.canonical import encode
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.appending import open_to_append
from toyspec.core.writing.clocks import Clock, Stopwatch
from toyspec.core.writing.dropped_records import DroppedRecords
from toyspec.core.writing.environment import ALONE, device_memory, this_backend
from toyspec.core.writing.logged_values import event_members
from toyspec.core.writing.run_ids import DEFAULT_NAME, DEFAULT_TEMPLATE, run_id_from
from toyspec.core.writing.run_starting import start_run
from toyspec.tracker.formatting import Form, colour, format_label, format_minutes, format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toyspec.core.writing.append_file import AppendFile
    from toyspec.core.writing.run_stream import Numbering
    from toyspec.tracker.compute import GradientStatistics
    from toyspec.tracker.training_logger import LogConfig


class Sink:
    """A place that gets metrics, each value converted already. It overrides what it has a use for.

    No method may raise because of the system: training goes on whatever happens to its log.
    """

    __slots__ = ("every",)

    def __init__(self, every: int) -> None:
        self.every = every
        """Steps between two that it gets; 0 for none."""

    def log_step(self, step: int, metrics: Mapping[str, float], numbering: Numbering, /) -> None:
        """Take the metrics of a step that is due."""

    def go_back(self, step: int, /) -> None:
        """Take that the training goes on with *step*, which is before the last one, due or not."""

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Take the metrics of an evaluation."""

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Take what is known of the machine."""

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Take the statistics of the gradient of one parameter."""

    def enter_section(self, name: str) -> None:
        """Take the start of a section of the training."""

    def exit_section(self, name: str, seconds: float, /) -> None:
        """Take the end of a section, which took *seconds*."""

    def finish(self, error: BaseException | None, /) -> None:
        """Take the end of the run, by *error* if there is one; nothing comes after it."""


_EVALUATION = "validation"


class BundleSink(Sink):
    """The run of a logger. Where the training goes back there is a run_resume, as after the return to a checkpoint."""

    __slots__ = ("_sections", "writer")

    def __init__(self, config: LogConfig, *, process: int) -> None:
        """Start the run; raise FileExistsError only with ``exist="fail"``, StreamRefusedError if another writes it."""
        super().__init__(config.record_every)
        self._sections: list[str] = []
        suffix = f"-process{process}" if process else ""
        name = (config.model or {}).get("arch") or config.project or DEFAULT_NAME
        members: dict[str, Any] = {} if config.git is None else {"git": config.git}
        self.writer = start_run(
            config.runs_root or "",
            run_id=None if config.run_name is None else run_id_from(config.run_name) + suffix,
            template=DEFAULT_TEMPLATE.replace("{arch}", run_id_from(str(name))) + suffix,
            model=config.model,
            config=_run_config(config),
            backend=this_backend() if config.backend is None else config.backend,
            host=config.host,
            compare_to=config.compare_to,
            name=config.run_name,
            tags=list(config.tags) or None,
            notes=config.notes,
            exist=config.exist,
            companions=_mirrors(config),
            process=ALONE,
            clock=config.clock,
            **members,
        )

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Write a step event."""
        # A step whose extra is sorted is written without a detour.
        self.writer.step(step, **event_members("step", dict(sorted(metrics.items()))))

    def go_back(self, step: int, /) -> None:
        """Write a run_resume, unless no later step than *step* is in the bundle."""
        last = self.writer.last_step
        if last is not None and step <= last:
            self.writer.run_resume(max(step - 1, 0))

    def log_validation(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write an eval event."""
        members = event_members("eval", metrics)
        self.writer.eval(_EVALUATION, step=step, **members)

    def log_system(self, step: int | None, metrics: Mapping[str, float], /) -> None:
        """Write a system event, with the memory of the device where it is not given."""
        members = event_members("system", metrics)
        memory = device_memory()
        if memory is not None and not members.keys() & {"memory_used_bytes", "memory_limit_bytes"}:
            members |= {"memory_used_bytes": memory.used, "memory_limit_bytes": memory.limit}
        self.writer.system(step=step, **members)

    def log_gradient(self, step: int, name: str, statistics: GradientStatistics) -> None:
        """Write a grad event."""
        self.writer.grad(name, step=step, **msgspec.structs.asdict(statistics))

    def enter_section(self, name: str) -> None:
        """Write a region_enter event."""
        self._sections.append(name)
        self.writer.region_enter(name)

    def exit_section(self, name: str, _seconds: float, /) -> None:
        """Write a region_exit event."""
        if self._sections and self._sections[-1] == name:
            self._sections.pop()
            self.writer.region_exit(name)

    def finish(self, error: BaseException | None, /) -> None:
        """Write what is missing of the regions, and run_end."""
        for name in reversed(self._sections):
            self.writer.region_exit(name)
        self.writer.close(error)


def _run_config(config: LogConfig) -> dict[str, Any]:
    """Return run_start.config: the settings of the run, and what else is known of it."""
    found: dict[str, Any] = {} if config.project is None else {"project": config.project}
    if config.record_every > 1:
        found["subsample"] = config.record_every
    return {**found, **config.hyperparameters}


def _mirrors(config: LogConfig) -> list[Mirror]:
    """Return the mirror in Weights & Biases, whose names are grouped as train, val and system."""
    if config.project is None:
        return []
    prefixes = {"step": "train/", "eval": "val/"}
    select = Selecting(every=config.log_every, megabytes=config.max_wandb_mb, prefixes=prefixes)
    return [Mirror(to="wandb", project=config.project, select=select)]


_LARGEST_STEP = 2**32 - 1
_THROUGHPUTS = ("throughput_samples_per_sec", "samples_per_sec", "samples_per_second")
_MILLISECONDS = 1000


class ThroughputLogSink(Sink):
    """A metrics/v1 log that steps are appended to; unlike ``MetricsLog`` it keeps no entry in memory.

    Where the log there is damaged or in use, or writing has failed, this is reported once and no more entries are
    written; a disk that is full drops entries until there is room.
    """

    __slots__ = ("_dropped", "_file", "_path", "_tracker", "_watch")

    def __init__(self, config: LogConfig, *, process: int) -> None:
        super().__init__(config.record_every)
        root, extension = os.path.splitext(os.fspath(config.metrics_log or ""))
        self._path = f"{root}-process{process}{extension}" if process else root + extension
        self._watch = Stopwatch(config.clock)
        self._tracker = config.tracker
        self._dropped = DroppedRecords(self._path)
        self._file: AppendFile | None = None
        try:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            self._file = open_to_append(self._path, "metrics/v1")
        except OSError as error:
            self._give_up(error)

    def log_step(self, step: int, metrics: Mapping[str, float], _numbering: Numbering, /) -> None:
        """Append an entry; what was not measured is null."""
        if self._file is None or step > _LARGEST_STEP:
            return
        extra = dict(metrics)
        throughput = [extra.pop(name) for name in _THROUGHPUTS if name in extra]
        if not throughput and self._tracker is not None:
            throughput = [self._tracker.samples_per_second]
        entry = {
            "step": step,
            "wall_time_ms": self._watch.seconds() * _MILLISECONDS,
            "loss": extra.pop("loss", None),
            "grad_norm": extra.pop("grad_norm", None),
            "throughput_samples_per_sec": throughput[0] if throughput else None,
            "extra": extra,
        }
        try:
            self._file.append(encode(entry, profile="metrics/v1"))
        except OSError as error:
            if self._file.closed_because is None:
                self._dropped.add(cause_of(error))
            else:
                self._give_up(error)
        else:
            if self._dropped.outage:
                self._dropped.end_outage()

    def finish(self, _error: BaseException | None, /) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._give_up(error)
        self._dropped.conclude()

    def _give_up(self, error: OSError) -> None:
        self._file = None
        say(f"{self._path}: {cause_of(error)}; no more entries are written; the program continues")


_RESET = "\x1b[0m"
_GREY = "\x1b[90m"
_CYAN = "\x1b[96m"
_BOLD = "\x1b[1m"
_RULE = "=" * 60
_SEPARATORS: dict[Form, str] = {"standard": " │ ", "compact": " | "}
_PLAIN_SEPARATOR = "|"


class ConsoleSink(Sink):
    """Prints to standard output; colours only where that is a terminal."""

    __slots__ = ("_form", "_has_failed", "_use_colors", "_watch")

    def __init__(self, *, every: int, form: Form, use_colors: bool, clock: Clock) -> None:
        super().__init__(every)
        self._form = form
        self._use_colors = use_colors and not os.environ.get("NO_COLOR")
        self._watch = Stopwatch(clock)
        self._has_failed = False

    def log_step(self, step: int, metrics: Mapping[str, float], numbering: Numbering, /) -> None:
        """Print ``[  12.3m] step=1000 │ loss=1.500``."""
        numbered = [f"{self._painted('step', colour('step'))}={step}"] if numbering == "given" else []
        self._print_line([*numbered, *self._parts(metrics)])

    def log_validation(self, _step: int | None, metrics: Mapping[str, float], /) -> None:
        """Print ``[  12.4m] [VAL] val_loss=1.200``."""
        self._print_line(self._parts(metrics), mark=self._painted("[VAL]", _CYAN) + " ")

    def enter_section(self, name: str) -> None:
        """Print the name in capitals between two rules."""
        for line in (_RULE, printable(name.upper()), _RULE):
            self._print(self._painted(line, _BOLD))

    def exit_section(self, name: str, seconds: float, /) -> None:
        """Print how long the section took."""
        self._print(self._painted(f"{printable(name)} completed in {seconds:.1f}s", _GREY))

    def _parts(self, metrics: Mapping[str, float]) -> Iterable[str]:
        for name, value in metrics.items():
            label = self._painted(format_label(name, form=self._form), colour(name))
            yield f"{label}={format_value(name, value, form=self._form)}"

    def _print_line(self, parts: Iterable[str], *, mark: str = "") -> None:
        time = self._painted(format_minutes(self._watch.seconds(), form=self._form), _GREY)
        self._print(f"{time} {mark}{_SEPARATORS[self._form].join(parts)}")

    def _painted(self, text: str, sequence: str) -> str:
        return f"{sequence}{text}{_RESET}" if self._use_colors and _is_terminal() else text

    def _print(self, line: str) -> None:
        if self._has_failed or sys.stdout is None:
            return
        try:
            sys.stdout.write(_encodable(line) + "\n")
        except (OSError, ValueError) as error:
            self._has_failed = True
            say(f"standard output failed ({cause_of(error)}); no more metrics are shown")


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def _encodable(line: str) -> str:
    """Return *line* with what standard output cannot encode replaced, as on a terminal that knows ASCII alone."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        plain = line.replace(_SEPARATORS["standard"].strip(), _PLAIN_SEPARATOR)
        return plain.encode(encoding, "backslashreplace").decode(encoding)
    return line
