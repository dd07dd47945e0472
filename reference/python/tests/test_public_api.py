from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import math
import pkgutil
import re
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import toyspec
import toyspec.core.errors
import toyspec.core.events
from files import in_subprocess
from toyspec.core.generated import kaun_v1, metrics_v1, toy_v1


def type_checked_names() -> set[str]:
    """Return the names that a type checker sees in the package."""
    source = ast.parse(Path(str(toyspec.__file__)).read_text(encoding="utf-8"))
    blocks = [node for node in source.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def test_all_is_what_is_promised() -> None:
    """The public names are sorted, importable, and the same at run time and for a type checker."""
    promised = set(toyspec.__all__) - {"__version__"}
    assert sorted(toyspec.__all__) == toyspec.__all__
    assert promised == type_checked_names() == set(toyspec._HOMES)
    assert sorted(toyspec.__all__) == dir(toyspec)


@pytest.mark.parametrize("name", toyspec.__all__)
def test_public_name_is_documented(name: str) -> None:
    """Each name says what it is, and ``help`` shows no address, inside of a table or sentinel in its signature."""
    value = getattr(toyspec, name)
    assert name == "__version__" or value.__doc__
    methods = [member for _, member in inspect.getmembers(value, inspect.isroutine)] if inspect.isclass(value) else []
    for shown in [value, *methods]:
        try:
            signature = str(inspect.signature(shown))
        except (TypeError, ValueError):  # a type, or a method of a base in C, that has none
            continue
        assert not re.search(r" at 0x|<built-in function (open|fsync)>", signature), signature
        assert "unset" not in signature.lower(), f"{shown}: None means not given"


STREAMS_OF_THE_CORPUS = sorted((Path(__file__).parents[3] / "conformance" / "cases").rglob("*.jsonl"))


def test_no_event_of_the_corpus_has_a_sentinel() -> None:
    """A member of an event that the record lacks is None, in every stream of the corpus; no event has null for it."""
    events = 0
    for path in STREAMS_OF_THE_CORPUS:
        reading = toyspec.read(path.read_bytes(), mode="salvage", dialect=None)
        for record in reading:
            if record.event is not None:
                events += 1
                check_members(record.event, record.value)
    assert events > 1000


def check_members(event: msgspec.Struct, value: dict[str, Any]) -> None:
    """Check that *event* has None for what *value* lacks, and a number for a number."""
    for name in event.__struct_fields__:
        member = getattr(event, name)
        assert member is not msgspec.UNSET, (event, name)
        assert member is None or name in value, (event, name)
        if isinstance(member, msgspec.Struct):
            check_members(member, value[name])
        elif isinstance(value.get(name), float):
            assert value[name] == member
        elif isinstance(member, float) and value[name] is None:
            assert not math.isfinite(member)


def test_what_a_user_holds_says_what_it_is_of(tmp_path: Path) -> None:
    """The text of an object in a session names its run, not an address of memory."""
    directory, stream = str(tmp_path / "a"), str(tmp_path / "a" / "events.jsonl")
    with toyspec.start_run(tmp_path, run_id="a") as run:
        assert f"<RunWriter {directory!r} active>" == repr(run)
        run.step(loss=2.5)
    assert f"<RunWriter {directory!r} inactive>" == repr(run)
    assert f"<Reading of {stream!r}>" == repr(toyspec.read(directory))
    assert f"<Follower of {directory!r}>" == repr(toyspec.follow(directory))
    shown = f"Run({directory!r}, name='a', state='complete', last_step=1, final_loss=2.5)"
    assert shown == repr(toyspec.open_run(directory)) == repr(toyspec.list_runs(directory)[0])
    with toyspec.MetricsLog.open(tmp_path / "metrics.jsonl") as log:
        assert f"<MetricsLog {log.path!r} entries=0>" == repr(log)
    with toyspec.KaunRun.create(tmp_path / "kaun") as kaun:
        assert f"<KaunRun {kaun.directory!r}>" == repr(kaun)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (toyspec.read, {"mode": "x"}),
        (toyspec.read, {"attempts": "x"}),
        (toyspec.history, {"attempts": "x"}),
        (toyspec.list_runs, {"read": "x"}),
        (toyspec.follow, {"until": "x"}),
        (toyspec.seal, {"existing": "x"}),
    ],
)
def test_a_choice_that_is_none_is_refused(function: Any, options: dict[str, str], tmp_path: Path) -> None:
    """A mistyped choice is an error that names the choices: it was taken for one of them."""
    toyspec.start_run(tmp_path, run_id="a").run_end()
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is 'x'; it must be one of '"):
        function(tmp_path / "a", **options)
    assert ["events.jsonl"] == [path.name for path in (tmp_path / "a").iterdir() if path.is_file()]


@pytest.mark.parametrize(
    "function",
    [
        *(toyspec.read, toyspec.history, toyspec.open_run, toyspec.ranks_of),
        *(toyspec.check_health, partial(toyspec.annotate, name="x"), toyspec.repair, toyspec.seal),
    ],
)
def test_a_run_that_is_missing_is_one_error(function: Any, tmp_path: Path) -> None:
    """Whatever is asked of a run that is not there, the error is the same and names the path."""
    with pytest.raises(toyspec.StreamMissingError, match=r"zzz.*: No such file or directory"):
        function(tmp_path / "zzz")


def test_no_module_hides_a_public_name() -> None:
    """No module of the package has a public name: importing it would put it in the name's place."""
    modules = {path.stem for path in Path(str(toyspec.__file__)).parent.iterdir()}
    assert set() == modules & set(toyspec._HOMES)


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that is not public is refused as any module refuses it."""
    with pytest.raises(AttributeError, match="module 'toyspec' has no attribute 'reed'"):
        toyspec.reed  # noqa: B018


def test_events_are_all_generated_types() -> None:
    """``toyspec.core.events`` has every generated type and nothing else."""
    modules = (toy_v1, metrics_v1, kaun_v1)
    found = [value for module in modules for value in vars(module).values() if getattr(value, "__struct_fields__", ())]
    types = {value.__name__ for value in found}
    assert types == set(toyspec.core.events.__all__)


def test_import_costs_nothing_that_is_not_used() -> None:
    """Importing the package imports neither msgspec nor jsonschema."""
    code = "import toyspec, sys; print(sorted({'msgspec', 'jsonschema', 'asyncio'} & set(sys.modules)))"
    done = in_subprocess(code)
    assert "[]\n" == done.stdout


INTERNAL = {
    "toyspec.expect.bands.ExpectationError": "ends `toyspec expect`",
    "toyspec.expect.partings.NotComparableError": "ends `toyspec bisect`",
    "toyspec.agents.digest.TooFewTokensError": "ends `toyspec digest`, or becomes an answer of `toyspec mcp`",
    "toyspec.core.workers.running.CrewEndedError": "ends a scan of the viewer that is being closed",
    "toyspec.core.command_line.parsers.UsageError": "ends the command line",
    "toyspec.convert.protobuf.MessageError": "becomes a note of the report of an import",
    "toyspec.convert.importing.TargetError": "is an OSError of the directory of an import",
    "toyspec.health.rules.HealthRuleError": "is a ValueError; becomes a ConfigurationError with its place in the file",
    "toyspec.core.files.SpecialFileError": "is an OSError; becomes a StreamUnreadableError",
    "toyspec.core.format.scanner.ScanStoppedError": "is caught by the validation of a line",
    "toyspec.convert.mirrors.mirroring.Abandoned": "becomes an Outcome",
    "toyspec.convert.mirrors.mirroring.Rewound": "lets a mirror begin again",
    "toyspec.core.places.place.ChangedError": "is a PlaceError; becomes a StreamUnreadableError",
    "toyspec.core.places.place.NotAPathError": "is a PlaceError; names a folder without it",
    "toyspec.core.places.place.RangesMissingError": "is a PlaceError; says to copy the file",
    "toyspec.core.reading.stream_files.GzipDataError": "becomes a SourceError or a gap",
    "toyspec.trainer.run_files.CheckpointError": "ends `toyspec train`",
    "toyspec.trainer.settings.SettingsError": "ends `toyspec train`",
    "toyspec.core.reading.configuration.ConfigurationError": "is about the settings file, which the command line reads",
    "toyspec.stores.transfers.ShortenedError": "lets a file wait for the next pass",
    "toyspec.core.places.place.MalformedAnswerError": "makes a sync compare and try again",
    "toyspec.view.requests.RefusedError": "becomes an answer of the server",
    "toyspec.core.files.ResourceMissingError": "says that the installation is broken",
}
"""Exceptions that no caller of the package meets, or can do anything about."""


OF_AN_EXTRA = {"toyspec.stores.file_systems": "fsspec", "toyspec.stores.object_stores": "obstore"}
OF_AN_EXTRA["toyspec.view.screen"] = "textual"
"""Modules that cannot be imported without the package of an extra."""


def test_every_error_is_public_and_in_one_tree() -> None:
    """Every exception that a caller can meet is a ToyspecError and can be imported from a package that documents it."""
    homes = [importlib.import_module(name) for name in ("toyspec", "toyspec.trainer", "toyspec.tracker")]
    public = {name for home in homes for name in home.__all__}
    found = {}
    for module in pkgutil.walk_packages(toyspec.__path__, "toyspec."):
        # Each integration needs its framework.
        is_alone = not module.name.endswith("__main__") and not module.name.startswith("toyspec.integrations.")
        if is_alone and is_there(OF_AN_EXTRA.get(module.name)):
            found.update(own_errors(importlib.import_module(module.name)))
    known = {name: error for name, error in found.items() if name not in INTERNAL}
    assert set(INTERNAL) <= set(found)
    assert [] == [name for name, error in known.items() if not issubclass(error, toyspec.ToyspecError)]
    assert [] == [name for name in known if name.rpartition(".")[2] not in public]


def test_documented_tree_of_errors_is_complete() -> None:
    """The tree in ``toyspec.core.errors`` has every public error below its class, and names the built-in one."""
    documented, above = {}, {0: ""}
    for line in (toyspec.core.errors.__doc__ or "").splitlines():
        if found := re.match(r"    ([ │├└─]*)(\w+Error)\b *(.*)", line):
            depth, name, meaning = len(found[1]) // 4, found[2], found[3]
            above[depth + 1] = name
            also = re.search(r"\(an? (\w+) too\)", meaning)
            documented[name] = (above[depth], also[1] if also else None)
    public = [getattr(toyspec, name) for name in toyspec.__all__]
    errors = [value for value in public if isinstance(value, type) and issubclass(value, toyspec.ToyspecError)]
    assert {error.__name__: (parent_of(error), builtin_of(error)) for error in errors} == documented


def parent_of(error: type[BaseException]) -> str:
    """Return the name of the nearest public class of which *error* is one, empty for the root."""
    return next((base.__name__ for base in error.__mro__[1:] if base.__name__ in toyspec.__all__), "")


def builtin_of(error: type[BaseException]) -> str | None:
    """Return the built-in exception that *error* is too, besides Exception."""
    return next((base.__name__ for base in (OSError, ValueError) if issubclass(error, base)), None)


def test_a_dialect_is_chosen_the_same_way_everywhere() -> None:
    """Each public function takes ``"auto"``, a name, a choice, or None for none, and recognizes one by default."""
    found = {}
    for name in set(toyspec.__all__) - {"__version__"}:
        value = getattr(toyspec, name)
        if inspect.isfunction(value) and "dialect" in inspect.signature(value).parameters:
            parameter = inspect.signature(value).parameters["dialect"]
            found[name] = (parameter.default, parameter.annotation)
    assert {"read", "follow", "check", "check_bytes", "list_runs", "import_runs", "build_catalog"} <= set(found)
    assert {("auto", "DialectChoice | str | None")} == set(found.values())


@pytest.mark.parametrize(("dialect", "is_read"), [(None, False), ("auto", True), (toyspec.DialectChoice(), True)])
def test_none_reads_no_dialect(dialect: toyspec.DialectChoice | str | None, is_read: bool, tmp_path: Path) -> None:
    """With None, the log of another program is of another format for reading, checking, listing and importing."""
    log = tmp_path / "logs" / "metrics.jsonl"
    log.parent.mkdir()
    log.write_bytes(b'{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.0}\n')
    with toyspec.read(log, dialect=dialect) as reading:
        list(reading)
    assert is_read == (reading.report.dialect is not None)
    findings = toyspec.check_bytes(log.read_bytes(), dialect=dialect).findings
    assert is_read == ("unknown-format" not in {finding.rule for finding in findings})
    assert is_read == bool(list(toyspec.list_runs(log.parent, dialect=dialect)))
    assert is_read == bool(toyspec.import_runs([log], tmp_path / "runs", dialect=dialect).runs)


def is_there(package: str | None) -> bool:
    """Return whether *package* is installed; True for None."""
    return package is None or importlib.util.find_spec(package) is not None


def own_errors(module: ModuleType) -> dict[str, type[BaseException]]:
    """Return the public exceptions that *module* defines, by their full names."""
    return {
        f"{module.__name__}.{name}": value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


def test_options_of_checks_agree() -> None:
    """An option of a check has one name, one default and one type, wherever it is given."""
    shared = {"profile", "select", "ignore", "max_line_bytes", "dialect"}
    for function in (toyspec.check, toyspec.check_bytes):
        parameters = inspect.signature(function).parameters
        assert shared == parameters.keys() & set(toyspec.CheckOptions.__struct_fields__)
        expected = {name: getattr(toyspec.CheckOptions(), name) or None for name in shared}
        assert expected == {name: parameters[name].default or None for name in shared}
    data = b"{}\n" + b" " * 9
    assert [] == toyspec.check_bytes(data, ignore=["unterminated-line", "unknown-format"]).findings
    assert ["line-too-long"] == [f.rule for f in toyspec.check_bytes(b"x" * 9 + b"\n", max_line_bytes=8).findings][:1]
