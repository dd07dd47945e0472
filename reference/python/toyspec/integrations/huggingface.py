"""Logs a training of the Hugging Face ``Trainer``: ``Trainer(..., callbacks=[ToyspecCallback()])``.

Written against transformers 5.23. A step event is written for each log of the Trainer, an eval event for each
evaluation. A training that resumes from a checkpoint continues the run that saved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from transformers.trainer_callback import ExportableState, TrainerCallback

from toyspec.core.writing.environment import TrainingProcess
from toyspec.core.writing.logged_values import event_members
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toyspec.core.writing.run_writer import RunWriter

_STATE = "ToyspecCallback"
_EVALUATION = "eval"
_PREDICTION = "test"
_STEP_NAMES = {"learning_rate": "lr"}
_MODEL_FIELDS = {
    "model_type": "arch",
    "vocab_size": "vocab",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv",
    "intermediate_size": "d_ff",
}


class ToyspecCallback(Logs, TrainerCallback, ExportableState):
    """Writes the run of one Trainer; the options are those of RunOptions.

    The first process writes, as the Trainer counts them. Settings, model size and seeds come from the Trainer.
    """

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        super().__init__()
        self.run = TrainingRun(RunOptions(root=root, **options))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: the id of the run, by which a resumed training finds it."""
        options = msgspec.to_builtins(self.run.options)
        return {"args": options, "attributes": {"resumed_run_id": self.run.run_id}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the run, or go on with it: from the checkpoint, or again from the beginning."""
        del control
        self.run.train(_start(args, state, kwargs.get("model")))

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Write what the Trainer logs: a step, an evaluation, or the totals at the end; begin the run if need be."""
        del control
        writer = self._begun(args, state, kwargs)
        numbers = dict(logs or {})
        prefix = f"{_EVALUATION}_"
        if any(name.startswith(prefix) for name in numbers):
            found = {name.removeprefix(prefix): value for name, value in numbers.items()}
            writer.eval(_EVALUATION, step=state.global_step, **event_members("eval", found))
        elif "loss" in numbers:
            found = {_STEP_NAMES.get(name, name): value for name, value in numbers.items()}
            writer.step(state.global_step, **event_members("step", found))
        else:
            epoch = numbers.pop("epoch", None)
            totals = {f"train/{name.removeprefix('train_')}": value for name, value in numbers.items()}
            self.run.log(totals, step=state.global_step, epoch=epoch)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop the training where it is to obey its health rules and one of them asks for that."""
        del args, state, kwargs
        if self.run.should_stop:
            control.should_training_stop = True

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any], **kwargs: Any) -> None:
        """Write the metrics of a prediction."""
        del control
        values = {name.removeprefix(f"{_PREDICTION}_"): value for name, value in metrics.items()}
        if values:
            writer = self._begun(args, state, kwargs)
            writer.eval(_PREDICTION, step=state.global_step, **event_members("eval", values))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the run open for evaluations; it ends with the program, or when another one begins."""
        del args, state, control, kwargs
        self.run.end_training()

    def _begun(self, args: Any, state: Any, kwargs: Mapping[str, Any]) -> RunWriter:
        self.run.start = self.run.start or _start(args, state, kwargs.get("model"))
        return self.run.begin()


def _start(args: Any, state: Any, model: Any) -> Start:
    # Most of the hundred settings or more have no value.
    settings = {name: value for name, value in args.to_dict().items() if value is not None}
    model_config, count = getattr(model, "config", None), getattr(model, "num_parameters", None)
    members = {field: getattr(model_config, name, None) for name, field in _MODEL_FIELDS.items()}
    arch = members["arch"] or (None if model is None else type(model).__name__.lower())
    size = {"num_parameters": int(count())} if callable(count) else {}
    return Start(
        model={**members, "arch": arch, "name": getattr(model_config, "name_or_path", None) or None},
        config={**_subsample(args, state), **settings, **_model_config(model), **size},
        exist="resume" if state.global_step else "replace",
        from_step=state.global_step or None,
        run_id=_saved_run_id(state),
        process=TrainingProcess(int(args.process_index), int(args.world_size), "transformers"),
    )


def _model_config(model: Any) -> dict[str, Any]:
    """Return the configuration of the model, without what every one has."""
    config = getattr(model, "config", None)
    difference = getattr(config, "to_diff_dict", None)
    try:
        return {"model_config": difference()} if callable(difference) else {}
    except Exception:  # noqa: BLE001 - a configuration that cannot be shown stops no training
        return {}


def _saved_run_id(state: Any) -> str | None:
    """Return the id that the run had when the checkpoint was saved; None for a new training."""
    saved = (state.stateful_callbacks or {}).get(_STATE)
    if isinstance(saved, list):
        saved = saved[0]
    attributes = saved.get("attributes", {}) if isinstance(saved, dict) and state.global_step else {}
    run_id = attributes.get("resumed_run_id")
    return run_id if isinstance(run_id, str) else None


def _subsample(args: Any, state: Any) -> dict[str, int]:
    """Return how many steps are between two that the Trainer logs, where that is known and more than one."""
    is_by_steps = getattr(args.logging_strategy, "value", args.logging_strategy) == "steps"
    every = state.logging_steps if is_by_steps else state.max_steps // (state.num_train_epochs or 1)
    return {"subsample": int(every)} if state.max_steps and every > 1 else {}
