"""Tests of the diagrams: they agree with the data, the library and the specification."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

import toyspec
from codegen import sources
from codegen.diagrams import automaton, diagrams, readings, saved_curve
from codegen.diagrams.automaton import GAP, OTHER, moves
from codegen.diagrams.drawing import MONO_WIDTH, WIDTH, Drawing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module", params=diagrams().items(), ids=lambda item: item[0])
def picture(request: pytest.FixtureRequest) -> ET.Element:
    """Return the tree of a diagram."""
    return ET.fromstring(request.param[1])


def test_every_page_shows_a_diagram_as_a_figure() -> None:
    """A picture that a page includes elsewhere becomes a paragraph, which ends where its style begins."""
    pages = [page.read_text(encoding="utf-8") for page in (sources.ROOT / "docs").rglob("*.md")]
    included = [line for page in pages for line in re.findall(r'.*\n--8<-- "docs/diagrams/.*\n.*', page)]
    assert included
    assert [] == [each for each in included if not re.fullmatch(r'<figure class="diagram">\n.*\n</figure>', each)]


def test_moves_are_those_of_the_specification() -> None:
    """The automaton that follows from stream.json is the table of the chapter."""
    text = (sources.ROOT / "spec/stream.md").read_text(encoding="utf-8").partition("## The stream as an automaton")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    triggers = [trigger.strip("`").replace("any other record", OTHER) for trigger in rows[0][1:]]
    expected = {}
    for place, *cells in rows[2:]:
        for trigger, cell in zip(triggers, cells, strict=True):
            rule = next((part for part in re.split(r", |→", cell) if "-" in part), "")
            expected[place.strip("*"), trigger] = (re.findall(r"\*(\w+)\*", cell)[0], rule)
    found = {(move.source, move.trigger): (move.target, move.rule) for move in moves(sources.stream("toy/v1"))}
    assert expected == found


@pytest.mark.parametrize("profile", sources.PROFILES)
def test_every_rule_that_relates_records_is_drawn(profile: str) -> None:
    """No rule of stream.json is missing from its picture."""
    stream = sources.stream(profile)
    text = automaton.automata()[f"automaton-{profile.partition('/')[0]}"]
    rules = {rule["rule"] for rule in stream["rules"]} | {
        rule["skipped"]["rule"] for rule in stream["rules"] if "skipped" in rule
    }
    assert [] == [rule for rule in sorted(rules) if f">{rule}<" not in text]


@pytest.mark.parametrize("profile", sources.PROFILES)
def test_every_place_takes_every_line(profile: str) -> None:
    """Each state has one transition for each trigger, including a gap."""
    found = [(move.source, move.trigger) for move in moves(sources.stream(profile))]
    places = {move.target for move in moves(sources.stream(profile))} | {"begin"}
    triggers = {trigger for _, trigger in found}
    assert GAP in triggers
    assert sorted(found) == sorted((place, trigger) for place in places for trigger in triggers)


def test_automaton_ends_where_the_corpus_says() -> None:
    """Of streams without gap and fragment, those that are complete end in *ended*, and by a run_end."""
    targets = {(move.source, move.trigger): move.target for move in moves(sources.stream("toy/v1"))}
    triggers = {trigger for _, trigger in targets}
    complete = []
    for path in sorted((sources.ROOT / "conformance/cases/toy-v1").glob("*/*/case.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        stream = path.with_name("events.jsonl")
        if (
            case["profile"] != "toy/v1"
            or not stream.exists()
            or case["state"] == "damaged"
            or not stream.read_bytes().endswith(b"\n")
        ):
            continue
        place, kind = "begin", None
        for record in case["records"]:
            kind = record.get("kind")
            place = targets[place, kind if isinstance(kind, str) and kind in triggers else OTHER]
        is_complete = place == "ended" and kind == "run_end"
        assert is_complete == (case["state"] == "complete"), path.parent.name
        complete.append(is_complete)
    assert set(complete) == {True, False}


def test_lines_and_modes_are_those_of_the_reader() -> None:
    """The parts of each picture add up to the file, and the modes that stop or fail give less than salvage."""
    for case in readings._STATES:
        data = readings._data(case)
        with toyspec.read(data, mode="salvage") as reading:
            list(reading)
        sizes = dict.fromkeys(("committed", "gap", "fragment"), 0)
        for line in readings.lines_of(data):
            sizes[line.part] += len(line.data)
        report = reading.report
        assert list(sizes.values()) == [report.committed_bytes, report.gap_bytes, report.fragment_bytes]
    torn, damaged = map(readings._data, readings._MODES)
    assert ({1, 2}, "TornStreamError") == readings.given(torn, "strict")
    assert ({1, 2, 4, 5}, "") == readings.given(damaged, "salvage")


def test_pictures_say_what_they_show(picture: ET.Element) -> None:
    """Every picture has a title and a description for screen readers; its ids and styles begin with its name."""
    name = picture.get("id") or "?"
    assert "img" == picture.get("role")
    assert f"{name}-title" == picture.get("aria-labelledby")
    assert f"{name}-description" == picture.get("aria-describedby")
    assert picture.findtext(f"{SVG}title")
    assert picture.findtext(f"{SVG}desc")
    assert all((element.get("id") or name).startswith(name) for element in picture.iter())
    styles = (picture.findtext(f"{SVG}style") or "").strip().splitlines()
    assert all(line.startswith(f"#{name} ") for line in styles)


def test_texts_stay_inside_and_do_not_meet(picture: ET.Element) -> None:
    """No text of fixed width leaves the picture on either side, and two in one row leave room between them."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for text in picture.iter(f"{SVG}text"):
        is_fixed = "mono" in (text.get("class") or "")
        width = len(text.text or "") * (MONO_WIDTH if is_fixed else 5.0)
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor", "start")]
        left = float(text.get("x", "0")) - share * width
        rows.setdefault(text.get("y", ""), []).append((left, left + width))
        assert not is_fixed or (-1 <= left and left + width <= WIDTH + 1)
    for row in rows.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(row)))


def test_markup_in_a_log_is_text() -> None:
    """The content of a stream is inert in the page."""
    drawing = Drawing("x", "<a>", "&")
    drawing.text(0, 10, "<script>")
    assert "&lt;script&gt;" in drawing.svg()
    assert '<title id="x-title">&lt;a&gt;</title>' in drawing.svg()


def test_start_page_shows_what_the_checker_reports_about_the_broken_log() -> None:
    """The lines, the finding and the numbers of the three panels are those of the log that the picture is made from."""
    page = (sources.ROOT / "docs/index.md").read_text(encoding="utf-8")
    log = saved_curve.broken_log()
    found = saved_curve.saved(log)
    assert log.split(b"\n")[found.gap_line - 2 : found.gap_line + 1] == _block(page, "jsonl").encode().split(b"\n")
    (finding,) = toyspec.check_bytes(log).findings
    words = f"events.jsonl:{finding.line}: {finding.rule} {finding.message} help: {finding.help}"
    assert words.split() == _block(page, "text").split()
    assert (saved_curve.STEPS - 2, found.gap_line) == (len(found.points), finding.line)


def _block(page: str, language: str) -> str:
    """Return the text of the first block of *language* on *page*."""
    return page.partition(f"```{language}\n")[2].partition("\n```")[0]
