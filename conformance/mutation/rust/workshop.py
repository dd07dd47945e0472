"""A copy of the crate that is changed, built and tested."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from conformance.commands import captured
from conformance.mutation.rust.listing import CRATE, Mutant
from conformance.mutation.subjects import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FOLDER = os.path.join(ROOT, "build", "mutants-rust")
_PROFILE = {
    # Builds fast, and counts as the released program does: an overflow that wraps there must not be a panic here.
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_INCREMENTAL": "1",
    "CARGO_TERM_COLOR": "never",
    "CARGO_TERM_QUIET": "true",
}
_BUILD_SECONDS = 600
_TEST_SECONDS = 150
_QUICK_SECONDS = 60
_QUICK = {"TOYSPEC_EXAMPLES": "quick"}
_LINKING = "error: linking"
_LEFT_OUT = shutil.ignore_patterns("target", "fuzz", "originals")


class WorkshopError(Exception):
    """The crate does not build or its tests fail without any change."""


class Workshop:
    """The copy of the crate; nothing in ``reference/`` is changed. Its tests find the corpus where the tree has it."""

    def __init__(self, folder: str = FOLDER) -> None:
        self.folder = folder
        tree = os.path.join(folder, "tree")
        self._crate = os.path.join(tree, os.path.relpath(CRATE, ROOT))
        self._environment = os.environ | _PROFILE | {"CARGO_TARGET_DIR": os.path.join(folder, "target")}
        _copy_newer(CRATE, self._crate)
        with contextlib.suppress(FileExistsError):
            os.symlink(os.path.join(ROOT, "conformance"), os.path.join(tree, "conformance"))

    @property
    def adapter(self) -> str:
        """Path of the program that :meth:`build` makes."""
        return os.path.join(self.folder, "target", "debug", "toyspec-adapter")

    def unchanged(self) -> str:
        """Return the path of a copy of the program. It is built again: the last build may be that of a mutant."""
        failure = self.build()
        if failure is not None:
            raise WorkshopError(f"the crate does not build without any change: {failure}")
        path = os.path.join(self.folder, "unchanged-adapter")
        shutil.copy2(self.adapter, path)
        return path

    @contextlib.contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Change the copy for a while."""
        path = os.path.join(self._crate, mutant.path)
        # From the copy: someone may edit the crate during a sweep of an hour.
        with open(path, encoding="utf-8", newline="") as file:
            before = file.read()
        _write(path, mutant.source(self._crate))
        try:
            yield
        finally:
            _write(path, before)

    def build(self) -> str | None:
        """Build the adapter; return the error of the compiler, None where there is none."""
        return self._error(["cargo", "build", "--bin", "toyspec-adapter"], _BUILD_SECONDS)

    def test(self) -> str | None:
        """Run the tests of the crate; return what fails first, None where all pass.

        Most mutants fail, or loop, in a twentieth of the random rounds, or in the tests of whole files: seconds. All
        rounds take a minute.
        """
        unit, files = ["cargo", "test", "--lib"], ["cargo", "test", "--test", "*"]
        return (
            self._error([*unit, "--no-run"], _BUILD_SECONDS)
            or self._error(unit, _QUICK_SECONDS, _QUICK)
            or self._error([*files, "--no-run"], _BUILD_SECONDS)
            or self._error(files, _TEST_SECONDS)
            or self._error(unit, _TEST_SECONDS)
        )

    def _error(self, words: Sequence[str], seconds: float, variables: Mapping[str, str] = _PROFILE) -> str | None:
        failure = self._failure(words, seconds, variables)
        if failure is not None and _LINKING in failure:
            # A compiler that was ended in its work leaves parts that do not fit together.
            self._failure(["cargo", "clean", "--package", "toyspec"], _BUILD_SECONDS, {})
            failure = self._failure(words, seconds, variables)
        return failure

    def _failure(self, words: Sequence[str], seconds: float, variables: Mapping[str, str]) -> str | None:
        try:
            done = captured(words, self._crate, seconds * _slowness(), {**self._environment, **variables})
        except subprocess.TimeoutExpired as error:
            return f"`{' '.join(words)}` took more than {error.timeout:.0f} seconds"
        return None if done.returncode == 0 else _gist(done.stdout.decode(errors="replace"))


def _slowness() -> float:
    """Return how many times longer a program takes because of other work; without it, a slow one would seem to loop."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _gist(output: str) -> str:
    """Return the line of *output* that says what is wrong."""
    lines = output.splitlines()
    telling = [line for line in lines if line.startswith(("error", "---- ")) or "panicked at" in line]
    return (telling or lines or ["failed without a word"])[0].strip()


def _copy_newer(source: str, target: str) -> None:
    """Make *target* a copy of *source*; files that are the same keep their time, so that cargo builds what is new."""
    wanted = set()
    for folder, names, files in os.walk(source):
        left_out = _LEFT_OUT(folder, [*names, *files])
        names[:] = [name for name in names if name not in left_out]
        for name in files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, source)
            wanted.add(relative)
            with open(path, encoding="utf-8", newline="") as file:
                _write(os.path.join(target, relative), file.read())
    for folder, _, files in os.walk(target):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.relpath(path, target) not in wanted and name != "Cargo.lock":
                os.unlink(path)


def _write(path: str, text: str) -> None:
    """Write *text* to the file at *path*, unless that is what it has."""
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
