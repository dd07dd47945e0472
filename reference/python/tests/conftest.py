"""Which tests are slow: `make test` leaves them to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from loopback_store import Store

# A busy machine, or the first import, is not a defect of what is tested.
settings.register_profile("toyspec", deadline=None)
settings.load_profile("toyspec")

SLOW_FILES = (
    "browser/",  # each page in a real browser
    "faults/test_fuzzing.py",
    "faults/test_hostile_input.py",
    "faults/test_soak.py",
    "test_demo.py",
    "test_mirroring.py",
    "test_page_reports.py",  # the checker of the site beside that of the package, over the corpus
    "test_tracker_example.py",
    "test_tracker_wandb.py",
    "test_trainer_checkpoints.py",
    "test_trainer_display.py",
    "test_trainer_golden.py",
    "test_trainer_models.py",
    "test_trainer_resume.py",
    "test_trainer_training.py",
)
"""Files whose tests take seconds each, because they train, kill, fuzz or open a browser."""

SLOW_TESTS = (
    "test_convert_importing.py::test_import_takes_bounded_memory",
    "test_docs_examples.py::test_page_runs[docs/tutorial.md]",
    "test_line_validation.py::test_a_long_line_is_checked_in_little_memory",
    "test_reader_sources.py::test_million_lines_stay_under_64_mib",
)
"""Single tests that read much or train."""


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test that is about the engine in plain Python use it, whatever is installed."""
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Serve an empty object store, whose bucket ``s3://bucket`` names."""
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    from loopback_store import s3, served
    from toyspec.places import opening

    with served() as opened:
        for name, value in s3(opened).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv(opening.VARIABLE, "2")
        opening._store.cache_clear()
        yield opened
        opening._store.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow."""
    for item in items:
        name = item.nodeid.rpartition("python/tests/")[2]
        if name.startswith((*SLOW_FILES, *SLOW_TESTS)):
            item.add_marker("slow")
