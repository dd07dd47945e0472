"""A day of chaos: what happens in it, by a seed, and what must be true at its end."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from chaos.accounting import LOG, Cut, account, cut_of, followed
from chaos.bucket import Bucket
from chaos.players import COMMAND, Player, left_alone, stopped
from chaos.programs import AT_START
from chaos.records import numbers_in
from chaos.states import States
from loopback_store import BUCKET, s3

RUNS = 6
TO = f"s3://{BUCKET}/runs"
_READY_SECONDS = 60.0
_ROWS = "select run_id, state, records, last_step from runs"
_TICK_SECONDS = 0.1
_PROGRAMS = [COMMAND[0], "-m", "chaos.programs"]


def _has_joined_line(log: Path) -> bool:
    try:
        return numbers_in(log.read_bytes())[1] > 0
    except (FileNotFoundError, ValueError):
        return False


class Plan(NamedTuple):
    """What a day is made from."""

    seconds: float
    seed: int
    disk: Path
    """A directory, the place where a disk is mounted that may become full if *can_fill*."""
    notes: Path
    """A directory on another disk."""
    can_fill: bool
    pause: float = 0.01
    """Seconds between two records of a run."""
    forget: int = 0
    """A broken writer acknowledges each record with this number, or a multiple of it, without logging it."""


class DayReport(NamedTuple):
    """What a day came to."""

    counts: dict[str, int]
    wrong: list[str]


class Day:
    """One day; see the module."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._bucket = Bucket(random.Random(plan.seed + 1))
        self._runs = plan.disk / "runs"
        self._copy = plan.disk / "copy"
        self._catalog = plan.disk / "catalog"
        self._names = [f"run-{number}" for number in range(RUNS)]
        self._states = {name: States(plan.notes / f"{name}.states") for name in self._names}
        self._cuts: dict[str, list[Cut]] = {name: [] for name in self._names}
        self._counts: Counter[str] = Counter()
        self._wrong: list[str] = []
        self._viewer_at = ""
        self._writers = {name: self._player(f"writer-{name}", self._writing(name), {AT_START}) for name in self._names}
        self._followers = {name: self._player(f"follower-{name}", self._following(name), ()) for name in self._names}
        self._syncers = [
            self._player("syncer-1", self._syncing(TO), ()),
            self._player("syncer-2", self._syncing(TO), ()),
            self._player("syncer-copy", self._syncing(str(self._copy)), ()),
        ]
        self._viewer = self._player("viewer", self._viewing, ())
        self._others = [self._player(f"reader-{n}", self._reading, {0, 1, 2}) for n in range(2)]
        self._builder = self._player("builder", self._building, {0, 1, 2})

    @property
    def _players(self) -> list[Player]:
        return [
            *self._writers.values(), *self._followers.values(), *self._syncers, self._viewer, self._builder,
            *self._others,
        ]  # fmt: skip

    def live(self) -> DayReport:
        """Let it all happen, calm it, and return what it came to."""
        self._runs.mkdir()
        self._bucket.start()
        os.environ |= s3(self._bucket) | {
            "TOYSPEC_REMOTE_SECONDS": "5",
            "TOYSPEC_CACHE": str(self._plan.notes / "cache"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]),
        }
        try:
            end = time.monotonic() + self._plan.seconds
            while time.monotonic() < end:
                self._keep_going()
                self._happen()
                time.sleep(_TICK_SECONDS)
            self._calm()
            self._settle()
        finally:
            for player in self._players:
                player.end_group()
            self._bucket.stop()
        for player in self._players:
            self._note(player.crash())
        self._wrong += [f"{words} goes on after the end" for words in left_alone(str(self._plan.notes), _READY_SECONDS)]
        self._wrong += self._bucket.wrong
        return DayReport(self._count(), self._wrong)

    # Who plays.

    def _player(self, name: str, command: Any, returns: Any) -> Player:
        return Player(name, command, self._plan.notes / f"{name}.log", returns=returns)

    def _writing(self, name: str) -> Any:
        number = self._names.index(name)
        words = [*_PROGRAMS, "write", str(self._runs), name, str(self._plan.notes / f"{name}.states")]
        # The last run is started again each time: what was there is kept under another name.
        words += ["--exist", "replace" if number == RUNS - 1 else "resume", "--pause", str(self._plan.pause)]
        words += ["--durability", "fsync"] if number == 1 else []
        words += ["--to", TO] if number == 2 else []
        words += ["--forget", str(self._plan.forget)]
        return lambda: words

    def _following(self, name: str) -> Any:
        def command() -> list[str]:
            notes, stop = self._notes_of(name), self._plan.notes / "stop"
            return [*_PROGRAMS, "follow", str(self._runs / name / LOG), str(notes), str(stop)]

        return command

    def _notes_of(self, name: str) -> Path:
        return self._plan.notes / f"{name}.followed"

    def _syncing(self, to: str) -> Any:
        return lambda: [*COMMAND, "sync", "--watch", "--every", "0.5", "--keep-both", str(self._runs), to]

    def _viewing(self) -> list[str]:
        return [*COMMAND, "view", "--port", "0", str(self._runs)]

    def _building(self) -> list[str]:
        words = [*COMMAND, "catalog"]
        is_there = (self._catalog / "catalog.json").exists()
        if is_there and self._chance.random() < 0.8:
            return [*words, "update", str(self._catalog)]
        return [*words, "build", str(self._runs), "--out", str(self._catalog)]

    def _reading(self) -> list[str]:
        run = str(self._runs / self._chance.choice(self._names))
        return [
            *COMMAND,
            *self._chance.choice(
                [
                    ["ls", str(self._runs)],
                    ["ls", "--full", "--json", str(self._runs)],
                    ["query", "--catalog", str(self._catalog), "select * from runs"],
                    ["check", "--format", "json", str(self._runs)],
                    ["check", TO],
                    ["show", run],
                    ["compare", str(self._runs)],
                    ["tail", "--once", "-n", "3", run],
                ]
            ),
        ]

    # What happens.

    def _keep_going(self) -> None:
        """Start what does not run, and note what has ended that must go on."""
        for player in self._players:
            if not player.is_running:
                self._note(player.wrong_end())
                player.start()

    def _note(self, wrong: str) -> None:
        if wrong:
            self._wrong.append(wrong)

    def _happen(self) -> None:
        """Let one thing happen, or none."""
        events = [
            (0.10, self._kill_writer), (0.04, self._kill_other), (0.02, self._cut_log), (0.01, self._pause_writer),
            (0.01, self._fill_disk), (0.006, self._take_store_down), (0.02, self._ask_viewer),
        ]  # fmt: skip
        for share, event in events:
            if self._chance.random() < share:
                event()

    def _kill_writer(self) -> None:
        name = self._chance.choice(self._names)
        number = self._chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
        writer = self._writers[name]
        if not writer.is_running or not stopped(writer.process_id):
            return
        # One that is killed before it has seen a cut leaves half a line joined with another: how long it takes to see
        # it depends on the machine, and on a disk that is full meanwhile.
        may_end = not _has_joined_line(self._runs / name / LOG)
        if number != signal.SIGKILL or not may_end:
            os.kill(writer.process_id, signal.SIGCONT)
        if may_end:
            writer.measure()
            writer.kill(number)

    def _kill_other(self) -> None:
        player = self._chance.choice([*self._syncers, self._viewer, self._builder, *self._followers.values()])
        player.measure()
        player.kill(self._chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        if player is self._viewer:
            self._viewer_at = ""

    def _cut_log(self) -> None:
        """Cut a log short while its writer is stopped, so that what is taken away is known."""
        name = self._chance.choice(self._names)
        part = self._chance.choice([0.0, 0.5, 0.9, self._chance.random()])
        path, writer = self._runs / name / LOG, self._writers[name]
        if not writer.is_running or not stopped(writer.process_id):
            return
        try:
            data = path.read_bytes() if path.exists() else b""
            size = int(part * len(data))
            if data:
                self._cuts[name].append(cut_of(data, size))
                os.truncate(path, size)
                self._counts["logs cut short"] += 1
        finally:
            os.kill(writer.process_id, signal.SIGCONT)

    def _pause_writer(self) -> None:
        writer = self._chance.choice(list(self._writers.values()))
        seconds = self._chance.uniform(0.2, 2.0)
        if writer.is_running and stopped(writer.process_id):
            time.sleep(seconds)
            os.kill(writer.process_id, signal.SIGCONT)
            self._counts["writers stopped for a while"] += 1

    def _fill_disk(self) -> None:
        seconds = self._chance.uniform(0.3, 2.0)
        if self._plan.can_fill:
            with self._full_disk():
                self._counts["disks full"] += 1
                time.sleep(seconds)

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[None]:
        found = os.statvfs(self._plan.disk)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        self._resize(used)
        try:
            yield
        finally:
            self._resize(found.f_blocks * found.f_frsize)

    def _resize(self, size: int) -> None:
        # It is refused where more has been written since; then the disk stays unchanged.
        words = ["mount", "-o", f"remount,size={size}", str(self._plan.disk)]
        subprocess.run(words, capture_output=True, check=False)

    def _take_store_down(self) -> None:
        self._bucket.stop()
        self._counts["times that the store was down"] += 1
        time.sleep(self._chance.uniform(0.3, 3.0))
        self._bucket.start()

    def _ask_viewer(self) -> None:
        """Ask the viewer for its table; one that has just been started may not answer so far."""
        self._counts["answers of the viewer"] += self._rows_of_viewer() is not None
        self._viewer.measure()

    def _rows_of_viewer(self) -> list[dict[str, Any]] | None:
        """Return the rows of the viewer, None where it does not answer."""
        if not self._viewer_at:
            said = self._viewer.log.read_text(encoding="utf-8", errors="replace") if self._viewer.log.exists() else ""
            self._viewer_at = said.rpartition("http://")[2].split()[0].rstrip("/") if "http://" in said else ""
        if not self._viewer_at:
            return None
        try:
            with urllib.request.urlopen(f"http://{self._viewer_at}/api/runs", timeout=30) as answer:
                rows: list[dict[str, Any]] = json.load(answer)["runs"]
        except (OSError, http.client.HTTPException):
            # It was killed, and the address is that of the process before.
            self._viewer_at = ""
            return None
        return rows

    # How it ends.

    def _calm(self) -> None:
        """Let nothing fail any more, and every run come to its end."""
        self._bucket.is_calm = True
        for states in self._states.values():
            states.finish()
        for name, writer in self._writers.items():
            while writer.wait(_READY_SECONDS) not in (0, None) and writer.starts < 10_000:
                self._note(writer.wrong_end())
                writer.start()
            if not _has_ended(self._runs / name / LOG):
                self._wrong.append(f"{name} has no end after its writer has ended: {writer.last_words()}")

    def _settle(self) -> None:
        """Note everything that is wrong after the end."""
        self._settle_followers()
        for syncer in self._syncers:
            status = syncer.interrupt() if syncer.is_running else 0
            if status not in (0, 1):
                self._wrong.append(f"{syncer.name} did not end by Ctrl-C, status {status}: {syncer.last_words()}")
        for to in (TO, str(self._copy)):
            self._settle_place(to)
        for name in self._names:
            found = account(self._runs / name, self._states[name], self._cuts[name])
            self._wrong += found.wrong
            self._counts["records tried"] += found.tried
            self._counts["records acknowledged"] += found.acknowledged
            self._counts["records that a cut took away"] += found.taken
        for other in (self._builder, *self._others):
            other.wait(_READY_SECONDS)
            self._note(other.wrong_end())
        self._settle_tables()

    def _settle_followers(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        for name, follower in self._followers.items():
            data = (self._runs / name / LOG).read_bytes()
            if not follower.is_running:
                self._note(follower.wrong_end())
                follower.start()
            wrong = self._wrong_notes(name, data)
            while wrong and time.monotonic() < deadline:
                time.sleep(0.2)
                wrong = self._wrong_notes(name, data)
            if wrong:
                self._wrong.append(f"{follower.name}: {wrong}")

    def _wrong_notes(self, name: str, data: bytes) -> str:
        notes = self._notes_of(name)
        return followed(notes.read_text(encoding="utf-8"), data) if notes.exists() else "it noted nothing"

    def _settle_place(self, to: str) -> None:
        """Require that *to* has every byte of every log after one more sync."""
        words = ["sync", "--keep-both", str(self._runs), to]
        for _ in range(2):
            done = self._command(words)
        if done.returncode:
            self._wrong.append(f"sync to {to} ends with status {done.returncode}: {done.stderr[-500:]}")
        if "nothing to send" not in done.stdout:
            self._wrong.append(f"a second sync to {to} has something to send: {done.stdout}")
        for path in self._runs.glob(f"*/{LOG}*"):
            name = path.relative_to(self._runs)
            key = f"runs/{name.as_posix()}"
            copied = self._copy / name
            there = self._bucket.get(key) if to == TO else copied.read_bytes() if copied.exists() else None
            if there != path.read_bytes():
                self._wrong.append(f"{to} has not what is in {name}")
        left = [path for path in self._copy.rglob("*") if path.name.endswith(".new")] if to != TO else []
        self._wrong += [f"{path} was left there" for path in left]

    def _settle_tables(self) -> None:
        """Require that the table, the catalog and the viewer say the same, and that every log is whole."""
        listed = {row["run_id"]: row for row in self._json(["ls", "--full", "--json", str(self._runs)])}
        if set(listed) != set(self._names):
            self._wrong.append(f"the table has the runs {sorted(map(str, listed))}")
        done = self._command(["catalog", "update", str(self._catalog)])
        if done.returncode:
            self._wrong.append(f"catalog update ends with status {done.returncode}: {done.stderr[-500:]}")
        rows = {row["run_id"]: row for row in self._json(["query", "--catalog", str(self._catalog), "--json", _ROWS])}
        self._viewer_at = self._viewer_at if self._viewer.is_running else ""
        if not self._viewer.is_running:
            self._viewer.start()
        seen = self._rows_when(set(self._names))
        for name, row in listed.items():
            if row["state"] != "complete":
                self._wrong.append(f"{name} is {row['state']}")
            for other, found in (("catalog", rows), ("viewer", seen)):
                for fact in ("state", "records", "last_step"):
                    there = found.get(name, {}).get(fact)
                    if there != row[fact]:
                        self._wrong.append(f"{other}: {fact} of {name} is {there}, and in the table {row[fact]}")

    def _rows_when(self, names: set[str]) -> dict[str, dict[str, Any]]:
        """Return the rows of the viewer once all runs are complete there, or what it has after a while."""
        rows: dict[str, dict[str, Any]] = {}
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            rows = {row["run_id"]: row for row in self._rows_of_viewer() or []}
            if names == set(rows) and all(row["state"] == "complete" for row in rows.values()):
                return rows
            time.sleep(0.3)
        return rows

    def _command(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, timeout=300)

    def _json(self, words: list[str]) -> Any:
        done = self._command(words)
        try:
            return json.loads(done.stdout)
        except ValueError:
            self._wrong.append(f"{' '.join(words)} prints no JSON: {done.stdout[:200]}{done.stderr[-500:]}")
            return []

    def _count(self) -> dict[str, int]:
        kills = {
            "kills of writers": sum(player.kills for player in self._writers.values()),
            "kills of followers": sum(player.kills for player in self._followers.values()),
            "kills of syncers": sum(player.kills for player in self._syncers),
            "kills of catalog builders": self._builder.kills,
            "kills of viewers": self._viewer.kills,
        }
        commands = sum(player.starts for player in (self._builder, *self._others))
        memory = max(player.most_bytes for player in self._players) >> 20
        return {
            "runs": RUNS, **kills, **self._counts, "requests that failed": sum(self._bucket.failed.values()),
            "commands that read or built": commands, "most memory of a process, MiB": memory,
        }  # fmt: skip


def _has_ended(path: Path) -> bool:
    return b'"run_end"' in path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2] if path.exists() else False


def keep(plan: Plan, target: Path) -> None:
    """Keep what a day has left in the directory *target*."""
    for name, source in (("disk", plan.disk), ("notes", plan.notes)):
        shutil.copytree(source, target / name, dirs_exist_ok=True)
