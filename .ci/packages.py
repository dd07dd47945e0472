"""Builds every package that a registry would publish into ``dist/``, and tests each in an empty environment.

`make packages` and `nox -s packages_test` call it. A test installs nothing but the package and what it depends on into
a new folder, and runs the first program of its README there. What lacks its toolchain is left out by name; with CI set,
that is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import toyspec
from codegen.project import values
from test_quick_starts import quick_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "reference"
PROJECT = values(ROOT)
VERSION = PROJECT["version"]

# The platforms for which `release.yml` builds a wheel of the engine; on others plain Python runs, as in a source tree.
HAS_ENGINE = (
    "sys_platform == 'linux' and platform_machine in 'x86_64 aarch64' "
    "or sys_platform == 'darwin' "
    "or sys_platform == 'win32' and platform_machine in 'AMD64 ARM64'"
)

LEFT_BEHIND = shutil.ignore_patterns(
    "target", "_build", "build", "dist", "node_modules", "fuzz", "originals", "Cargo.lock", "__pycache__"
)


@dataclass(frozen=True)
class Package:
    """What is published in one registry."""

    needs: Sequence[Sequence[str]]
    """Commands that show that the toolchain is there; the wheel of Python needs the engine, which cargo builds."""
    install: str
    build: Callable[[Path, Path], None]
    """Builds it into the first folder; the second one is empty."""
    test: Callable[[Path, Path], None]
    """Installs it from the first folder into the second one, which is empty, and writes a run there."""


def call(*words: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return what the command prints; end this program with its output if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def staged(language: str, room: Path) -> Path:
    """Return a copy of the folder of *language* with the license, as it is packed."""
    copy = room / language
    shutil.copytree(REFERENCE / language, copy, ignore=LEFT_BEHIND)
    shutil.copyfile(ROOT / "LICENSE", copy / "LICENSE")
    return copy


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of *folder* that matches."""
    (found,) = folder.glob(pattern)
    return found


def file_name(package: str) -> str:
    """Return how the files of *package*, one of ``project.json``, begin in an index of Python."""
    return re.sub(r"[-_.]+", "_", PROJECT[package]).lower()


def environment(room: Path, *requirements: str) -> Path:
    """Return the Python of a new environment with *requirements* from the index."""
    call(sys.executable, "-m", "venv", room / "venv")
    python = room / "venv/bin/python"
    if requirements:
        call(python, "-m", "pip", "install", "--quiet", *requirements)
    return python


MANUAL = """
[tool.hatch.build.targets.wheel.shared-data]
"toyspec.1" = "share/man/man1/toyspec.1"
"""


def build_python(out: Path, room: Path) -> None:
    """Build the sdist as the tree is, and from it a release wheel, which has the manual and depends on the engine.

    The corpus is built beside it.
    """
    call(sys.executable, "-m", "build", "--sdist", "--outdir", out)
    unpack(only(out, f"{file_name('python')}-{VERSION}.tar.gz"), room)
    source = only(room, f"*-{VERSION}")
    project = source / "pyproject.toml"
    requirement = f"{PROJECT['engine']}=={VERSION}; implementation_name == 'cpython' and ({HAS_ENGINE})"
    engine = f'dependencies = [\n  "{requirement}",\n'
    text, count = re.subn(r"^dependencies = \[\n", engine, project.read_text(), flags=re.MULTILINE)
    assert count == 1, "pyproject.toml has no dependencies"
    call(sys.executable, "-m", "nox", "-s", "man")
    shutil.copy(ROOT / "build/man/toyspec.1", source)
    project.write_text(text + MANUAL)
    call(sys.executable, "-m", "build", "--wheel", "--outdir", out, source)
    call(sys.executable, "-m", "build", "--outdir", out, ROOT / "conformance")


PYTHON_PROGRAM = "import toyspec\n" + "".join(
    code.replace("import toyspec\n", "")
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[:2]
)
DEPENDENCIES = ("jsonschema", "msgspec", "shtab")
MOST_FILES, MOST_BYTES = 900, 1_800_000
"""The wheel without the corpus stays small."""


def test_python(out: Path, room: Path) -> None:
    """The wheel brings manual and engine; the sdist does not, and both run the programs of the README.

    Neither has the corpus, which `toyspec conform` finds once it is installed.
    """
    python = environment(room, *DEPENDENCIES)
    wheels = [only(out, f"{file_name('python')}-{VERSION}-*.whl"), only(out.parent / "engine", "*.whl")]
    with zipfile.ZipFile(wheels[0]) as archive:
        assert len(archive.namelist()) <= MOST_FILES, f"{wheels[0].name} has {len(archive.namelist())} files"
    assert wheels[0].stat().st_size <= MOST_BYTES, f"{wheels[0].name} has {wheels[0].stat().st_size} bytes"
    call(python, "-m", "pip", "install", "--quiet", "--no-index", *wheels)
    call(python, "-m", "pip", "uninstall", "--quiet", "--yes", PROJECT["engine"])
    incomplete = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert PROJECT["engine"] in incomplete.stdout, "the wheel of a release depends on the engine"
    call(python, "-m", "pip", "install", "--quiet", "--no-index", wheels[1])
    assert r"\fBtoyspec check\fR" in (room / "venv/share/man/man1/toyspec.1").read_text(), "`man toyspec` has no page"
    (room / "main.py").write_text(PYTHON_PROGRAM)
    call(python, "main.py", cwd=room, TOYSPEC_ENGINE="native")
    assert "complete" in call(room / "venv/bin/toyspec", "check", "--require-complete", "runs", cwd=room)
    kill = [room / "venv/bin/toyspec", "conform", "kill", "--only", "first-key-wins"]
    lacking = subprocess.run(kill, cwd=room, capture_output=True, text=True, check=False)
    assert lacking.returncode == 2, lacking.stderr
    assert f"pip install {PROJECT['corpus']}`" in lacking.stderr, lacking.stderr
    corpus = only(out, f"{file_name('corpus')}-*.whl")
    call(python, "-m", "pip", "install", "--quiet", "--no-index", corpus)
    assert "1 of 1 mutants" in call(*kill, cwd=room)
    plain = room / "sdist"
    python = environment(plain, *DEPENDENCIES, "hatchling")
    sdist = only(out, f"{file_name('python')}-{VERSION}.tar.gz")
    call(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", sdist)
    call(python, room / "main.py", cwd=plain)
    listed = call(python, "-m", "pip", "list", "--format", "freeze")
    assert PROJECT["engine"] not in listed, "a source tree installs plain Python"


def build_engine(out: Path, _: Path) -> None:
    """Take the wheel that `make engine` builds."""
    call(os.environ.get("MAKE", "make"), "build/engine/built")
    shutil.copy(only(ROOT / "build/engine", "*.whl"), out)


def test_engine(out: Path, room: Path) -> None:
    """One wheel serves every Python from 3.11 on, and loads without the package."""
    wheel = only(out, "*.whl")
    assert "-cp311-abi3-" in wheel.name, wheel.name
    python = environment(room)
    call(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    assert "toyspec_engine" in call(python, "-c", "import toyspec_engine; print(toyspec_engine.__name__)")


def build_rust(out: Path, room: Path) -> None:
    """Pack the crate; its test compiles it."""
    folder = staged("rust", room)
    call("cargo", "package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir", room / "target", cwd=folder)
    shutil.copy(only(room / "target/package", "*.crate"), out)


def test_rust(out: Path, room: Path) -> None:
    """A new program depends on the crate."""
    unpack(only(out, "*.crate"), room)
    crate = only(room, f"*-{VERSION}").name
    imports, statements = quick_start("rust")
    (room / "src").mkdir()
    main = f"{imports}\nfn main() -> Result<(), Box<dyn std::error::Error>> {{\n{statements}_ = report;\nOk(())\n}}\n"
    (room / "src/main.rs").write_text(main)
    (room / "Cargo.toml").write_text(
        f'[package]\nname = "quickstart"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\nserde_json = "1"\n'
        f'toyspec = {{ package = "{PROJECT["crate"]}", path = "{crate}" }}\n'
    )
    # What the crate depends on is compiled once for all tests of this tree.
    call("cargo", "run", "--quiet", "--target-dir", ROOT / "build/packages-rust", cwd=room)


def build_npm(out: Path, room: Path) -> None:
    """Compile and pack the package."""
    folder = staged("typescript", room)
    modules = REFERENCE / "typescript/node_modules"
    if not (modules / "typescript").exists():
        call("npm", "install", "--silent", "--no-audit", "--no-fund", cwd=modules.parent)
    (folder / "node_modules").symlink_to(modules, target_is_directory=True)
    call("npm", "pack", "--silent", "--pack-destination", out, cwd=folder)


def test_npm(out: Path, room: Path) -> None:
    """The package is installed beside a program; the locks of the system are optional."""
    (room / "package.json").write_text('{"type": "module", "private": true}')
    options = ("--silent", "--no-audit", "--no-fund", "--omit=optional")
    call("npm", "install", *options, only(out, "*.tgz"), cwd=room)
    (room / "main.mjs").write_text("\n".join(quick_start("typescript")))
    call("node", "main.mjs", cwd=room)


def build_gem(out: Path, room: Path) -> None:
    """Build the gem."""
    folder = staged("ruby", room)
    call("gem", "build", "--quiet", "--output", out / f"{PROJECT['gem']}-{VERSION}.gem", "toyspec.gemspec", cwd=folder)


def test_gem(out: Path, room: Path) -> None:
    """The gem is the only one of an empty home of gems."""
    home = {"GEM_HOME": str(room / "gems"), "GEM_PATH": str(room / "gems")}
    call("gem", "install", "--quiet", "--local", "--no-document", only(out, "*.gem"), cwd=room, **home)
    (room / "main.rb").write_text("\n".join(quick_start("ruby")))
    call("ruby", "-w", "main.rb", cwd=room, **home)


def build_opam(out: Path, room: Path) -> None:
    """Pack the sources, and the folder of a repository of opam that names them."""
    folder = staged("ocaml", room)
    archive = pack(folder, f"toyspec-ocaml-{VERSION}", out)
    described = out / f"packages/toyspec/toyspec.{VERSION}/opam"
    described.parent.mkdir(parents=True)
    source = f"{PROJECT['repository']}/releases/download/v{VERSION}/{archive.name}"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    url = f'url {{\n  src: "{source}"\n  checksum: "sha256={digest}"\n}}\n'
    described.write_text((folder / "toyspec.opam").read_text() + url)


def test_opam(out: Path, room: Path) -> None:
    """The steps that the package names build and install it into a prefix, where ocamlfind finds it."""
    unpack(only(out, "*.tar.gz"), room)
    source = room / f"toyspec-ocaml-{VERSION}"
    call("dune", "build", "-p", "toyspec", "@install", cwd=source)
    call("dune", "install", "-p", "toyspec", "--prefix", room / "prefix", "--libdir", room / "prefix/lib", cwd=source)
    if shutil.which("opam"):
        call("opam", "lint", "--strict", only(out, "packages/toyspec/*/opam"))
    (room / "main.ml").write_text(quick_start("ocaml")[1])
    found = {"OCAMLPATH": str(room / "prefix/lib")}
    call("ocamlfind", "ocamlopt", "-package", "toyspec", "-linkpkg", "main.ml", "-o", "main", cwd=room, **found)
    call(room / "main", cwd=room)


def build_go(out: Path, room: Path) -> None:
    """Make what a module proxy serves: a list, a description, the module file and an archive."""
    module, folder = PROJECT["go"], staged("go", room)
    served = out / module / "@v"
    served.mkdir(parents=True)
    tag = f"v{VERSION}"
    (served / "list").write_text(f"{tag}\n")
    (served / f"{tag}.info").write_text(json.dumps({"Version": tag}) + "\n")
    shutil.copy(folder / "go.mod", served / f"{tag}.mod")
    with zipfile.ZipFile(served / f"{tag}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, f"{module}@{tag}/{path.relative_to(folder).as_posix()}")


def test_go(out: Path, room: Path) -> None:
    """A new module gets it from a proxy that has nothing else."""
    imports, statements = quick_start("go")
    (room / "main.go").write_text(f"package main\n{imports}\nfunc main() {{\n{statements}_ = err\n}}\n")
    (room / "go.mod").write_text("module quickstart\n\ngo 1.22\n")
    settings = {"GOPROXY": out.as_uri(), "GONOSUMDB": "*", "GOFLAGS": "-modcacherw", "GOMODCACHE": str(room / "cache")}
    call("go", "get", f"{PROJECT['go']}@v{VERSION}", cwd=room, **settings)
    call("go", "run", ".", cwd=room, **settings)


def build_c(out: Path, room: Path) -> None:
    """Pack the sources with the rules that build, install and describe them."""
    pack(staged("c", room), f"toyspec-c-{VERSION}", out)


C_PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(quickstart C)
find_package(toyspec {version} REQUIRED)
add_executable(shared main.c)
target_link_libraries(shared toyspec::toyspec)
add_executable(static main.c)
target_link_libraries(static toyspec::toyspec_static)
"""


def test_c(out: Path, room: Path) -> None:
    """Programs link both libraries, found by pkg-config and by CMake."""
    unpack(only(out, "*.tar.gz"), room)
    prefix = room / "prefix"
    call("make", "install", f"PREFIX={prefix}", cwd=room / f"toyspec-c-{VERSION}")
    imports, statements = quick_start("c")
    (room / "main.c").write_text(f"{imports}\nint main(void) {{\n{statements}return 0;\n}}\n")
    found = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert call("pkg-config", "--modversion", "toyspec", **found).strip() == VERSION
    flags = call("pkg-config", "--cflags", "--libs", "toyspec", **found).split()
    call("cc", "-std=c11", "main.c", *flags, "-o", "by-pkg-config", cwd=room)
    call(room / "by-pkg-config", cwd=room, **found)
    if not shutil.which("cmake"):
        missing("CMake configuration", "apt install cmake")
        return
    (room / "CMakeLists.txt").write_text(C_PROJECT.format(version=VERSION))
    call("cmake", "-S", ".", "-B", "made", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=room)
    call("cmake", "--build", "made", cwd=room)
    for program in ("shared", "static"):
        shutil.rmtree(room / "runs")
        call(room / "made" / program, cwd=room)


VSCE = ROOT / "build/vsce"


def build_vscode(out: Path, room: Path) -> None:
    """Build the extension, and pack it with the official tool."""
    call(sys.executable, "-m", "nox", "-s", "vscode")
    if not (VSCE / "node_modules/.bin/vsce").exists():
        VSCE.mkdir(parents=True, exist_ok=True)
        options = ("--silent", "--no-audit", "--no-fund", "--no-save")
        call("npm", "install", *options, "--prefix", VSCE, "@vscode/vsce@3", cwd=VSCE)
    folder = staged("vscode", room)
    target = out / f"toyspec-viewer-{VERSION}.vsix"
    call(VSCE / "node_modules/.bin/vsce", "package", "--no-dependencies", "--out", target, cwd=folder)


def test_vscode(out: Path, room: Path) -> None:
    """The package has what its manifest names, and starts beside nothing else; no editor runs it."""
    shutil.unpack_archive(only(out, "*.vsix"), room, "zip")
    names = {path.relative_to(room / "extension").parts[0] for path in (room / "extension").rglob("*")}
    assert {"package.json", "built"} <= names, names
    assert not names & {"src", "test", "webview", "node_modules"}, names
    tests = REFERENCE / "vscode/test/extension.test.mjs"
    call("node", "--test", tests, cwd=room, TOYSPEC_EXTENSION=str(room / "extension"))


def pack(folder: Path, name: str, out: Path) -> Path:
    """Return an archive of *folder* whose bytes depend on nothing but its files."""
    target = out / f"{name}.tar.gz"
    with tempfile.TemporaryFile() as plain:
        with tarfile.open(fileobj=plain, mode="w") as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = archive.gettarinfo(path, f"{name}/{path.relative_to(folder).as_posix()}")
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                with path.open("rb") as content:
                    archive.addfile(entry, content)
        plain.seek(0)
        # gzip writes neither name nor time with -n.
        with target.open("wb") as packed:
            subprocess.run(["gzip", "-9n"], stdin=plain, stdout=packed, check=True)
    return target


def unpack(archive: Path, folder: Path) -> None:
    """Unpack *archive* into *folder*."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


PACKAGES: Mapping[str, Package] = {
    "engine": Package([["cargo", "--version"]], "apt install cargo", build_engine, test_engine),
    "python": Package([["cargo", "--version"]], "apt install cargo", build_python, test_python),
    "rust": Package([["cargo", "--version"]], "apt install cargo", build_rust, test_rust),
    "npm": Package([["npm", "--version"]], "apt install npm", build_npm, test_npm),
    "gem": Package([["gem", "--version"]], "apt install ruby", build_gem, test_gem),
    "opam": Package(
        [["dune", "--version"], ["ocamlfind", "query", "yojson"]],
        "apt install ocaml-dune ocaml-findlib libyojson-ocaml-dev",
        build_opam,
        test_opam,
    ),
    "go": Package([["go", "version"]], "apt install golang-go", build_go, test_go),
    "vscode": Package([["npm", "--version"]], "apt install npm", build_vscode, test_vscode),
    "c": Package([["cc", "--version"], ["pkg-config", "--version"]], "apt install gcc pkg-config", build_c, test_c),
}


WRITE_NOTHING = {"engine", "vscode"}


def missing(name: str, install: str) -> None:
    """Name what is left out; end this program if CI is set."""
    print(f"left out: {name} ({install})")
    if os.environ.get("CI"):
        raise SystemExit(1)


def is_there(package: Package) -> bool:
    """Return whether every command that *package* needs runs."""
    for words in package.needs:
        try:
            if subprocess.run(words, capture_output=True, check=False).returncode:
                return False
        except OSError:
            return False
    return True


def checked(room: Path) -> None:
    """End this program unless the program in *room* has written a run without findings of severity error."""
    files = toyspec.check(room / "runs").files
    assert files, "the program wrote no run"
    assert all(file.valid for file in files), [str(finding) for file in files for finding in file.findings]


def main() -> int:
    """Build or test the packages that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("build", "test"))
    parser.add_argument("names", nargs="*", metavar="PACKAGE", help=f"any of {', '.join(PACKAGES)}; all by default")
    options = parser.parse_args()
    # It leads this program into the tree; what is tested must not find the tree.
    os.environ.pop("PYTHONPATH", None)
    if unknown := set(options.names) - set(PACKAGES):
        parser.error(f"no such package: {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    for name in options.names or PACKAGES:
        package, out, began = PACKAGES[name], ROOT / "dist" / name, time.monotonic()
        if not is_there(package):
            missing(name, package.install)
            continue
        with tempfile.TemporaryDirectory(prefix="toyspec-packages-") as folder:
            room = Path(folder)
            if options.what == "build":
                shutil.rmtree(out, ignore_errors=True)
                out.mkdir(parents=True)
                package.build(out, room)
            else:
                package.test(out, room)
                if name not in WRITE_NOTHING:
                    checked(room)
        files = ", ".join(sorted(path.name for path in out.rglob("*") if path.is_file()))
        print(f"{options.what:5} {name:7} {time.monotonic() - began:5.1f} s  {files}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
