"""The guide for implementers: its example is put together from the page, run, and proven by the corpus."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.adapters import Adapter
from conformance.corpus import questions_of, selected
from conformance.doctor import examine
from conformance.registry import ROOT
from conformance.running import run

GUIDE = Path(ROOT, "docs/how-to/write-an-emitter.md")
FILE = re.compile(r"^<!-- file (\S+) -->\n```perl\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PERL = shutil.which("perl")

pytestmark = [
    pytest.mark.skipif(PERL is None and "CI" not in os.environ, reason="perl is not installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the guide and the schemas."""
    path = tmp_path_factory.mktemp("guide")
    for name, text in FILE.findall(GUIDE.read_text()):
        with (path / name).open("a") as file:
            file.write(text)
    for profile in ("toy-v1", "metrics-v1", "kaun-v1"):
        shutil.copy(Path(ROOT, f"schemas/bundled/{profile}.json"), path)
    return path


def test_files_of_the_guide(folder: Path) -> None:
    """The page has the three files that it speaks of."""
    assert {"ToyRun.pm", "train.pl", "adapter.pl"} <= {path.name for path in folder.iterdir()}


def test_trainer_of_the_guide(folder: Path) -> None:
    """The trainer writes a stream in canonical form, without a warning."""
    done = subprocess.run(
        ["perl", "-w", "train.pl"], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert "" == done.stderr
    assert (folder / "events.jsonl").read_text().splitlines()[1] == '{"kind":"step","t":0.1,"step":1,"loss":2.5}'


def test_doctor_on_the_guide(folder: Path) -> None:
    """The doctor finds nothing wrong with the adapter of the guide, in either mode."""
    steps = list(examine(Adapter(["perl", str(folder / "adapter.pl")])))
    assert [] == [step.duty for step in steps if not step.is_right]


def test_guide_conforms(folder: Path) -> None:
    """The example passes everything that the corpus has for its roles."""
    adapter = Adapter(["perl", str(folder / "adapter.pl")], deadline=30)
    adapter.ask_hello()
    results = run(adapter, questions_of(selected(()), adapter.hello["roles"]), jobs=2)
    assert [] == [result.question.name for result in results if result.verdict not in {"pass", "not-applicable"}]
    assert sum(result.verdict == "pass" for result in results) > 1000
