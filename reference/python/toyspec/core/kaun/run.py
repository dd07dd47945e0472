"""Writes and finds kaun/v1 runs: a manifest ``run.json`` and a stream of scalars beside it.

::

    with KaunRun.create(experiment="mnist", config={"lr": 1e-3}, tags=["baseline"]) as run:
        run.scalars({"train/loss": 2.5, "train/acc": 0.75}, step=100, epoch=1)
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self, SupportsIndex

import msgspec

from toyspec.core.directories import Directory
from toyspec.core.format.canonical import InvalidEventError, encode, members_of
from toyspec.core.format.decoding import typed
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE
from toyspec.core.generated.kaun_v1 import RunManifest, Scalar
from toyspec.core.generated.limits import MAX_SAFE_RUN_ID_CHARS
from toyspec.core.reading.log_detection import read_manifest
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls, named
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import open_to_append
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock
from toyspec.core.writing.run_ids import check_run_id, make_directories, remove_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from toyspec.core.writing.events import Measure

_MANIFEST_VERSION: Final = 1
_ID_TIME = "%Y-%m-%d_%H-%M-%S"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def runs_dir() -> str:
    """Return where runs are kept: ``$RAVEN_RUNS_DIR``, else ``$XDG_CACHE_HOME/raven/runs``, else under ``~/.cache``."""
    named = os.environ.get("RAVEN_RUNS_DIR")
    if named:
        return named
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "raven", "runs")


class KaunRun:
    """One run: its manifest, and its scalars to be written.

    The stream is locked from ``create``, or the first scalar, to ``close``. Read it by ``toyspec.read`` or
    ``toyspec.open_run``.
    """

    def __init__(
        self,
        directory: str,
        manifest: RunManifest,
        *,
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> None:
        self.directory = directory
        """Path of the run's directory."""
        self.manifest = manifest
        self._clock = clock
        self._calls = calls
        self._file: AppendFile | None = None
        self._opening = threading.Lock()
        self._is_closed = False

    @classmethod
    def create(  # noqa: PLR0913 - each is an option of its own
        cls,
        base: str | os.PathLike[str] | None = None,
        *,
        experiment: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> KaunRun:
        """Return a new run in a directory of its own under *base*, by default ``runs_dir()``, its manifest written.

        *experiment* is any text; the name of the directory has ``-`` for what no file name may have. Raises OSError if
        the run cannot be made, and leaves nothing behind then.
        """
        wall = clock.wall()
        manifest = RunManifest(
            schema_version=_MANIFEST_VERSION,
            run_id=_new_id(wall, experiment),
            created_at=wall,
            tags=list(tags),
            experiment=experiment,
            config=dict(config) if config else None,
        )
        root = runs_dir() if base is None else os.fspath(base)
        # The settings are encoded before anything is made: they may be no JSON.
        encode(manifest, profile="kaun/v1", kind="run")
        made = make_directories(root)
        try:
            while True:
                run = cls(os.path.join(root, manifest.run_id), manifest, clock=clock, calls=calls)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(run.directory)
                    break
                manifest.run_id = _new_id(clock.wall(), experiment)
            run._fill()
        except OSError as error:
            remove_directories(made)
            raise named(error, os.path.join(root, manifest.run_id, EVENTS_FILE)) from error
        return run

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> KaunRun | None:
        """Return the run in *directory*; None when it has no manifest that can be read."""
        path = os.fspath(directory)
        manifest = _manifest_in(path)
        return None if manifest is None else cls(path, manifest)

    @classmethod
    def latest(cls, base: str | os.PathLike[str] | None = None) -> KaunRun | None:
        """Return the run of the newest name under *base*, by default ``runs_dir()``; None if there is none.

        A directory with an unreadable manifest is skipped. ``toyspec.list_runs`` gives all runs.
        """
        root = runs_dir() if base is None else os.fspath(base)
        try:
            names = sorted(os.listdir(root), reverse=True)
        except OSError:
            return None
        return next(filter(None, (cls.load(os.path.join(root, name)) for name in names)), None)

    def __repr__(self) -> str:
        return f"<KaunRun {self.directory!r}>"

    @property
    def run_id(self) -> str:
        """Name of the run."""
        return self.manifest.run_id

    @property
    def events_path(self) -> str:
        """Path of the stream."""
        return os.path.join(self.directory, EVENTS_FILE)

    def log_scalar(
        self,
        tag: str,
        value: Measure,
        *,
        step: SupportsIndex,
        epoch: SupportsIndex | None = None,
        minimize: bool | None = None,
    ) -> None:
        """Append one value of the metric *tag*; *minimize* says whether smaller ones are better, None leaves that open.

        Where no scalar of a tag says it, smaller is better if the tag contains ``loss`` or ``error``. Raises as
        ``append`` does.
        """
        event = {"type": "scalar", "step": step, "tag": tag, "value": value, "minimize": minimize, "epoch": epoch}
        optional = ("minimize", "epoch")
        self._append({name: given for name, given in event.items() if given is not None or name not in optional})

    def scalars(
        self, values: Mapping[str, Measure], *, step: SupportsIndex, epoch: SupportsIndex | None = None
    ) -> None:
        """Append the values of several metrics, by their tags, at one step; raises as ``append`` does."""
        for tag, value in values.items():
            self.log_scalar(tag, value, step=step, epoch=epoch)

    def append(self, scalar: Scalar) -> None:
        """Append a scalar; its ``wall_time`` is now unless it has one. After ``close``, nothing is written.

        Raises InvalidEventError for what is not a scalar, RecordRefusedError for one beyond a limit, and OSError if it
        cannot be written; the stream is unchanged then.
        """
        self._append(members_of(scalar))

    def close(self) -> None:
        """Close the stream; later calls write nothing. Raise OSError if the system could not store written bytes."""
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self) -> None:
        """Make the files of a new run in its directory; after an OSError, neither they nor the directory are there."""
        text = encode(self.manifest, profile="kaun/v1", kind="run")
        try:
            self._file = AppendFile.create(self.events_path, options=Options(calls=self._calls))
            with Directory(self.directory, calls=self._calls) as directory:
                # Under its own name the manifest is whole or not there.
                beside = f"{MANIFEST_FILE}.tmp"
                directory.replace(MANIFEST_FILE, [msgspec.json.format(text, indent=2), b"\n"], beside=beside)
                directory.sync()
        except OSError:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.discard()
            with contextlib.suppress(OSError), Directory(self.directory) as directory:
                directory.delete(MANIFEST_FILE)
            with contextlib.suppress(OSError):
                os.rmdir(self.directory)
            raise

    def _append(self, members: Mapping[str, Any]) -> None:
        if self._is_closed:
            return
        line = encode({"wall_time": self._clock.wall(), **members}, profile="kaun/v1")
        try:
            typed(line, "scalar", "kaun/v1")
        except msgspec.ValidationError as error:
            raise InvalidEventError(f"scalar is invalid: {error}") from error
        self._writable().append(line)

    def _writable(self) -> AppendFile:
        with self._opening:
            if self._file is None:
                self._file = open_to_append(self.events_path, "kaun/v1", options=Options(calls=self._calls))
            return self._file


def _new_id(wall: float, experiment: str | None) -> str:
    name = f"{time.strftime(_ID_TIME, time.localtime(wall))}_{secrets.token_hex(2)}"
    safe = _UNSAFE.sub("-", experiment or "")[: MAX_SAFE_RUN_ID_CHARS - len(name) - 1].rstrip("-.")
    return check_run_id(f"{name}_{safe}" if safe else name)


def _manifest_in(directory: str) -> RunManifest | None:
    """Return the manifest of a run, what is of the wrong type left out; None when it cannot be read."""
    value = read_manifest(directory)
    if value is None or not isinstance(value.get("run_id"), str):
        return None
    if isinstance(value.get("tags"), list):
        value["tags"] = [tag for tag in value["tags"] if isinstance(tag, str)]
    known = {}
    for field in msgspec.structs.fields(RunManifest):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            known[field.name] = msgspec.convert(value[field.name], field.type)
    return RunManifest(**{"created_at": 0.0, "tags": [], "run_id": value["run_id"], **known})
