"""Runs tests many times beside a load of other processes: `make stress TESTS=… TIMES=20`.

A test that fails once is a defect, of the test or of what it tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

LOG = Path("build/stress.log")
# Each ends by itself when this program has been killed.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


def main() -> int:
    """Run the tests that the arguments name; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, metavar="N", help="how often (default: 20)")
    parser.add_argument(
        "--load", type=int, default=10, metavar="N", help="busy processes, those counted that run already (default: 10)"
    )
    parser.add_argument("tests", nargs="*", metavar="ARGUMENT", help="arguments of pytest (default: -m contended)")
    options, others = parser.parse_known_args()
    arguments = [*options.tests, *others] or ["-m", "contended"]
    LOG.parent.mkdir(exist_ok=True)
    already = round(os.getloadavg()[0])
    print(f"load before: {already}", flush=True)
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(max(0, options.load - already))]
    try:
        failed = repeated(arguments, options.times)
    finally:
        for process in load:
            process.kill()
            process.wait()
    for name, count in failed.most_common():
        print(f"failed {count} of {options.times}: {name}")
    print(f"{options.times} times beside a load of {options.load}: {len(failed)} tests failed; output: {LOG}")
    return int(bool(failed))


def repeated(arguments: list[str], times: int) -> Counter[str]:
    """Run pytest *times* times; return how often each test failed, and how often pytest itself did."""
    failed: Counter[str] = Counter()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *arguments]
    # The order of the examples is another one each time.
    environment = {**os.environ, "TOYSPEC_EXAMPLES": os.environ.get("TOYSPEC_EXAMPLES", "quick")}
    with LOG.open("w", encoding="utf-8") as log:
        for number in range(1, times + 1):
            began = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            log.write(f"== {number}\n{done.stdout}{done.stderr}")
            log.flush()
            names = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
            failed.update(names or ([f"pytest ended with {done.returncode}"] if done.returncode else []))
            last = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[-1]
            print(f"{number:3} {time.monotonic() - began:5.0f} s  {last}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
