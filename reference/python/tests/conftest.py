"""Which tests are slow, for `make test-all`, and which are long: CI leaves those to `make everything`."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from other_packages import EntryPoints, install
from property_examples import PROFILE, examples
from toyspec.core import engine, programs
from toyspec.core.entry_points import all_brought, entry_points_of
from toyspec.core.writing import environment

if TYPE_CHECKING:
    from loopback_store import Store

# Of the tree that has these tests, if they are in one.
REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../../.git"))

# A busy machine, or the first import, is not a defect of what is tested.
# The same examples each time: what fails says something about the change. `make everything` draws new ones.
settings.register_profile("whole", deadline=None, derandomize=True)
# `make test` tries fewer examples of each property.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=examples(100))
settings.register_profile("random", deadline=None)
settings.load_profile(PROFILE)

# A shell ignores interrupts in what it starts in the background, nohup ignores hang-ups, and so would every process
# of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The tests in a browser need what only `make test-all` and CI install.
collect_ignore = [] if importlib.util.find_spec("playwright") else ["browser"]

SLOW_FILES = (
    "browser/",  # each page in a real browser
    "faults/test_fuzzing.py",
    "faults/test_hostile_input.py",
    "faults/test_soak.py",
    "faults/test_power_loss.py",
    "faults/test_process_death.py",
    "faults/test_write_errors.py",
    "test_demo.py",
    "test_quick_starts.py",  # the first program of each language's README
    "stores/test_places_servers.py",  # stores of other projects, 100 MB
    "view/test_page_reports.py",  # the checker of the site beside that of the package, over the corpus
    "trainer/test_trainer_display.py",
)
"""Files whose tests take seconds each, because they train, kill, fuzz or open a browser."""

SLOW_TESTS = (
    "chaos/test_chaos.py::test_some_seconds_of_chaos",
    "view/test_cli_plot.py::test_equal_runs_give_equal_pictures[pdf]",
    "view/test_cli_plot.py::test_equal_runs_give_equal_pictures[png]",
    "view/test_cli_plot.py::test_equal_runs_give_equal_pictures[svg]",
    "view/test_cli_watch.py::test_live_run_grows_on_the_screen",
    "view/test_cli_watch.py::test_terminal_is_left_as_it_was[SIGTERM-143]",
    "view/test_cli_watch.py::test_terminal_is_left_as_it_was[ctrl-c-130]",
    "view/test_cli_watch.py::test_terminal_is_left_as_it_was[error-1]",
    "convert/test_convert_importing.py::test_import_takes_bounded_memory",
    "convert/test_convert_tensorboard.py::test_flipped_byte_costs_one_value",
    "convert/test_convert_wandb.py::test_flipped_byte_costs_one_record",
    "test_docs_examples.py::test_documented_programs_have_types",
    "test_docs_examples.py::test_page_runs[docs/how-to/come-from-another-tracker.md]",
    "test_docs_examples.py::test_page_runs[docs/how-to/log-from-frameworks.md]",
    "test_docs_examples.py::test_page_runs[docs/how-to/make-your-own-profile.md]",
    "test_docs_examples.py::test_page_runs[docs/how-to/read-any-log.md]",
    "test_docs_examples.py::test_page_runs[docs/how-to/read-with-pandas-polars-duckdb.md]",
    "test_docs_examples.py::test_page_runs[docs/how-to/runs-in-a-bucket.md]",
    "test_docs_examples.py::test_page_runs[docs/tutorial.md]",
    "core/test_engine_runs.py::test_a_long_stream_is_read_alike",
    "core/test_engine_runs.py::test_odd_streams_are_read_alike[scalar_stream]",
    "convert/test_imports_that_are_killed.py::test_killed_import_leaves_nothing_that_is_listed[0.05-metrics-jsonl]",
    "convert/test_imports_that_are_killed.py::test_killed_import_leaves_nothing_that_is_listed[0.05-tensorboard]",
    "convert/test_imports_that_are_killed.py::test_killed_import_leaves_nothing_that_is_listed[0.95-metrics-jsonl]",
    "convert/test_imports_that_are_killed.py::test_killed_import_leaves_nothing_that_is_listed[0.95-tensorboard]",
    "core/test_line_validation.py::test_a_long_line_is_checked_in_little_memory",
    "convert/test_mirroring.py::test_mirror_killed_at_any_moment_sends_every_row_once",
    "core/test_own_profiles.py::test_command_line",
    "core/test_own_profiles.py::test_settings_name_profiles",
    "stores/test_places_failing.py::test_credentials_are_never_shown",
    "core/test_reader_sources.py::test_million_lines_stay_under_64_mib",
    "stores/test_sync_processes.py::test_killed_at_any_moment",
    "stores/test_sync_processes.py::test_place_that_is_away_costs_the_training_nothing",
    "stores/test_sync_trouble.py::test_two_at_once_never_undo_each_other",
    "test_stories.py::test_a_slurm_job_on_four_ranks_is_preempted_and_requeued",
    "health/test_system_metrics.py::test_probe_that_hangs_holds_up_neither_training_nor_end",
    "tracker/test_tracker_losses.py::test_gradient_is_finite_where_tokens_are_ruled_out",
    "tracker/test_tracker_losses.py::test_linear_cross_entropy_has_the_gradient_of_the_plain_loss[with_jax]",
    "tracker/test_tracker_losses.py::test_linear_cross_entropy_is_the_plain_loss[-100-1-with_jax]",
    "tracker/test_tracker_losses.py::test_linear_cross_entropy_is_the_plain_loss[-100-4-with_jax]",
    "tracker/test_tracker_losses.py::test_linear_cross_entropy_is_the_plain_loss[None-1-with_jax]",
    "tracker/test_tracker_losses.py::test_linear_cross_entropy_is_the_plain_loss[None-4-with_jax]",
    "tracker/test_tracker_losses.py::test_no_position_loses_nothing[shape0-with_jax]",
    "trainer/test_trainer_checkpoints.py::test_every_truncation_is_refused",
    "trainer/test_trainer_resume.py::test_resumed_run_equals_one_that_was_not_interrupted",
    "trainer/test_trainer_resume.py::test_run_that_is_killed_again_before_it_has_caught_up",
    "trainer/test_trainer_resume.py::test_signal",
    "trainer/test_trainer_training.py::test_loss_falls_and_depends_on_the_seed_alone",
    "catalog/test_catalog.py::test_rows_that_need_more_memory",
    "catalog/test_catalog_growing.py::test_long_object_is_not_read_at_each_update",
    "core/test_cli_transcripts.py::test_every_option_of_a_command[catalog]",
    "core/test_cli_transcripts.py::test_every_option_of_a_command[query]",
    "faults/test_sharing.py::test_c03_c06_children_that_fork_and_leave_write_nothing_twice",
    "core/test_run_stream_sharing.py::test_a_killed_run_is_torn_and_can_be_resumed",
    "core/test_run_stream_sharing.py::test_an_exception_storm_loses_none",
    "agents/test_agent_tools.py::test_command_serves_over_standard_input",
    "stores/test_places_following.py::test_object_that_is_replaced_is_read_on_only_behind_the_same_bytes",
    "core/test_seals.py::test_every_flipped_bit_is_found",
    "stores/test_places.py::test_foreign_objects_are_listed_in_pages_and_not_kept",
    "core/test_annotations.py::test_processes_annotate_one_run_in_turn",
    "convert/test_cli_mirror.py::test_mirror_outlives_a_training_that_is_killed",
    "logs/test_console_logs.py::test_log_after_a_long_preamble_is_imported_as_it_is_read",
    "test_doors.py::test_a_run_ends_as_its_program_does",
    "test_hostile_folders.py::test_files_of_the_working_directory_are_not_imported[python -m]",
    "stores/test_sync.py::test_cost_of_a_stream_that_grows",
    "test_hostile_folders.py::test_no_command_waits_for_a_special_file[fifo]",
    "test_hostile_folders.py::test_no_tool_of_an_agent_waits_for_a_special_file",
    "conformance/tests/test_frozen.py::test_program_that_conformed_to_a_revision_does_for_ever",
    "conformance/tests/test_running.py::test_no_crash_goes_unreported",
    "conformance/tests/test_minimal.py::test_conclusion_and_badge",
)
"""Single tests that read much, wait, train, start many commands, or import what takes seconds."""

LONG_TESTS = (
    # `nox -s chaos` does the same for as long as one likes.
    "chaos/test_chaos.py::test_some_seconds_of_chaos[50-1]",
    # Builds the crate again, with libFuzzer; the drawn mutations are compared with the crate too.
    "faults/test_fuzzing.py::test_mutations_that_follow_coverage_break_nothing[rust]",
)
"""Tests that cost more than they find where a cheaper one asks for the same promise."""

# What a file of tests has that has to do with processes, locks or time, by itself or by its helpers.
_TOUCHING = re.compile(
    r"^(?:import|from) (?:concurrent|fcntl|multiprocessing|signal|subprocess|threading|time)\b"
    r"|\b(?:fork|killpg|served|watch|workers)\b",
    re.MULTILINE,
)

BARE_FILES = (
    "test_append_file_sharing.py",
    "test_cli_check.py",
    "test_cli_explain.py",
    "test_cli_main.py",
    "test_cli_changes.py",
    "test_cli_terminal.py",
    "test_cli_view.py",
    "test_convert_importing.py",
    "test_formats_page.py",
    "test_project_settings.py",
    "test_reader_sources.py",
    "test_run_starting.py",
    "test_view_server.py",
)
"""Files whose tests start programs, read what is installed, or depend on the terminal, the user and the system."""


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test that is about the engine in plain Python use it, whatever is installed."""
    monkeypatch.setenv("TOYSPEC_ENGINE", "python")


@pytest.fixture(scope="module")
def compiled_engine() -> Iterator[None]:
    """Let the tests of a file that is about the compiled engine use it, whatever the environment chooses."""
    if engine._loaded()[0] is None:
        pytest.skip("toyspec-engine is not installed: `make engine`")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(engine.VARIABLE, "native")
        yield


@pytest.fixture
def install_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, EntryPoints, Mapping[str, str]], None]]:
    """Return what installs a package with its entry points and files, until the test ends."""
    searches = (entry_points_of, all_brought)
    for search in searches:
        search.cache_clear()
    yield functools.partial(install, monkeypatch, tmp_path / "site-packages")
    for search in searches:
        search.cache_clear()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the empty directory of a run, in a directory of runs."""
    made = tmp_path / "runs" / "a"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a run; it does not exist."""
    return tmp_path / "runs" / "r"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Serve an empty object store, whose bucket ``s3://bucket`` names."""
    pytest.importorskip("obstore", reason="the extra remote is not installed")
    from loopback_store import forget, served, use

    with served() as opened:
        use(monkeypatch, opened)
        yield opened
        forget()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the other files unread where only bare tests are asked for."""
    is_other = collection_path.name.startswith("test_") and collection_path.name not in BARE_FILES
    return True if is_other and config.getoption("markexpr") == "bare" else None


def pytest_collection() -> None:
    """Let the collector rest while tests are collected: what is made then stays."""
    gc.disable()


@functools.cache
def _touches(path: Path) -> bool:
    """Return whether a file of tests has to do with processes, locks or time."""
    return _TOUCHING.search(path.read_text(encoding="utf-8")) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is slow, not for this system and, if that mark is asked for, what another load may disturb."""
    is_asked = "contended" in (config.getoption("markexpr") or "")
    for item in items:
        if is_asked and _touches(item.path):
            item.add_marker("contended")
        name = item.nodeid.rpartition("python/tests/")[2]
        if name.startswith((*SLOW_FILES, *SLOW_TESTS)):
            item.add_marker("slow")
        elif item.path.name in BARE_FILES:
            item.add_marker("bare")
        if name.startswith(LONG_TESTS):
            item.add_marker("long")
        if os.name == "nt" and item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip(reason="needs what Windows lacks"))


def pytest_collection_finish() -> None:
    """Let the collector of the interpreter pass over thousands of collected tests, which stay until the end."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the collector see them again, since some extension modules report what is left at the end as leaked."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _git_is_asked_once() -> Iterator[None]:
    """Ask git once about this tree, whose status takes longer than most tests, and each time about any other."""
    ask = programs.ask_git
    once = functools.cache(ask)

    def asked(start: str, *arguments: str) -> str | None:
        is_here = environment._repository(start) == REPOSITORY
        return once(os.path.abspath(start), *arguments) if is_here else ask(start, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "ask_git", asked)
        yield
