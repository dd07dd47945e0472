"""Works on a Ray cluster of several nodes on this machine, some of which are lost meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")

# The workers of the cluster find this module.
os.environ["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])

from ray.cluster_utils import Cluster

from toyspec import CatalogError, check
from toyspec.core.workers.running import Work, results_of
from toyspec.stores import Ray

RUN = (
    '{{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"{0}","started_at":"2026-11-0{1}T10:00:00Z"}}\n'
    '{{"kind":"step","t":1.0,"step":{0},"loss":0.{0}}}\n{{"kind":"run_end","t":2.0,"reason":"completed"}}\n'
)


@pytest.fixture(scope="module")
def cluster():
    """Start three nodes of one core each, on loopback."""
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [started.add_node(num_cpus=1) for _ in range(2)]
    yield started, nodes
    ray.shutdown()
    started.shutdown()


@pytest.fixture
def runs(tmp_path):
    """Write 300 runs, some of which are damaged."""
    for number in range(300):
        directory = tmp_path / "runs" / f"{number:03}"
        directory.mkdir(parents=True)
        text = RUN.format(number, 1 + number % 3)
        (directory / "events.jsonl").write_text(text if number % 7 else text.replace('"t"', '"t', 1))
    return tmp_path / "runs"


def test_cluster_gives_the_report_of_one_process(cluster, runs):
    """The report is the same, in the same order."""
    here, there = check(runs), check(runs, workers=Ray(cluster[0].address))
    assert here.files == there.files
    assert here.errors == there.errors


def test_cluster_writes_the_bytes_of_one_process(cluster, runs, tmp_path):
    """Each file of a catalog is the same."""
    pytest.importorskip("duckdb")
    from toyspec import build_catalog

    build_catalog(runs, out=tmp_path / "a")
    build_catalog(runs, out=tmp_path / "b", workers=Ray(cluster[0].address))
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*") if path.is_file())
    assert files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def slowly(items, *, seen="", poison=frozenset()):
    """Return each item twice as large; those of *poison* end the process."""
    for item in items:
        if item in poison:
            os.kill(os.getpid(), signal.SIGKILL)
    Path(seen, str(items[0])).touch()
    time.sleep(0.2)
    return [2 * item for item in items]


def work(**options):
    """Return the work of ``slowly``."""
    return Work(partial(slowly, **options), lambda _: 1, lambda item, reason: f"{item}: {reason}")


def test_node_that_is_killed_costs_a_retry(cluster, tmp_path):
    """A node is lost while it works: every result is there, in order."""
    started, nodes = cluster
    node = nodes.pop()

    def kill():
        end = time.monotonic() + 30
        while len(os.listdir(tmp_path)) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        started.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    items = range(64 * 20)
    found = list(results_of(items, work(seen=str(tmp_path)), Ray(started.address)))
    killer.join()
    assert [(item, 2 * item) for item in items] == found


def test_poisoned_item_is_isolated(cluster, tmp_path):
    """An item that ends every worker is reported, and all others have results."""
    poison = frozenset([5, 100])
    found = dict(results_of(range(128), work(seen=str(tmp_path), poison=poison), Ray(cluster[0].address)))
    assert {item: 2 * item for item in range(128)} | {
        item: f"{item}: its worker process ended" for item in poison
    } == found


def test_work_that_raises(cluster):
    """An exception of the work is raised unchanged."""
    for item, kind in ((0, ValueError), (1, RuntimeError)):
        with pytest.raises(kind, match="a fact"):
            list(results_of([item], Work(refuse, lambda _: 1, lambda *_: None), Ray(cluster[0].address)))


def refuse(items):
    """Raise an exception, for 1 one that does not survive being passed."""
    raise CatalogError("place", "a fact") if items[0] else ValueError("a fact")


def test_cluster_that_is_not_there(tmp_path):
    """The message names the address and what to do."""
    done = subprocess.run(
        [sys.executable, "-m", "toyspec", "check", "--ray", "127.0.0.1:1", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "no Ray cluster at 127.0.0.1:1" in done.stderr
