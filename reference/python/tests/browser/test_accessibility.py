"""axe-core has nothing to say about the pages of the site, wide and light as on a phone and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from browser.axe import findings, need_axe
from browser.built_pages import addresses_of
from browser.watching import PHONE, WIDE, Watch, without_search

ALIKE = re.compile(r"(?:requirements|spec/rules|spec/toy/v1|spec/kaun/v1|implementations)/.+")
"""Addresses of pages that have the same parts as each other: one in so many is asked about."""

EACH = 16


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (PHONE, "dark")], ids=["wide light", "phone dark"])
def test_pages_have_no_findings(
    watch: Watch, site: Path, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    """No page has a finding of axe, however small."""
    need_axe()
    addresses = addresses_of(site)
    alike = [address for address in addresses if ALIKE.match(address)]
    page = without_search(watch.new_page(size, scheme), site)
    found = {}
    for address in sorted({*addresses} - {*alike}) + alike[::EACH]:
        page.goto(address)
        found[address] = findings(page)
    assert {} == {address: problems for address, problems in found.items() if problems}
