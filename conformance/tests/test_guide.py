"""The guide for implementers: its emitter is put together from the page, run, and compared with the corpus."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance import first_questions
from conformance.adapters import Adapter
from conformance.corpus import questions_of, selected
from conformance.doctor import examine
from conformance.registry import ROOT
from conformance.revisions import CURRENT
from conformance.running import run

GUIDE = Path(ROOT, "docs/how-to/write-an-emitter.md")
FILE = re.compile(r"^<!-- (new )?file (\S+) -->\n```perl\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_GREEN = "## 5. "
"""The heading before which the first cases pass."""
PERL = shutil.which("perl")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PERL is None and "CI" not in os.environ, reason="perl is not installed"),
]


def build(folder: Path, page: str) -> Path:
    """Write the files that *page* shows, and the schemas, into *folder*; a new file replaces an earlier one."""
    for is_new, name, text in FILE.findall(page):
        with (folder / name).open("w" if is_new else "a") as file:
            file.write(text)
    for profile in ("toy-v1", "metrics-v1", "kaun-v1"):
        shutil.copy(Path(ROOT, f"schemas/bundled/{profile}.json"), folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the whole page."""
    return build(tmp_path_factory.mktemp("guide"), GUIDE.read_text())


def perl(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a Perl program of the page with warnings."""
    return subprocess.run(
        ["perl", "-w", *words], cwd=folder, input=given, capture_output=True, text=True, check=False, timeout=300
    )


def test_first_green_case(tmp_path: Path) -> None:
    """The code before section 5 passes the cases that the page says to run first."""
    build(tmp_path, GUIDE.read_text().partition(FIRST_GREEN)[0])
    adapter = Adapter(["perl", "-w", str(tmp_path / "adapter.pl")], deadline=30)
    adapter.ask_hello()
    results = run(adapter, questions_of(selected(("toy-v1/canonical",)), adapter.hello["roles"]), jobs=2)
    assert {"pass"} == {result.verdict for result in results}


def test_trainer_of_the_guide(folder: Path) -> None:
    """The trainer writes a stream in canonical form, without a warning."""
    assert "" == perl(folder, "train.pl").stderr
    written = (folder / "events.jsonl").read_text().splitlines()
    assert re.fullmatch(r'\{"kind":"step","t":\d+\.\d+,"step":1,"loss":2\.5\}', written[1])
    assert '"reason":"completed"' in written[-1]


def test_trainer_goes_on_without_a_log(folder: Path) -> None:
    """An existing stream is reported once, is kept, and does not stop the training."""
    (folder / "events.jsonl").write_text("earlier\n")
    done = perl(folder, "train.pl")
    assert 0 == done.returncode
    assert 1 == done.stderr.count("events.jsonl: File exists")
    assert "earlier\n" == (folder / "events.jsonl").read_text()


def test_doctor_on_the_guide(folder: Path) -> None:
    """The doctor finds nothing wrong with the adapter of the guide, in either mode."""
    steps = list(examine(Adapter(["perl", str(folder / "adapter.pl")])))
    assert [] == [step.duty for step in steps if not step.is_right]


@pytest.mark.parametrize("part", ["core", pytest.param("corpus", marks=pytest.mark.long)])
def test_guide_conforms(folder: Path, part: str) -> None:
    """The example passes everything that the corpus has for its roles; CI asks it the core."""
    adapter = Adapter(["perl", str(folder / "adapter.pl")], deadline=30)
    adapter.ask_hello()
    roles = adapter.hello["roles"]
    core = [question for some in first_questions.parts(roles, CURRENT) for question in some]
    results = run(adapter, core if part == "core" else questions_of(selected(()), roles), jobs=2)
    assert [] == [result.question.name for result in results if result.verdict not in {"pass", "not-applicable"}]
    assert sum(result.verdict == "pass" for result in results) > (50 if part == "core" else 1000)
