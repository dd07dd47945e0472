"""Replaces secrets in settings and command lines by ``***``: a log is copied to more places than a secret may go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

HIDDEN: Final = "***"
"""What is written for a secret."""

_SECRET_WORDS: Final = frozenset(
    [
        "token",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "apikey",
        "credential",
        "credentials",
        "authorization",
    ]
)
_SECRET_PAIRS: Final = frozenset(
    [("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("auth", "key"), ("ssh", "key")]
)
# Words before "token" that make it a piece of text of a vocabulary.
_VOCABULARY_WORDS: Final = frozenset(
    ["bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "audio", "special", "start", "end", "stop", "decoder"]
)
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
# Texts that are secrets under any name: keys of well-known services, and what is before the @ of an address.
_SECRET_TEXTS: Final = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,})"
    r"|(?<=://)[^/@\s]*(?=@)"
)


def without_secrets(value: Any, name: str = "") -> Any:
    """Return *value* with every secret in it replaced: texts with a secret's name or form, at any depth.

    Numbers, truth values and None stay, so that ``max_tokens`` keeps its value.
    """
    if isinstance(value, Mapping):
        return {key: without_secrets(member, str(key)) for key, member in value.items()}
    if isinstance(value, str):
        return HIDDEN if value and is_secret_name(name) else _SECRET_TEXTS.sub(HIDDEN, value)
    if isinstance(value, list | tuple):
        return [without_secrets(item, name) for item in value]
    return value


def is_secret_name(name: str) -> bool:
    """Return whether a setting of this *name* is a secret: ``hub_token`` and ``apiKey`` are, ``eos_token`` is not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    for at, word in enumerate(words):
        if word == "token" and _is_of_vocabulary(words[:at], words[at + 1 :]):
            continue
        if word in _SECRET_WORDS or (word, *words[at + 1 : at + 2]) in _SECRET_PAIRS:
            return True
    return False


def _is_of_vocabulary(before: Sequence[str], after: Sequence[str]) -> bool:
    return (bool(before) and before[-1] in _VOCABULARY_WORDS) or (bool(after) and after[0] in {"id", "ids", "type"})


def command_line_without_secrets(words: Sequence[str]) -> list[str]:
    """Return a command line without secrets: ``--api-key X``, ``--api-key=X`` and ``api_key=X`` lose the X."""
    return list(_safe_words(words))


def _safe_words(words: Sequence[str]) -> Iterator[str]:
    hides_next = False
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name):
            yield f"{name}={HIDDEN}"
        elif hides_next and not word.startswith("-"):
            yield HIDDEN
        else:
            yield _SECRET_TEXTS.sub(HIDDEN, word)
        hides_next = not equals and word.startswith("-") and is_secret_name(word)
