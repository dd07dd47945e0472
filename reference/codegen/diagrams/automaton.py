"""Draws the streams of a profile as automata, from the rules that relate records in ``stream.json``."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codegen import sources
from codegen.diagrams.drawing import MONO_WIDTH, SMALL_WIDTH, WIDTH, Box, Drawing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OTHER = "other record"
EACH = "each record"
GAP = "gap"

_ROW = 15
_PADDING = 8
_SIDE = 142
_BETWEEN = 62
# The position of a label along its arrow, if the middle is taken.
_SHARES = {("begin", "ended"): 0.87, ("headless", "ended"): 0.2, ("running", "ended"): 0.2}

Schema = dict[str, Any]


@dataclass(frozen=True)
class Move:
    """What one line does to a stream in a given state."""

    source: str
    trigger: str
    """A kind, OTHER, EACH or GAP."""
    target: str
    rule: str = ""
    """The rule that is reported; nothing where the move is legal."""


def automata() -> dict[str, str]:
    """Return the picture of each profile as SVG by name."""
    pictures = (_picture(profile, sources.stream(profile)) for profile in sources.PROFILES)
    return {picture.name: picture.svg() for picture in pictures}


def moves(stream: Schema) -> list[Move]:
    """Return every transition of the automaton that the rules of a profile describe."""
    rules = _by_type(stream)
    if "first" not in rules or "last" not in rules:
        return [Move(place, trigger, "running") for place in ("begin", "running") for trigger in (EACH, GAP)]
    first, once, last = rules["first"], rules["once"], rules["last"]
    start, end = first["kind"], last["kind"]
    again = stream["complete"]["reopened_by"]["kind"]
    triggers = (start, end, again, OTHER, GAP)
    late = {start: once["rule"]}
    return [
        Move("begin", start, "running"),
        Move("begin", end, "ended", first["rule"]),
        *(Move("begin", trigger, "headless", first["rule"]) for trigger in (again, OTHER)),
        Move("begin", GAP, "headless"),
        *(Move("headless", trigger, _next("headless", trigger, start, end)) for trigger in triggers),
        *(
            Move("running", trigger, _next("running", trigger, start, end), late.get(trigger, ""))
            for trigger in triggers
        ),
        Move("ended", again, "running"),
        *(
            Move("ended", trigger, "ended", "" if trigger == GAP else last["rule"])
            for trigger in triggers
            if trigger != again
        ),
    ]


def drawn(found: Sequence[Move]) -> list[Move]:
    """Return the moves of *found* that are not those of any other record."""
    others = {(move.source, move.target, move.rule) for move in found if move.trigger == OTHER}
    same = [move for move in found if move.trigger not in (OTHER, GAP)]
    hidden = {move for move in same if (move.source, move.target, move.rule) in others and move.source != "ended"}
    return [move for move in found if move not in hidden]


def comparisons(stream: Schema) -> list[tuple[str, str]]:
    """Return the other rules that relate records, each with its condition."""
    return [(name, holds) for rule in stream["rules"] for name, holds in _comparison(rule)]


def _next(place: str, trigger: str, start: str, end: str) -> str:
    return {start: "running", end: "ended"}.get(trigger, place)


def _by_type(stream: Schema) -> dict[str, Schema]:
    return {rule["type"]: rule for rule in stream["rules"]}


def _comparison(rule: Schema) -> Iterator[tuple[str, str]]:
    kind, field = rule.get("kind", ""), rule.get("field", "")
    match rule["type"]:
        case "monotone":
            yield rule["rule"], f"{field} {'does not decrease' if rule['repeats'] == 'allowed' else 'increases'}"
        case "sequence-per-phase":
            yield rule["rule"], f"{field} increases within its phase"
            yield rule["skipped"]["rule"], f"{field} counts up by one"
        case "same-as-last":
            yield rule["rule"], f"{field} is the {rule['of']['field']} of the last {rule['of']['kind']}"
        case "nested":
            yield rule["rule"], f"{rule['enter']} and {rule['exit']} nest"
        case "requires" if "when" in rule:
            yield rule["rule"], f"{kind} {rule['when']['equals']} has {rule['needs']['field']}"
        case "requires":
            yield rule["rule"], f"{kind} needs {rule['needs']['field']} in {rule['needs']['kind']}"
        case "null-number":
            named, others = rule["fields"][:2], rule["fields"][2:]
            yield rule["rule"], f"no null in {', '.join(named)}{f' and {len(others)} more' if others else ''}"
        case _:
            yield from _comparison_in_a_record(rule)


def _comparison_in_a_record(rule: Schema) -> Iterator[tuple[str, str]]:
    match rule["type"]:
        case "less-than":
            yield rule["rule"], f"{rule['field']} is less than {rule['than']}"
        case "differs":
            yield rule["rule"], f"{rule['field']} differs from {rule['pointer'][1:].replace('/', '.')}"
        case "inside":
            yield rule["rule"], f"{rule['field']} of {rule['kind']} stays inside"
        case "counted":
            yield rule["rule"], f"{rule['field']} of {rule['kind']} counts nothing"
        case "rank-of-file":
            yield rule["rule"], f"{rule['field']} is that of the file's name"
        case "same-run":
            yield rule["rule"], f"{rule['field']} is that of rank 0"
        case "filed":
            yield rule["rule"], f"the file of {rule['kind']} is there"


def _picture(profile: str, stream: Schema) -> Drawing:
    found = drawn(moves(stream))
    described = "; ".join(
        f"{move.source}, {move.trigger}: {move.target}{f', reported as {move.rule}' if move.rule else ''}"
        for move in found
    )
    name = f"automaton-{profile.partition('/')[0]}"
    drawing = Drawing(name, f"The streams of {profile} as an automaton", f"Moves from place to place: {described}.")
    y = _draw_places(drawing, found, _endings(stream))
    drawing.text(WIDTH / 2, y + 18, "With a gap anywhere, the stream is damaged.", style="small faint", anchor="middle")
    y += 22
    drawing.text(0, y + 20, "What is compared from record to record", style="strong")
    y += 20
    for rule, holds in comparisons(stream):
        drawing.text(0, y + 18, holds, style="small")
        y += 18 if SMALL_WIDTH * len(holds) + MONO_WIDTH * len(rule) < WIDTH else 30
        drawing.text(WIDTH, y, rule, style="mono faint", anchor="end")
    return drawing


def _endings(stream: Schema) -> dict[str, str]:
    """Return for each state what a stream that ends in it is called."""
    present = _by_type(stream).get("present")
    running = f"torn, {present['rule']}" if present else "complete"
    ended = "complete, torn if another is last"
    return {"begin": "torn, stream-empty", "headless": running, "running": running, "ended": ended}


def _draw_places(drawing: Drawing, found: Sequence[Move], endings: dict[str, str]) -> float:
    """Draw the states and the transitions between them; return the coordinate at which the picture continues."""
    texts = {place: _inside(place, found, endings[place]) for place in dict.fromkeys(move.source for move in found)}
    heights = {place: _ROW * len(lines) + _PADDING for place, lines in texts.items()}
    middle = heights["begin"] + _BETWEEN
    side = max(heights.get("headless", 0), heights["running"])
    boxes = {"begin": Box((WIDTH - _SIDE) / 2, 1, _SIDE, heights["begin"])}
    if "ended" in texts:
        boxes["headless"] = Box(1, middle, _SIDE, side)
        boxes["running"] = Box(WIDTH - _SIDE - 1, middle, _SIDE, side)
        boxes["ended"] = Box((WIDTH - _SIDE) / 2, middle + side + _BETWEEN + _ROW, _SIDE, heights["ended"])
    else:
        boxes["running"] = Box((WIDTH - _SIDE) / 2, middle, _SIDE, side)
    for place, box in boxes.items():
        drawing.box(box, style="box", radius=8)
        for row, (text, style) in enumerate(texts[place]):
            drawing.text(box.x + box.width / 2, box.y + _ROW * (row + 1), text, style=style, anchor="middle")
    _draw_moves(drawing, found, boxes)
    return max(box.bottom for box in boxes.values())


def _inside(place: str, found: Sequence[Move], ending: str) -> list[tuple[str, str]]:
    """Return the lines of text in a state: its name, what keeps a stream in it, how a stream ends in it."""
    lines = [(place, "strong")]
    by_rule: dict[str, list[str]] = defaultdict(list)
    for move in found:
        if move.source == move.target == place:
            by_rule[move.rule].append(move.trigger)
    for rule, triggers in by_rule.items():
        records = [trigger for trigger in triggers if trigger != GAP]
        shown = [EACH] if len(records) > 2 else records
        lines.append(("↻ " + ", ".join([*shown, *(trigger for trigger in triggers if trigger == GAP)]), "small"))
        if rule:
            lines.append((rule, "mono faint"))
    state, _, detail = ending.partition(", ")
    lines.append((f"ends {state}", "small"))
    return [*lines, (detail, "small" if " " in detail else "mono faint")] if detail else lines


def _draw_moves(drawing: Drawing, found: Sequence[Move], boxes: dict[str, Box]) -> None:
    between: dict[tuple[str, str], list[Move]] = defaultdict(list)
    for move in found:
        if move.source != move.target:
            between[move.source, move.target].append(move)
    for (source, target), group in between.items():
        start, end = boxes[source], boxes[target]
        from_x, from_y, to_x, to_y = _ends(start, end)
        drawing.arrow(f"M{from_x:g} {from_y:g} L{to_x:g} {to_y:g}")
        lines = [line for move in group for line in _label(move)]
        share = _SHARES.get((source, target), 0.5)
        x = from_x + (to_x - from_x) * share
        y = from_y + (to_y - from_y) * share - _ROW * (len(lines) - 1) / 2
        for row, (text, style) in enumerate(lines):
            drawing.text(x, y + 4 + _ROW * row, text, style=f"{style} halo", anchor="middle")


def _ends(start: Box, end: Box) -> tuple[float, float, float, float]:
    """Return where an arrow leaves one state and reaches another."""
    if start.y > end.y:
        return start.x + start.width * 0.9, start.y, end.x + end.width * 0.75, end.bottom
    if start.y == end.y:
        y = start.y + start.height / 2
        return start.x + start.width, y, end.x, y
    shift = (end.x - start.x) * 0.3
    return start.x + start.width / 2 + shift, start.bottom, end.x + end.width / 2 - shift / 3, end.y


def _label(move: Move) -> Iterator[tuple[str, str]]:
    yield move.trigger, "small"
    if move.rule:
        yield move.rule, "mono faint"
