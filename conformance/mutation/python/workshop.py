"""Copies of the tree in which the package is changed and its tests run."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformance.mutation.python.listing import digest, functions, loaded, marked, module_names, source_path
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = os.path.join(ROOT, "build", "mutants-python")
TESTS = os.path.join("reference", "python", "tests")
_MARKS = """\
import mmap

with open({path!r}, "r+b") as _file:
    MARKS = mmap.mmap(_file.fileno(), 0)
"""
_PLUGIN = '''\
"""Writes which statements each test executes, in this process and in those that it starts."""
import base64, json, os, time, zlib
import pytest
from toyspec_marks import MARKS

_FILE = open({path!r}, "a", encoding="utf-8")
_NOTHING = bytes(len(MARKS))
_failed = set()


def _cpu():
    return sum(os.times()[:4])


def pytest_collection_finish(session):
    MARKS[:] = _NOTHING


def pytest_runtest_logreport(report):
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    began, elapsed = _cpu(), time.monotonic()
    yield
    marks = base64.b64encode(zlib.compress(bytes(MARKS), 1)).decode()
    MARKS[:] = _NOTHING
    seconds = max(_cpu() - began, (time.monotonic() - elapsed) / 4)
    entry = {{"test": item.nodeid, "seconds": round(seconds, 3), "marks": marks}}
    entry |= {{"failed": item.nodeid in _failed, "contended": item.get_closest_marker("contended") is not None}}
    _FILE.write(json.dumps(entry) + "\\n")
    _FILE.flush()
'''
_RUN = """\
import resource, sys
import pytest
most = 8 << 30  # no mutant fills the memory of the machine
resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
seconds = int(sys.argv[1])  # and none computes for as long as other work lets it wait
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
sys.exit(pytest.main(sys.argv[2:]))
"""
_RECORDING_SECONDS = 3600
_AS_TEXT = bytes.maketrans(b"\0\1", b"01")
_GRACE_SECONDS = 60.0
_TIMES = 10
_TIMES_BUSY = 4
"""So many times the recorded seconds may tests take, and a grace: of time, and of time of the processor."""
_SHOWN = 300


class WorkshopError(Exception):
    """The tests fail without any change; the text says how."""


@dataclass(frozen=True)
class Test:
    """One test as it was recorded."""

    name: str
    seconds: float
    executed: Mapping[str, Executed]
    """What it executes of each module, by the name of the module."""
    is_contended: bool = False
    """True where other work on the machine may disturb it."""

    @property
    def file(self) -> str:
        """The path of its file."""
        return self.name.partition("::")[0]


@dataclass(frozen=True)
class Executed:
    """The statements of one module that a test executes."""

    digest: str
    """Of the source for which *statements* holds."""
    statements: str
    """A ``1`` for each executed statement, by its number; what follows the last one is left out."""


@dataclass(frozen=True)
class Failure:
    """What the first failing test says."""

    reason: str
    tests: frozenset[str]
    """The names of the tests that failed; none where pytest itself did."""
    is_late: bool = False
    """True where no test answered in time."""


class Workshop:
    """A copy of the tree with an environment that finds the package there; nothing outside of it is changed."""

    def __init__(self, name: str, folder: str = FOLDER) -> None:
        self.folder = os.path.join(folder, name)
        self.tree = os.path.join(self.folder, "tree")
        _copy_tree(self.tree)
        self._python = _environment(os.path.join(self.folder, "venv"), self.tree)
        self._second = int(time.time())

    @contextlib.contextmanager
    def changed(self, module: str, source: str) -> Iterator[None]:
        """Let *module* have *source* for a while."""
        path = source_path(module, self.tree)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        times = os.stat(path)
        _write(path, source)
        # Compiled modules are kept, and known by the second of the change: each mutant needs one of its own.
        self._second = max(self._second, int(times.st_mtime)) + 1
        os.utime(path, (self._second, self._second))
        try:
            yield
        finally:
            _write(path, before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def failure(self, tests: Sequence[Test]) -> Failure | None:
        """Run *tests* until one fails; return what it says, None where all pass."""
        expected = sum(test.seconds for test in tests)
        limit = (_GRACE_SECONDS + _TIMES * expected) * _slowness()
        busy = int(_GRACE_SECONDS / 2 + _TIMES_BUSY * expected)
        arguments = os.path.join(self.folder, "tests.txt")
        _write(arguments, "".join(f"{test.name}\n" for test in tests))
        status, output = self._pytest(["-x", "--no-header", f"@{arguments}"], limit, busy)
        if status in {None, -signal.SIGXCPU, -signal.SIGKILL}:
            within = f"{limit:.0f} seconds, or {busy} of processor time"
            return Failure(f"no answer within {within}", frozenset(), is_late=True)
        if status == 0:
            return None
        # The change may take a parameter from a test, and with it the name, which fails nothing.
        there = [test for test in tests if f"{os.path.join(self.tree, test.name)}\n" not in _missing(output)]
        if len(there) < len(tests):
            return self.failure(there) if there else None
        lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return Failure(_gist(output), frozenset(line.split()[1] for line in lines))

    def record(self, tests: Sequence[str]) -> Iterator[tuple[Test, bool]]:
        """Run *tests*, files or folders; yield what each test executed, and whether it passed."""
        modules = [loaded(name, self.tree) for name in module_names(self.tree)]
        offsets = [0, *itertools.accumulate(len(functions(module)) for module in modules)]
        for module, offset in zip(modules, offsets, strict=False):
            _write(source_path(module.name, self.tree), marked(module, offset))
        marks, found = os.path.join(self.folder, "marks"), os.path.join(self.folder, "found.jsonl")
        with open(marks, "wb") as file:
            file.truncate(offsets[-1])
        _write(found, "")
        _write(os.path.join(self.tree, "reference", "python", "toyspec_marks.py"), _MARKS.format(path=marks))
        _write(os.path.join(self.tree, "reference", "python", "record_marks.py"), _PLUGIN.format(path=found))
        arguments = ["-p", "record_marks", *tests]
        status, output = self._pytest(arguments, _RECORDING_SECONDS * _slowness(), _RECORDING_SECONDS)
        _copy_tree(self.tree)
        if status not in {0, 1}:
            raise WorkshopError(f"the tests did not run to their end: {output[-2000:]}")
        digests = [digest(module) for module in modules]
        with open(found, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                seen = zlib.decompress(base64.b64decode(entry["marks"])).translate(_AS_TEXT).decode()
                parts = [seen[start:end].rstrip("0") for start, end in itertools.pairwise(offsets)]
                executed = {
                    module.name: Executed(digests[at], parts[at]) for at, module in enumerate(modules) if parts[at]
                }
                yield Test(entry["test"], entry["seconds"], executed, entry["contended"]), not entry["failed"]

    def _pytest(self, arguments: Sequence[str], limit: float, busy: int) -> tuple[int | None, str]:
        """Return the status and the output of pytest, no status where it took longer than *limit* seconds.

        It is ended after *busy* seconds of processor time, whatever else the machine does.
        """
        words = [
            self._python,
            "-c",
            _RUN,
            str(busy),
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow",
            "--tb=line",
            *arguments,
        ]
        variables = {"TOYSPEC_ENGINE": "python", "TOYSPEC_EXAMPLES": "quick", "PYTHONDONTWRITEBYTECODE": ""}
        log = os.path.join(self.folder, "pytest.log")
        with open(log, "w+b") as output:
            process = subprocess.Popen(
                words,
                cwd=self.tree,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        with open(log, encoding="utf-8", errors="replace") as file:
            return status, file.read()


def _environment(folder: str, tree: str) -> str:
    """Make an environment with what this one has installed, and the package of *tree*; return its Python."""
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    _copy_commands(os.path.dirname(sys.executable), os.path.dirname(python))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = os.path.join(folder, "lib", version, "site-packages", "mutants.pth")
    _write(path, f"{os.path.join(tree, 'reference', 'python')}\n{sysconfig.get_paths()['purelib']}\n")
    return python


def _copy_commands(source: str, target: str) -> None:
    """Let the commands of the environment *source* be in *target* too, run by its Python."""
    for entry in os.scandir(source):
        if not entry.is_file() or entry.is_symlink() or os.path.exists(os.path.join(target, entry.name)):
            continue
        with open(entry.path, "rb") as file:
            first, rest = file.readline(), file.read()
        if first.startswith(f"#!{source}".encode()):
            path = os.path.join(target, entry.name)
            with open(path, "wb") as file:
                file.write(first.replace(source.encode(), target.encode()) + rest)
            shutil.copymode(entry.path, path)


def _copy_tree(tree: str) -> None:
    """Make *tree* a copy of what git would commit of this one; a file that is the same is not written."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    wanted = {name for name in listed.split("\0") if name and os.path.lexists(os.path.join(ROOT, name))}
    for name in wanted:
        source, target = os.path.join(ROOT, name), os.path.join(tree, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target) or _times(source) != _times(target):
            shutil.copy2(source, target, follow_symlinks=False)
    package = os.path.join(tree, "reference", "python")
    for folder, _, files in os.walk(package):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.relpath(path, tree).replace(os.sep, "/") not in wanted:
                os.unlink(path)


def _times(path: str) -> tuple[int, int]:
    state = os.lstat(path)
    return state.st_size, state.st_mtime_ns


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _slowness() -> float:
    """Return how many times longer a program takes because of other work; without it, a slow one would seem to loop."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _missing(output: str) -> str:
    """Return the lines of *output* that name tests which are not there."""
    mark = "ERROR: not found: "
    lines = [line.removeprefix(mark) for line in output.splitlines() if line.startswith(mark)]
    return "".join(f"{line}\n" for line in lines)


def _gist(output: str) -> str:
    """Return the line of *output* that says what failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (telling or lines[-1:] or ["failed without a word"])[0][:_SHOWN]
