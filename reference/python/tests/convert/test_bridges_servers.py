"""Sends runs to the collector of OpenTelemetry on loopback, which ``nox -s interop_bridges`` builds."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import command, environment
from mirror_services import write_steps

COLLECTOR = shutil.which("toyspec-test-collector", path=os.environ.get("TOYSPEC_BRIDGES", ""))
SECONDS = 300.0
LOSSES = [None if at == 7 else at / 8 for at in range(40)]

needs_collector = pytest.mark.skipif(COLLECTOR is None, reason="no collector; `nox -s interop_bridges` builds it")


def free_port() -> int:
    """Return a port of loopback that nothing listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def started(words: list[str | bytes], log: Path, port: int) -> Iterator[None]:
    """Run a server that listens at *port* until the block ends, and write what it says to *log*."""
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, env=environment())
    try:
        until(lambda: is_open(port), log)
        yield
    finally:
        process.terminate()
        process.wait(SECONDS)


def is_open(port: int) -> bool:
    """Return whether something listens at *port*."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


def until(happened: Callable[[], Any], log: Path) -> Any:
    """Return what *happened* returns once that is true; fail with the end of *log* where it never is."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = happened()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


def mirror(*words: str) -> int:
    """Run ``toyspec mirror`` to its end, and return its status."""
    return subprocess.run(command("mirror", *words), env=environment(), check=False, timeout=SECONDS).returncode


@needs_collector
def test_collector_of_opentelemetry(tmp_path: Path) -> None:
    """It prints every value of the run once, with its name and time, also where it was away for a while."""
    assert COLLECTOR is not None
    port, log = free_port(), tmp_path / "log"
    run = write_steps(tmp_path / "a", LOSSES[:20], ending=None)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n"
        "exporters: {debug: {verbosity: detailed}}\n"
        "service:\n  telemetry: {metrics: {level: none}}\n"
        "  pipelines: {metrics: {receivers: [otlp], exporters: [debug]}}\n"
    )
    send = [str(run), "--to", "otel", "--into", f"http://127.0.0.1:{port}", "--patience", "1"]
    with started([COLLECTOR, "--config", str(config)], log, port):
        assert 0 == mirror("--backfill", *send)
    write_steps(tmp_path / "a", LOSSES, ending="completed")
    assert 1 == mirror("--backfill", *send)
    with started([COLLECTOR, "--config", str(config)], tmp_path / "log2", port):
        assert 0 == mirror("--backfill", *send)
    printed = log.read_text() + (tmp_path / "log2").read_text()
    assert [str(loss) for loss in LOSSES] == [value.replace("NaN", "None") for value in losses_in(printed)]
    assert "toyspec.run.ended" in printed


def losses_in(text: str) -> list[str]:
    """Return the values of the loss in what the collector has printed, each time once, in their order."""
    found: dict[str, str] = {}
    for part in re.split(r"^Metric #", text, flags=re.MULTILINE):
        if "-> Name: toyspec.loss\n" in part:
            points = re.findall(r"^Timestamp: (.+?) UTC$\n^Value: (\S+)$", part, flags=re.MULTILINE)
            found |= {at: value if value == "NaN" else str(float(value)) for at, value in points}
    return [found[at] for at in sorted(found)]
