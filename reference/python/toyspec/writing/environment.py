"""Finds out where a run takes place: the machine, and the revision of the program as git says it."""

from __future__ import annotations

import os
import re
import sys

from toyspec.generated.toy_v1 import Git, Host

_MOST_SECONDS = 2.0
"""How long git may take; looking for changes in a huge tree takes longer, and the run starts without."""

_DETACHED = "(detached)"
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


def this_host() -> Host:
    """Return the name, the system in lower case and the architecture of this machine."""
    if hasattr(os, "uname"):
        machine = os.uname()
        return Host(name=machine.nodename, os=machine.sysname.lower(), arch=machine.machine)
    # Slow to import, and needed on Windows only.
    import platform

    return Host(name=platform.node(), os=sys.platform, arch=platform.machine())


def git_revision(start: str = ".") -> Git | None:
    """Return the commit that is checked out in the working tree around *start*; None where there is none, or no git.

    The branch is empty on a detached head. Untracked files do not make the tree dirty. Credentials in the address of
    the repository are left out.
    """
    if not _is_in_repository(start):
        return None
    status = _git(start, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        sha = _git(start, "rev-parse", "--verify", "--quiet", "HEAD")
        return Git(sha=sha.strip()) if sha else None
    facts = dict(line[2:].split(" ", 1) for line in status.splitlines() if line.startswith("# ") and " " in line[2:])
    sha, branch = facts.get("branch.oid", ""), facts.get("branch.head", "")
    if not sha or sha.startswith("("):
        return None
    is_dirty = any(not line.startswith("# ") for line in status.splitlines())
    found = Git(sha=sha, branch="" if branch == _DETACHED else branch, dirty=is_dirty)
    remote = _git(start, "config", "--get", "remote.origin.url")
    if remote:
        found.remote = _CREDENTIALS.sub("", remote.strip())
    return found


def _is_in_repository(start: str) -> bool:
    """Return whether a directory around *start* has a ``.git``: without one, no program is started."""
    path = os.path.abspath(start)
    while not os.path.lexists(os.path.join(path, ".git")):
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent
    return True


def _git(start: str, *arguments: str) -> str | None:
    """Return what git prints; None where it fails, takes too long, or is not installed."""
    import subprocess

    # Looking must not take the lock that a command of the user needs.
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "-C", start, *arguments],
            capture_output=True,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_MOST_SECONDS,
        )
        return done.stdout.decode()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
