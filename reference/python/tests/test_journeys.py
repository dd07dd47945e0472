"""The law of a log: every value that a program logs is found again, or the log itself says that it was left out.

A machine plays training programs against the public interface: any values, at any steps, in any order, with ends,
exceptions, resumptions, reruns, threads and forks. A model beside it keeps every value that was passed, each under a
name of its own. ``nox -s journeys -- 30`` plays for long.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import toyspec
from property_examples import examples
from toyspec.core.command_line.main import main

LEFT_OUT = "left out"
# What a program passes, and what is found: a number, a text, what a null was, or nothing.
VALUES: list[tuple[Any, Any]] = [
    (-0.0, -0.0),
    (7, 7.0),
    (5e-324, 5e-324),
    (True, 1.0),
    (np.array([[4.0]]), 4.0),
    (math.nan, "nan"),
    (10**400, "inf"),
    (None, None),
    ("text", ("text",)),
    ("\ud800", ("�",)),
    ([1, "x"], LEFT_OUT),
    (object(), LEFT_OUT),
]
"""Some of each sort; test_every_reader.py and test_run_values.py have them all."""
# What a program passes in the extra of an evaluation, and the cells that are found, by what follows the name.
RESULTS: list[tuple[Any, dict[str, str] | str]] = [
    (-math.inf, {"": "-inf"}),
    (2**60 + 1, {"": "1152921504606846977"}),
    ("text", {"": "'text'"}),
    ([1, True, 2.5], {"/0": "1.0", "/1": "1.0", "/2": "2.5"}),
    ([math.inf, "x"], {"": "'[Infinity,\"x\"]'"}),
    ({"a": {"b": True, "c": "t"}, "d": [1]}, {"/a/b": "1.0", "/a/c": "'t'", "/d/0": "1.0"}),
    ({"a": object()}, LEFT_OUT),
]
INDEXES = st.lists(st.integers(0, len(VALUES) - 1), max_size=4)
STEPS = st.none() | st.integers(0, 12)


def cell(outcome: Any) -> str:
    """Return what a table has for an *outcome*."""
    if outcome is None:
        return "nan"
    return repr(outcome[0]) if isinstance(outcome, tuple) else repr(float(outcome))


def metrics_of(runs: Any) -> list[str]:
    """Return the names of the metrics of the only run of *runs*."""
    (row,) = [each.row() for each in runs]
    return sorted(name.removeprefix("last.") for name in row if name.startswith("last."))


def once(records: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each record, and whether it is one that a resumed run wrote again because its first step went back."""
    early: list[dict[str, Any]] = []
    superseded: list[dict[str, Any]] = []
    for value in records:
        same = next((each for each in superseded if _is_again(value, each)), None)
        if same is not None:
            superseded.remove(same)
        elif value["kind"] == "run_resume":
            # One that corrects where the run goes on does not say when it was resumed.
            superseded = [] if "resumed_at" in value else [each for each in early if each["step"] > value["from_step"]]
            early = []
        elif "step" in value:
            early.append(value)
        yield value, same is not None


def _is_again(value: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Return whether *value* says what *earlier* does; values without a step are at the new last one then."""
    if value == {**earlier, "t": value["t"]}:
        return True
    return value["kind"] != "step" and value == {**earlier, "t": value["t"], "step": value.get("step")}


class Found:
    """What is read back of all streams of a journey."""

    def __init__(self) -> None:
        self.numbers: dict[str, Any] = {}
        self.losses: Counter[float] = Counter()
        self.left_out: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.remarks = 0

    def take(self, value: dict[str, Any]) -> None:
        """Add a record."""
        if value["kind"] in ("step", "eval") or "loss" in value.get("values", {}):
            self.losses[value.get("values", value)["loss"]] += 1
        words = value.get("nonfinite", {})
        for name, number in {**value.get("values", {}), **value.get("extra", {})}.items():
            prefix = "extra/" if "extra" in value else ""
            self.numbers[name] = words.get(prefix + name, number)
        for name, text in value.get("texts", {}).items():
            self.numbers[name] = (text,)
        # A step that goes back is written as plain values, whose names have no prefix.
        for name, count in value.get("left_out", {}).items():
            self.left_out[name.removeprefix("extra/")] += count
        self.dropped.update(value.get("dropped", {}))
        self.remarks += value["kind"] == "note" and value.get("topic") is None


class Programs(RuleBasedStateMachine):
    """Training programs, and what each of them passed."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.expected: dict[str, Any] = {}
        self.results: dict[str, str] = {}
        self.losses: Counter[float] = Counter()
        self.notes = 0
        self.left_out: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.said = io.StringIO()
        self.names = 0
        self.found = Found()
        self.again = Found()
        self.run: toyspec.RunWriter
        self.config: dict[str, Any] = {"lr": 0.1}

    def started(self, **options: Any) -> toyspec.RunWriter:
        """Return the run, started once more."""
        with contextlib.redirect_stderr(self.said):
            return toyspec.start_run(self.root, run_id="journey", config=self.config, git=None, **options)

    @initialize()
    def start(self) -> None:
        """Begin."""
        self.run = self.started()

    def values(self, indexes: list[int], group: str = "") -> dict[Any, Any]:
        """Return values, each by a name of its own, and expect them."""
        found: dict[Any, Any] = {}
        for index in indexes:
            self.names += 1
            given, outcome = VALUES[index]
            name = f"m{self.names}"
            found[name] = given
            path = f"{group}{name}"
            if outcome == LEFT_OUT:
                self.left_out[path] += 1
            else:
                self.expected[path] = outcome
        return found

    @rule(
        indexes=INDEXES,
        inner=INDEXES,
        step=STEPS,
        style=st.sampled_from(["mapping", "keywords", "positional", "thread"]),
    )
    def log(self, indexes: list[int], inner: list[int], step: int | None, style: str) -> None:
        """Log any values, some of them nested."""
        given = self.values(indexes)
        if inner:
            given["group"] = self.values(inner, group="group/")
        with contextlib.redirect_stderr(self.said):
            if style == "keywords":
                self.run.log(**given)
            elif style == "positional":
                self.run.log(given, 3 if step is None else step)
            elif style == "thread":
                thread = threading.Thread(target=lambda: self.run.log(given, step=step))
                thread.start()
                thread.join()
            else:
                self.run.log(given, step=step)

    @rule(indexes=INDEXES, step=STEPS, lr=st.sampled_from([None, 0.5, "0.5"]))
    def step(self, indexes: list[int], step: int | None, lr: Any) -> None:
        """Log a step, at any number: also one before the last."""
        self.names += 1
        loss = float(self.names)
        self.losses[loss] += 1
        given = self.values(indexes)
        with contextlib.redirect_stderr(self.said):
            self.run.step(step, loss=loss, extra=given, **({} if lr is None else {"lr": lr}))

    @rule(step=STEPS, indexes=st.lists(st.integers(0, len(RESULTS) - 1), max_size=3))
    def evaluate(self, step: int | None, indexes: list[int]) -> None:
        """Log an evaluation, with results of any type."""
        extra: dict[str, Any] = {}
        for index in indexes:
            self.names += 1
            name = f"m{self.names}"
            given, cells = RESULTS[index]
            extra[name] = given
            if isinstance(cells, str):
                self.left_out[f"{name}/a" if isinstance(given, dict) else name] += 1
            else:
                self.results.update({f"held-out/{name}{rest}": cell for rest, cell in cells.items()})
        self.names += 1
        loss = float(self.names)
        self.losses[loss] += 1
        with contextlib.redirect_stderr(self.said):
            at: dict[str, Any] = {} if step is None else {"step": step}
            self.run.eval("held-out", loss=loss, extra=extra, **at)

    @rule(indexes=INDEXES, step=st.sampled_from(["x", 2.5, -1, [5], True]), is_step=st.booleans())
    def log_at_no_step(self, indexes: list[int], step: Any, is_step: bool) -> None:
        """Pass as a step what is none: it costs nothing else, and is counted."""
        given = self.values(indexes)
        self.left_out["step"] += 1
        with contextlib.redirect_stderr(self.said):
            if is_step:
                self.names += 1
                self.losses[float(self.names)] += 1
                self.run.step(step, loss=float(self.names), extra=given)
            else:
                self.run.log(given, step=step)

    @rule(bad=st.sampled_from(["eval", "note"]))
    def bad_record(self, bad: str) -> None:
        """Pass what no record can be made of."""
        with contextlib.redirect_stderr(self.said):
            if bad == "eval":
                self.run.eval(None)  # type: ignore[arg-type]
            else:
                self.run.note(3)  # type: ignore[arg-type]
        self.dropped[bad] += 1

    @rule()
    def note(self) -> None:
        """Say something."""
        self.notes += 1
        with contextlib.redirect_stderr(self.said):
            self.run.define(f"m{self.names}", goal="min")
            self.run.note("a remark")

    @rule(way=st.sampled_from(["end", "close", "abandon", "error", "block"]))
    def end(self, way: str) -> None:
        """End the run in any way; what follows opens it again."""
        with contextlib.redirect_stderr(self.said):
            if way == "end":
                self.run.run_end()
            elif way == "close":
                self.run.close()
            elif way == "abandon":
                self.run.abandon()
            else:
                error = ValueError("diverged") if way == "error" else None
                self.run.__exit__(None if error is None else ValueError, error, None)

    @rule(from_step=STEPS, lr=st.sampled_from([0.1, 0.2]))
    def resume(self, from_step: int | None, lr: float) -> None:
        """Start the program again with the same id."""
        self.config = {"lr": lr}
        self.run = self.started(exist="resume", from_step=from_step)

    @rule()
    def begin_again(self) -> None:
        """Run the cell of a notebook again."""
        self.run = self.started()

    @rule()
    def fork(self) -> None:
        """Fork a child, which must not write, and whose end ends nothing; the run counts what it logs."""
        if self.run.active:
            self.dropped["scalars"] += 1
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
                self.run.log(child=1.0)
                self.run.run_end()
            os._exit(0)
        os.waitpid(child, 0)

    def teardown(self) -> None:
        """Read everything back."""
        with contextlib.redirect_stderr(self.said):
            self.run.close()
        try:
            self.check_everything()
        finally:
            shutil.rmtree(self.root)

    def check_everything(self) -> None:
        """Compare what was passed with what is read, and with the account of the log."""
        for path in sorted((self.root / "journey").glob("events.jsonl*")):
            self.check_stream(path)
        found = self.found
        read_back = {name: repr(found.numbers.get(name, LEFT_OUT)) for name in self.expected}
        assert {name: repr(outcome) for name, outcome in self.expected.items()} == read_back
        assert self.losses == found.losses
        assert self.notes == found.remarks
        assert self.left_out == found.left_out
        assert self.dropped == found.dropped
        self.check_shown()
        self.check_tables()
        self.check_last_run()

    def check_stream(self, path: Path) -> None:
        """Read one stream, and let the checker check it."""
        for value, is_again in once(record.value for record in toyspec.read(path)):
            (self.again if is_again else self.found).take(value)
        report = toyspec.check(path).files[0]
        assert [] == [finding for finding in report.findings if finding.severity == "error"]

    def check_tables(self) -> None:
        """Find every value in the tables of all streams, superseded ones included, each once, or once more if again."""
        cells: dict[str, list[str]] = {}
        losses: Counter[float] = Counter()
        missing: Counter[tuple[str, str]] = Counter()
        for path in sorted((self.root / "journey").glob("events.jsonl*")):
            table = toyspec.history(path, attempts="all")
            for what, counts in table.missing.items():
                missing.update({(what, name.removeprefix("extra/")): n for name, n in counts.items()})
            for name, column in table.items():
                cells.setdefault(name, []).extend(repr(each) for each in column if each is not None)
                if name in ("loss", "held-out/loss"):
                    losses.update(float(each) for each in column if each is not None)
        assert losses == self.losses + self.again.losses
        wanted = {
            name: [cell(outcome)] * (2 if name in self.again.numbers else 1) for name, outcome in self.expected.items()
        }
        for name, found in self.results.items():
            wanted[name] = [found] * (2 if name.split("/")[1] in self.again.numbers else 1)
        assert wanted == {name: cells.get(name, []) for name in wanted}
        account = {("left_out", name): n for name, n in (self.found.left_out + self.again.left_out).items()}
        account |= {("dropped", kind): n for kind, n in (self.found.dropped + self.again.dropped).items()}
        assert account == missing

    def check_last_run(self) -> None:
        """Find every value of the last stream in the export, and every metric in the list and in the catalog."""
        table = toyspec.history(self.root / "journey")
        numbers = [name for name in table if any(isinstance(each, float | int) for each in table[name])]
        numbers = sorted({name.removeprefix("values/") for name in numbers} - {"step"})
        assert numbers == metrics_of(toyspec.list_runs(self.root))
        toyspec.build_catalog(self.root, out=self.root / "catalog")
        assert numbers == metrics_of(toyspec.Catalog(self.root / "catalog").runs())
        report = toyspec.export_runs("tensorboard", self.root / "journey", self.root / "exported", max_examples=10_000)
        (ledger,) = report.runs
        assert ledger.items == ledger.carried + ledger.changed + ledger.dropped
        written = b"".join(path.read_bytes() for path in (self.root / "exported").rglob("*tfevents*"))
        for name in table.keys() & (self.expected.keys() | self.results.keys()):
            assert name.encode() in written or name in str(ledger.losses), name

    def check_shown(self) -> None:
        """Compare what ``show`` prints about the last stream with its own account."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            main(["show", str(self.root / "journey")])
        account = {"left out": Counter[str](), "dropped": Counter[str]()}
        for record in toyspec.read(self.root / "journey"):
            account["left out"].update(record.value.get("left_out", {}))
            account["dropped"].update(record.value.get("dropped", {}))
        for title, counts in account.items():
            found = re.search(rf"^  {title} +(\d+)", shown.getvalue(), re.MULTILINE)
            assert sum(counts.values()) == (0 if found is None else int(found.group(1)))


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(
    max_examples=examples(int(os.environ.get("TOYSPEC_JOURNEYS", "100"))),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
