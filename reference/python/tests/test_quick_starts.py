"""The quick start of each further language runs as its README shows it, where the language is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import toyspec

REFERENCE = Path(__file__).resolve().parents[3] / "reference"


class Program(NamedTuple):
    """How the program of a README becomes one that runs."""

    is_there: object
    files: dict[str, str]
    """Files by name; {imports} and {statements} are those of the README."""
    commands: list[str]
    """What builds and runs them; {here} is the folder of the language."""


def quick_start(language: str) -> tuple[str, str]:
    """Return the program in the README of *language*: what it imports, and its other lines."""
    text = (REFERENCE / language / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    program = "".join(code for name, code in blocks if name == blocks[0][0])
    imports, _, statements = program.partition("\n\n")
    return (imports, statements) if statements else ("", program)


def has_yojson() -> bool:
    """Return whether OCaml programs can be built with Yojson; its run-time package alone does not do."""
    if not shutil.which("ocamlfind"):
        return False
    found = subprocess.run(["ocamlfind", "query", "yojson"], capture_output=True, text=True, check=False)
    return found.returncode == 0 and Path(found.stdout.strip(), "yojson.cmi").exists()


MODULE = (REFERENCE / "go/go.mod").read_text(encoding="utf-8").split()[1]
PROGRAMS = {
    "c": Program(
        shutil.which("cc"),
        {"main.c": "{imports}\nint main(void) {{\n{statements}return 0;\n}}\n"},
        ["cc -std=c11 -I{here} main.c {here}/toyspec.c -lm -o main", "./main"],
    ),
    "go": Program(
        shutil.which("go"),
        {
            "main.go": "package main\n{imports}\nfunc main() {{\n{statements}_ = err\n}}\n",
            "go.mod": "module quickstart\n\ngo 1.22\n",
        },
        [f"go mod edit -require={MODULE}@v0.1.0 -replace={MODULE}={{here}}", "go run ."],
    ),
    "ocaml": Program(
        shutil.which("dune") and has_yojson(),
        {
            "main.ml": "{statements}",
            "dune": "(executable (name main) (libraries toyspec))\n",
            "dune-project": "(lang dune 2.9)\n",
        },
        [
            "mkdir toyspec",
            "cp -R {here}/lib {here}/dune-project {here}/toyspec.opam toyspec",
            "dune exec --root . ./main.exe",
        ],
    ),
    "ruby": Program(shutil.which("ruby"), {"main.rb": "{imports}\n{statements}"}, ["ruby -w -I {here}/lib main.rb"]),
    # Its package is what `nox -s typescript` builds.
    "typescript": Program(
        (REFERENCE / "typescript/dist/src/node.js").exists(),
        {"main.mjs": "{imports}\n{statements}"},
        ["mkdir node_modules", "ln -s {here} node_modules/toyspec", "node main.mjs"],
    ),
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_quick_start(language: str, tmp_path: Path) -> None:
    """What a newcomer pastes first writes a valid run, with values by name, what they mean, and a file."""
    is_there, files, commands = PROGRAMS[language]
    if not is_there:
        pytest.skip(f"{language} is not installed or not built")
    here = REFERENCE / language
    imports, statements = quick_start(language)
    for name, text in files.items():
        (tmp_path / name).write_text(text.format(imports=imports, statements=statements))
    for command in commands:
        words = command.format(here=here).split()
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert 0 == done.returncode, done.stdout + done.stderr
    checked = toyspec.check(tmp_path / "runs").files
    assert all(file.valid for file in checked)
    assert "llama-001" == Path(checked[0].path).parent.name
    records = [record for file in checked for record in toyspec.read(file.path)]
    assert {"run_start", "scalars", "define", "artifact"} <= {record.kind for record in records}


def test_packages_without_their_toolchain_are_left_out_by_name(tmp_path: Path) -> None:
    """Where cargo is missing, what needs the engine is named, and nothing fails."""
    program = REFERENCE.parent / ".ci/packages.py"
    if not program.is_file():
        pytest.skip("the program is part of the source tree")
    path = os.pathsep.join([*sys.path, str(REFERENCE)])
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"PATH": str(tmp_path), "PYTHONPATH": path}
    words = [sys.executable, str(program), "test", "engine", "python", "rust"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert 0 == done.returncode, done.stderr
    expected = [f"left out: {name} (apt install cargo)" for name in ("engine", "python", "rust")]
    assert expected == done.stdout.splitlines()
