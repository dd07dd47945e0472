"""Logs a training of PyTorch-Ignite.

``ToyspecLogger().attach_output_handler(trainer, event_name=Events.ITERATION_COMPLETED, tag="train", ...)``.

Written against pytorch-ignite 0.5.5. What ignite attaches to its own TensorBoard logger attaches here: output handlers
and optimizer parameters.
"""

from __future__ import annotations

from typing import Any

from ignite import distributed
from ignite.handlers.base_logger import BaseLogger, BaseOptimizerParamsHandler, BaseOutputHandler

from toyspec.core.writing.environment import TrainingProcess
from toyspec.integrations.training_run import Logs, run_of


class ToyspecLogger(Logs, BaseLogger):
    """Writes one run; the options are those of RunOptions. The process of rank 0 writes."""

    def __init__(self, root: str = "runs", **options: Any) -> None:
        """Log below *root*; raise TypeError for an unknown option."""
        process = TrainingProcess(int(distributed.get_rank()), int(distributed.get_world_size()), "ignite")
        self.run = run_of(root, options, process=process)

    def _create_output_handler(self, *args: Any, **kwargs: Any) -> OutputHandler:
        return OutputHandler(*args, **kwargs)

    def _create_opt_params_handler(self, *args: Any, **kwargs: Any) -> OptimizerParamsHandler:
        return OptimizerParamsHandler(*args, **kwargs)


class OutputHandler(BaseOutputHandler):
    """Writes outputs and metrics of an engine by ``<tag>/<name>``."""

    def __call__(self, engine: Any, logger: ToyspecLogger, event_name: Any) -> None:
        """Write the values of this moment."""
        values = self._setup_output_metrics_state_attrs(engine, key_tuple=False)
        step = self.global_step_transform(engine, event_name)
        logger.run.log(values, step=int(step), epoch=engine.state.epoch)
        if logger.run.should_stop:
            engine.terminate()


class OptimizerParamsHandler(BaseOptimizerParamsHandler):
    """Writes a parameter of each group of an optimizer, such as the learning rate."""

    def __call__(self, engine: Any, logger: ToyspecLogger, event_name: Any) -> None:
        """Write the values of this moment."""
        prefix = f"{self.tag}/" if self.tag else ""
        groups = self.optimizer.param_groups
        values = {
            f"{prefix}{self.param_name}/group_{at}": float(group[self.param_name]) for at, group in enumerate(groups)
        }
        logger.run.log(values, step=engine.state.get_event_attrib_value(event_name))
