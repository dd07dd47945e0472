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

from toyspec.core.errors import StreamError
from toyspec.core.format.canonical import InvalidEventError, RecordRefusedError, encode, members_of
from toyspec.core.format.decoding import typed
from toyspec.core.format.profiles import EVENTS_FILE, MANIFEST_FILE
from toyspec.core.generated.kaun_v1 import RunManifest, Scalar
from toyspec.core.generated.limits import MAX_SAFE_RUN_ID_CHARS
from toyspec.core.kaun.scalars import ScalarStore, scalars_of
from toyspec.core.reading.log_detection import read_manifest
from toyspec.core.reading.reader import read
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls, cause_of, named, say, sync_directory, write_new_file
from toyspec.core.writing.append_file import AppendFile, Options
from toyspec.core.writing.appending import open_to_append
from toyspec.core.writing.clocks import SYSTEM_CLOCK, Clock
from toyspec.core.writing.dropped_records import DroppedRecords
from toyspec.core.writing.run_ids import check_run_id, make_directories, remove_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from toyspec.core.writing.events import Measure
    from toyspec.core.writing.settings import OnError

_MANIFEST_VERSION: Final = 1
_ID_TIME = "%Y-%m-%d_%H-%M-%S"
_ATTEMPTS = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def runs_dir() -> str:
    """Return where runs are kept: ``$RAVEN_RUNS_DIR``, else ``$XDG_CACHE_HOME/raven/runs``, else under ``~/.cache``."""
    named = os.environ.get("RAVEN_RUNS_DIR")
    if named:
        return named
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "raven", "runs")


class KaunRun:
    """One run: its manifest, and its scalars to be written or read.

    With *on_error* ``"disable"``, the default, nothing stops the program: an invalid scalar is left out, a full disk
    drops scalars until there is room, and a stream that cannot be written is no longer logged to. Each is reported
    once on standard error; ``dropped`` counts. With ``"raise"``, InvalidEventError or OSError is raised. The
    stream is locked from ``create``, or the first scalar, to ``close``.
    """

    def __init__(
        self,
        directory: str,
        manifest: RunManifest,
        *,
        on_error: OnError = "disable",
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> None:
        self.directory = directory
        self.manifest = manifest
        self._on_error = on_error
        self._clock = clock
        self._calls = calls
        self._file: AppendFile | None = None
        self._opening = threading.Lock()
        self._is_closed = False
        self._is_lost = False
        self._dropped = DroppedRecords(self.events_path)

    @classmethod
    def create(  # noqa: PLR0913 - each is an option of its own
        cls,
        base: str | os.PathLike[str] | None = None,
        *,
        experiment: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        on_error: OnError = "disable",
        clock: Clock = SYSTEM_CLOCK,
        calls: SystemCalls = SYSTEM_CALLS,
    ) -> KaunRun:
        """Return a new run in a directory of its own under *base*, by default ``runs_dir()``, its manifest written.

        *experiment* is any text; the name of the directory has ``-`` for what no file name may have.
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
        text = encode(manifest, profile="kaun/v1", kind="run")
        root = runs_dir() if base is None else os.fspath(base)
        run = cls(os.path.join(root, manifest.run_id), manifest, on_error=on_error, clock=clock, calls=calls)
        try:
            run._make(root, text, experiment)
        except OSError as error:
            run._survive(error)
        return run

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, on_error: OnError = "disable") -> KaunRun | None:
        """Return the run in *directory*; None when it has no manifest that can be read."""
        path = os.fspath(directory)
        manifest = _manifest_in(path)
        return None if manifest is None else cls(path, manifest, on_error=on_error)

    @classmethod
    def list_runs(cls, base: str | os.PathLike[str] | None = None) -> list[KaunRun]:
        """Return the runs under *base*, by default ``runs_dir()``, the newest name first; without it, none.

        A directory with an unreadable manifest is skipped.
        """
        return list(_runs(runs_dir() if base is None else os.fspath(base)))

    @classmethod
    def latest(cls, base: str | os.PathLike[str] | None = None) -> KaunRun | None:
        """Return the run of the newest name under *base* with a readable manifest; None if there is none."""
        return next(_runs(runs_dir() if base is None else os.fspath(base)), None)

    def __repr__(self) -> str:
        return f"<KaunRun {self.directory!r}>"

    @property
    def run_id(self) -> str:
        """Name of the run."""
        return self.manifest.run_id

    @property
    def run_dir(self) -> str:
        """Path of the run's directory."""
        return self.directory

    @property
    def dropped(self) -> int:
        """Number of scalars that were to be written and are not in the stream."""
        return self._dropped.count

    @property
    def events_path(self) -> str:
        """Path of the stream."""
        return os.path.join(self.directory, EVENTS_FILE)

    @property
    def active(self) -> bool:
        """True while scalars are written, or would be by the next call."""
        return not self._is_closed and not self._is_lost and (self._file is None or self._file.closed_because is None)

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

        Where no scalar of a tag says it, its name decides: see ``ScalarStore.best_for_tag``.
        """
        event = {"type": "scalar", "step": step, "wall_time": self._clock.wall(), "tag": tag, "value": value}
        optional = {"minimize": minimize, "epoch": epoch}
        self._append(event | {name: given for name, given in optional.items() if given is not None})

    def scalars(
        self, values: Mapping[str, Measure], *, step: SupportsIndex, epoch: SupportsIndex | None = None
    ) -> None:
        """Append the values of several metrics, by their tags, at one step."""
        for tag, value in values.items():
            self.log_scalar(tag, value, step=step, epoch=epoch)

    def append(self, scalar: Scalar) -> None:
        """Append a scalar; its ``wall_time`` is now unless it has one."""
        self._append({"wall_time": self._clock.wall()} | members_of(scalar))

    def store(self) -> ScalarStore:
        """Return the scalars that are in the stream now, by their tags; ``toyspec.follow`` gives what comes later."""
        with contextlib.suppress(OSError, StreamError), read(self.events_path, mode="salvage", dialect=None) as records:
            return ScalarStore(scalars_of(records))
        return ScalarStore()

    def close(self) -> None:
        """Close the stream; later calls write nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._survive(error)
        self._dropped.conclude()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, root: str, text: bytes, experiment: str | None) -> None:
        made = make_directories(root)
        try:
            self._make_inside(root, text, experiment)
        except OSError:
            remove_directories(made)
            raise

    def _make_inside(self, root: str, text: bytes, experiment: str | None) -> None:
        for _ in range(_ATTEMPTS):
            try:
                os.mkdir(self.directory)
                break
            except FileExistsError:
                self.manifest.run_id = _new_id(self._clock.wall(), experiment)
                self.directory = os.path.join(root, self.manifest.run_id)
                text = encode(self.manifest, profile="kaun/v1", kind="run")
        try:
            self._fill(text)
        except OSError:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.discard()
                self._file = None
            for name in (MANIFEST_FILE, f"{MANIFEST_FILE}.tmp"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.directory, name))
            with contextlib.suppress(OSError):
                os.rmdir(self.directory)
            raise

    def _fill(self, text: bytes) -> None:
        self._file = AppendFile.create(self.events_path, options=Options(calls=self._calls))
        path = os.path.join(self.directory, MANIFEST_FILE)
        # Under its own name the manifest is whole or not there.
        write_new_file(self._calls, f"{path}.tmp", [msgspec.json.format(text, indent=2), b"\n"])
        self._calls.replace(f"{path}.tmp", path)
        sync_directory(self._calls, self.directory)

    def _append(self, event: Mapping[str, Any]) -> None:
        if self._is_closed:
            return
        if self._is_lost:
            self._dropped.count += 1
            return
        try:
            self._writable().append(_line_of(event))
        except (InvalidEventError, RecordRefusedError) as error:
            if self._on_error == "raise":
                raise
            self._dropped.leave_out(str(error), key=getattr(error, "rule", ""))
        except OSError as error:
            file = self._file
            if self._on_error == "raise" or file is None or file.closed_because is not None:
                self._dropped.count += 1
                self._survive(error)
            else:
                self._dropped.add(cause_of(error))
        else:
            if self._dropped.outage:
                self._dropped.end_outage()

    def _writable(self) -> AppendFile:
        if self._file is not None:
            return self._file
        with self._opening:
            if self._file is None:
                self._file = open_to_append(self.events_path, "kaun/v1", options=Options(calls=self._calls))
            return self._file

    def _survive(self, error: OSError) -> None:
        """Stop logging and report it, unless the caller wants *error*."""
        if self._on_error == "raise":
            raise named(error, self.events_path)
        file, self._file, self._is_lost = self._file, None, True
        if file is None or not file.has_said_why:
            say(f"{self.events_path}: {cause_of(error)}; logging stops; the program continues")
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def _runs(base: str) -> Iterator[KaunRun]:
    try:
        names = sorted(os.listdir(base), reverse=True)
    except OSError:
        return
    for name in names:
        run = KaunRun.load(os.path.join(base, name))
        if run is not None:
            yield run


def _new_id(wall: float, experiment: str | None) -> str:
    name = f"{time.strftime(_ID_TIME, time.localtime(wall))}_{secrets.token_hex(2)}"
    safe = _UNSAFE.sub("-", experiment or "")[: MAX_SAFE_RUN_ID_CHARS - len(name) - 1].rstrip("-.")
    return check_run_id(f"{name}_{safe}" if safe else name)


def _line_of(event: Mapping[str, Any]) -> bytes:
    """Return the text of a scalar; raise InvalidEventError or RecordRefusedError."""
    line = encode(event, profile="kaun/v1")
    try:
        typed(line, "scalar", "kaun/v1")
    except msgspec.ValidationError as error:
        raise InvalidEventError(f"scalar is invalid: {error}") from error
    return line


def _manifest_in(directory: str) -> RunManifest | None:
    """Return the manifest of a run, what is of the wrong type left out; None when it cannot be read."""
    value = read_manifest(directory)
    if value is None or not isinstance(value.get("run_id"), str):
        return None
    known = {}
    for field in msgspec.structs.fields(RunManifest):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            known[field.name] = msgspec.convert(_strings(value, field.name), field.type)
    return RunManifest(**{"created_at": 0.0, "tags": [], "run_id": value["run_id"], **known})


def _strings(value: dict[str, Any], name: str) -> Any:
    """Return a member; of tags, those that are strings."""
    member = value[name]
    if name == "tags" and isinstance(member, list):
        return [tag for tag in member if isinstance(tag, str)]
    return member
