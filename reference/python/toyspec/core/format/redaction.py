"""Replaces secrets in settings and command lines by ``***``: a log is copied to more places than a secret may go."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from toyspec.core.format.foreign_values import mapping_of
from toyspec.core.format.scalars import attempt
from toyspec.core.format.scalars import items as items_of
from toyspec.core.generated.limits import MAX_DEPTH
from toyspec.core.generated.redaction import (
    GLUED,
    HIDDEN,
    NOT_AFTER_TOKEN,
    NOT_BEFORE_TOKEN,
    PARAMETER_WORDS,
    TEXTS,
    WORD_PAIRS,
    WORDS,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_SECRET_WORDS: Final = frozenset(WORDS)
_SECRET_PAIRS: Final = frozenset(WORD_PAIRS)
_PARAMETER_WORDS: Final = frozenset(PARAMETER_WORDS)
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_SECRET_TEXTS: Final = {part: re.compile(pattern) for part, pattern in TEXTS.items()}
_NAMED: Final = re.compile(r"""(?P<mark>[?&;]|(?<![\w.-]))(?P<name>[\w.-]+)(?P<sign>=["']?|["']?: ?["']?| (?![\s-]))""")
"""A name before its value in a text: of an address, a command line, a sentence or printed settings."""
_SIGNS: Final = ("=", ":", "--")
"""One of these is between a secret's name and its value, or before it."""
_VALUE: Final = re.compile(r"""(?<=")[^"]+|(?<=')[^']+|(?:(?:[Bb]earer|[Bb]asic|[Tt]oken) )?[^&#;,\s"']+""")
_OPTION: Final = re.compile(r"(?P<name>[\w.-]+)(?P<sign>=|:\s*)(?=\S)")
"""A word of a command line that has a value: ``--token=X``, ``hub.token=X`` or the header ``X-Api-Key: X``."""
_NUMBER: Final = re.compile(r"\d[\d._,]*(?:[eE]\+?\d+)? ?[kKmMgGbBtT]?")
_DEPTH: Final = MAX_DEPTH + 1
_REMARKS: Final = ("notes", "text", "error")
"""Members of a record about the run that people write."""


class Redaction:
    """Replaces secrets, and remembers the names of those that it has replaced.

    A setting of *clear* is written unchanged; it is named by its key, or by its path with slashes.
    """

    def __init__(self, clear: Collection[str] = ()) -> None:
        if isinstance(clear, str):
            raise TypeError(f"unredacted is {clear!r}; pass a list of the names of settings: [{clear!r}]")
        self._clear = frozenset(clear)
        self.replaced: list[str] = []
        """Names of what was replaced, in order."""

    def record(self, members: dict[str, Any]) -> None:
        """Replace every secret in the *members* of a record about the run: its settings, command line and remarks."""
        argv = members.get("argv")
        if isinstance(argv, list | tuple) and all(isinstance(word, str) for word in argv):
            members["argv"] = self.command_line(argv)
        if members.get("config") is not None:
            members["config"] = self.settings(members["config"])
        for name in _REMARKS:
            if isinstance(members.get(name), str):
                members[name] = self.settings(members[name], name)

    def settings(self, value: Any, path: str = "", depth: int = _DEPTH, holder: str = "") -> Any:
        """Return *value* with every secret in it replaced: texts with a secret's name or form, at any depth.

        What is below a secret's name, the *holder*, is secret whatever it is called: ``{"api_keys": {"mine": "…"}}``.
        Numbers, truth values and None stay, so that ``max_tokens`` keeps its value. What is nested deeper than *depth*
        is not searched: no record may be so deep, so the writer refuses it.
        """
        name = path.rpartition("/")[2]
        if value is None or isinstance(value, int | float | bytes) or {name, path} & self._clear:
            return value
        if isinstance(value, str):
            is_secret = _is_secret(name, value) or _is_secret(holder, value)
            safe = HIDDEN if value and is_secret else text_without_secrets(value)
            if safe != value:
                self.replaced.append(path)
            return safe
        if not depth:
            return value
        if isinstance(value, list | tuple | set | frozenset):
            items = value if isinstance(value, list | tuple) else items_of(value) or ()
            return [self.settings(item, path, depth - 1, holder) for item in items]
        # An object that cannot tell its members has none.
        members = attempt(mapping_of, value, None)
        if members is None:
            return value
        prefix = f"{path}/" if path else ""
        holder = name if is_secret_name(name) else holder
        return {key: self.settings(member, f"{prefix}{key}", depth - 1, holder) for key, member in members.items()}

    def command_line(self, words: Sequence[str]) -> list[str]:
        """Return a command line without secrets: ``--api-key X``, ``--api-key=X`` and ``api_key=X`` lose the X."""
        return list(self._safe_words(words))

    def _safe_words(self, words: Sequence[str]) -> Iterator[str]:
        name = ""  # of the option before, whose value comes next
        for word in words:
            option = _OPTION.match(word)
            if option and self._hides(option["name"], word[option.end() :]):
                safe = option[0] + HIDDEN
            elif name and not word.startswith("-") and self._hides(name, word):
                safe = HIDDEN
            else:
                safe = text_without_secrets(word)
            if safe != word:
                self.replaced.append("argv")
            yield safe
            name = word if word.startswith("-") and not option else ""

    def _hides(self, option: str, value: str) -> bool:
        name = option.lstrip("-")
        return not {name, name.replace("-", "_")} & self._clear and _is_secret(name, value)


def text_without_secrets(text: str) -> str:
    """Return *text* with the secrets in it replaced: those of a known form, and values after ``name=`` of a secret."""
    for part, pattern in _SECRET_TEXTS.items():
        if part in text:
            text = pattern.sub(HIDDEN, text)
    if not any(sign in text for sign in _SIGNS):
        return text
    parts, at = [], 0
    for found in _NAMED.finditer(text):
        value = _VALUE.match(text, found.end()) if found.start() >= at and _may_name_secret(found) else None
        if value and not (found["name"].lower().endswith("tokens") and _NUMBER.fullmatch(value[0])):
            parts += [text[at : value.start()], HIDDEN]
            at = value.end()
    return "".join(parts) + text[at:]


def _may_name_secret(found: re.Match[str]) -> bool:
    """Return whether the name is a secret's in its place: ``key`` in an address is, ``token:`` in a sentence is not."""
    name, sign = found["name"], found["sign"]
    if sign == " " and not name.startswith("--"):
        return False
    if sign.startswith(":") and name.lower() in {"token", "tokens"}:
        return False
    return is_secret_name(name) or bool(
        found["mark"] and sign[0] == "=" and set(_words_of(name)[-1:]) & _PARAMETER_WORDS
    )


def _is_secret(name: str, text: str) -> bool:
    """Return whether *text* is a secret by its *name*; ``tokens=100B`` is a number of tokens."""
    return is_secret_name(name) and not (name.lower().endswith("tokens") and _NUMBER.fullmatch(text))


@lru_cache(1024)  # a text of a megabyte repeats its names
def is_secret_name(name: str) -> bool:
    """Return whether a setting of this *name* is a secret: ``hub_token`` and ``apiKeys`` are, ``eos_token`` is not."""
    words = _words_of(name)
    for at, word in enumerate(words):
        # Both the word and its singular: pass is one, and tokens are.
        forms = {word, word.removesuffix("s")}
        if "token" in forms and _is_of_vocabulary(words[max(at - 1, 0) : at], words[at + 1 : at + 2]):
            continue
        if forms & _SECRET_WORDS or any(form.endswith(GLUED) for form in forms):
            return True
        if any((before, form) in _SECRET_PAIRS for before in words[max(at - 1, 0) : at] for form in forms):
            return True
    return False


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _is_of_vocabulary(before: Sequence[str], after: Sequence[str]) -> bool:
    return (bool(before) and before[-1] in NOT_BEFORE_TOKEN) or (bool(after) and after[0] in NOT_AFTER_TOKEN)
