"""Serves the last values of runs to Prometheus, which comes for them: through its official client."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from toyspec.convert.destinations.destination import Destination, Lost, ServiceRefusedError, binary64_of, null_as_nan
from toyspec.convert.destinations.telemetry import REMAINING, TelemetryNames, ending
from toyspec.convert.reports import NO_PLACE
from toyspec.convert.sources import needed
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toyspec.convert.destinations.destination import Ending, RunHead
    from toyspec.convert.destinations.telemetry import TelemetryName
    from toyspec.convert.run_items import Item, ItemRow

_DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
SHOWN_SECONDS: Final = 300.0
"""How long a run is served after its end: as long as Prometheus takes a value for the present one."""
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_WAIT: Final = 0.5


class Sample(NamedTuple):
    """The last value of one metric."""

    name: TelemetryName
    value: float


class ServedRun:
    """The last values of one run."""

    def __init__(self, run: RunHead) -> None:
        self.run = run
        self.samples: dict[tuple[str, str], Sample] = {}
        self.last_record: float | None = None
        self.ended_at: float | None = None
        """Time of the end, by the clock of the exposition; None while the run goes on."""


class Exposition:
    """What one address serves: the runs of this process. Thread-safe."""

    def __init__(self, client: Any, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Listen at *address*, ``HOST:PORT``; raise ServiceRefusedError where that is not possible."""
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, ServedRun] = {}
        self._changed_at = 0
        self._read_at = 0
        host, port = _host_and_port(address)
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = client.start_http_server(port, host, registry)
        except OSError as error:
            fact = f"{cause_of(error)}; name another address with --into HOST:PORT"
            raise ServiceRefusedError(f"{address}: {fact}") from error
        self.port: int = self._server.server_port

    def serve(self, run: ServedRun) -> None:
        """Serve *run* from now on."""
        with self._lock:
            self._runs[run.run.identity] = run

    def update(self, run: ServedRun, samples: Sequence[Sample], at: float | None) -> None:
        """Take the last values of *run*, whose last record is of the time *at*."""
        with self._lock:
            for sample in samples:
                run.samples[sample.name.name, str(sample.name.attributes)] = sample
            run.last_record = at if run.last_record is None or at is not None else run.last_record
            self._changed_at += 1

    def end(self, run: ServedRun) -> None:
        """Note that *run* has ended: it is served for a while longer."""
        with self._lock:
            run.ended_at = self._clock()
            run.samples = {key: sample for key, sample in run.samples.items() if key[0] != REMAINING}

    @property
    def is_read(self) -> bool:
        """Whether all values were asked for since the last change."""
        return self._read_at >= self._changed_at

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def collect(self) -> Iterator[Any]:
        """Yield the families of samples, as the client asks for them."""
        with self._lock:
            now = self._clock()
            over = [
                key
                for key, run in self._runs.items()
                if run.ended_at is not None and now - run.ended_at > SHOWN_SECONDS
            ]
            for key in over:
                del self._runs[key]
            families = self._families()
            self._read_at = self._changed_at
        return iter(families)

    def _families(self) -> list[Any]:
        made: dict[str, Any] = {}
        for labels, run in self._labelled():
            info = {**labels, "name": run.run.name, "group": run.run.group or "", "run_id": run.run.run_id}
            self._family(made, "info", "toyspec_run", "What is known of each run.").add_sample(
                "toyspec_run_info", info, 1.0
            )
            if run.last_record is not None:
                name = "toyspec_run_last_record_timestamp_seconds"
                text = "Time of the last record, in seconds since the Unix epoch."
                self._family(made, "gauge", name, text).add_sample(name, labels, run.last_record)
            for sample in run.samples.values():
                name = _family_name(sample.name)
                kind, suffix = ("counter", "_total") if sample.name.is_counter else ("gauge", "")
                text = sample.name.description or "A metric of a run; the label metric has its name in the log."
                attributes = {_label(key): value for key, value in sample.name.attributes.items()}
                found = self._family(made, kind, name, text)
                found.add_sample(name + suffix, {**labels, **attributes}, sample.value)
        return list(made.values())

    def _family(self, made: dict[str, Any], kind: str, name: str, text: str) -> Any:
        if name not in made:
            core = self._client.metrics_core
            families = {"info": core.InfoMetricFamily, "counter": core.CounterMetricFamily}
            made[name] = families.get(kind, core.GaugeMetricFamily)(name, text)
        return made[name]

    def _labelled(self) -> Iterator[tuple[dict[str, str], ServedRun]]:
        """Yield each run with its labels; a second run of one project and id has its identity after its id."""
        taken: set[tuple[str, str]] = set()
        for run in self._runs.values():
            project, name = run.run.project, run.run.run_id
            name = name if (project, name) not in taken else f"{name}-{run.run.identity}"
            taken.add((project, name))
            yield {"project": project, "run": name}, run


_EXPOSITIONS: dict[str, Exposition] = {}
_OPENING = threading.Lock()


def exposition_at(address: str) -> Exposition:
    """Return what this process serves at *address*, which it listens at from then on."""
    with _OPENING:
        found = _EXPOSITIONS.get(address)
        if found is None:
            client = needed("prometheus_client", "prometheus", "writing to Prometheus")
            found = _EXPOSITIONS[address] = Exposition(client, address)
        return found


class PrometheusValues(Destination):
    """The last values of runs among those that an address serves."""

    is_in_memory = True

    def __init__(self, into: str | None = None) -> None:
        """Serve at *into*, ``HOST:PORT``; raise ImportError without the client."""
        super().__init__(into or _DEFAULT_ADDRESS)
        needed("prometheus_client", "prometheus", "writing to Prometheus")
        _host_and_port(str(self.into))
        self._served: ServedRun | None = None
        self._names: TelemetryNames
        self._samples: list[Sample] = []
        self._rows = 0

    @property
    def _exposition(self) -> Exposition:
        return exposition_at(str(self.into))

    def listen(self) -> None:
        """Listen at the address, also before there is a run."""
        exposition_at(str(self.into))

    def wait_until_read(self, over: threading.Event, patience: float) -> None:
        """Wait until Prometheus has asked for the last values, *over* is set, or *patience* seconds have passed."""
        found = _EXPOSITIONS.get(str(self.into))
        deadline = time.monotonic() + patience
        while found is not None and not found.is_read and time.monotonic() < deadline:
            if over.wait(_LONGEST_WAIT):
                return

    def open(self, run: RunHead, place: Any = None) -> int | None:
        """Serve the run, and return the number of rows that are in memory: none after this process has started."""
        del place
        self.run = run
        if self._served is None or self._served.run != run:
            self._served, self._names, self._rows = ServedRun(run), TelemetryNames(run), 0
            self._exposition.serve(self._served)
        return self._rows

    def put(self, rows: Sequence[ItemRow]) -> list[Lost]:
        """Serve the last values of *rows*."""
        self._samples = [Sample(*value) for row in rows for value in self._names.of_run(row)]
        lost = super().put(rows)
        self._rows = max(self._rows, rows[-1].number + 1)
        assert self._served is not None
        self._served.ended_at = None
        self._update(rows[-1].t)
        return lost

    def carry(self, item: Item) -> Iterator[Lost]:
        """Take a number; histograms of Prometheus count up, and so cannot be the present ones."""
        match item.kind:
            case "measure":
                self._samples.append(Sample(self._names.of(item.name), binary64_of(item)))
                yield from null_as_nan(item)
            case "alert" | "resume":
                pass
            case "fact" | "end" if item.name in ("name", "group", "reason"):
                pass
            case _:
                yield Lost(NO_PLACE, item)

    def close(self, end: Ending | None) -> None:
        """Serve that the run has ended, for a while; with None, serve its values until this process ends."""
        if end is not None and self._served is not None:
            self._samples = [Sample(*ending(end.reason))]
            self._update(end.t)
            self._exposition.end(self._served)

    def _update(self, t: float) -> None:
        assert self._served is not None
        self._exposition.update(self._served, self._samples, None if self.run.started is None else self.run.wall(t))


def _family_name(name: TelemetryName) -> str:
    """Return the name as Prometheus allows it, with the unit at its end."""
    found = _NOT_ALLOWED.sub("_", name.name)
    unit = {"s": "_seconds", "1": "_ratio"}.get(name.unit, "")
    return found if found.endswith(unit) else found + unit


def _label(attribute: str) -> str:
    return _NOT_ALLOWED.sub("_", attribute.removeprefix("toyspec."))


def _host_and_port(address: str) -> tuple[str, int]:
    host, found, port = address.rpartition(":")
    if not found or not port.isdigit() or int(port) > 65535:
        raise ServiceRefusedError(f"{address}: Prometheus needs HOST:PORT to be served at, such as {_DEFAULT_ADDRESS}")
    return host.strip("[]") or "127.0.0.1", int(port)
