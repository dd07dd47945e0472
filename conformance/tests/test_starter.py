"""Adapters to begin with: each answers at once, says what is to do, and is right with a writer in its place."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.adapters import Adapter
from conformance.command import BAD, GOOD, USAGE, main
from conformance.revisions import is_draft, listed
from conformance.starter import LANGUAGES, write_starter

PLAIN_WRITERS = Path(__file__).parent / "plain_writers"
"""For each language the body of a `write` that is as plain as a right one can be."""
MINIMAL = ["--level", "minimal", "--quiet"]


def built(language: str, folder: Path, *, writer: bool) -> str:
    """Write the adapter of *language*, perhaps with its plain writer, and build it; return its command."""
    form = LANGUAGES[language]
    tools = [command.split()[0] for command in (form.build, form.adapter) if command and not command.startswith(".")]
    for tool in tools:
        if shutil.which(tool) is None:
            assert "CI" not in os.environ, f"no {tool}"
            pytest.skip(f"no {tool}")
    write_starter(str(folder), language)
    if writer:
        path = folder / form.file
        lines = path.read_text().splitlines(keepends=True)
        (stub,) = [place for place, line in enumerate(lines) if "still to do" in line]
        lines[stub] = (PLAIN_WRITERS / f"{language}.txt").read_text()
        path.write_text("".join(lines))
    if form.build:
        subprocess.run(shlex.split(form.build), cwd=folder, check=True, timeout=120)
    return form.adapter


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_starter_says_what_is_to_do(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each question ends with the place to edit; the hello names the folder and the newest revision."""
    folder = tmp_path / "my-own"
    command = built(language, folder, writer=False)
    monkeypatch.chdir(folder)
    assert BAD == main(["--adapter", command, "--level", "minimal"])
    found = capsys.readouterr().out
    assert "more for the same reason" in found
    assert f"still to do: call your emitter in {'Write' if language == 'csharp' else '`write`'}" in found
    hello = Adapter(command).ask_hello()
    newest = [revision for revision in listed() if not is_draft(revision)][-1]
    assert ("my-own", [newest]) == (hello["name"], hello["revisions"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lines", "oneshot"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_starter_with_a_writer_conforms(
    language: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the loop hands over is all that a writer needs, in both modes."""
    command = built(language, tmp_path / "mine", writer=True)
    monkeypatch.chdir(tmp_path / "mine")
    code = main(["--adapter", command, "--mode", mode, *MINIMAL])
    assert GOOD == code, capsys.readouterr().out
    assert "mine 0.1 (" in capsys.readouterr().out


def test_command_writes_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder has the adapter and a README with its commands; nothing that exists is written over."""
    folder = tmp_path / "an emitter"
    assert GOOD == main(["new", str(folder), "--language", "java"])
    said = capsys.readouterr().out
    assert "javac -Xlint:all Adapter.java\n" in said
    assert "toyspec conform --level minimal --adapter 'java -XX:TieredStopAtLevel=1 Adapter'\n" in said
    assert {"Adapter.java", "README.md"} == set(os.listdir(folder))
    assert '\\"name\\": \\"an-emitter\\"' in (folder / "Adapter.java").read_text()
    (folder / "README.md").write_text("mine")
    (folder / "Adapter.java").unlink()
    assert USAGE == main(["new", str(folder), "--language", "java"])
    assert "README.md exists; name another folder" in capsys.readouterr().err
    assert ("mine", ["README.md"]) == ((folder / "README.md").read_text(), os.listdir(folder))


@pytest.mark.parametrize("arguments", [["new"], ["new", "one"], ["new", "one", "two", "--language", "lua"]])
def test_folder_and_language_are_named(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is said with the languages to choose from."""
    monkeypatch.chdir(tmp_path)
    assert USAGE == main(arguments)
    assert "one of cpp, csharp, java, javascript, lua, python" in capsys.readouterr().err
    assert [] == os.listdir(tmp_path)


def test_python_starter_knows_every_tag() -> None:
    """A wrapped object that looks like a tag is an object."""
    names: dict[str, object] = {"__name__": "starter"}
    exec((Path(__file__).parents[1] / "starters/adapter.py").read_text(), names)
    tagged = json.loads('{"a": {"object": {"int": "x"}}, "b": [{"float": "inf"}, {"f32": "0.5"}], "c": {"int": "10"}}')
    assert {"a": {"int": "x"}, "b": [float("inf"), 0.5], "c": 10} == names["untagged"](tagged)  # type: ignore[operator]
