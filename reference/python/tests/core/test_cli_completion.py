from __future__ import annotations

import shutil
import subprocess

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.commands import COMMANDS
from toyspec.core.command_line.main import main
from toyspec.core.commands.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_commands_options_and_rules(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of each shell completes every command, the options of commands, and rules."""
    assert main(["completion", shell]) == exit_codes.OK
    script = capsys.readouterr().out
    words = [*COMMANDS, "fail-on", "step-goes-backwards", "github"]
    assert [] == [word for word in words if word not in script]


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_script_is_one(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A shell that is installed takes its script without complaint."""
    main(["completion", shell])
    script = capsys.readouterr().out
    # Of zsh, the file is the body of a function that its completion system calls; run alone it lacks that.
    options = ["-n"] if shell == "zsh" else []
    done = subprocess.run([shell, *options], input=script, capture_output=True, text=True, check=False, timeout=300)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("shell", "paths"),
    [("bash", "_shtab_compgen_files"), ("zsh", ":_files"), ("fish", "__fish_complete_path")],
)
def test_paths_are_completed(shell: str, paths: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of each shell completes paths, and describes a command like the list of commands."""
    main(["completion", shell])
    script = capsys.readouterr().out
    assert paths in script
    assert shell == "bash" or COMMANDS["check"] in script


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ch"], {"check"}),
        (["check", "--req"], {"--require-complete"}),
        (["explain", "step-g"], {"step-goes-backwards"}),
        (["ls", "--sort", "started_"], {"started_at"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In bash, the beginning of a command, an option or a rule is completed."""
    main(["completion", "bash"])
    script = capsys.readouterr().out
    line = f"COMP_WORDS=(toyspec {' '.join(words)}); COMP_CWORD={len(words)}; _shtab_toyspec"
    ask = f'{script}\n{line} toyspec {words[-1]}\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash"], input=ask, capture_output=True, text=True, check=True, timeout=300)
    assert offered == {word.strip() for word in done.stdout.split()}
