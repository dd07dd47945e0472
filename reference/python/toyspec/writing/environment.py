"""Finds out cheaply where a run takes place: the machine and the revision of the program, without starting programs."""

from __future__ import annotations

import os
import sys

from toyspec.generated.toy_v1 import Git, Host

_LONGEST_FILE_BYTES = 1 << 20
_DETACHED = ""


def this_host() -> Host:
    """Return the name, the system in lower case and the architecture of this machine."""
    if hasattr(os, "uname"):
        machine = os.uname()
        return Host(name=machine.nodename, os=machine.sysname.lower(), arch=machine.machine)
    # Slow to import, and needed on Windows only.
    import platform

    return Host(name=platform.node(), os=sys.platform, arch=platform.machine())


def git_revision(start: str = ".") -> Git | None:
    """Return the commit that is checked out in the working tree around *start*; None where there is none.

    Only files of git are read: whether the tree has changes is not known. The branch is empty on a detached head.
    """
    try:
        directory = _git_directory(os.path.abspath(start))
        return None if directory is None else _head(directory)
    except (OSError, ValueError):
        return None


def _git_directory(path: str) -> str | None:
    while True:
        candidate = os.path.join(path, ".git")
        if os.path.isdir(candidate):
            return candidate
        if os.path.isfile(candidate):
            # A worktree or a submodule names the real directory in a file.
            target = _content(candidate).removeprefix("gitdir:").strip()
            return os.path.join(path, target)
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def _head(directory: str) -> Git | None:
    head = _content(os.path.join(directory, "HEAD")).strip()
    if not head.startswith("ref:"):
        return Git(sha=head, branch=_DETACHED) if _is_sha(head) else None
    name = head.removeprefix("ref:").strip()
    sha = _reference(directory, name)
    return None if sha is None else Git(sha=sha, branch=name.removeprefix("refs/heads/"))


def _reference(directory: str, name: str) -> str | None:
    common = os.path.join(directory, "commondir")
    shared = os.path.join(directory, _content(common).strip()) if os.path.isfile(common) else directory
    for place in (directory, shared):
        path = os.path.join(place, *name.split("/"))
        if os.path.isfile(path):
            sha = _content(path).strip()
            return sha if _is_sha(sha) else None
    packed = os.path.join(shared, "packed-refs")
    for line in _content(packed).splitlines() if os.path.isfile(packed) else ():
        sha, _, packed_name = line.partition(" ")
        if packed_name == name and _is_sha(sha):
            return sha
    return None


def _is_sha(text: str) -> bool:
    return len(text) in (40, 64) and all(character in "0123456789abcdef" for character in text)


def _content(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(_LONGEST_FILE_BYTES).decode()
