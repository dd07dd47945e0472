"""``toyspec mirror``: send runs on to other trackers."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Literal, get_args

from toyspec.convert.destinations.destination import ServiceRefusedError
from toyspec.convert.mirrors.settings import Mirror, Service
from toyspec.convert.reports import text_of
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.parsers import Parser, UsageError, local_path, seconds
from toyspec.core.command_line.terminal import tell, without_ci_commands
from toyspec.core.errors import StreamError, ToyspecError
from toyspec.core.runs.discovery import Stream, find_streams
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Iterator

    from toyspec.convert.mirrors.mirroring import Outcome
    from toyspec.convert.reports import RunConversion

DESCRIPTION = """\
Send each RUN on to a service while it is written, and end when it has ended. A
RUN is a toy/v1 run, or a directory with some below: then new runs are mirrored
as they come, until Ctrl-C. SERVICE is wandb, mlflow or tensorboard.

The bundle stays the truth. A state file beside it keeps how far the service is,
so that whatever is interrupted goes on with the next row, and nothing is sent
twice. While the service does not answer, the mirror waits and tries again. Its
end is a report, as that of `toyspec export`: what was carried, changed and
dropped since the run began, by cause and kind.

All is sent, or what a `Mirror` in the program has chosen before."""

EPILOG = """\
Weights & Biases: the network is used as wandb is configured; WANDB_MODE=offline
writes files. MLflow: the default is MLFLOW_TRACKING_URI. Login and keys are
those of the service's own tools.

exit status:
  0  all was sent
  1  the service did not answer for as long as --patience: call it again
  2  wrong usage, or a run cannot be mirrored

examples:
  toyspec mirror runs/a --to wandb
  toyspec mirror runs/ --to tensorboard --into tb/
  toyspec mirror --backfill runs/a --to mlflow --into sqlite:///mlflow.db"""

_POLL_SECONDS = 2.0
_PATIENCE = 60.0
USAGE = "toyspec mirror [OPTION…] RUN… --to SERVICE"


def configure(parser: Parser) -> None:
    """Add description, arguments and examples to *parser*."""
    parser.value("runs", "RUN", "what to mirror", nargs="+", type=local_path)
    parser.value("--to", "SERVICE", "where to", choices=get_args(Service), required=True)
    parser.value("--project", "NAME", "project or experiment; default: the run's group")
    parser.value("--into", "PLACE", "a directory; for mlflow a tracking URI")
    parser.flag("--backfill", "send what is missing now, and end")
    parser.value(
        "--patience",
        "SECONDS",
        f"how long an ended run is tried again; default: {_PATIENCE:g}",
        type=seconds,
        default=_PATIENCE,
    )


def run(options: Namespace) -> int:
    """Mirror the runs and return an exit code."""
    mirror = Mirror(
        to=options.to,
        project=options.project,
        into=options.into,
        patience=options.patience,
    )
    over = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: over.set())
    try:
        return _Mirrors(mirror, over).run(options.runs, is_backfill=options.backfill)
    except (ImportError, ServiceRefusedError) as error:
        raise UsageError(str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)


class _Mirrors:
    """The mirrors of one call."""

    def __init__(self, mirror: Mirror, over: threading.Event) -> None:
        self._mirror = mirror
        self._over = over
        self._status = exit_codes.OK
        self._known: set[str] = set()
        # A package that is missing is wrong usage, and said before anything starts.
        mirror.destination()

    def run(self, paths: list[str], *, is_backfill: bool) -> int:
        """Mirror all below *paths*; without *is_backfill* follow them, and directories of runs until Ctrl-C."""
        named = [list(_streams(path)) for path in paths]
        for path, streams in zip(paths, named, strict=True):
            if not streams and is_backfill:
                self._fail(path, "no run in the directory or below", exit_codes.USAGE)
        if is_backfill:
            for stream in (stream for streams in named for stream in streams):
                self._mirror_one(stream.path, is_backfill=True)
            return self._status
        found = zip(paths, named, strict=True)
        roots = [path for path, streams in found if not streams or any(stream.is_below for stream in streams)]
        threads = self._started(stream for streams in named for stream in streams)
        while roots and not self._over.wait(_POLL_SECONDS):
            threads += self._started(stream for root in roots for stream in _streams(root))
        for thread in threads:
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
        return self._status

    def _started(self, streams: Iterable[Stream]) -> list[threading.Thread]:
        found = [stream.path for stream in streams if stream.path not in self._known]
        self._known.update(found)
        threads = [threading.Thread(target=self._mirror_one, args=(path,), daemon=True) for path in found]
        for thread in threads:
            thread.start()
        return threads

    def _mirror_one(self, path: str, *, is_backfill: bool = False) -> None:
        from toyspec.convert.mirrors.mirroring import mirror_run

        try:
            outcome: Outcome = "replaced"
            while outcome == "replaced":
                until: Literal["now", "end"] = "now" if is_backfill else "end"
                outcome = mirror_run(path, self._mirror, until=until, over=self._over, report=_show)
        except StreamError as error:
            self._fail(path, error.fact, exit_codes.USAGE)
        except (ToyspecError, ImportError) as error:
            self._fail(path, str(error).removeprefix(f"{path}: "), exit_codes.USAGE)
        except OSError as error:
            self._fail(path, cause_of(error), exit_codes.USAGE)
        else:
            if outcome == "abandoned":
                self._fail(path, f"{self._mirror.to} does not answer; call it again later", exit_codes.FINDINGS)

    def _fail(self, path: str, fact: str, status: int) -> None:
        self._status = max(self._status, status)
        tell("mirror", f"{path}: {fact}")


def _show(account: RunConversion) -> None:
    # One write for each run: the mirrors of several runs end in threads.
    sys.stdout.write("".join(f"{without_ci_commands(line)}\n" for line in text_of(account)))
    sys.stdout.flush()


def _streams(path: str) -> Iterator[Stream]:
    return (found for found in find_streams(path) if isinstance(found, Stream))
