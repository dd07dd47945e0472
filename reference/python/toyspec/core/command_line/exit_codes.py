"""The exit statuses of ``toyspec``; its page about the command line is generated from them."""

from typing import Final

OK: Final = 0
FINDINGS: Final = 1
USAGE: Final = 2
NOT_STARTED: Final = 127
INTERRUPTED: Final = 130
TERMINATED: Final = 143
BROKEN_PIPE: Final = 141

MEANINGS: Final = {
    OK: "done, and the answer is yes: nothing was found at or above `--fail-on`",
    FINDINGS: "done, and the answer is no, or something is left to do: findings or alerts at or above `--fail-on`; "
    "`--require-complete`, `--gate` or a question of `conform` failed; a run was not sent, sealed, repaired, "
    "annotated or read into a catalog",
    USAGE: "the command line is wrong, or a path cannot be read or written; the other paths were still processed",
    NOT_STARTED: "`capture`, `run`: the command cannot be started, as a shell says it",
    INTERRUPTED: "ended by Ctrl-C: 128 + SIGINT",
    BROKEN_PIPE: "the reader of the output went away: 128 + SIGPIPE",
    TERMINATED: "ended by SIGTERM: 128 + SIGTERM",
}
"""What each status says, for people; `capture` and `run` also have that of their command."""
