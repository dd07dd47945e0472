"""What several tests of the generators ask of all of them."""

from __future__ import annotations

import pytest

from codegen.__main__ import outputs


@pytest.fixture(scope="session")
def generated() -> dict[str, str]:
    """Return the text of every generated file by its path; to make them all takes half a second."""
    return outputs()
