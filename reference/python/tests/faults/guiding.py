"""Starts the fuzzers whose mutations follow the coverage of what they feed: Python by atheris, C and Rust by libFuzzer.

Each begins with the streams of the corpus. One that cannot run here says what is missing and how to get it.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from conformance.drawn import seeds
from faults.methods import TESTS

ROOT = Path(__file__).resolve().parents[4]
MAX_SEEDS = 400
"""Number of streams of the corpus that a run begins with; which ones, its seed decides."""
# What `cargo fuzz` asks for as well; with these, a stable toolchain does it.
_RUST_FLAGS = [
    "--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1",
    *(
        f"-Cllvm-args=-sanitizer-coverage-{option}"
        for option in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
]
_C_FLAGS = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g",
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
]

_OPTIONS = ["-max_len=4096", "-timeout=20", "-print_final_stats=1"]


class MissingToolError(Exception):
    """A fuzzer cannot run here; the message says what is missing and how to get it."""


class Outcome(NamedTuple):
    """What one run came to."""

    inputs: int
    """Number of streams that were fed."""
    failure: str
    """The last lines of a run that found something, empty for one that did not."""


def python_command(folder: Path) -> list[str]:
    """Return the command that fuzzes the package."""
    if importlib.util.find_spec("atheris") is None:
        raise MissingToolError("atheris is not installed (pip install atheris; it is made for Linux on x86-64)")
    return [sys.executable, "-m", "faults.guided", str(folder)]


def c_command(folder: Path) -> list[str]:
    """Return the command that fuzzes the C library under sanitizers; it is built into *folder*."""
    if shutil.which("clang") is None:
        raise MissingToolError("clang is not installed (apt install clang)")
    target = folder / "fuzz-c"
    _build(["clang", *_C_FLAGS, "toyspec.c", "fuzz_toyspec.c", "-o", str(target), "-lm"], ROOT / "reference/c")
    return [str(target)]


def rust_command(_: Path) -> list[str]:
    """Return the command that fuzzes the crate; it is built beside the crate, which takes a minute the first time."""
    if shutil.which("cargo") is None:
        raise MissingToolError("cargo is not installed (apt install cargo · rustup.rs)")
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    triple = re.findall(r"^host: (\S+)", host, re.MULTILINE)[0]
    target = ROOT / "reference/rust/target/fuzz"
    command = ["cargo", "build", "--quiet", "--release", "--target", triple, "--target-dir", str(target)]
    _build(command, ROOT / "reference/rust/fuzz", {"RUSTFLAGS": " ".join(_RUST_FLAGS)})
    return [str(target / triple / "release/streams")]


FUZZERS: dict[str, Callable[[Path], list[str]]] = {"python": python_command, "c": c_command, "rust": rust_command}
"""How to start each of them, by the implementation that it feeds."""


def guided(name: str, *, seed: int, seconds: float | None = None, inputs: int | None = None) -> Outcome:
    """Let fuzzer *name* run for so many seconds or inputs; raise MissingToolError where it cannot."""
    if sys.platform != "linux":
        raise MissingToolError("libFuzzer is used on Linux alone")
    # Streams are written as files many times a second, which a disk need not take part in.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="toyspec-fuzz-", dir=memory) as temporary:
        folder = Path(temporary)
        corpus = folder / "corpus"
        corpus.mkdir()
        for number, data in enumerate(random.Random(seed).sample(seeds(), min(MAX_SEEDS, len(seeds())))):
            (corpus / str(number)).write_bytes(data)
        limit = f"-runs={inputs}" if seconds is None else f"-max_total_time={max(1, int(seconds))}"
        options = [limit, f"-seed={seed % 2**31 or 1}", *_OPTIONS]
        command = [*FUZZERS[name](folder), *options, f"-artifact_prefix={folder}/", str(corpus)]
        env = {**os.environ, "TMPDIR": temporary, "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
    counts = re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)
    if done.returncode or not counts:
        return Outcome(int(counts[-1]) if counts else 0, "\n".join(done.stderr.splitlines()[-60:]) or "it said nothing")
    return Outcome(int(counts[-1]), "")


def _build(command: list[str], directory: Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MissingToolError(f"`{command[0]}` does not build it: {done.stderr[-800:]}")
