"""The emitter in Java that was written from the published pages alone: it answers a part of the corpus."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.adapters import Adapter
from conformance.corpus import questions_of, selected
from conformance.locks.streams import make, request
from conformance.oracle import tables
from conformance.registry import ROOT
from conformance.revisions import CURRENT
from conformance.running import run

SOURCES = Path(ROOT, "conformance/outsider")
REVISION = "1.2"
"""The revision that the emitter was written for."""
SOME = ["toy-v1/canonical", "metrics-v1/canonical", "kaun-v1/canonical", "toy-v1/out-of-range", "sessions"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (shutil.which("javac") is None or shutil.which("java") is None) and "CI" not in os.environ,
        reason="javac is not installed",
    ),
]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Adapter:
    """Return the adapter, compiled into a folder that has the schemas too."""
    folder = tmp_path_factory.mktemp("outsider")
    for schema in Path(ROOT, "schemas/bundled").glob("*-v1.json"):
        shutil.copy(schema, folder)
    sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(folder), *sources], check=True, timeout=120)
    found = Adapter(["java", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "Adapter"])
    found.ask_hello()
    return found


def test_part_of_the_corpus(adapter: Adapter) -> None:
    """Canonical bytes, refusals and sessions are as the corpus has them."""
    tables.follow(REVISION)
    try:
        questions = questions_of(selected(SOME, revision=REVISION), adapter.hello["roles"])
        results = run(adapter, questions, revision=REVISION)
    finally:
        tables.follow(CURRENT)
    assert [] == [(result.question.name, result.reasons) for result in results if result.verdict != "pass"]
    assert len(questions) > 100


def test_stream_that_is_held(adapter: Adapter, tmp_path: Path) -> None:
    """A stream that one process holds is refused by another and by the holder itself, until it is released."""
    from conformance.conversations import Conversation

    make(str(tmp_path / "demo"), "resume")
    held = request(str(tmp_path / "demo"), "resume", "held")
    other = request(str(tmp_path / "demo"), "resume", "killed")
    holder, other_writer = Conversation(adapter), Conversation(adapter)
    try:
        assert "written" == holder.ask(held)["outcome"]
        assert ["refused"] * 3 == [talk.ask(other)["outcome"] for talk in (other_writer, holder, other_writer)]
        holder.ask({"role": "writer", "release": str(tmp_path / "demo")})
        assert "written" == other_writer.ask(other)["outcome"]
    finally:
        holder.close()
        other_writer.close()
