"""A stand-in for ``torch.utils.tensorboard.SummaryWriter``: change the import, and the script logs a toy/v1 run.

The calls that log numbers and texts are there; what those for images and other media are given is left out, which is
reported once for each name, and counted in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from toyspec.integrations.training_run import RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

_LEFT_OUT = frozenset(
    [
        "add_audio",
        "add_custom_scalars",
        "add_embedding",
        "add_figure",
        "add_graph",
        "add_histogram",
        "add_histogram_raw",
        "add_image",
        "add_image_with_boxes",
        "add_images",
        "add_mesh",
        "add_onnx_graph",
        "add_pr_curve",
        "add_pr_curve_raw",
        "add_tensor",
        "add_video",
    ]
)


class SummaryWriter:
    """Writes one run below *log_dir*; *comment* is its name. Options of RunOptions may be given beside them.

    *purge_step* N means that training goes on after step N - 1: values from N on are logged again.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the call of SummaryWriter
        self,
        log_dir: str | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
        **options: Any,
    ) -> None:
        del max_queue, flush_secs, filename_suffix
        if comment:
            options.setdefault("name", comment.strip("_- ") or comment)
        start = Start(framework="run", resumed_step=None if purge_step is None else max(0, purge_step - 1))
        self.run = TrainingRun(RunOptions(root=log_dir or "runs", **options), start)

    def add_scalar(  # noqa: PLR0913, PLR0917 - the call of SummaryWriter
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write one number; its time is now."""
        del walltime, new_style, double_precision
        self.run.log({tag: scalar_value}, step=_step(global_step))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers as ``<main_tag>/<tag>``."""
        del walltime
        self.run.log({f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}, step=_step(global_step))

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a text."""
        del walltime
        self.run.log({tag: text_string}, step=_step(global_step))

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Take the settings of the run, and write its results."""
        del hparam_domain_discrete, run_name
        self.run.add_config(hparam_dict)
        self.run.log(metric_dict, step=_step(global_step))

    def flush(self) -> None:
        """Do nothing: what was logged is written."""

    def close(self) -> None:
        """End the run."""
        self.run.end()

    def get_logdir(self) -> str | None:
        """Return the directory of the run; None before its first value."""
        return None if self.run.writer is None else self.run.writer.directory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the run, as errored or interrupted where an exception ends the block."""
        self.run.end(error)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in _LEFT_OUT:
            raise AttributeError(
                f"SummaryWriter of toyspec has no {name}; it has add_scalar, add_scalars, add_text, add_hparams"
            )

        def leave_out(*args: Any, **kwargs: Any) -> None:
            tag = kwargs.get("tag", args[0] if args else None)
            why = f"toyspec's SummaryWriter does not log what {name} is given; log it as numbers or texts"
            self.run.leave_out(tag if isinstance(tag, str) else name, why)

        return leave_out


def _step(global_step: Any) -> int | None:
    return None if global_step is None else int(global_step)
