"""The exit statuses of ``toyspec``."""

OK = 0
FINDINGS = 1
"""The check failed: findings, or a stream that is not complete."""
USAGE = 2
"""The command line is wrong, or a path cannot be read or written."""
NOT_STARTED = 127
"""The program to run cannot be started, as a shell says it."""
INTERRUPTED = 130
"""Ended by Ctrl-C: 128 + SIGINT."""
BROKEN_PIPE = 141
"""The reader of the output went away: 128 + SIGPIPE."""
