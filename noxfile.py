"""What can be run in this tree: `make help` lists what one types often, `.venv/bin/nox --list` lists all.

A session gets its own arguments after ``--``: ``nox -s chaos -- --minutes 60``. Most sessions use the environment of
``make``; the tests against other tools have one each, since these packages are many, and some exclude each other.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nox

ROOT = Path(__file__).parent
BENCH, INTEROP = "reference/python/bench", "reference/python/interop"
TESTS = "reference/python/tests"
CORE = ("msgspec", "jsonschema", "shtab")
STORES = Path("build/interop-stores")
HEALTH_CURVES = "build/bench-health"
CONFORMANCE_PAGE = "docs/reference/conformance.md"
GENERATED = ("schemas", "spec", "reference", "docs", "mkdocs.yml")
"""Where `make generate` writes."""
IS_CI = bool(os.environ.get("CI"))
FOR_ALL_TESTS = ("atheris", "ipykernel", "jax", "nbclient", "playwright", "polars", "wandb")
"""What the extra test-all has: tests that need one are skipped without it, and CI skips none."""

ENGINE_TESTS = (
    "core/test_checker.py", "core/test_checker_properties.py", "core/test_cli_check.py",
    "core/test_cli_main.py", "core/test_cli_runs.py", "core/test_corpus.py",
    "core/test_engine.py", "core/test_gzip_streams.py", "test_every_reader.py", "test_looks.py",
    "core/test_run_ends.py", "core/test_runs_listing.py",
)  # fmt: skip
"""The tests that go through the seam of the engines: they run with plain Python too."""

LANGUAGE_TESTS = tuple(
    f"{TESTS}/{name}"
    for name in (
        "browser", "faults/test_fuzzing.py", "test_emitters.py", "test_quick_starts.py", "test_rust_reports.py",
        "view/test_page_reports.py",
    )
)  # fmt: skip
"""The tests that build or start programs of other languages, or open the site: CI runs them after their builds."""

HOW_TO_GET = {
    "cargo": "apt install cargo · brew install rust · winget install Rustlang.Rustup",
    "npm": "apt install npm · brew install node · winget install OpenJS.NodeJS",
    "java": "apt install default-jdk-headless · brew install openjdk · winget install Microsoft.OpenJDK.21",
}

nox.options.default_venv_backend = "none"
# Sessions run the tools of the environment that runs nox, also if its programs are not on the caller's PATH.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
nox.options.sessions = []
nox.options.stop_on_first_error = True


def needs(session: nox.Session, probe: str, how: str) -> None:
    """Leave the session out if the shell command *probe* fails; in CI that is a failure. *how* says how to get it."""
    if subprocess.run(probe, shell=True, capture_output=True, check=False).returncode:  # noqa: S602 - our own text
        print(f"left out: `{probe}` does not run ({how})", flush=True)
        if IS_CI:
            session.error("a missing toolchain is a failure in CI")
        session.skip()


def python(session: nox.Session, *arguments: str, path: str = "", **variables: str) -> None:
    """Run this environment's Python with *arguments*; *path* comes first on PYTHONPATH."""
    environment = {**variables, **({"PYTHONPATH": path} if path else {})}
    session.run(sys.executable, *arguments, env=environment, external=True)


def npm(session: nox.Session, folder: str, *scripts: str) -> None:
    """Install what *folder* needs and run its *scripts*."""
    needs(session, "npm --version", HOW_TO_GET["npm"])
    with session.chdir(folder):
        session.run("npm", "install", "--silent", "--no-audit", "--no-fund", external=True)
        for script in scripts:
            session.run("npm", "run", "--silent", script, external=True)


def built(session: nox.Session, target: str) -> None:
    """Let make bring *target* up to date."""
    session.run("make", "-s", target, external=True)


def engine_if_possible(session: nox.Session, environment: str) -> None:
    """Install the compiled engine into *environment* where Rust is there."""
    if shutil.which("cargo"):
        built(session, f"{environment}/engine-installed")


# Checks of the tree.


@nox.session
def drift(session: nox.Session) -> None:
    """Check that generated files match the schemas; in CI, generate them again and compare."""
    with session.chdir("reference"):
        python(session, "-m", "codegen", "--check")
        if IS_CI and (ROOT / ".git").exists():
            python(session, "-m", "codegen")
    if IS_CI and (ROOT / ".git").exists():
        session.run("git", "diff", "--exit-code", "--", *GENERATED, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and layers."""
    session.run("ruff", "check", "--quiet", ".")
    session.run("ruff", "format", "--check", "--quiet", ".")
    session.run("mypy")
    session.run("lint-imports", "--no-cache", "--no-logo", env={"PYTHONPATH": "reference:."})


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into site/."""
    built(session, "docs")


@nox.session
def quick_tests(session: nox.Session) -> None:
    """Run the tests that take no more than a moment each, with few random examples."""
    python(session, "-m", "pytest", "-m", "not slow", *session.posargs, TOYSPEC_EXAMPLES="quick")
    print(
        "not run: slow tests (browser, faults, fuzzing, training, losses, memory, mutants, the oracle beyond the\n"
        "core, links of the site, the conformance tools with real programs, long guides, first programs of the other\n"
        "languages, flipped bytes of other formats, real object stores, programs that hang, are killed, lose their\n"
        "terminal or their output, how each way to log ends, special files in place of logs, earlier revisions,\n"
        "large catalogs, options of `query` and `catalog`, credentials in messages),\n"
        "tests of packages that only `make test-all` installs,\n"
        "and most random examples of each property"
    )


@nox.session
def pytest(session: nox.Session) -> None:
    """Run the tests; arguments select some.

    CI tries a quarter of the random examples, leaves out `long` tests, and has two parts: ``ci languages`` runs the
    tests that need what other sessions build, and ``ci python`` all others.
    """
    if IS_CI and (missing := [name for name in FOR_ALL_TESTS if importlib.util.find_spec(name) is None]):
        session.error(f"tests would be skipped without {', '.join(missing)}: run `make test-all`, which installs them")
    parts = {"languages": LANGUAGE_TESTS, "python": [f"--ignore={path}" for path in LANGUAGE_TESTS]}
    if session.posargs[:1] == ["ci"]:
        python(session, "-m", "pytest", "-m", "not long", *parts[session.posargs[1]], TOYSPEC_EXAMPLES="ci")
    else:
        python(session, "-m", "pytest", *session.posargs)


@nox.session
def plain_tests(session: nox.Session) -> None:
    """Run the tests that depend on the engine with plain Python; ``whole`` runs all others too, but the slow ones."""
    part = {"TOYSPEC_EXAMPLES": "ci"} if IS_CI else {}
    with session.chdir(TESTS):
        python(session, "-m", "pytest", "-q", "-m", "not slow", *ENGINE_TESTS, TOYSPEC_ENGINE="python", **part)
        if "whole" in session.posargs:
            others = [f"--ignore={name}" for name in ENGINE_TESTS]
            environment = {"TOYSPEC_ENGINE": "python", "TOYSPEC_EXAMPLES": "quick"}
            python(session, "-m", "pytest", "-q", "-m", "not slow", *others, ".", **environment)


@nox.session
def wheel_test(session: nox.Session) -> None:
    """Build the wheel and test it away from the source tree; ``whole`` runs all tests but the slow ones."""
    whole = {"WHOLE": "1"} if "whole" in session.posargs else {}
    session.run("sh", ".ci/wheel-test", env={"PYTHON": sys.executable, **whole}, external=True)


@nox.session
def fresh(session: nox.Session) -> None:
    """Run the README's two commands in a minimal Debian 13 (root, Linux, debootstrap)."""
    session.run(".ci/fresh", external=True)


@nox.session
def stress(session: nox.Session) -> None:
    """Run the tests of processes, locks and time many times beside a load of 10: ``--times 20 --share 3/10 TEST…``."""
    python(session, ".ci/stress.py", *session.posargs)


@nox.session
def journeys(session: nox.Session) -> None:
    """Play training programs against the writer for some minutes (10), and find every value again."""
    end = time.monotonic() + 60 * float(next(iter(session.posargs), "10"))
    while time.monotonic() < end:
        python(
            session, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{TESTS}/test_journeys.py",
            TOYSPEC_EXAMPLES="random", TOYSPEC_JOURNEYS="300",
        )  # fmt: skip


# Failures and random input.


@nox.session
def faults(session: nox.Session) -> None:
    """Inject failures into writers and readers for minutes, and print tables; an argument names a page to write."""
    page = next(iter(session.posargs), "")
    python(session, "-m", "conformance", "faults", "--long", *(["--page", page] if page else []))
    python(session, "-m", "pytest", "-q", f"{TESTS}/faults", TOYSPEC_FAULTS="long", TOYSPEC_FAULTS_PAGE=page)


@nox.session
def writer_faults(session: nox.Session) -> None:
    """Inject each failure into each writer: ``--only go --fault disk``."""
    python(session, "-m", "conformance", "faults", *session.posargs)


@nox.session
def attacks(session: nox.Session) -> None:
    """Ask every command, tool and request about hostile folders and objects, and count what is refused and found."""
    with session.chdir(TESTS):
        python(session, "-m", "pytest", "-q", "-s", "-m", "slow or not slow", "test_hostile_folders.py")


@nox.session
def chaos(session: nox.Session) -> None:
    """Let writers, syncers, followers, viewers and a store fail together: ``--minutes 60 --seed 1``."""
    python(session, "-m", "chaos", *(session.posargs or ["--minutes", "3"]), path=TESTS)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Feed mutated streams to the package, the C library and the crate for some seconds (600)."""
    python(session, "-m", "faults.fuzz", *(session.posargs or ["600"]), path=f".:{TESTS}")


# Conformance.


@nox.session
def conform(session: nox.Session) -> None:
    """Test every implementation that this machine can build, and the corpus with mutants.

    Each is asked the whole corpus, and in one-shot mode questions of one profile, since each starts a program;
    ``whole`` asks the core of all, and compares ten times the random numbers and answers to drawn questions.
    """
    is_whole = "whole" in session.posargs
    page = ("--page", CONFORMANCE_PAGE)
    python(session, "-m", "conformance", "registered", *page, "--proven", "conformance/proven.json")
    once = (
        "--no-build",
        "--quiet",
        "--level",
        "quick",
        "--mode",
        "oneshot",
        "--role",
        "writer",
        "--role",
        "summarizer",
    )
    python(session, "-m", "conformance", "registered", *once, *(() if is_whole else ("--select", "metrics-v1")))
    numbers = "10000" if is_whole else "1000"
    python(session, "-m", "conformance", "interop", "--no-build", *page, "--count", numbers)
    # So many and no more: what is asked is not to depend on the machine.
    hunted = ("--seconds", "600") if is_whole else ("--seconds", "0", "--count", "300")
    python(session, "-m", "conformance", "hunt", "--no-build", *hunted)
    if is_whole:
        python(session, "-m", "conformance.frozen")
    python(session, "-m", "conformance", "locks", "--no-build", *page)
    python(session, "-m", "conformance", "faults")
    python(session, "-m", "conformance", "costs", "--no-build")
    python(session, "-m", "conformance", "kill", *page)


@nox.session
def published(session: nox.Session) -> None:
    """Make the table of implementations that publish their reports."""
    reports = sorted(map(str, Path("conformance/published").glob("*.json")))
    python(session, "-m", "conformance", "matrix", *reports, "--page", CONFORMANCE_PAGE)


@nox.session
def locks(session: nox.Session) -> None:
    """Let each writer hold a stream while every other writer tries to write to it."""
    python(session, "-m", "conformance", "locks", *session.posargs)


@nox.session
def outsider(session: nox.Session) -> None:
    """Test the Java emitter that was written from the published pages only."""
    needs(session, "javac -version && java -version", HOW_TO_GET["java"])
    folder = Path("build/outsider")
    folder.mkdir(parents=True, exist_ok=True)
    for schema in Path("schemas/bundled").glob("*-v1.json"):
        shutil.copy(schema, folder)
    sources = map(str, Path("conformance/outsider").glob("*.java"))
    session.run("javac", "-Xlint:all", "-Werror", "-d", str(folder), *sources, external=True)
    adapter = f"java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp {folder} Adapter"
    python(session, "-m", "conformance", "--revision", "1.2", *session.posargs, "--adapter", adapter)


@nox.session
def mutants(session: nox.Session) -> None:
    """Mutate the oracle, and demand that the corpus catches every mutant: ``--sample 300``."""
    python(session, "-m", "conformance.mutation", *(session.posargs or ["--page", CONFORMANCE_PAGE]))


@nox.session
def mutants_python(session: nox.Session) -> None:
    """Mutate the Python package at random places, the commit decides which: ``--sample 300``."""
    python(session, "-m", "conformance.mutation.python", *session.posargs)


@nox.session
def mutants_rust(session: nox.Session) -> None:
    """Mutate the Rust crate with cargo-mutants, and run its tests (hours): ``--shard 1/100``."""
    needs(session, "cargo mutants --version", "cargo install cargo-mutants --locked")
    with session.chdir("reference/rust"):
        session.run("cargo", "mutants", "--output", str(ROOT / "build"), *session.posargs, external=True)


@nox.session
def originals(session: nox.Session) -> None:
    """Compare with the programs that the formats come from (minutes: builds them), and write the table of the page."""
    needs(session, "cargo --version", HOW_TO_GET["cargo"])
    with session.chdir("reference"):
        command = ["cargo", "run", "--quiet", "--manifest-path", "rust/originals/tokitai/Cargo.toml"]
        answers = session.run(*command, external=True, silent=True)
        subprocess.run([sys.executable, "-m", "codegen.originals"], input=answers, text=True, check=True)


# Other languages.


@nox.session
def engine(session: nox.Session) -> None:
    """Build the compiled engine and install it into .venv."""
    needs(session, "cargo --version", HOW_TO_GET["cargo"])
    built(session, ".venv/engine-installed")


@nox.session
def c(session: nox.Session) -> None:
    """Test the C library, with sanitizers."""
    needs(session, "cc --version", "apt install gcc · xcode-select --install · winget install LLVM.LLVM")
    session.run("make", "-C", "reference/c", "test", "all", external=True)


@nox.session
def go(session: nox.Session) -> None:
    """Lint and test the Go module."""
    needs(session, "go version", "apt install golang-go · brew install go · winget install GoLang.Go")
    with session.chdir("reference/go"):
        if unformatted := session.run("gofmt", "-l", ".", external=True, silent=True):
            session.error(f"gofmt -w {unformatted}")
        session.run("sh", "-c", "go vet ./... && go test ./...", external=True)


@nox.session
def ocaml(session: nox.Session) -> None:
    """Test the OCaml library."""
    needs(
        session, 'dune --version && test -e "$(ocamlfind query yojson)/yojson.cmi"',
        "apt install ocaml-dune libyojson-ocaml-dev · opam install dune yojson",
    )  # fmt: skip
    with session.chdir("reference/ocaml"):
        session.run("dune", "build", external=True)
        session.run("dune", "test", external=True)


@nox.session
def ruby(session: nox.Session) -> None:
    """Test the Ruby gem."""
    needs(session, "ruby --version", "apt install ruby · brew install ruby · winget install RubyInstallerTeam.Ruby.3.3")
    session.run("ruby", "reference/ruby/test/test_toyspec.rb", external=True)


@nox.session
def rust(session: nox.Session) -> None:
    """Test the Rust crate; the programs that `conform` and the tests start are built with it."""
    needs(session, "cargo --version", HOW_TO_GET["cargo"])
    with session.chdir("reference/rust"):
        session.run("cargo", "test", "--quiet", external=True)


@nox.session
def typescript(session: nox.Session) -> None:
    """Test the TypeScript package."""
    npm(session, "reference/typescript", "test")


@nox.session
def viewer(session: nox.Session) -> None:
    """Test the viewer, and build it into the Python package; in CI, what is committed must be what the sources give."""
    npm(session, "reference/viewer", "test", "check" if IS_CI else "build")


@nox.session
def vscode(session: nox.Session) -> None:
    """Test the extension of Visual Studio Code, whose editor is not run."""
    npm(session, "reference/vscode", "test")


# Tests against other tools, each in an environment of its own.


@nox.session(venv_backend="venv", reuse_venv=True)
@nox.parametrize("tools", ["loggers", "mlflow", "aim"], ids=["loggers", "mlflow", "aim"])
def interop(session: nox.Session, tools: str) -> None:
    """Import from and export to the real TensorBoard, W&B, MLflow, Aim and others."""
    session.install("-r", f"{INTEROP}/requirements-{tools}.txt", *CORE, "pytest", "hypothesis")
    with session.chdir(INTEROP):
        session.run("python", "-m", "pytest", "-q", *session.posargs, env={"PYTHONPATH": ".."})


@nox.session(venv_backend="venv", reuse_venv=True)
def interop_frameworks(session: nox.Session) -> None:
    """Run a real training in each framework, also killed and resumed (installs 5 GB)."""
    with_frameworks(session)
    in_interop(session, "test_frameworks.py")


@nox.session(venv_backend="venv", reuse_venv=True)
def gallery(session: nox.Session) -> None:
    """Train with each framework again, and keep the runs that the site offers (installs 5 GB)."""
    with_frameworks(session)
    session.run("python", f"{INTEROP}/gallery.py", *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def interop_ray(session: nox.Session) -> None:
    """Check, catalog and import runs on a Ray cluster of several nodes, some of which are killed (installs 80 MB)."""
    with_ray(session)
    in_interop(session, "test_ray.py")


def with_frameworks(session: nox.Session) -> None:
    """Install the frameworks."""
    session.install("-e", ".[system]", "pytest", "-r", f"{INTEROP}/requirements-frameworks.txt")


def with_ray(session: nox.Session) -> None:
    """Install Ray."""
    session.install("-r", f"{INTEROP}/requirements-ray.txt", *CORE, "pytest")


def in_interop(session: nox.Session, file: str) -> None:
    """Run the tests of *file* away from the settings of this tree's tests."""
    session.run(
        "python", "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", INTEROP, "-p", "no:cacheprovider",
        f"{INTEROP}/{file}", *session.posargs, env={"PYTHONPATH": str(ROOT / "reference/python")},
    )  # fmt: skip


@nox.session
def interop_stores(session: nox.Session) -> None:
    """Read from and write to real object stores on loopback (S3 and Azure; installs 270 MB)."""
    binaries = ROOT / STORES / "bin", ROOT / STORES / "node_modules/.bin"
    if not (binaries[0] / "versitygw").exists():
        gateway = "github.com/versity/versitygw/cmd/versitygw@v1"
        session.run("go", "install", gateway, env={"GOBIN": str(binaries[0])}, external=True)
    if not (binaries[1] / "azurite-blob").exists():
        options = ["--silent", "--no-fund", "--no-audit", "--no-save", "--no-package-lock", "--prefix"]
        session.run("npm", "install", *options, str(STORES), "azurite@3", external=True)
    stores = ":".join(map(str, binaries))
    python(
        session, "-m", "pytest", "-q", f"{TESTS}/stores/test_places_servers.py", *session.posargs, TOYSPEC_STORES=stores
    )


# Figures: each beside its goal.


@nox.session(venv_backend="venv", reuse_venv=True)
def bench(session: nox.Session) -> None:
    """Measure reading, checking and writing beside other libraries: ``--rows 1000000 --publish``."""
    with_peers(session, "usual")
    engine_if_possible(session, session.virtualenv.location)
    if not Path("build/bench-node/node_modules").exists():
        command = "npm install --silent --no-audit --no-fund --prefix build/bench-node ajv"
        session.run(*command.split(), external=True, success_codes=range(256))
    with session.chdir("reference/rust"):
        session.run("cargo", "build", "--release", "--quiet", external=True, success_codes=range(256))
    session.run("python", BENCH, *session.posargs)
    session.run("python", BENCH, "--part", "engine", *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def bench_loggers(session: nox.Session) -> None:
    """Measure a logged step in other tools, and what a kill loses (installs 4 GB)."""
    with_peers(session, "loggers")
    session.run("python", BENCH, "--part", "loggers", *session.posargs)


def with_peers(session: nox.Session, name: str) -> None:
    """Install what is measured; what cannot be had on this machine is named, here and among the figures."""
    session.install("-e", ".[tracker]")
    for peer in Path(f"{BENCH}/requirements-{name}.txt").read_text().split("\n"):
        install = [f"{session.bin}/python", "-m", "pip", "install", "--quiet", peer]
        if peer and subprocess.run(install, check=False).returncode:
            print(f"left out: {peer}")


@nox.session
def bench_viewer(session: nox.Session) -> None:
    """Measure the viewer in a browser, beside its goals (10 minutes): ``--rows 20000``."""
    engine_if_possible(session, ".venv")
    npm(session, "reference/viewer")
    with session.chdir("reference/viewer"):
        session.run("npx", "tsc", external=True)
    python(session, BENCH, "--part", "viewer", *session.posargs, path=TESTS)


@nox.session
def bench_pixels(session: nox.Session) -> None:
    """Count the spikes, NaN, gaps and resumptions that the viewer paints, of 1 to 1,000 runs: ``--rows 10``."""
    python(session, BENCH, "--part", "pixels", *session.posargs, path=TESTS)


@nox.session
def bench_health(session: nox.Session) -> None:
    """Measure what health rules find in drawn and in trained curves, and their cost: ``--part tuned``."""
    python(session, f"{BENCH}/health_kinds.py", "--runs", "1000", "--problems", "200", "--seed", "7")
    for part, runs, steps in (("tuned", "16", "3000"), ("held-out", "60", "5000")):
        # Trained once, 300,000 steps on two cores in some minutes, and kept in build/.
        command = [sys.executable, f"{BENCH}/health_curves.py", HEALTH_CURVES, part, runs, steps]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        trainings = [subprocess.Popen([*command, first, "2"], env=environment) for first in ("0", "1")]
        if sum(training.wait() != 0 for training in trainings):
            session.error("a training failed")
    samples = ("--samples", f"{TESTS}/dialects", "--samples", "docs/assets/framework-runs")
    python(session, f"{BENCH}/health_alarms.py", HEALTH_CURVES, *samples, *session.posargs)


@nox.session
def scale(session: nox.Session) -> None:
    """Measure many runs on disk and in a store (4 minutes): ``--most 100000 --publish``."""
    python(session, f"{BENCH}/catalog_scale.py", *session.posargs)


# Pictures.


@nox.session
def screenshots(session: nox.Session) -> None:
    """Take screenshots of the site and the viewer, wide and narrow, light and dark: ``start viewer``."""
    python(session, "-m", "browser.screenshots", *session.posargs, path=TESTS)


@nox.session
def viewer_picture(session: nox.Session) -> None:
    """Take the picture of the viewer that the README and the start page show."""
    python(session, "-m", "browser.viewer_picture", path=TESTS)


@nox.session
def beside_tensorboard(session: nox.Session) -> None:
    """Show the same runs in TensorBoard and in the viewer; an argument names the program of TensorBoard."""
    program = next(iter(session.posargs), "tensorboard")
    python(session, "-m", "beside_tensorboard", program, path=f"{TESTS}:{BENCH}")


# Release.


@nox.session
def packages(session: nox.Session) -> None:
    """Build every package into dist/: wheels, sdist, crate, npm, gem, opam, Go, C, vsix; arguments choose some."""
    python(session, ".ci/packages.py", "build", *session.posargs, path=f"reference:{TESTS}")


@nox.session
def packages_test(session: nox.Session) -> None:
    """Build each package, install it into an empty environment, and run the program of its README there."""
    packages(session)
    python(session, ".ci/packages.py", "test", *session.posargs, path=f"reference:{TESTS}")


@nox.session
def release_check(session: nox.Session) -> None:
    """Say what a release lacks: addresses, dates, pinned actions, what is done by hand."""
    python(session, ".ci/release_check.py", path="reference")


@nox.session
def man(session: nox.Session) -> None:
    """Write the manual page of toyspec into build/man/; argparse-manpage makes it of the help of each command."""
    Path("build/man").mkdir(parents=True, exist_ok=True)
    session.run(
        "argparse-manpage", "--module", "toyspec.core.command_line.commands", "--function", "full_parser",
        "--project-name", "toyspec", "--prog", "toyspec", "--manual-title", "toyspec manual",
        "--description", "check, show and compare training logs in JSON Lines",
        "--format", "single-commands-section", "--output", "build/man/toyspec.1",
    )  # fmt: skip
    print("wrote build/man/toyspec.1; `man -l build/man/toyspec.1` shows it")
