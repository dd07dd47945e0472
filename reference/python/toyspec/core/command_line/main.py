"""The entry point: finds the command, runs it and turns errors into a message and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import COMMANDS, all_commands, command_parser, load, top_parser
from toyspec.core.command_line.parsers import UsageError, did_you_mean
from toyspec.core.command_line.terminal import called, tell
from toyspec.core.errors import CatalogError, ExpressionError, ToyspecError
from toyspec.core.escaping import shortened
from toyspec.core.files import null_device
from toyspec.core.system_calls import cause_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

# What may have workers that outlive an interruption.
_WORKERS = {"ray", "toyspec.core.workers.processes"}


def run() -> int:
    """Run the command line of this process and return its exit code."""
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not an exception.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code = main()
    try:
        sys.stdout.flush()
    except OSError:
        # The error was reported; the interpreter would try to write, and report the error, once more at exit.
        os.dup2(null_device(os.O_WRONLY), sys.stdout.fileno())
    if code == exit_codes.INTERRUPTED and _WORKERS & sys.modules.keys():
        # At exit a cluster's library ends the process with a status and a native stack of its own, and a pool that a
        # second Ctrl-C kept from its end writes to a pipe that its own thread closes.
        os._exit(code)
    return code


def _keep_standard_output() -> None:
    """Keep standard output for the command: what a library's native code and processes write there goes to stderr."""
    output: TextIO = sys.stdout
    if output is not sys.__stdout__:
        return
    output.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = open(own, "w", encoding=output.encoding, errors=output.errors)  # noqa: SIM115 - until the end


def _open_closed() -> None:
    """Open a substitute for each standard stream that the caller has closed.

    Otherwise the next file that is opened gets the number of a standard stream, and receives its output. Reading or
    writing a substitute fails, so that a command that needs the stream reports it.
    """
    for number, (name, flags) in enumerate((("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))):
        if getattr(sys, name) is None:
            opened = null_device(flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end
            setattr(sys, name, stream)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run *arguments*, those of the process by default, and return the exit code; nothing is raised."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given and _is_command(given[0]) else None
    try:
        code = _command(name, given[1:]) if name else _top(given)
        sys.stdout.flush()
    except (UsageError, CatalogError, ExpressionError) as error:
        return _complain(name, str(error), f"see `{called(name)} --help`")
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        return exit_codes.BROKEN_PIPE
    except OSError as error:
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return _complain(name, f"{place}{cause_of(error)}")
    except ToyspecError as error:
        return _complain(name, str(error))
    return code


def _is_command(word: str) -> bool:
    # Packages are looked through only for a word that is none of ours.
    return word in COMMANDS or (not word.startswith("-") and word in all_commands())


def _command(name: str, arguments: list[str]) -> int:
    try:
        parser = command_parser(name)
    except ImportError as error:
        if name in COMMANDS:
            raise
        raise UsageError(str(error)) from error
    try:
        options = parser.parse_args(arguments)
    except SystemExit:  # after --help was printed
        return exit_codes.OK
    if getattr(options, "ray", None) is not None:
        _keep_standard_output()
    command = load(name)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # So was it for the time of the imports.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return command.run(options)


def _top(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(top_parser().format_help())
        return exit_codes.USAGE
    word = arguments[0]
    if not word.startswith("-"):
        raise UsageError(_unknown_command(word))
    try:
        options = top_parser().parse_args(arguments)
    except SystemExit:
        return exit_codes.OK
    if options.version:
        from toyspec.version import __version__

        sys.stdout.write(f"toyspec {__version__}\n")
        if options.verbose:
            from toyspec.core.engine import choice

            sys.stdout.write("engine {}: {}\n".format(*choice()))
    return exit_codes.OK


def _unknown_command(word: str) -> str:
    if os.path.exists(word):
        return f"'{shortened(word)}' is a path, not a command; did you mean `toyspec check {shortened(word)}`?"
    return f"unknown command '{shortened(word)}'{did_you_mean(word, all_commands())}"


def _complain(name: str | None, message: str, advice: str = "") -> int:
    tell(name, message, advice)
    return exit_codes.USAGE
