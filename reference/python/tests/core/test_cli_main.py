from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import command, ran, started, toyspec
from toyspec import __file__ as package_file
from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import COMMANDS, command_parser, full_parser, load
from toyspec.core.command_line.main import main
from toyspec.core.commands import check
from toyspec.core.files import resource_path

RUN_START = b'{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"demo"}\n'


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command has a description, help for every argument and an example, in lines of at most 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    parser = command_parser(name)
    assert main([name, "--help"]) == exit_codes.OK
    shown = capsys.readouterr().out
    assert parser.description
    assert parser.description in shown
    assert f"toyspec {name}" in (parser.epilog or "").partition("examples:")[2]
    assert [] == [action.dest for action in parser._actions if not action.help]
    assert [] == [line for line in shown.splitlines() if len(line) > 80]


def test_missing_corpus_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the distribution of the corpus `conform` names it and how to install it; all else works as before."""
    (tmp_path / "toyspec/data").mkdir(parents=True)
    (tmp_path / "toyspec/data/schemas").symlink_to(resource_path("schemas"))
    monkeypatch.setattr("toyspec.core.files.__file__", str(tmp_path / "toyspec/core/files.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for arguments in (["conform", "--adapter", "./adapter"], ["conform", "--help"], ["schema", "conform"]):
        assert main(arguments) == exit_codes.USAGE
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith(f"toyspec {arguments[0]}: the corpus is not installed; install it with ")
        assert "`python -m pip install toyspec-conformance`" in shown.err
    assert "conform" in full_parser().format_help()


def test_every_module_of_a_command_is_listed() -> None:
    """A module in the commands of the core or of a room with the functions of a command is that command."""
    package = Path(package_file).parent
    found = {
        path.stem: path
        for path in package.glob("*/commands/*.py")
        if "\ndef configure(" in path.read_text(encoding="utf-8")
    }
    loaded = {name: Path(load(name).__file__ or "") for name in COMMANDS}  # type: ignore[attr-defined]
    assert loaded == found


def test_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the help goes to standard error and the exit status says wrong usage."""
    assert main([]) == exit_codes.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(name in shown.err for name in COMMANDS)


def test_module_runs_like_the_script() -> None:
    """`python -m toyspec` is the same command line."""
    done = ran([sys.executable, "-m", "toyspec", "chekc"])
    assert (exit_codes.USAGE, toyspec("chekc").stderr) == (done.returncode, done.stderr)


def test_unexpected_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the program shows its traceback; only errors of input and usage become messages."""

    def fail(options: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(check, "run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["check", "x"])


@pytest.mark.posix
def test_interrupt_of_a_process(tmp_path: Path) -> None:
    """A process that waits for input ends on SIGINT with status 130 and prints no traceback."""
    process = started("check", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(RUN_START * 20_000)  # returns only when most of it was read: the process runs
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert (exit_codes.INTERRUPTED, b"") == (process.returncode, errors)


@pytest.mark.usefixtures("plain_python")
@pytest.mark.posix
def test_interrupt_of_many_processes(tmp_path: Path) -> None:
    """Ctrl-C ends a check with --workers at once: no worker goes on to the next stream or prints a traceback."""
    fifos = [str(tmp_path / str(number)) for number in range(6)]
    for fifo in fifos:
        os.mkfifo(fifo)
    process = started("check", "--workers", "2", *fifos, start_new_session=True)
    # Opening returns when a worker reads: both have started.
    with open(fifos[0], "wb", buffering=0), open(fifos[1], "wb", buffering=0):
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    assert (exit_codes.INTERRUPTED, b"") == (process.returncode, errors)


@pytest.mark.posix
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize(("apart", "held"), [(0, 0), (0.02, 0.2), (0.1, 0.2)])
def test_interrupts_while_processes_start_and_end(tmp_path: Path, apart: float, held: float) -> None:
    """Ctrl-C when a worker has been forked, and can do nothing about it yet, is silent, and so is one while they end.

    What is sent to a process is *held* for so many seconds, as where others have the cores.
    """
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(RUN_START)
    script = (
        "import multiprocessing, os, signal, sys, time\n"
        "from multiprocessing import connection, util\n"
        "multiprocessing.set_start_method('fork')\n"
        "def interrupt():\n"
        "    try: os.close(os.open('first', os.O_CREAT | os.O_EXCL))\n"
        f"    except FileExistsError: time.sleep({apart})\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "util._close_stdin = interrupt  # the first thing that a forked worker does\n"
        "send = connection.Connection.send_bytes\n"
        "def later(*given):\n"
        f"    time.sleep({held})\n"
        "    send(*given)\n"
        "connection.Connection.send_bytes = later\n"
        "from toyspec.core.command_line.main import run\n"
        "sys.exit(run())\n"
    )
    words = [sys.executable, "-c", script, "check", "--workers", "2", "a", "b"]
    done = ran(words, cwd=tmp_path, start_new_session=True)
    assert (exit_codes.INTERRUPTED, b"") == (done.returncode, done.stderr)


@pytest.mark.posix
def test_interrupt_while_modules_are_imported(tmp_path: Path) -> None:
    """Ctrl-C within an import ends the process: as an exception in an extension module it is lost, or a crash."""
    script = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'msgspec':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from toyspec.__main__ import run\n"
        "sys.exit(run())\n"
    )
    done = ran([sys.executable, "-c", script, "check", str(tmp_path)])
    assert (-signal.SIGINT, b"", b"") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.posix
def test_reader_of_the_output_goes_away() -> None:
    """When the reader of a pipe is gone, the exit status is 141 and nothing is said."""
    process = started("explain")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=300)
    assert (exit_codes.BROKEN_PIPE, b"") == (process.returncode, errors)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_output_that_cannot_be_written(arguments: tuple[str, ...]) -> None:
    """A full disk under the output is an error with a cause, said once."""
    with open("/dev/full", "wb") as full:
        done = ran(command("explain", *arguments), stdout=full)
    assert (exit_codes.USAGE, b"toyspec explain: No space left on device\n") == (done.returncode, done.stderr)


@pytest.mark.posix
@pytest.mark.parametrize(
    ("closed", "arguments", "expected"),
    [
        ("<&-", "check -q -", (exit_codes.USAGE, b"-: Bad file descriptor\n", b"")),
        (">&-", "explain", (exit_codes.USAGE, b"", b"toyspec explain: Bad file descriptor\n")),
        (">&-", "--help", (exit_codes.USAGE, b"", b"toyspec: Bad file descriptor\n")),
        ("<&- >&- 2>&-", "show nothing", (exit_codes.USAGE, b"", b"")),
    ],
)
def test_closed_standard_stream(closed: str, arguments: str, expected: tuple[int, bytes, bytes]) -> None:
    """A command that needs a standard stream that is closed reports it; one that does not need it does not notice."""
    done = ran(["sh", "-c", f'exec "$@" {arguments} {closed}', "sh", *command()])
    assert expected == (done.returncode, done.stdout, done.stderr)


def test_output_in_another_encoding(tmp_path: Path) -> None:
    """Where the output has no character for something, its escape is written and nothing fails."""
    (tmp_path / "events.jsonl").write_bytes(RUN_START + b'{"kind":"st\xc3\xa9p","t":1.0}\n')
    done = toyspec("check", "-v", ".", cwd=tmp_path, env={"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    assert b"" == done.stderr
    assert b"st\\xe9p" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("annotate", "--star"),
        ("digest",),
        ("doctor",),
        ("evidence", "--json"),
        ("export", "tensorboard", "--out=made"),
        ("import",),
        ("ls",),
        ("plot", "--output=made.svg"),
        ("report", "--output=made.html"),
        ("seal",),
        ("show",),
    ],
    ids="-".join,
)
def test_hostile_argument_is_inert(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """An argument that ends up in a message cannot move the cursor or command a CI system."""
    assert main([*words, "\x1b[2J\u202e##vso[x]"]) == exit_codes.USAGE
    assert "\\x1b[2J\\u202e\\x23#vso[x]" in capsys.readouterr().err


def test_start_imports_nothing_heavy() -> None:
    """Checking a regular stream loads none of the modules that cost as much as msgspec."""
    heavy = "jsonschema rich click dataclasses shtab difflib shutil hashlib json urllib concurrent.futures subprocess"
    heavy += " pytest"
    code = (
        "import sys; from toyspec.core.command_line.main import main; code = main(['check', '-']); "
        f"print(sorted(set({heavy.split()!r}) & set(sys.modules)), code)"
    )
    complete = RUN_START + b'{"kind":"run_end","t":1.0,"reason":"completed"}\n'
    done = ran([sys.executable, "-c", code], input=complete)
    assert b"[] 0" in done.stdout
