"""Callbacks of frameworks that are not installed here, called as the frameworks call them.

The real ones are called by ``nox -s interop_frameworks``.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from command_line import toyspec_within as toyspec
from logged_runs import events, kinds
from toyspec import list_runs
from toyspec.integrations.training_run import RunOptions, Start, TrainingRun


def replaced(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """Let the module *name* be there, with these members, and the packages around it."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if path not in sys.modules:
            monkeypatch.setitem(sys.modules, path, ModuleType(path))
    vars(sys.modules[name]).update(members)


@pytest.fixture
def hugging_face(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the callback, with stand-ins for the classes that it derives from."""
    replaced(
        monkeypatch,
        "transformers.trainer_callback",
        TrainerCallback=type("A", (), {}),
        ExportableState=type("B", (), {}),
    )
    monkeypatch.delitem(sys.modules, "toyspec.integrations.huggingface", raising=False)
    return importlib.import_module("toyspec.integrations.huggingface")


@pytest.fixture
def lightning(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the logger, with stand-ins for what it uses."""
    replaced(monkeypatch, "lightning.fabric.utilities.rank_zero", rank_zero_only=lambda function: function)
    replaced(monkeypatch, "lightning.pytorch.loggers.logger", Logger=object)
    monkeypatch.delitem(sys.modules, "toyspec.integrations.lightning", raising=False)
    return importlib.import_module("toyspec.integrations.lightning")


class Trainer:
    """Calls a callback as the Trainer of Hugging Face does."""

    def __init__(self, callback: Any) -> None:
        self.callback = callback
        settings = {"learning_rate": 0.1, "hub_token": "secret"}
        self.args = SimpleNamespace(
            to_dict=lambda: settings, process_index=0, world_size=1, logging_strategy="steps", logging_steps=1
        )
        self.state = SimpleNamespace(
            global_step=0,
            stateful_callbacks={},
            logging_steps=1,
            num_train_epochs=1,
            max_steps=4,
        )
        config = SimpleNamespace(model_type="gpt", vocab_size=7, to_diff_dict=lambda: {"n_positions": 64})
        self.model = SimpleNamespace(config=config)

    def tell(self, moment: str, **more: Any) -> None:
        """Call the method of this name, as the Trainer does."""
        getattr(self.callback, moment)(self.args, self.state, object(), model=self.model, **more)

    def train(self, first: int = 1) -> None:
        """Train two steps from step *first* on."""
        self.state.global_step = first - 1
        self.tell("on_train_begin")
        for step in (first, first + 1):
            self.state.global_step = step
            self.tell("on_log", logs={"loss": 1.0 / step, "learning_rate": 0.1, "grad_norm": 2.0})
        self.tell("on_log", logs={"train_runtime": 3.0, "train_loss": 0.5})
        self.tell("on_train_end")


def test_hugging_face_logs_before_and_after_training(hugging_face: Any, tmp_path: Path) -> None:
    """What comes before train opens the run, what comes after it is in the run, and nothing is said to be over."""
    callback = hugging_face.ToyspecCallback(tmp_path, system_seconds=0.0)
    trainer = Trainer(callback)
    trainer.tell("on_log", logs={"eval_loss": 3.0, "eval_acc": 0.1})
    trainer.train()
    trainer.tell("on_log", logs={"eval_loss": 2.0, "eval_acc": 0.5})
    trainer.tell("on_predict", metrics={"test_loss": 2.5, "test_acc": 0.25})
    trainer.tell("on_log", logs={"mine": "a text"})
    callback.close()
    assert ["run_start", "eval", "step", "step", "scalars", "eval", "eval", "scalars", "run_end"] == kinds(tmp_path)
    found = events(tmp_path)
    assert {"n_positions": 64} == found[0]["config"]["model_config"]
    assert ("***", 0.1) == (found[0]["config"]["hub_token"], found[2]["lr"])
    assert [("eval", 3.0), ("eval", 2.0), ("test", 2.5)] == [
        (e["name"], e["loss"]) for e in found if e["kind"] == "eval"
    ]
    assert {"train/mine": "a text"} == found[-2]["texts"]


def test_training_twice_is_one_run_with_a_resumption(hugging_face: Any, tmp_path: Path) -> None:
    """The second training repeats the steps of the first, and both are in the log."""
    callback = hugging_face.ToyspecCallback(tmp_path, system_seconds=0.0)
    trainer = Trainer(callback)
    trainer.train()
    trainer.train()
    callback.close()
    training = ["step", "step", "scalars"]
    assert ["run_start", *training, "run_resume", *training, "run_end"] == kinds(tmp_path)
    assert 0 == events(tmp_path)[4]["from_step"]


def test_a_new_run_ends_the_one_whose_training_is_over(hugging_face: Any, tmp_path: Path) -> None:
    """Two models that are trained in one program are two runs, the first of which is complete."""
    for name in ("a", "b"):
        callback = hugging_face.ToyspecCallback(tmp_path / name, system_seconds=0.0)
        Trainer(callback).train()
        assert [] == [event for event in events(tmp_path / name) if event["kind"] == "run_end"]
    assert "completed" == events(tmp_path / "a")[-1]["reason"]
    callback.close()


def test_lightning_goes_on_after_fit(lightning: Any, tmp_path: Path) -> None:
    """A test after fit is in the run, whose object users get as ``experiment``."""
    logger = lightning.ToyspecLogger(tmp_path, system_seconds=0.0)
    logger.log_metrics({"loss": 1.0, "epoch": 0}, step=1)
    logger.finalize("success")
    logger.log_metrics({"test/acc": 0.5}, step=2)
    logger.finalize("success")
    assert logger.experiment is logger.run
    logger.run.end()
    assert ["run_start", "scalars", "scalars", "run_end"] == kinds(tmp_path)
    assert "completed" == events(tmp_path)[-1]["reason"]


def test_an_exception_in_fit_is_the_end_of_the_run(lightning: Any, tmp_path: Path) -> None:
    """Lightning calls its loggers while it handles the exception, whose text is in the log."""
    logger = lightning.ToyspecLogger(tmp_path, system_seconds=0.0)
    logger.log_metrics({"loss": 1.0}, step=1)
    try:
        raise ValueError("bad batch")  # noqa: TRY301 - as the body of a fit does
    except ValueError:
        logger.finalize("failed")
    last = events(tmp_path)[-1]
    assert ("errored", "ValueError: bad batch") == (last["reason"], last["error"])
    for interrupted, status, reason in ((True, "success", "interrupted"), (False, "aborted", "errored")):
        trainer = type("Trainer", (), {"interrupted": interrupted})()
        logger = lightning.ToyspecLogger(tmp_path / reason, system_seconds=0.0)
        logger.log_graph(SimpleNamespace(_trainer=trainer))
        logger.finalize(status)
        assert reason == events(tmp_path / reason)[-1]["reason"]


def test_training_of_hugging_face_obeys_health_rules_when_asked(hugging_face: Any, tmp_path: Path) -> None:
    """With obey_health the Trainer stops where a rule asks for it, and without it is not."""
    for obeys in (True, False):
        rules = [{"name": "nan", "type": "nonfinite", "on": "stop"}]
        callback = hugging_face.ToyspecCallback(
            tmp_path / str(obeys), system_seconds=0.0, health=rules, obey_health=obeys
        )
        trainer = Trainer(callback)
        trainer.tell("on_train_begin")
        control = SimpleNamespace(should_training_stop=False)
        for step, loss in ((1, 1.0), (2, float("nan"))):
            assert not control.should_training_stop
            trainer.state.global_step = step
            trainer.tell("on_log", logs={"loss": loss})
            callback.on_step_end(trainer.args, trainer.state, control)
        assert obeys == control.should_training_stop
        trainer.tell("on_train_end")
        callback.close()
        assert ("aborted" if obeys else "completed") == events(tmp_path / str(obeys))[-1]["reason"]


def test_one_process_of_several_does_not_stop_alone(
    hugging_face: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Processes that train together would wait for the one that stopped, so that none does, which is said."""
    callback = hugging_face.ToyspecCallback(tmp_path, system_seconds=0.0, obey_health=True, health="default")
    trainer = Trainer(callback)
    trainer.args.world_size = 2
    trainer.tell("on_train_begin")
    trainer.tell("on_log", logs={"loss": float("nan")})
    control = SimpleNamespace(should_training_stop=False)
    callback.on_step_end(trainer.args, trainer.state, control)
    assert not control.should_training_stop
    assert "obey_health stops a training of one process only" in capsys.readouterr().err
    callback.close()


def test_training_of_lightning_obeys_health_rules(lightning: Any, tmp_path: Path) -> None:
    """Lightning's Trainer stops by its own flag."""
    logger = lightning.ToyspecLogger(tmp_path, system_seconds=0.0, obey_health=True, health="default")
    trainer = type("Trainer", (), {"should_stop": False, "ckpt_path": None, "interrupted": False})()
    logger.log_graph(SimpleNamespace(_trainer=trainer))
    logger.log_metrics({"loss": 1.0}, step=0)
    assert not trainer.should_stop
    logger.log_metrics({"loss": float("nan")}, step=1)
    assert trainer.should_stop
    logger.run.end()


ROOT = Path(__file__).resolve().parents[4]
RUNS = ROOT / "docs" / "assets" / "framework-runs"
PAGE = ROOT / "docs" / "how-to" / "log-from-frameworks.md"
PROGRAMS = sorted(path.stem for path in (ROOT / "reference/python/interop/frameworks").glob("*.py"))


def test_every_run_is_complete_and_without_a_finding() -> None:
    """What a strict check of a user demands holds for all of them."""
    done = toyspec("check", "--require-complete", "--fail-on", "warning", str(RUNS))
    assert 0 == done.returncode, done.stdout.decode()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_framework_has_a_run_on_the_page(program: str) -> None:
    """Each program of the page has its run, of a few kilobytes, and the page links to it."""
    streams = sorted((RUNS / program).glob("*/events.jsonl"))
    assert streams
    assert sum(stream.stat().st_size for stream in streams) < 40_000
    linked = re.findall(r"\(\.\./assets/framework-runs/([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert streams[0].relative_to(RUNS).as_posix() in linked


def test_named_run_that_begins_again_keeps_the_earlier_values(tmp_path: Path) -> None:
    """A second start at the first step is another attempt of the run, which supersedes the first."""
    for loss in (1.0, 2.0):
        options = RunOptions(
            root=tmp_path, run_id="demo", system_seconds=0.0, name="line", tags=["a"], unredacted=["hub_token"]
        )
        run = TrainingRun(options, Start())
        run.begin({"hub_token": "known", "api_key": "secret"})
        run.log({"loss": loss}, step=1)
        run.begin().abandon()
    found = events(tmp_path)
    assert ["run_start", "scalars", "run_resume", "scalars"] == [event["kind"] for event in found]
    assert ({"hub_token": "known", "api_key": "***"}, "line", ["a"]) == tuple(
        found[0][key] for key in ("config", "name", "tags")
    )
    (listed,) = list_runs(tmp_path)
    assert [2.0] == list(listed.history("loss")["loss"])


def test_only_a_new_training_replaces_a_log(hugging_face: Any, tmp_path: Path) -> None:
    """A Trainer says whether it goes on from a checkpoint: without one, an earlier log of the id moves away."""
    for first in (1, 1, 3):
        callback = hugging_face.ToyspecCallback(tmp_path, run_id="demo", system_seconds=0.0)
        Trainer(callback).train(first)
        callback.close()
    assert ["events.jsonl", "events.jsonl.prev"] == sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert [2] == [event["from_step"] for event in events(tmp_path) if event["kind"] == "run_resume"]
