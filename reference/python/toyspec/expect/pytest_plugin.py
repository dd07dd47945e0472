"""The plugin for pytest: a test compares the runs that it trains with what is expected."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Path = str | os.PathLike[str]


class ExpectedRun:
    """Compares runs with what is expected, for one test; its marker has what a call does not."""

    def __init__(self, test: pytest.Item) -> None:
        marker = test.get_closest_marker("toyspec")
        self._marked = marker.kwargs if marker else {}
        self._test = test
        self.is_asked = False

    def __call__(self, *runs: Path, **options: Any) -> None:
        """Fail the test unless each of *runs* logged what the file *golden* beside the test expects.

        Both are in the marker otherwise, as ``run`` and ``golden``. With ``--toyspec-update`` the file is written, by
        ``preset``, ``metric`` and the fields of ``Shape``.
        """
        __tracebackhide__ = True
        self.is_asked = True
        text = _compared(self._test, runs, **{**self._marked, **options})
        if text:
            pytest.fail(text, pytrace=False)


def _compared(
    test: pytest.Item,
    runs: Iterable[Path],
    *,
    run: Path | Iterable[Path] = (),
    golden: Path = "golden.json",
    metric: str | Iterable[str] = (),
    **shape: Any,
) -> str:
    """Return what the command prints about runs that are not as expected."""
    # Imported here: a session without such a test does not need it.
    from toyspec.core.command_line.terminal import Terminal
    from toyspec.core.directories import write_output
    from toyspec.core.errors import ToyspecError
    from toyspec.core.reading.log_detection import DialectChoice
    from toyspec.expect.bands import departures, expectation_of, read_expectation, shape_of, written
    from toyspec.expect.commands.expect import print_departures

    path, choice = os.fspath(test.path.parent / golden), DialectChoice()
    places = [os.fspath(each) for each in runs or ([run] if isinstance(run, str | os.PathLike) else run)]
    if not places:
        return "no run to compare; name it: @pytest.mark.toyspec(run=…), or toyspec_expect(run)"
    try:
        wanted = shape_of(**shape)
        if test.config.getoption("--toyspec-update"):
            globs = [metric] if isinstance(metric, str) else list(metric)
            write_output(path, written(expectation_of(places, shape=wanted, globs=globs, choice=choice)))
            return ""
        expected = read_expectation(path)
        with redirect_stdout(io.StringIO()) as text:
            for each in places:
                stream, found = departures(each, expected, choice=choice)
                if found:
                    print_departures(stream, expected, found, "text", Terminal(color="never"))
    except (ToyspecError, OSError, ValueError) as error:
        return str(error) if os.path.exists(path) else f"{error}\n`pytest --toyspec-update` writes it"
    return text.getvalue()


@pytest.fixture
def toyspec_expect(request: pytest.FixtureRequest) -> ExpectedRun:
    """Compare runs with what is expected: ``toyspec_expect(run, golden="golden.json")`` fails if they differ."""
    return ExpectedRun(request.node)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    use = "write what the runs of the tests logged as what is expected"
    parser.getgroup("toyspec").addoption("--toyspec-update", action="store_true", help=use)


def pytest_configure(config: pytest.Config) -> None:
    """Add the marker."""
    use = "toyspec(run, golden='golden.json', preset='curve', …): compare the run with the file beside the test"
    config.addinivalue_line("markers", use)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Compare the run of the marker after the test, unless the test did."""
    made = yield
    asked = pyfuncitem.funcargs.get("toyspec_expect")
    if asked is None and pyfuncitem.get_closest_marker("toyspec"):
        asked = ExpectedRun(pyfuncitem)
    if isinstance(asked, ExpectedRun) and not asked.is_asked:
        asked()
    return made
