"""The cases of earlier revisions, each with a digest: what an earlier revision asked is never changed.

The oracle of each revision is kept as a program, which must conform for ever: ``python -m conformance.frozen`` asks it.
``schemas/lock.json`` holds the digest of each list. `python -m conformance.authoring.freeze 1.2` writes a list, once,
before the next revision is begun.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shlex
import sys
import tempfile
import zipfile

from conformance.loading import CASES, find, load
from conformance.loading import in_revision as is_case_of
from conformance.pipes import quietly
from conformance.probes.question import ROLES
from conformance.probes.roles import questions
from conformance.session_cases import load as load_sessions

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frozen")
_DESCRIPTIONS = ("case.json", "family.json", "session.json")
_VALIDITY = ("since", "until")
_DIGITS = 32


def text(revision: str) -> str:
    """Return the list of *revision*: its cases, each with the digest of its files, and the number of questions."""
    sessions = list(load_sessions(revision=revision))
    cases = {
        os.path.relpath(folder, CASES).replace(os.sep, "/"): _digest(folder)
        for folder in find()
        if is_case_of(folder, revision)
    }
    cases |= {session.name: _digest(session.folder) for session in sessions}
    every = itertools.chain(load(revision=revision), sessions)
    count = sum(len(list(questions(case, ROLES))) for case in every)
    content = {"revision": revision, "questions": count, "cases": cases}
    return json.dumps(content, indent=0) + "\n"


def path_of(revision: str) -> str:
    """Return the path of the list of *revision*."""
    return os.path.join(FOLDER, f"{revision}.json")


def kept_programs() -> list[str]:
    """Return the revisions whose oracle is kept as it was, oldest first."""
    return sorted(name[len("oracle-") : -len(".zip")] for name in os.listdir(FOLDER) if name.endswith(".zip"))


def kept_program(revision: str, folder: str | os.PathLike[str]) -> list[str]:
    """Unpack the oracle of *revision* into *folder*; return the command of its adapter."""
    with zipfile.ZipFile(os.path.join(FOLDER, f"oracle-{revision}.zip")) as archive:
        archive.extractall(folder)
    return [sys.executable, os.path.join(folder, "adapter.py")]


def digest(revision: str) -> str:
    """Return the SHA-256 of the list of *revision*."""
    with open(path_of(revision), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _digest(folder: str) -> str:
    """Return a digest of the files of a case; in which revisions it holds does not count."""
    found = hashlib.sha256()
    for place, names, files in os.walk(folder):
        names.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                data = file.read()
            if name in _DESCRIPTIONS and place == folder:
                members = {key: value for key, value in json.loads(data).items() if key not in _VALIDITY}
                data = json.dumps(members, sort_keys=True).encode()
            found.update(os.path.relpath(path, folder).replace(os.sep, "/").encode() + b"\0")
            found.update(hashlib.sha256(data).digest())
    return found.hexdigest()[:_DIGITS]


def _ask_kept_programs() -> int:
    """Ask the kept program of each revision everything that the revision asked; return the worst exit status."""
    from conformance.command import main

    def status(revision: str) -> int:
        with tempfile.TemporaryDirectory() as folder:
            adapter = shlex.join(kept_program(revision, folder))
            return main(["--adapter", adapter, "--revision", revision])

    return max(map(status, kept_programs()))


if __name__ == "__main__":
    sys.exit(quietly(_ask_kept_programs))
