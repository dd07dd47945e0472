"""Runs tests many times beside a load of other processes: `nox -s stress -- … --times 20 --share 3/10`.

A test that fails once is a defect, of the test or of what it tests. How often each test has passed in a row is kept in
build/stress.json, so that the shares of several days make a whole: a test that fails, or whose file changes, begins
again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

LOG = Path("build/stress.log")
TESTS = Path("build/stress-tests.txt")
PASSES = Path("build/stress.json")
MARKED = ["-m", "contended"]
# Each ends by itself when this program has been killed.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def main() -> int:
    """Run the tests that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, metavar="N", help="how often (default: 20)")
    parser.add_argument(
        "--load", type=int, default=10, metavar="N", help="busy processes, those counted that run already (default: 10)"
    )
    parser.add_argument(
        "--share", type=share, default=(1, 1), metavar="K/N", help="run the part K of N of the tests (default: all)"
    )
    parser.add_argument("tests", nargs="*", metavar="ARGUMENT", help="arguments of pytest (default: -m contended)")
    options, others = parser.parse_known_args()
    TESTS.parent.mkdir(exist_ok=True)
    every = collected([*options.tests, *others] or MARKED)
    number, of = options.share
    chosen = [name for name in every if zlib.crc32(name.encode()) % of == number - 1]
    TESTS.write_text("".join(f"{name}\n" for name in chosen), encoding="utf-8")
    already = round(os.getloadavg()[0])
    print(f"{len(chosen)} of {len(every)} tests; load before: {already}", flush=True)
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(max(0, options.load - already))]
    passes = Passes(every)
    try:
        failed = repeated(chosen, options.times, passes)
    finally:
        for process in load:
            process.kill()
            process.wait()
    for name, count in failed.most_common():
        print(f"failed {count} of {options.times}: {name}")
    print(f"{options.times} times beside a load of {options.load}: {len(failed)} tests failed; output: {LOG}")
    print(f"{passes.number(20)} of {len(every)} tests have passed 20 times in a row; counts: {PASSES}")
    return int(bool(failed))


def share(text: str) -> tuple[int, int]:
    """Return K and N of the text K/N; raise ValueError, which argparse reports."""
    number, _, of = text.partition("/")
    found = int(number), int(of)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(text)
    return found


def collected(arguments: list[str]) -> list[str]:
    """Return the tests that pytest finds with *arguments*; end the program where it finds none."""
    command = [*PYTEST, "--collect-only", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "::" in line]
    if done.returncode or not found:
        sys.exit(f"no tests: {(done.stdout + done.stderr).strip()[-500:]}")
    return found


class Passes:
    """How often each test has passed since it failed, or its file changed, kept on disk."""

    def __init__(self, tests: list[str], path: Path = PASSES) -> None:
        """Read what was kept of *tests*."""
        self._path = path
        self._kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self._digests = {name: _digest(name.partition("::")[0]) for name in tests}

    def add(self, passed: list[str], failed: list[str]) -> None:
        """Count one time of each test of *passed* and *failed*."""
        for name in passed:
            self._kept[name] = {"passed": self._of(name) + 1, "digest": self._digests[name]}
        for name in failed:
            self._kept[name] = {"passed": 0, "digest": self._digests[name]}
        self._path.write_text(json.dumps(self._kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def number(self, least: int) -> int:
        """Return how many tests have passed *least* times in a row."""
        return sum(self._of(name) >= least for name in self._digests)

    def _of(self, name: str) -> int:
        entry = self._kept.get(name, {})
        return int(entry["passed"]) if entry.get("digest") == self._digests[name] else 0


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def repeated(tests: list[str], times: int, passes: Passes) -> Counter[str]:
    """Run *tests* so many *times*; return how often each failed, and how often pytest itself did."""
    failed: Counter[str] = Counter()
    command = [*PYTEST, "--tb=short", "-rpfEs", f"@{TESTS}"]
    # The order of the examples is another one each time.
    environment = {**os.environ, "TOYSPEC_EXAMPLES": os.environ.get("TOYSPEC_EXAMPLES", "quick")}
    with LOG.open("w", encoding="utf-8") as log:
        for number in range(1, times + 1):
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            log.write(f"== {number}\n{done.stdout}{done.stderr}")
            log.flush()
            lines = done.stdout.splitlines()
            passed = [name for name in tests if f"PASSED {name}" in lines]
            names = [name for name in tests if any(_says_failed(line, name) for line in lines)]
            passes.add(passed, names)
            failed.update(names or ([f"pytest ended with {done.returncode}"] if done.returncode else []))
            last = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[-1]
            print(f"{number:3} {time.monotonic() - began:5.0f} s  {last}", flush=True)
    return failed


def _says_failed(line: str, name: str) -> bool:
    return line.startswith((f"FAILED {name} - ", f"ERROR {name} - ")) or line in {f"FAILED {name}", f"ERROR {name}"}


if __name__ == "__main__":
    sys.exit(main())
