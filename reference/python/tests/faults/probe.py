"""Meets one stream under a hard limit of memory: ``python -m faults.probe MIB WAY[+WAY…] STREAM``."""

from __future__ import annotations

import resource
import sys
import time

import toyspec
from toyspec.core.command_line.main import main
from toyspec.core.reading.records import Record


def read(path: str) -> None:
    """Read every record, with all that it offers, and the account."""
    reading = toyspec.read(path, mode="salvage")
    for record in reading:
        _look(record)
    report = reading.report
    assert report.size == report.committed_bytes + report.fragment_bytes + report.gap_bytes


def _look(record: Record) -> None:
    _ = record.kind, record.value, record.event, repr(record)


def probe() -> None:
    """Do it, and print how many seconds that took."""
    limit, what, path = int(sys.argv[1]) << 20, sys.argv[2], sys.argv[3]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    began = time.process_time()
    for way in what.split("+"):
        if way == "read":
            read(path)
        else:
            arguments = {"check": ["check", "--format", "json"], "repair": ["repair", "--dry-run"]}.get(way, [way])
            assert main([*arguments, path]) in {0, 1}
    sys.stderr.write(f"{time.process_time() - began:.1f} s")


if __name__ == "__main__":
    probe()
