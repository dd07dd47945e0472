"""Run ids are safe names of directories, and each is given away once."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toyspec.core.writing.run_ids import check_run_id, claim_directory, run_id_from

WALL = 1780219805.0
"""2026-05-31T09:30:05Z."""


@pytest.mark.parametrize(
    "run_id",
    ["a", "0", "llama-20260531-001", "A.b_c-d", "x" * 128, "console", "com", "2026-05-24T09-30-00-4bf48d3-001"],
)
def test_safe_ids_are_taken(run_id: str) -> None:
    """Letters, digits, dots, underscores and hyphens make an id, up to 128 of them."""
    assert run_id == check_run_id(run_id)


@pytest.mark.parametrize(
    ("run_id", "fact"),
    [
        ("", "starting with a letter"),
        (".", "starting with a letter"),
        ("../etc", "starting with a letter"),
        ("a/b", "starting with a letter"),
        ("a b", "starting with a letter"),
        ("é", "starting with a letter"),
        ("a\n", "starting with a letter"),
        ("\ud800", "starting with a letter"),
        ("x" * 129, "starting with a letter"),
        ("trailing.", "it ends with '.'"),
        ("con", "is the name of a device"),
        ("NUL.txt", "is the name of a device"),
        ("Com1.a.b", "is the name of a device"),
    ],
)
def test_unsafe_ids_are_refused(run_id: str, fact: str) -> None:
    """What is not a file name on some system, or leaves the directory, is refused with the reason."""
    with pytest.raises(ValueError, match=fact):
        check_run_id(run_id)


@given(st.text(max_size=10))
def test_an_accepted_id_stays_inside_its_root(run_id: str) -> None:
    """Whatever text is accepted names a direct child of the directory it is joined to."""
    try:
        check_run_id(run_id)
    except ValueError:
        return
    joined = os.path.normpath(os.path.join("/root", run_id))
    assert "/root" == os.path.dirname(joined)
    assert run_id == os.path.basename(joined)


def test_numbers_go_on_from_the_largest_of_the_day(tmp_path: Path) -> None:
    """The counter is one more than the largest that is there for the same model and day."""
    root = str(tmp_path / "runs")
    names = [os.path.basename(claim_directory(root, "llama", WALL)) for _ in range(2)]
    assert ["llama-20260531-001", "llama-20260531-002"] == names
    for name in ("llama-20260531-009", "llama-20260531-xyz", "llama-20260531-0100-copy", "vit-20260531-050"):
        os.mkdir(os.path.join(root, name))
    assert "llama-20260531-010" == os.path.basename(claim_directory(root, "llama", WALL))
    assert "llama-20260601-001" == os.path.basename(claim_directory(root, "llama", WALL + 86400))
    os.mkdir(os.path.join(root, "llama-20260531-999"))
    assert "llama-20260531-1000" == os.path.basename(claim_directory(root, "llama", WALL))


def test_no_directory_is_claimed_twice(tmp_path: Path) -> None:
    """Runs that start at the same time get different directories."""
    claimed: list[str] = []

    def claim() -> None:
        claimed.extend(claim_directory(str(tmp_path), "a", WALL) for _ in range(20))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, claimed))
    assert 80 == len(set(claimed))


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        ("a", "a"),
        ("my first run!", "my-first-run"),
        ("_a.", "a"),
        ("con", "run-con"),
        ("é", "run"),
        ("x" * 101, "x" * 100),
        ("é" * 9 + "x" * 300, "x" * 99),
        ("x" * 99 + "-y", "x" * 99),
    ],
)
def test_any_name_becomes_an_id(name: str, run_id: str) -> None:
    """What is not allowed is a hyphen, and what is too long is cut."""
    assert run_id == run_id_from(name)
