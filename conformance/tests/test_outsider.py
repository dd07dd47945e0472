"""The emitter in Java that was written from the published pages alone: `nox -s outsider` asks it the corpus."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.adapters import Adapter
from conformance.locks.streams import make, request
from conformance.registry import ROOT

SOURCES = Path(ROOT, "conformance/outsider")

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
