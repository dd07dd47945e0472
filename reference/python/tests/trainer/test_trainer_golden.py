"""The run of the trainer in the corpus is the one that the trainer writes today."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("gguf", reason="the extra `train` is not installed")

from logged_runs import differences
from toyspec.core.command_line.main import main
from toyspec.core.files import resource_path
from trainer_golden import FILES, golden_run, lines


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run, trained again."""
    return golden_run(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("case", FILES)
def test_corpus_has_what_the_trainer_writes(run: Path, case: str) -> None:
    """Every file of the run is that of the corpus, but for the last digits of measured numbers."""
    for name in FILES[case]:
        kept = Path(resource_path("conformance", "cases", *case.split("/"), name))
        assert [] == differences(lines(kept), lines(run / name))


def test_golden_run_passes_the_strictest_check(run: Path) -> None:
    """The run is complete and has neither an error nor a warning, in the corpus and trained again."""
    kept = [resource_path("conformance", "cases", *case.split("/")) for case in FILES]
    assert 0 == main(["check", "--require-complete", "--fail-on", "warning", str(run), *kept])
