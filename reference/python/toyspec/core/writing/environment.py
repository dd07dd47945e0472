"""Finds out where and how a run takes place: machine, command line, versions of packages, and the revision in git."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import Final

from toyspec.core.files import open_text
from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.generated.toy_v1 import Git, Host
from toyspec.core.programs import ask_git
from toyspec.version import __version__

_DETACHED = "(detached)"
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
# Module and distribution. Only these are asked for: a list of all that is installed says little, and takes long.
_DISTRIBUTIONS: Final = {
    "accelerate": "accelerate",
    "clu": "clu",
    "datasets": "datasets",
    "deepspeed": "deepspeed",
    "flax": "flax",
    "ignite": "pytorch-ignite",
    "jax": "jax",
    "keras": "keras",
    "lightgbm": "lightgbm",
    "lightning": "lightning",
    "numpy": "numpy",
    "optax": "optax",
    "optuna": "optuna",
    "peft": "peft",
    "pytorch_lightning": "pytorch-lightning",
    "ray": "ray",
    "sklearn": "scikit-learn",
    "skorch": "skorch",
    "stable_baselines3": "stable-baselines3",
    "tensorflow": "tensorflow",
    "torch": "torch",
    "torch_xla": "torch-xla",
    "torchtitan": "torchtitan",
    "transformers": "transformers",
    "trl": "trl",
    "xgboost": "xgboost",
}


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
    if _repository(start) is None:
        return None
    status = ask_git(start, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        sha = ask_git(start, "rev-parse", "--verify", "--quiet", "HEAD")
        return Git(sha=sha.strip()) if sha else None
    facts = dict(line[2:].split(" ", 1) for line in status.splitlines() if line.startswith("# ") and " " in line[2:])
    sha, branch = facts.get("branch.oid", ""), facts.get("branch.head", "")
    if not sha or sha.startswith("("):
        return None
    is_dirty = any(not line.startswith("# ") for line in status.splitlines())
    found = Git(sha=sha, branch="" if branch == _DETACHED else branch, dirty=is_dirty)
    remote = ask_git(start, "config", "--get", "remote.origin.url")
    if remote:
        found.remote = text_without_secrets(_CREDENTIALS.sub("", remote.strip()))
    return found


def git_head(start: str = ".") -> Git | None:
    """Return what the files of git say of the commit that is checked out around *start*: no program is started.

    Whether there are uncommitted changes is not known then.
    """
    place = _repository(start)
    if place is None:
        return None
    with contextlib.suppress(OSError, ValueError):
        if os.path.isfile(place):
            place = os.path.join(os.path.dirname(place), _text(place).removeprefix("gitdir:").strip())
        head = _text(os.path.join(place, "HEAD")).strip()
        common = os.path.join(place, "commondir")
        shared = os.path.join(place, _text(common).strip()) if os.path.exists(common) else place
        reference = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
        sha = _sha_of(reference, place, shared) if reference else head
        if sha:
            return Git(sha=sha, branch=reference.removeprefix("refs/heads/"))
    return None


def uncommitted_changes(most_bytes: int, start: str = ".") -> str | None:
    """Return the difference of tracked text files from the commit, at most *most_bytes*; None without one."""
    if _repository(start) is None:
        return None
    found = ask_git(start, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
    return found.encode()[:most_bytes].decode(errors="ignore") if found else None


def _sha_of(reference: str, place: str, shared: str) -> str | None:
    for root in (place, shared):
        with contextlib.suppress(OSError):
            return _text(os.path.join(root, reference)).strip()
    for line in _text(os.path.join(shared, "packed-refs")).splitlines():
        sha, _, name = line.partition(" ")
        if name == reference:
            return sha
    return None


def _text(path: str) -> str:
    with open_text(path) as file:
        return file.read()


def _repository(start: str) -> str | None:
    """Return the ``.git`` of a directory around *start*: without one, no program is started."""
    path = os.path.abspath(start)
    while not os.path.lexists(os.path.join(path, ".git")):
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent
    return os.path.join(path, ".git")


def package_versions() -> dict[str, str]:
    """Return the versions of Python, of toyspec, and of each known framework that this program has imported."""
    found = {"python": ".".join(map(str, sys.version_info[:3])), "toyspec": __version__}
    for module, distribution in _DISTRIBUTIONS.items():
        if module not in sys.modules:
            continue
        version = getattr(sys.modules[module], "__version__", None)
        if not isinstance(version, str):
            version = _installed_version(distribution)
        if version is not None:
            found[distribution] = version
    return found


def _installed_version(distribution: str) -> str | None:
    # Slow to import, and most packages say their version themselves.
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
