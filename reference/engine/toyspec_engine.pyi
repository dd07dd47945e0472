"""The compiled engine of toyspec. It has no API of its own: use the package toyspec."""

from collections.abc import Sequence
from typing import TypeAlias, TypedDict, final

from toyspec.core.findings import Profile, Severity, State

__version__: str

class EngineFailure(RuntimeError):
    """The engine has a defect; the message names the place in its source."""

class FindingFields(TypedDict):
    rule: str
    severity: Severity
    line: int
    offset: int
    pointer: str
    message: str
    help: str
    sidecar: str | None
    excerpt: tuple[bytes, int, int] | None

class ReportFields(TypedDict):
    profile: Profile | None
    state: State | None
    valid: bool
    records: int
    bytes: int
    findings: list[FindingFields]
    suppressed: dict[str, int]

class OutcomeFields(TypedDict):
    """One of the three is there; none leaves the file to Python."""

    report: ReportFields | None
    skipped: str | None
    failure: tuple[int | None, str] | None

class OpenedFields(TypedDict):
    """All numbers of steps: name, steps and values of each metric, and step, time and epoch of each line."""

    columns: list[tuple[str, bytes, bytes]]
    rows: tuple[bytes, bytes, bytes | None]
    places: list[tuple[bytes, bytes, bytes | None]]
    """Those of each metric, if a line has one of several."""

EndsFields: TypeAlias = tuple[
    Profile, State, int, int, bytes | None, bytes | None, tuple[int, int], tuple[float, float], float
]
"""Profile, state, number of records, size, the lines that start and end the run, and of the run's own phase the first
and the last step, time, and the last loss, NaN for null."""

WalkedFields: TypeAlias = tuple[str, int, str, bool, bool]
"""Path, size, identity, whether its name alone says what it is, whether it is a link."""

ExtremesFields: TypeAlias = tuple[
    str,
    int,
    int,
    tuple[int, float],
    tuple[int, float],
    float | None,
    tuple[int, float] | None,
    tuple[int, float] | None,
]
"""Name, number of values and of nulls; the first and the last value, the last that is not null, the lowest and the
highest. All but the last that is not null come after their step."""

BucketFields: TypeAlias = tuple[int, int, list[bytes]]
"""Number of points in a bucket and in the last one, and the columns."""

class BlockPiece(TypedDict):
    """Whole lines: a block of steps, or none where Python reads them."""

    bytes: int
    lines: int
    last: int
    block: StepBlock | None

class LevelFields(TypedDict):
    """Buckets; of each column the number of the item that it begins with, or in a list the one value of all."""

    count: int
    level: int
    tail: int
    columns: list[int | list[float | None]]

class NumbersFields(TypedDict):
    """What records of nothing but numbers come to."""

    kinds: list[tuple[str, int]]
    phase: str | None
    times: tuple[float, float] | None
    steps: tuple[int, int] | None
    metrics: list[ExtremesFields]

DigestFields: TypeAlias = tuple[Profile, State, int, int, list[tuple[str, Severity, int]], list[bytes | NumbersFields]]
"""Profile, state, number of records, size, rule, severity and number of findings, and the lines in order."""

@final
class Options:
    def __new__(
        cls, profile: Profile | None, select: Sequence[str], ignore: Sequence[str], max_line_bytes: int
    ) -> Options: ...

@final
class Checker:
    def __new__(cls, options: Options, *, path: str | None = None, name: str = "") -> Checker: ...
    def feed(self, data: bytes) -> None: ...
    def finish(self) -> tuple[ReportFields, str | None]: ...

@final
class Batch:
    def __new__(cls, options: Options, threads: int, may_be_dialects: bool) -> Batch: ...
    def submit(self, path: str, may_skip: bool) -> None: ...
    def next(self, seconds: float) -> OutcomeFields | None: ...
    @property
    def received(self) -> int: ...

@final
class Walk:
    def __new__(cls, root: str, hints: Sequence[str]) -> Walk: ...
    def next(self, most: int) -> list[WalkedFields | tuple[str, tuple[int | None, str]]]: ...
    def records(self, most: int, number: int) -> list[bytes | WalkedFields | tuple[str, tuple[int | None, str]]]: ...

class ScalarLines(TypedDict):
    lines: bytes
    records: int
    values: int
    last: float

@final
class StepBlock:
    @property
    def kinds(self) -> list[tuple[str, int]]: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def times(self) -> tuple[float, float] | None: ...
    @property
    def steps(self) -> tuple[int, int] | None: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def minimized(self) -> list[tuple[str, bool]]: ...
    def extremes(self) -> list[ExtremesFields]: ...
    def last_place(self) -> tuple[float, float, float] | None: ...
    def opened(self) -> OpenedFields: ...

@final
class Pyramid:
    def __new__(cls, most: int) -> Pyramid: ...
    def add(self, place: tuple[float, float, float], value: float, at: tuple[float, float]) -> None: ...
    def add_block(self, block: StepBlock, column: int, at: tuple[float, float], begin: float | None) -> None: ...
    @property
    def first_places(self) -> tuple[float, float, float]: ...
    def buckets(self) -> BucketFields: ...

@final
class Packing:
    def __new__(cls) -> Packing: ...
    def levels(self, curve: Pyramid, fewest: int) -> list[LevelFields]: ...
    def data(self) -> bytes: ...

def step_blocks(data: bytes, profile: Profile, threads: int) -> list[BlockPiece]:
    """Return what whole lines of a stream hold, in their order, with blocks of steps; at most so many threads read."""

def folded(values: bytes, level: int) -> tuple[bytes, bytes, bytes]:
    """Return the lowest, the highest and the mean of each *level* successive finite values, added in pairs."""

def run_ends(paths: Sequence[str], most_bytes: int) -> list[EndsFields | None]:
    """Return what the ends of each short stream say; None where Python reads it."""

def digests(paths: Sequence[str], most_bytes: int) -> list[DigestFields | None]:
    """Return what each run comes to; None where Python reads it."""

def tensorboard_lines(data: bytes, at: int, start: float, last: float, running: bool) -> ScalarLines:
    """Return the lines of the TensorBoard records from *at* on, up to the first that Python reads.

    *start* is the start of the run in seconds since the Unix epoch, *last* the time of the record before since then.
    """

def fail() -> None:
    """Panic: shows that a panic becomes an exception."""
