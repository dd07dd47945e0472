"""Writes an adapter to begin with: its loop and its hello, in a language that the emitters have."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from conformance.escaping import printable

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "starters")
_NAME = "my-emitter"
_MOST_LETTERS = 100


class Language(NamedTuple):
    """How the adapter of a language is built and started, in its folder."""

    file: str
    adapter: str
    build: str = ""


LANGUAGES = {
    "cpp": Language("adapter.cpp", "./adapter", "c++ -std=c++17 -O1 -Wall -Wextra -o adapter adapter.cpp"),
    "csharp": Language("Adapter.cs", "mono adapter.exe", "mcs -warn:4 -out:adapter.exe Adapter.cs"),
    "java": Language("Adapter.java", "java -XX:TieredStopAtLevel=1 Adapter", "javac -Xlint:all Adapter.java"),
    "javascript": Language("adapter.mjs", "node adapter.mjs"),
    "lua": Language("adapter.lua", "luajit adapter.lua"),
    "python": Language("adapter.py", "python3 adapter.py"),
}

_README = """\
# The adapter of {name}

`{file}` lets `toyspec conform` ask your emitter. Two places are yours:

- its hello names your emitter, its version, and what it can do: roles, profiles, capabilities;
- `write` gets records and returns what your emitter writes for them.

What every emitter needs is one page of the specification: `spec/minimal.md`. From this folder:

```sh
{build}toyspec conform --level minimal --adapter '{adapter}'   # what every emitter needs: seconds
toyspec conform doctor --adapter '{adapter}'            # when the adapter itself seems wrong
toyspec conform --level quick --adapter '{adapter}'     # at least one question for each MUST of your roles
toyspec conform --adapter '{adapter}'                   # the whole corpus, for a claim
```

Until `write` calls your emitter, each question ends with "still to do". Later each failure names the case and what it
expected; `--select CASE` asks that one again. `conformance/PROTOCOL.md` describes further roles and capabilities.
"""


class StarterError(Exception):
    """The folder cannot be used."""


def write_starter(folder: str, language: str) -> list[str]:
    """Write the adapter of *language* and a README into *folder*; return the commands that come next.

    The folder may exist, but neither of the files. Raise StarterError.
    """
    form = LANGUAGES[language]
    name = _name_of(folder)
    with open(os.path.join(SOURCES, form.file), encoding="utf-8") as file:
        adapter = file.read().replace(_NAME, name)
    build = f"{form.build}\n" if form.build else ""
    readme = _README.format(name=name, file=form.file, build=build, adapter=form.adapter)
    texts = {form.file: adapter, "README.md": readme}
    try:
        os.makedirs(folder, exist_ok=True)
        for taken in texts:
            if os.path.lexists(os.path.join(folder, taken)):
                raise StarterError(f"{os.path.join(folder, taken)} exists; name another folder")
        for path, text in texts.items():
            with open(os.path.join(folder, path), "x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise StarterError(f"{folder}: {error.strerror}; name another folder") from None
    asking = f"toyspec conform --level minimal --adapter '{form.adapter}'"
    return [f"cd {shlex.quote(folder)}", *filter(None, [form.build]), asking]


def _name_of(folder: str) -> str:
    """Return the name of the emitter: that of its folder, as far as it can be in the text of any language."""
    name = os.path.basename(os.path.abspath(folder))
    plain = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "-" for letter in name)
    return printable(plain)[:_MOST_LETTERS] or _NAME
