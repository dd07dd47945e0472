"""Revisions of the format, to which cases belong."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from conformance.format_facts import SCHEMAS

FIRST_LISTED = "1.2"
"""The first revision whose questions are listed; a case that names no revision belongs to it. Earlier are withdrawn."""


def as_numbers(revision: str) -> tuple[int, ...]:
    """Return *revision* as numbers, which have the order of revisions."""
    return tuple(int(part) for part in revision.split("."))


def newest() -> dict[str, str]:
    """Return the newest revision of each profile."""
    return {profile: max(found, key=as_numbers) for profile, found in _revisions().items()}


@cache
def _lock() -> dict[str, Any]:
    with open(os.path.join(SCHEMAS, "lock.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def _revisions() -> dict[str, list[str]]:
    drafts = _lock()["drafts"]
    digests = _lock()["digests"].items()
    return {profile: [*found, *([drafts[profile]] if profile in drafts else [])] for profile, found in digests}


CURRENT = max(newest().values(), key=as_numbers)
"""The newest revision of the specification, which may be a draft."""


def is_draft(revision: str) -> bool:
    """Return whether *revision* may still change."""
    return revision in _lock()["drafts"].values()


def named(profile: str, revision: str) -> str:
    """Return the newest revision of *profile* that *revision* of the specification has."""
    known = (found for found in _revisions()[profile] if as_numbers(found) <= as_numbers(revision))
    return max(known, key=as_numbers)


def listed() -> list[str]:
    """Return the revisions whose questions can be asked, oldest first."""
    found = {revision for revisions in _revisions().values() for revision in revisions}
    return sorted((one for one in found if as_numbers(one) >= as_numbers(FIRST_LISTED)), key=as_numbers)


def known_revisions() -> str:
    """Return in words which revisions can be asked."""
    return f"it has {', '.join(listed())}; earlier ones are withdrawn"


def is_asked(since: str, until: str | None, revision: str) -> bool:
    """Return whether a case that holds from *since* to *until*, both included, is one of *revision*."""
    asked = as_numbers(revision)
    return as_numbers(since) <= asked and (until is None or asked <= as_numbers(until))
