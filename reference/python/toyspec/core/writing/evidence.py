"""What says how a run came about, beside its values: uncommitted changes, output, samples of the machine."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from toyspec.core.directories import directory_of
from toyspec.core.files import open_file
from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.system_calls import cause_of, say
from toyspec.core.writing.companions import Companionship
from toyspec.core.writing.environment import uncommitted_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

    from toyspec.core.writing.run_writer import RunWriter


_MOST_DIFF_BYTES: Final = 1 << 20
DIFF_FILE: Final = "changes.diff"
FILE = "console.log"


class Console(msgspec.Struct, frozen=True):
    """What the program prints, in ``console.log`` beside the log."""

    def started(self, run: RunWriter) -> ConsoleLog:
        """Return what keeps it for *run*."""
        return ConsoleLog(run)


class ConsoleLog(Companionship):
    """Adds what is printed by Python to ``console.log`` of *run* until its end."""

    def __init__(self, run: RunWriter) -> None:
        self._run = run
        self._path = os.path.join(run.directory, FILE)
        self._pid = os.getpid()
        self._file: TextIO | None = None
        self._streams: dict[str, _Both] = {}
        try:
            with directory_of(self._path) as (directory, name):
                descriptor = directory.existing(name, os.O_CREAT | os.O_APPEND)
            self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            say(f"{self._path}: {cause_of(error)}; what the program prints is not kept")
            return
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is not None:
                self._streams[name] = _Both(stream, self)
                setattr(sys, name, self._streams[name])

    def add(self, text: str) -> None:
        """Add *text*; what a forked child prints is left to its parent's terminal."""
        if self._file is not None and os.getpid() == self._pid:
            try:
                self._file.write(text)
                self._file.flush()
            except (OSError, ValueError):
                self._file = None

    def ending(self) -> None:
        """Keep nothing more, and name the file in the log, if there is one."""
        for name, both in self._streams.items():
            if getattr(sys, name) is both:
                setattr(sys, name, both.stream)
        self._streams.clear()
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            self._run.artifact(FILE, role="console", media_type="text/plain")


class _Both:
    """A stream whose text is also kept."""

    def __init__(self, stream: Any, log: ConsoleLog) -> None:
        self.stream = stream
        self._log = log

    def write(self, text: str) -> int:
        """Write *text* to the stream, and keep it."""
        written: int = self.stream.write(text)
        self._log.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        """Write every one of *lines*."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Diff(msgspec.Struct, frozen=True):
    """The uncommitted changes of the repository as the run starts, in ``changes.diff`` beside the log."""

    def started(self, run: RunWriter) -> Companionship:
        """Keep them for *run*, and name the file in its log, unless an earlier start did so."""
        changes = uncommitted_changes(_MOST_DIFF_BYTES)
        if changes is None:
            return Companionship()
        data = text_without_secrets(changes).encode()
        path = os.path.join(run.directory, DIFF_FILE)
        try:
            with directory_of(path) as (directory, name):
                is_new = not _has(path, data)
                if is_new:
                    directory.replace(name, [data], beside=f".{name}.{os.getpid()}")
        except OSError as error:
            say(f"{path}: {cause_of(error)}; it is not kept")
        else:
            if is_new:
                run.artifact(DIFF_FILE, role="diff", media_type="text/x-diff")
        return Companionship()


def _has(path: str, data: bytes) -> bool:
    try:
        with open_file(path) as file:
            return file.read() == data
    except FileNotFoundError:
        return False


_STOP_SECONDS = 2.0
"""How long the end of a run waits for a measurement that is under way."""


class Measurement(NamedTuple):
    """The state of the machine at one moment."""

    values: dict[str, float]
    """Numbers by name; the unit is at the end of the name."""
    memory_used_bytes: int | None = None
    """Memory in use on the device that has the least left."""
    memory_limit_bytes: int | None = None


class System(msgspec.Struct, frozen=True):
    """Samples of the machine in the log: processor, memory, disk, network and devices."""

    seconds: float = 10.0
    """Seconds between two samples."""
    first: Literal["at-once", "after-seconds"] = "at-once"
    """When the first one is taken."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"seconds is {self.seconds!r}; it must be a number of seconds > 0")

    def started(self, run: RunWriter) -> SystemMetrics:
        """Return what samples the machine for *run*."""
        return SystemMetrics(run, self.seconds, first=self.first)


class SystemMetrics(Companionship):
    """Writes what the probes of this machine measure, at most every *seconds*, until ``ending``.

    The thread ends with the run or the program, whichever is first. A probe that fails is left out from then on.
    """

    def __init__(
        self,
        run: RunWriter,
        seconds: float,
        probes: Mapping[str, Callable[[], Measurement]] | None = None,
        *,
        first: Literal["at-once", "after-seconds"] = "after-seconds",
    ) -> None:
        """Measure every *seconds*, the *first* time at once or after them; *probes* are those of this machine."""
        self._run = run
        self._first = first
        self._seconds = seconds
        self._probes = {} if probes is None else dict(probes)
        self._looks_for_probes = probes is None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure_until_stopped, name="toyspec-system", daemon=True)
        if self._probes or self._looks_for_probes:
            self._thread.start()

    def ending(self) -> None:
        """Write nothing more; wait at most two seconds for a probe that hangs."""
        self._stopped.set()
        # A forked child has no such thread, and a thread must not wait for itself.
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    def _measure_until_stopped(self) -> None:
        if self._looks_for_probes:
            # Packages and drivers take their time, for which no training waits.
            self._probes = dict(available_probes())
        if not self._probes:
            return
        if self._first == "at-once":
            self.measure()
        while not self._stopped.wait(self._seconds):
            self.measure()

    def measure(self) -> None:
        """Ask every probe once, and write one event with what they answer."""
        values: dict[str, float] = {}
        memory: dict[str, Any] = {}
        for name, probe in list(self._probes.items()):
            try:
                found = probe()
            except Exception as error:  # noqa: BLE001 - whatever a driver raises, training goes on
                del self._probes[name]
                say(f"system metrics: {name} cannot be measured ({cause_of(error)}); it is left out from now on")
                continue
            values |= found.values
            if found.memory_used_bytes is not None and found.memory_limit_bytes is not None:
                memory = {"memory_used_bytes": found.memory_used_bytes, "memory_limit_bytes": found.memory_limit_bytes}
        if (values or memory) and self._run.active and not self._run.resumes and not self._stopped.is_set():
            self._run.system(**memory, extra=values)


def available_probes() -> dict[str, Callable[[], Measurement]]:
    """Return the probes that work here: ``host`` needs psutil, ``gpu`` nvidia-ml-py, ``tpu`` libtpu."""
    found: dict[str, Callable[[], Measurement]] = {}
    for name, prepare in (("host", _host_probe), ("gpu", _gpu_probe), ("tpu", _tpu_probe)):
        try:
            found[name] = prepare()
        except Exception:  # noqa: BLE001, S112 - no such package, no such device, a driver that does not answer
            continue
    return found


def _host_probe() -> Callable[[], Measurement]:
    import psutil

    process = psutil.Process(os.getpid())
    process.cpu_percent()
    psutil.cpu_percent()

    def measure() -> Measurement:
        memory, disk, network = psutil.virtual_memory(), psutil.disk_io_counters(), psutil.net_io_counters()
        values = {
            "host/cpu_percent": psutil.cpu_percent(),
            "host/memory_used_bytes": memory.total - memory.available,
            "host/memory_limit_bytes": memory.total,
            "process/cpu_percent": process.cpu_percent(),
            "process/memory_used_bytes": process.memory_info().rss,
        }
        if disk is not None:
            values |= {"host/disk_read_bytes": disk.read_bytes, "host/disk_written_bytes": disk.write_bytes}
        if network is not None:
            values |= {
                "host/network_received_bytes": network.bytes_recv,
                "host/network_sent_bytes": network.bytes_sent,
            }
        return Measurement(values)

    return measure


def _gpu_probe() -> Callable[[], Measurement]:
    import pynvml

    pynvml.nvmlInit()
    devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    if not devices:
        raise LookupError("no device")

    def measure() -> Measurement:
        values: dict[str, float] = {}
        memories = []
        for index, device in enumerate(devices):
            memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            memories.append((int(memory.used), int(memory.total)))
            values[f"gpu/{index}/memory_used_bytes"] = int(memory.used)
            values[f"gpu/{index}/memory_limit_bytes"] = int(memory.total)
            values |= _gpu_values(pynvml, device, f"gpu/{index}/")
        used, limit = min(memories, key=lambda memory: memory[1] - memory[0])
        return Measurement(values, used, limit)

    return measure


def _gpu_values(pynvml: Any, device: Any, prefix: str) -> dict[str, float]:
    """Return the numbers that a device may not have: some refuse the question."""
    questions: dict[str, Callable[[], float]] = {
        "utilization_percent": lambda: pynvml.nvmlDeviceGetUtilizationRates(device).gpu,
        "temperature_celsius": lambda: pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU),
        "power_watts": lambda: pynvml.nvmlDeviceGetPowerUsage(device) / 1000.0,
    }
    values: dict[str, float] = {}
    for name, ask in questions.items():
        try:
            values[prefix + name] = ask()
        except pynvml.NVMLError:
            continue
    return values


def _tpu_probe() -> Callable[[], Measurement]:
    from libtpu.sdk import tpumonitoring

    supported = set(tpumonitoring.list_supported_metrics())
    names = {"duty_cycle_pct": "duty_cycle_percent", "tensorcore_util": "tensorcore_percent"}
    if not supported & {*names, "hbm_capacity_usage"}:
        raise LookupError("no device")

    def measure() -> Measurement:
        values: dict[str, float] = {}
        for metric, name in names.items():
            if metric in supported:
                values |= {
                    f"tpu/{index}/{name}": value for index, value in enumerate(_tpu_numbers(tpumonitoring, metric))
                }
        used = _tpu_numbers(tpumonitoring, "hbm_capacity_usage") if "hbm_capacity_usage" in supported else []
        total = _tpu_numbers(tpumonitoring, "hbm_capacity_total") if "hbm_capacity_total" in supported else []
        memories = list(zip(map(int, used), map(int, total), strict=False))
        if not memories:
            return Measurement(values)
        return Measurement(values, *min(memories, key=lambda memory: memory[1] - memory[0]))

    return measure


def _tpu_numbers(tpumonitoring: Any, metric: str) -> list[float]:
    """Return the numbers of a metric, one per chip; they come as texts."""
    return [float(text) for text in tpumonitoring.get_metric(metric).data()]
