"""Which points a mirror sends: a pure function of the records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toyspec.convert.mirrors.mirroring import Selection
from toyspec.convert.mirrors.settings import Selecting
from toyspec.convert.run_items import Bins, ItemRow
from toyspec.core.reading.attempts import Attempts
from toyspec.core.reading.records import Record, RecordFeed

START = '{"kind":"run_start","schema":"toy/v1","t":0.0,"run_id":"a"}\n'


def records(lines: str) -> list[Record]:
    """Return the records of a run with *lines* after its start."""
    return RecordFeed().feed((START + lines).encode())


def steps(count: int) -> str:
    """Return *count* steps."""
    return "".join(f'{{"kind":"step","t":{at}.0,"step":{at},"loss":0.3333333333333333}}\n' for at in range(count))


def selected(found: list[Record], select: Selecting, settings: Any = None) -> list[ItemRow]:
    """Return the rows of a whole run."""
    selection = Selection(select, settings)
    # The first record is put whenever a run is opened, and is not among them.
    return [row for record in found[1:] if (row := selection.row(record, Attempts())) is not None]


def named(row: ItemRow) -> dict[str, Any]:
    """Return the values of *row* by name."""
    return {item.name: item.value for item in row.items}


RUN = (
    steps(5)
    + """\
{"kind":"eval","t":5.0,"step":4,"phase":"eval","name":"held-out","loss":2.0}
{"kind":"scalars","t":6.0,"values":{"lr":0.1,"val/acc":0.5},"texts":{"said":"a","other":"b"}}
{"kind":"media","t":7.0,"name":"other","media_type":"image/png","sha256":"0"}
{"kind":"alert","t":8.0,"rule":"r","level":"error","text":"x"}
{"kind":"alert","t":8.0,"rule":"r","level":"info","text":"x"}
{"kind":"alert","t":8.0,"rule":"r","level":"error","text":"x"}
{"kind":"run_end","t":9.0,"reason":"completed"}
"""
)
MARKS = ["other", "alert", "alert", "alert", "reason"]
POINTS = ["held-out/loss", "lr", "val/acc", "said", "other"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (Selecting(), ["loss"] * 5 + POINTS),
        (Selecting(metrics=["loss"]), ["loss"] * 5),
        (Selecting(metrics=["val/*"]), ["val/acc"]),
        (Selecting(metrics=["l*", "said"]), ["loss"] * 5 + ["lr", "said"]),
        (Selecting(metrics=["x"]), []),
        (Selecting(every=4), ["loss"] * 2 + POINTS),
        (Selecting(every=0), POINTS),
        (Selecting(prefixes={"step": "train/", "eval": "val/"}), ["train/loss"] * 5 + ["val/loss", *POINTS[1:]]),
    ],
)
def test_points_are_selected_and_marks_are_sent(select: Selecting, expected: list[str]) -> None:
    """By patterns of names, and by the numbers of steps; a prefix takes the place of that of an evaluation."""
    rows = selected(records(RUN), select)
    assert expected + MARKS == [item.name for row in rows for item in row.items]
    assert [0, 4] == [row.step for row in selected(records(steps(5)), Selecting(every=4))]


def test_bytes_are_a_hard_limit() -> None:
    """Settings and rows together never exceed the megabytes, and the settings alone may."""
    rows = selected(records(steps(1000)), Selecting(megabytes=0.001), {"lr": 0.1})
    size = len('{"lr":0.1}') + sum(len(json.dumps(named(row), separators=(",", ":"))) for row in rows)
    assert 950 < size <= 1000
    assert Selection(Selecting(megabytes=0.0001), {"text": "x" * 200}).is_spent


def test_gradients_are_histograms() -> None:
    """A grad event is one value with counts and borders; one without finite elements is a record."""
    grad = '{"kind":"grad","t":1.0,"step":1,"param":"w","min":-1.0,"max":1.0,"histogram":[1,2]}\n'
    odd = grad.replace("-1.0", "null")
    rows = selected(records(grad + odd), Selecting())
    assert [{"gradients/w": Bins([-1.0, 0.0, 1.0], [1, 2])}, {"grad": json.loads(odd)}] == [named(row) for row in rows]


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"every": -1}, "every is -1"),
        ({"every": 1.5}, "every is 1.5"),
        ({"megabytes": -1.0}, "megabytes is -1.0"),
        ({"metrics": "loss"}, "it must be a list of patterns"),
        ({"prefixes": {"note": "x"}}, "prefixes has 'note'"),
    ],
)
def test_choices_that_cannot_be_are_refused(options: dict[str, Any], fact: str) -> None:
    """The message says what was given and what may be."""
    with pytest.raises(ValueError, match=fact):
        Selecting(**options)
