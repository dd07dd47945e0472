"""Makes sealed runs, and lists the findings about their seals."""

from __future__ import annotations

from pathlib import Path

from toyspec.core.checker import check
from toyspec.core.generated import rules
from toyspec.core.writing.run_writer import RunWriter
from toyspec.core.writing.sealing import seal


def write_run(directory: Path, *, steps: int = 2, is_sealed: bool = False) -> Path:
    """Write a complete run with files beside its stream, and its seal if asked."""
    with RunWriter(directory) as run:
        run.run_start(config={"lr": 3e-4})
        for step in range(steps):
            run.step(loss=1.0 / (step + 1))
        (directory / "weights").mkdir(exist_ok=True)
        (directory / "weights" / "step_1.gguf").write_bytes(b"\0weights")
        (directory / "flow.json").write_text("{}\n")
    if is_sealed:
        seal(directory)
    return directory


def broken(path: Path) -> list[tuple[int, str]]:
    """Return line and message of every finding about the seal of the run at *path*."""
    report = check(path)
    assert [] == report.errors
    findings = [finding for finding in report.files[0].findings if finding.rule == rules.SEAL_BROKEN]
    assert all(("SHA256SUMS", "error", "") == (found.sidecar, found.severity, found.pointer) for found in findings)
    return [(finding.line, finding.message) for finding in findings]
