"""Fixtures of the tests of the corpus."""

from __future__ import annotations

import pytest

from conformance.cases import Case
from conformance.loading import find, load


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    """Return every case, families expanded."""
    return list(load())


@pytest.fixture(scope="session")
def plain_cases(cases: list[Case]) -> list[Case]:
    """Return every case that is a folder, not a member of a family."""
    return [case for case in cases if "#" not in case.name]


@pytest.fixture(scope="session")
def folders() -> list[str]:
    """Return every folder with a case or a family."""
    return list(find())
