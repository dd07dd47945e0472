"""The quick start of each further language runs as its README shows it, where the language is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import toyspec

REFERENCE = Path(__file__).resolve().parents[3] / "reference"


def quick_start(language: str) -> tuple[str, str]:
    """Return the program in the README of *language*: what it imports, and its other lines."""
    text = (REFERENCE / language / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    program = "".join(code for name, code in blocks if name == blocks[0][0])
    imports, _, statements = program.partition("\n\n")
    return (imports, statements) if statements else ("", program)


def c_program(folder: Path) -> list[list[str]]:
    """Write the program for C and return the commands that run it."""
    imports, statements = quick_start("c")
    (folder / "main.c").write_text(f"{imports}\nint main(void) {{\n{statements}return 0;\n}}\n")
    here = REFERENCE / "c"
    return [["cc", "-std=c11", f"-I{here}", "main.c", f"{here}/toyspec.c", "-lm", "-o", "main"], ["./main"]]


def go_program(folder: Path) -> list[list[str]]:
    """Write the program for Go and return the commands that run it."""
    imports, statements = quick_start("go")
    (folder / "main.go").write_text(f"package main\n{imports}\nfunc main() {{\n{statements}_ = err\n}}\n")
    (folder / "go.mod").write_text("module quickstart\n\ngo 1.22\n")
    module = (REFERENCE / "go" / "go.mod").read_text().split()[1]
    edit = ["go", "mod", "edit", f"-require={module}@v0.1.0", f"-replace={module}={REFERENCE / 'go'}"]
    return [edit, ["go", "run", "."]]


def ocaml_program(folder: Path) -> list[list[str]]:
    """Write the program for OCaml and return the commands that run it."""
    (folder / "main.ml").write_text(quick_start("ocaml")[1])
    (folder / "dune").write_text("(executable (name main) (libraries toyspec))\n")
    (folder / "dune-project").write_text("(lang dune 2.9)\n")
    ignored = shutil.ignore_patterns("_build", "bin", "test")
    shutil.copytree(REFERENCE / "ocaml", folder / "toyspec", ignore=ignored)
    return [["dune", "exec", "--root", ".", "./main.exe"]]


def ruby_program(folder: Path) -> list[list[str]]:
    """Write the program for Ruby and return the commands that run it."""
    (folder / "main.rb").write_text("\n".join(quick_start("ruby")))
    return [["ruby", "-w", "-I", str(REFERENCE / "ruby" / "lib"), "main.rb"]]


def typescript_program(folder: Path) -> list[list[str]]:
    """Write the program for Node and return the commands that run it."""
    (folder / "main.mjs").write_text("\n".join(quick_start("typescript")))
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "toyspec").symlink_to(REFERENCE / "typescript", target_is_directory=True)
    return [["node", "main.mjs"]]


def has_yojson() -> bool:
    """Return whether OCaml programs can be built with Yojson; its run-time package alone does not do."""
    if not shutil.which("ocamlfind"):
        return False
    found = subprocess.run(["ocamlfind", "query", "yojson"], capture_output=True, text=True, check=False)
    return found.returncode == 0 and Path(found.stdout.strip(), "yojson.cmi").exists()


PROGRAMS = {
    "c": (c_program, shutil.which("cc")),
    "go": (go_program, shutil.which("go")),
    "ocaml": (ocaml_program, shutil.which("dune") and has_yojson()),
    "ruby": (ruby_program, shutil.which("ruby")),
    # Its package is what `nox -s typescript` builds.
    "typescript": (typescript_program, (REFERENCE / "typescript/dist/src/node.js").exists()),
}


@pytest.mark.parametrize("language", PROGRAMS)
def test_quick_start(language: str, tmp_path: Path) -> None:
    """What a newcomer pastes first writes a valid run, with values by name, what they mean, and a file."""
    write, is_there = PROGRAMS[language]
    if not is_there:
        pytest.skip(f"{language} is not installed or not built")
    for command in write(tmp_path):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert 0 == done.returncode, done.stdout + done.stderr
    files = toyspec.check(tmp_path / "runs").files
    assert all(file.valid for file in files)
    assert "llama-001" == Path(files[0].path).parent.name
    records = [record for file in files for record in toyspec.read(file.path)]
    assert {"run_start", "scalars", "define", "artifact"} <= {record.kind for record in records}
