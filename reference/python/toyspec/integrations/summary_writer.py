"""A stand-in for ``torch.utils.tensorboard.SummaryWriter``: change the import, and the script logs a toy/v1 run.

The calls that log numbers, texts, pictures, sounds and histograms are there; what the others are given is left
out, which is reported once for each name, and counted in the log.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from toyspec.core.writing.media import Audio, Histogram, Image
from toyspec.integrations.left_out import part_of, say_left_out, substitute
from toyspec.integrations.training_run import Logs, RunOptions, Start, TrainingRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SummaryWriter(Logs):
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
        start = Start(from_step=None if purge_step is None else max(0, purge_step - 1))
        self.run = TrainingRun(RunOptions(root=log_dir or "runs", **options), start)
        self._writer = self.run.begin()

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

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture, an array whose axes are those of *dataformats*."""
        del walltime
        self._log_media(tag, Image(_transposed(img_tensor, dataformats, "HWC")), global_step)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several pictures of one step."""
        del walltime
        several = _transposed(img_tensor, dataformats, "NHWC")
        self._log_media(tag, [Image(each) for each in several], global_step)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of Matplotlib, or several, as pictures."""
        del walltime
        figures = figure if isinstance(figure, list) else [figure]
        for each in figures:
            if not hasattr(each, "savefig"):
                self._leave_out("add_figure", tag)
                continue
            file = io.BytesIO()
            each.savefig(file, format="png")
            self._log_media(tag, Image(file.getvalue()), global_step)
            if close:
                from matplotlib import pyplot as plt

                plt.close(each)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound, samples from -1 to 1."""
        del walltime
        self._log_media(tag, Audio(snd_tensor, sample_rate), global_step)

    def add_histogram(  # noqa: PLR0913, PLR0917 - the call of SummaryWriter
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how often which values are; *bins* that are not a number are 64."""
        del walltime
        number = bins if isinstance(bins, int) else max_bins or 64
        self._log_media(tag, Histogram(values, min(number, 512)), global_step)

    def add_histogram_raw(  # noqa: PLR0913, PLR0917 - the call of SummaryWriter
        self,
        tag: str,
        min: float,  # noqa: A002
        max: float,  # noqa: A002
        num: int,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram whose bins end at *bucket_limits*."""
        del walltime, num, sum, sum_squares, max
        edges = [min, *bucket_limits]
        self._log_media(tag, Histogram(edges=edges, counts=bucket_counts), global_step)

    def _log_media(self, tag: str, media: Any, global_step: int | None) -> None:
        self.run.log({tag: media}, step=_step(global_step))

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write the settings of the run, and its results."""
        del hparam_domain_discrete, run_name
        self.run.begin(hparam_dict)
        self.run.log(metric_dict, step=_step(global_step))

    def flush(self) -> None:
        """Do nothing: what was logged is written."""

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self._writer.directory

    def _get_file_writer(self) -> SummaryWriter:
        """Return itself: Lightning adds settings to the writer below."""
        return self

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write the settings that ``hparams`` returns; leave out anything else."""
        del global_step, walltime
        if isinstance(summary, dict):
            self.run.begin(summary)
        elif summary is not None:
            self._leave_out("add_summary")

    @property
    def log_dir(self) -> str:
        """Directory of the run."""
        return self._writer.directory

    def __getattr__(self, name: str) -> Any:
        """Return what takes calls and is left out, under the tag that it is given, for a name that PyTorch's has."""
        if name.startswith("__") or name == "_writer":
            raise AttributeError(name)
        if not name.startswith("add_"):
            return substitute("SummaryWriter", name, self._leave_out)
        substitute("SummaryWriter", name, self._leave_out)

        def leave_out(*args: Any, **kwargs: Any) -> None:
            tag = kwargs.get("tag", args[0] if args else None)
            self._leave_out(name, tag if isinstance(tag, str) else name)

        return leave_out

    def _leave_out(self, name: str, tag: str = "") -> None:
        why = f"toyspec's SummaryWriter does not log what {name} is given; log it as numbers or texts"
        self._writer.leave_out(tag or name, why)


def hparams(hparam_dict: Mapping[str, Any], metric_dict: Any = None, *_: Any) -> tuple[Any, None, None]:
    """Return what ``add_summary`` writes of settings: ``torch.utils.tensorboard.summary`` has it."""
    del metric_dict
    return dict(hparam_dict), None, None


def part(path: str) -> Any:
    """Return what stands for the module *path* in the package of SummaryWriter."""
    return part_of("", path, say_left_out)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return part_of("", name, say_left_out)


def _step(global_step: Any) -> int | None:
    return None if global_step is None else int(global_step)


def _transposed(array: Any, axes: str, wanted: str) -> Any:
    """Return *array*, whose axes are *axes*, with those of *wanted*; what does not fit unchanged, which is left out."""
    for step in ("detach", "cpu"):
        array = getattr(array, step)() if callable(getattr(array, step, None)) else array
    shape = getattr(array, "shape", ())
    known = [axis for axis in wanted if axis in axes]
    if len(shape) != len(axes) or len(known) != len(axes) or not hasattr(array, "__array__"):
        return array
    import numpy as np

    return np.asarray(array).transpose([axes.index(axis) for axis in known])
