"""Turns a line of another program's log into an object: JSON, CSV or text that matches a pattern.

A form has two functions. ``read`` is fast and returns None for everything that is not plainly a record; ``validate`` is
exact and says what such a line is. Neither raises for any bytes.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from toyspec.core.findings import LineFinding
from toyspec.core.format.flattening import MOST_LISTED
from toyspec.core.format.line_validation import ValidatedLine, decode, holds_long_number, validate
from toyspec.core.generated import messages, rules
from toyspec.logs.mapping import EpochCount, count_of, not_finite

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toyspec.logs.dialects import Dialect, Values

_BOM = b"\xef\xbb\xbf"
_PAIR = re.compile(
    # The first name in parentheses: (mean=0.5, max=2).
    r"((?:(?<![\w./()%@-])|(?<=[\s,]\()(?=[\w./%@-]+\s?[=:]))(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\s"
    # How long all took, and will take; what counts, and not what is counted.
    r"|(?:eta|remaining|elapsed|total)\s?[=:]\s{0,3}[\d.]+\s?(?:[mu]?s|secs?|min|h)\b"
    r"|(?:after|last|in|for|of|to|from|at|by|with)\s|(?<=\d )(?:steps|epochs|episodes|batches|iterations)\s)"
    r"[A-Za-z_][\w./()%@-]*"
    r"(?: \([A-Za-z/%]{1,8}\)(?=\s*[=:]))?)['\"]?(?:\s{0,6}(?:[=:]|[-=]>|→)\s{0,16}"
    r"|\s{1,3}(?!(?:nan|inf)(?: \w{1,30}){0,2}\s?[=:])|(?:\sso\sfar)?\sis:?\s{1,3})['\"]?"
    # A duration, a date, a hexadecimal number and a progress bar begin with digits too: train: 40%|████      | 2/5.
    r"(?!\d+%\|[\s\u2588-\u258f#\d]*\||\d+:\d|\d{4}-\d\d-|\d+\s?(?:d|h|m|days?|hours?|min(?:utes)?)\b[\s,]*\d|\d+[dhm]\d|0x[\da-f])"
    r"([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+|nan(?:\b|(?=m?s\b))|inf(?:inity)?\b))"
    # What cannot follow a number, where two writes were glued; or thousands and millions, as people write them.
    r"((?-i:[kKM])\b|(?:\.\d+|[-+]?(?:nan|inf)\b)*)",
    re.ASCII | re.IGNORECASE,
)
_SIGN = re.compile(r"[=:]|\bis\b")
# What is before the last word of a name.
_WORDS_BEFORE = re.compile(
    r"(?:[|;,>\][(){}\t]|\s-|\s\s|[a-z]{4}\.(?=\s))\s*((?:(?:[^\W\d_][\w/'-]{0,30}|[A-Z]?[a-z]{1,3}\.) ){1,3})$"
)
# Words with a capital are not the unit of the number before: "LR: 0.1 Logit Scale: 14.2".
_TITLED = re.compile(r"\s+((?:[A-Z][a-z]+ ){1,3})$", re.ASCII)
# A number without a sign has all words before it as its name if nothing else follows it: ", Learning Rate 1e-05, ".
_CLOSED = re.compile(r"\s?[A-Za-z%][\w%/]{0,11}(?=\s*(?:[|,;)\t]|$))|\s*(?:[|,;)\t]|$)", re.ASCII)
_PART = re.compile(r"\W*([A-Za-z][\w/]*):?\s")
# A line of nothing but pairs begins with a name, and so does what is after a headline: "Epoch 1: Average loss: 0.5".
_START = re.compile(r"^\s*(?:(?=[^\W\d_])|[:-]\s+)")
_PHASE = r"(?:train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev)"
_PHASE_BEFORE = re.compile(rf"(?:^|[^\w])({_PHASE}\.? )$", re.ASCII | re.IGNORECASE)
# The one phase before all pairs of a line: "val: loss=0.6 acc=0.5".
_PHASE_OF_ALL = re.compile(rf"\W*({_PHASE})\s?:\s(?!.*\b{_PHASE}\s?:\s)", re.ASCII | re.IGNORECASE)
# Fortran writes an exponent of double precision with D, always with a sign.
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+|[dD][-+]\d+)?", re.ASCII)
# An integer of more digits is beyond binary64.
_INTEGER = re.compile(r"[-+]?\d{1,309}", re.ASCII)
# As people write numbers: with a comma between thousands, or a percent sign.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_PERCENT = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+))\s?%", re.ASCII)
_WRAPPED = re.compile(r"[A-Za-z_][\w.]*\((.*)\)", re.ASCII)
# Numbers in brackets after a name: "losses=[0.5, 0.25]", "[0.5 0.25]" as NumPy prints it, "betas: (0.9, 0.99)".
_ITEM = r"(?:[A-Za-z_][\w.]{0,30}\()?[-+]?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)\)?"
_LIST = re.compile(
    rf"(?<=[\w/%)'\"])(\s{{0,6}}[=:]\s{{0,8}}|\s{{1,3}})(?:\[\s*({_ITEM}(?:(?:\s*,\s*|\s+){_ITEM})*)\s*,?\s*\]"
    rf"|\(\s*({_ITEM}(?:\s*,\s*{_ITEM})+)\s*,?\s*\))(?![\w\[(/])",
    re.ASCII | re.IGNORECASE,
)
_LIST_MARK = re.compile(r"[\s,]+")
_LISTED = re.compile(
    r"[\w/%)'\"]\s{0,6}[=:]\s{0,8}\[(?=[^\]]*\d)(?!\s*\d+\s*(?:/\s*\d+\s*)?\])[^\]\n]{0,40}\]?", re.ASCII
)
# A second number of a pair, whose place is ";" by then: a running average "(0.5)", one after the update "/ 0.5".
_SECOND = re.compile(
    r";\s{0,3}(?:\(\s*\d+\.\d+(?:e[-+]?\d+)?\s*\)|/\s\d+\.\d+|(?:\u00b1|\+/?-?)\s?\d+\.\d+)", re.ASCII | re.IGNORECASE
)
# A number after another sign than that of a number or a place.
_SIGNED = re.compile(r"[\w/%)'\"]\s{0,6}[=:]\s{0,8}([^\s\w\[/|.,:;=+-]{1,3}\d[^\s,;|]{0,20})")
# Numbers as their libraries print them: tensor(0.5, grad_fn=<MeanBackward0>), np.float64(0.5), array([0.5, 0.25]).
_PRINTED = re.compile(
    r"([=:]\s{0,8})[A-Za-z_][\w.]{0,30}\(\s*([-+]?(?:\d[\d_.]{0,40}(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf)|\[[^\[\]()]*\])"
    r"\s*(?:,[^()\[\]]{0,100})?\)",
    re.ASCII | re.IGNORECASE,
)
# A count with its percentage, as in "Accuracy: 9850/10000 (98%)".
_COUNTED = re.compile(r"(?<=[=:\s])\d+\s?/\s?\d+\s{1,2}\(\s*(\d+(?:\.\d*)?\s?%)\s*\)", re.ASCII)
# Two names and two numbers: "train/val loss 0.5/0.6", "mean/median reward: 1.5/2.0".
_SLASHED = re.compile(
    r"(?<![\w/])([A-Za-z_]\w*)/([A-Za-z_]\w*)((?: [A-Za-z_]\w*){0,2})"
    r"(\s?[=:]?\s{0,3})([-+]?\d[\d.e+-]*)\s?/\s?([-+]?\d[\d.e+-]*)(?![\w/])",
    re.ASCII,
)
# One integer in brackets is more often a place, as in "Epoch: [3]".
_PLACE = re.compile(r"\s*\d+\s*", re.ASCII)
# As a pair of names, "total[loss=1.5]", and as Python prints a dictionary in another: "{'val': {'loss': 1.5}}".
_IN_BRACKETS = re.compile(
    r"(?<![\w\])])([A-Za-z_][\w.-]*)\[([^\[\]]*=[^\[\]]*)\]"
    r"|(?:^|(?<=[{,\s]))['\"]?([A-Za-z_][\w./-]*)['\"]?\s?:\s?\{([^{}]*:[^{}]*)\}",
    re.ASCII,
)
# A console line that is longer is output of another kind, such as a dump of settings.
_MOST_TEXT = 4096
# Of a line that was overwritten more often, the last states are looked at.
_MOST_STATES = 100
_LONG_LINE = 1 << 20
_ABSENT = ("", "NA", "N/A", "n/a", "None", "null")
# A name of what a training measures, and a number with a decimal point soon after it: what is worth a closer look.
_MEASURE = (
    r"(?<![a-z])(?:loss(?:es)?|acc(?:uracy)?|rewards?|returns?|error|err|scores?|perplexity|ppl|precision|recall|f1"
    r"|mse|mae|rmse|auc|bleu|iou|miou|dice|wer|cer|psnr|ssim|fid|m?ap\d*|objective|cross-?entropy|xent|nll|elbo|fitness|bpb|bpc)(?![a-z])"
)
MEASURED = re.compile(_MEASURE, re.IGNORECASE)
"""A name of what a training measures."""
_MEASURED_LINE = re.compile(_MEASURE + r"[^\n]{0,120}?[-+=:\s(\t][-+]?\d*\.\d", re.IGNORECASE)
# As the evaluation of COCO prints it: Average Precision (AP) @[ IoU=0.50:0.95 | area=all | maxDets=100 ] = 0.312.
_AFTER_BRACKETS = re.compile(r"([A-Za-z][A-Za-z ]{2,40}[A-Za-z])[^\n=:]{0,20}@\[[^\[\]\n]{1,100}\]\s*=\s*-?\d+\.\d")
# Settings are named after what they weigh or limit.
_SETTING = re.compile(
    r"(?i)weight|coef|lambda|factor|scal|thresh|smooth|alpha|beta|gamma|eps|rate|fn|func|type|margin|tol"
)
_LONGEST_MEASURED = 1000
_ANY_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?%?", re.ASCII | re.IGNORECASE)
# What is longer is prose.
_LONGEST_SHAPE = 80
_UNNAMED = re.compile(r"(?<![\w.:/;-])\d+(?:[.,]\d+)*\s?[A-Za-z]+(?:/[A-Za-z]+)?(?![\w=:])", re.ASCII)
_BARS, _BLANKS = "|", " "
# Bars as they are drawn, lines between rows, and what is between names that may have blanks.
_DRAWN = str.maketrans("│┃║", "|||")
_RULES = "-=+:| \t─━═"
_WIDE = re.compile(r"\s{2,}|\t")
_MOST_HEADS = 4
_SEMICOLON = ";"
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?", re.ASCII)
_MULTIPLES = {"k": "e3", "K": "e3", "M": "e6", "B": "e9"}
STEP_WORD = r"(?:global_?)?(?:steps?|iter(?:ation)?s?|it|updates?|ep(?:och)?s?|episodes?|round|batch)"
# Who writes a line, before it: "[rank1]:", "(TaskRunner pid=12)", "node3:", and before a step the number of a task,
# "3: step 10", a word in brackets, "[teacher] step 10", and which of several trainings it is, "seed 2 step 10".
_WRITER = re.compile(
    r"\s*(?:[\[(]((?:rank|gpu|node|host|worker|proc(?:ess)?|pid|task)[ _:=-]?[\w.-]{0,30}\d"
    r"|[\w.]{1,60} pid=\d+)[^\])]{0,60}[\])]:?"
    rf"|((?:rank|gpu|node|host|worker|proc(?:ess)?)[ _-]?\d+|\d{{1,4}}(?=: .{{0,60}}\b{STEP_WORD}\b)):"
    r"|(?:[\[(]((?!(?:train|val|eval|test|dev|info|debug|warn|error)\w*[\])])[a-z][\w-]{0,30})[\])]:?"
    rf"|((?:seed|fold|run|trial|agent)[ _=:-]?\d+)[\s,:|])(?=.{{0,300}}\b{STEP_WORD}\b))\s*",
    re.ASCII | re.IGNORECASE,
)
_MOST_WRITERS = 256
# What the words before that of a step say: it is one of an evaluation, or a plan.
_STEP_OF_PHASE = re.compile(
    r"\b(?:(val(?:id(?:ation|ate|ating)?)?|eval(?:uation|uate|uating)?|test(?:ing)?|dev)\b[\]\s:|,()-]{1,6}"
    r"(?:at |after |@ ?)?"
    # The evaluation of an estimator of TensorFlow.
    rf"|saving dict for global )[\[(]?{STEP_WORD}[\s:=#\[(]*$",
    re.ASCII | re.IGNORECASE,
)
_PHASE_AFTER = re.compile(r"\(((?:train|val|eval|test)\w*)\)\s*$", re.ASCII | re.IGNORECASE)
_PLANNED = re.compile(
    r"\b(?:total|max(?:imum)?|num(?:ber)?|of|warm-?up|every|per|planned|remaining)[ _-]"
    rf"(?:\w{{1,20}}[ _-]){{0,2}}{STEP_WORD}[\s:=]*$",
    re.ASCII | re.IGNORECASE,
)
# What a logger writes before a message.
_LOGGER = re.compile(r"^(?:[\W\d]|(?:info|debug|warning|error|root|[\w.]{1,40}\.py)\b)*", re.IGNORECASE)
_EPISODE = re.compile(r"\bep(?:isodes?|ochs?|s)?\b\.?[\s:#=(\[]{0,3}\d", re.IGNORECASE)
_COMMENT = b"#"
# Longer integers are not exact everywhere.
_MAX_CELL = 10**18 - 1
_CELLS = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-_MAX_CELL, le=_MAX_CELL)] | float | None])
UNNAMED = "Unnamed: 0"
"""The column of an index whose name is empty, as pandas names it."""
_JSON_GROUP = "json"
_STEPS = ("step", "epoch", "episode")
_BEFORE_STEP = 60
_MEASURES = frozenset([int, float])
_DECODER = msgspec.json.Decoder()
_NUMBER_STARTS = frozenset([*"0123456789+-.", " "])
_SLASHED_DATE = re.compile(r"^(\d{4})/(\d\d)/(\d\d)(?=[ T])", re.ASCII)
# Colours of a terminal.
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]", re.ASCII)
_PASSED_OVER = ValidatedLine("blank", [], {}, False, None)


def form_of(dialect: Dialect) -> JsonForm | CsvForm | PatternForm:
    """Return the form of *dialect*; one object serves one pass over one file."""
    form = dialect.form
    if form.type == "csv":
        return CsvForm(form.delimiter, columns=form.columns, index=form.index)
    if form.type == "pattern":
        return PatternForm(dialect)
    return JsonForm(form.prefix.encode(), takes_bare="bare" in dialect.non_finite, values=dialect.values)


class JsonForm:
    """A JSON object, alone on its line or behind *prefix*; bare NaN and Infinity are taken if the dialect has them.

    *values* says whether numbers in strings and in lists are numbers.
    """

    def __init__(self, prefix: bytes = b"", *, takes_bare: bool = False, values: Values | None = None) -> None:
        self._prefix = prefix
        self._takes_bare = takes_bare
        self._texts, self._lists = (values.texts, values.lists) if values is not None else (False, False)
        self._may_hold = frozenset([str] * self._texts + [list] * self._lists + [dict] * (self._texts or self._lists))

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:  # noqa: ARG002 - forms have one signature
        """Return the object; None for other output, and for what is not plainly JSON."""
        if self._prefix:
            start = data.find(self._prefix)
            if start < 0:
                return None
            data = data[start + len(self._prefix) :]
        value = decode(data) if data else None
        if value is None or self._may_hold.isdisjoint(map(type, value.values())):
            return value
        return self._unfolded(value)

    def read_all(self, lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
        """Return the objects of *lines*, texts and lists unchanged; None if one is not plainly a record.

        No Python code runs for a line. What is in lists, or nested deeply, may be beyond the limits of ``read``.
        """
        if self._prefix or holds_long_number(lines):
            return None
        try:
            objects = list(map(_DECODER.decode, lines))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return objects if {*map(type, objects)} == {dict} else None

    def has_numbers_in_text(self, columns: Iterable[Sequence[Any]]) -> bool:
        """Return whether ``read`` makes a number of a text in *columns*."""
        texts = (text for column in columns if self._texts and type(column[0]) is str for text in column)
        return any(map(is_number_in_text, texts))

    def _unfolded(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return *value* with numbers in place of texts that spell them, and objects in place of lists of numbers."""
        return {key: self._unfolded_member(member) for key, member in value.items()}

    def _unfolded_member(self, member: Any) -> Any:
        kind = type(member)
        if kind is str and self._texts:
            return _number_in(member)
        if kind is list and self._lists and 0 < len(member) <= MOST_LISTED:
            found = {str(at): self._unfolded_member(each) for at, each in enumerate(member)}
            return found if all(type(each) in _MEASURES for each in found.values()) else member
        return self._unfolded(member) if kind is dict else member

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:
        """Return the result for the line; a line without the prefix is passed over like a blank one."""
        start = 0
        if self._prefix:
            found = data.find(self._prefix)
            if found < 0:
                return _PASSED_OVER
            start = found + len(self._prefix)
        verdict = validate(data[start:], first=first and not self._prefix)
        if verdict.status == "unreadable" and self._takes_bare:
            verdict = _with_bare_words(verdict, data[start:])
        verdict = _explained(verdict, data[start:])
        if start:
            moved = [
                LineFinding(each.rule, each.offset + start, each.pointer, each.message) for each in verdict.findings
            ]
            verdict = ValidatedLine(verdict.status, moved, verdict.unlisted, verdict.has_carriage_return, verdict.value)
        if verdict.value is not None and not self._may_hold.isdisjoint(map(type, verdict.value.values())):
            verdict = msgspec.structs.replace(verdict, value=self._unfolded(verdict.value))
        return verdict


class CsvForm:
    """Rows of cells under the header in the first line. A header that comes again is passed over.

    Blanks around cells do not count, nor do lines before the header that begin with ``#``; one of these is the header
    of a table that begins with numbers. Of a table with bars or blanks, the header is the last line before the first
    row with a number; names may be of several words or lines, and lines of rules do not count. A column whose name
    another has is named as pandas names it: ``loss``, then ``loss.1``. *columns* are the names where the file has no
    header. A row has its number under the key *index*.
    """

    def __init__(self, delimiter: str, *, columns: Sequence[str] = (), index: str = "") -> None:
        self._delimiter = delimiter
        self._index = index
        self._rows = 0
        # A header of numbers may come again.
        self._may_be_plain = delimiter in {",", "\t"} and not index
        # What is drawn for people may have lines before its header.
        self._is_sought = delimiter in (_BARS, _BLANKS) and not columns
        self._heads: list[list[str]] = []
        self._wide: list[str] = []
        self._comment: list[str] = []
        self._has_decimal_commas = False
        self.header: list[str] | None = list(columns) or None
        """Names of the columns, each different; None before the first line."""

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:
        """Return the cells by column; empty ones are left out. None for the header, and for what is not a row."""
        plain = self._plain(data)
        if plain is not None:
            return plain
        cells = self._cells(data.removeprefix(_BOM) if first else data)
        if cells is None or not cells:
            return None
        if self._is_sought and self.header is not None and any(map(_is_number, cells)):
            self.header = distinct(self._wide) if len(cells) == len(self._wide) else self.header
            self._is_sought = len(cells) != len(self.header)
        elif (self.header is None or self._is_sought) and not self._takes_header(cells, data):
            return None
        if self.header is None or len(cells) != len(self.header) or cells in self._heads:
            return None
        number = _cell_with_comma if self._delimiter == _SEMICOLON else _cell
        if b'"' in data:
            is_decimal = any(_DECIMAL_COMMA.fullmatch(cell) and not _GROUPED.fullmatch(cell) for cell in cells)
            self._has_decimal_commas = self._has_decimal_commas or is_decimal
            # 1,234 may be less than two here: it stays a text, which is reported.
            number = _cell_without_comma if self._has_decimal_commas else number
        row = {name: number(cell) for name, cell in zip(self.header, cells, strict=True) if cell not in _ABSENT}
        if self._index:
            row.setdefault(self._index, self._rows)
            self._rows += 1
        return row

    def _plain(self, data: bytes) -> dict[str, Any] | None:
        """Return the row of a line of nothing but cells that are numbers in JSON too, and empty ones; else None."""
        if not self._may_be_plain or self.header is None or (self._delimiter == "\t" and b"," in data):
            return None
        # Two commas share one of three.
        filled = (b",%b," % data.rstrip(b"\r").replace(self._delimiter.encode(), b",")).replace(b",,", b",null,")
        try:
            numbers = _CELLS.decode(b"[%b]" % filled.replace(b",,", b",null,")[1:-1])
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        # One empty cell is a blank line.
        if len(numbers) != len(self.header) or numbers == [None]:
            return None
        return {name: number for name, number in zip(self.header, numbers, strict=True) if number is not None}

    def _takes_header(self, cells: list[str], data: bytes) -> bool:
        """Take the header from *cells*; return whether they are a row under a header that came before."""
        if data.removeprefix(_BOM).startswith(_COMMENT):
            self._comment = self.cells_of(data.lstrip(_BOM + _COMMENT + b" "))
            return False
        if len(self._comment) == len(cells) and all(map(_is_number, cells)) and not any(map(_is_number, self._comment)):
            self.header = distinct(self._comment)
            return True
        # The names of a table with bars may be of several lines.
        is_more = self._delimiter == _BARS and len(cells) == len(self.header or ())
        self._heads = [*self._heads[1 - _MOST_HEADS :], cells] if is_more else [cells]
        names = [" ".join(filter(None, parts)) for parts in zip(*self._heads, strict=True)]
        # pandas names the column of an index so that it reads back without a name.
        self.header = distinct([names[0] or UNNAMED, *names[1:]])
        self._wide = _WIDE.split(data.decode().strip()) if self._delimiter == _BLANKS else []
        self._may_be_plain = self._may_be_plain and not all(not cell or _is_number(cell) for cell in cells)
        return False

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:
        """Return why the line is not a row."""
        cells = self._cells(data.removeprefix(_BOM) if first else data)
        if cells is None:
            verdict = validate(data, first=first)
            bad = [finding for finding in verdict.findings if finding.rule != rules.INVALID_JSON]
            return _unreadable(bad or [LineFinding(rules.BAD_FORMAT, 0, "", "the line is not a row of cells")])
        if not cells or cells in self._heads or self.header is None or data.startswith(_COMMENT):
            return _PASSED_OVER
        plural = "s" if len(cells) != 1 else ""
        fact = f"the row has {len(cells)} cell{plural}, the header has {len(self.header)}"
        return _unreadable([LineFinding(rules.BAD_FORMAT, 0, "", fact)])

    def cells_of(self, data: bytes) -> list[str]:
        """Return the cells of a line as they are written; empty if it is not text."""
        return self._cells(data) or []

    def _cells(self, data: bytes) -> list[str] | None:
        """Return the cells of a line; None if it is not text."""
        if 0 in data:
            return None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        text = (_ESCAPES.sub("", text) if "\x1b" in text else text).rstrip("\r")
        is_drawn = self._delimiter in (_BARS, _BLANKS)
        text = text.translate(_DRAWN) if is_drawn else text
        if not text.strip(_RULES if is_drawn else None) or (self._delimiter == _BARS and _BARS not in text):
            return []
        if self._delimiter == _BLANKS or '"' not in text:
            return [cell.strip() for cell in text.split(None if self._delimiter == _BLANKS else self._delimiter)]
        # Imported here: cells with quotes are rare, and start-up time counts.
        import csv

        try:
            row = next(csv.reader([text], delimiter=self._delimiter, skipinitialspace=True), [])
            return [cell.strip() for cell in row]
        except csv.Error:
            return None


class PatternForm:
    """Text that matches one of the patterns of *dialect*; other lines are passed over."""

    def __init__(self, dialect: Dialect) -> None:
        form = dialect.form
        self._dialect = dialect
        self._writers: dict[str, PatternForm] = {}
        self._patterns = [re.compile(pattern) for pattern in form.patterns]
        self._json = JsonForm(takes_bare=True, values=dialect.values)
        self._carry = dict.fromkeys(form.carry)
        self._place = form.place
        self._count = EpochCount(form.place.first if form.place is not None else 0)
        # Programs print their own names; in other output, a line is only known by the one before.
        self._follows = dialect.rank != "program"
        self._columns: dict[int, list[str]] = {}
        self._index = form.index
        self._lists = dialect.values.lists
        self._rows = 0

    def read(self, data: bytes, *, first: bool) -> dict[str, Any] | None:  # noqa: ARG002 - forms have one signature
        """Return the named groups of the first pattern that matches; None if none does."""
        parts = self._parts(data)
        if parts is None:
            return None
        writer = parts.pop("writer", "")
        # The first writer has the plain names, as lines without one have.
        is_other = bool(writer and self._writers)
        form = self._writers.get(writer) or (PatternForm(self._dialect) if is_other else self)
        if writer and len(self._writers) < _MOST_WRITERS:
            self._writers[writer] = form
        found = form.record(parts)
        if found is not None and form is not self:
            found["phase"] = "/".join(filter(None, [writer, found.get("phase")]))
        return found

    def unnamed(self, data: bytes) -> str:
        """Return the first number with a unit among the pairs of a line that has no name; empty for none."""
        parts = self._parts(data)
        found = _UNNAMED.search(_PAIR.sub(";", parts.get("pairs", ""))) if parts else None
        return "" if found is None else found[0]

    def unread(self, data: bytes) -> str:
        """Return the first list or number among the pairs of a line that has a name and is not read; empty for none."""
        parts = self._parts(data)
        if not parts or "pairs" not in parts:
            return ""
        text = _PAIR.sub(";", _without_lists(_PRINTED.sub(r"\1\2", parts["pairs"]))[0])
        found = _LISTED.search(text) or _SIGNED.search(text) or _SECOND.search(text)
        return "" if found is None else found[0][1:].lstrip(" =:")

    def overwritten(self, data: bytes) -> str:
        """Return the last state with a measured value that the one which is read has overwritten; empty for none."""
        return next((state for state in islice(shown_states(data), 1, None) if _MEASURED_LINE.search(state)), "")

    def measured(self, data: bytes) -> tuple[str, ...]:
        """Return the names of the measured values in a line that no pattern matches; empty for any other line."""
        if len(data) > _LONGEST_MEASURED and b"\r" not in data:
            return ()
        text = next(shown_states(data), "")
        if len(text) > _LONGEST_MEASURED or _MEASURED_LINE.search(text) is None or self._parts(data) is not None:
            return ()
        return _measured_in(text)

    def _parts(self, data: bytes) -> dict[str, str] | None:
        for state in shown_states(data):
            labels: list[str] = []
            at = 0
            while (label := _WRITER.match(state, at)) and label.end() < len(state):
                # A word says little beside a rank.
                labels += [label[label.lastindex or 0]] if label[3] is None or not labels else []
                at = label.end()
            for text in [state[at:], state] if at else [state]:
                for pattern in self._patterns:
                    match = pattern.search(text)
                    parts = None if match is None else self._placed(match, text)
                    if parts is not None:
                        return parts | ({"writer": "/".join(labels)} if labels else {})
        return None

    def _placed(self, match: re.Match[str], text: str) -> dict[str, str] | None:
        """Return the groups of *match* in *text*, with the phase of the step; None where it is that of a plan."""
        parts = {name: part for name, part in match.groupdict().items() if part is not None}
        step = next((name for name in _STEPS if name in parts), None)
        if not self._follows or step is None:
            return parts
        place = match.start(step)
        before = text[max(0, place - _BEFORE_STEP) : place]
        phase = _STEP_OF_PHASE.search(before) or (_PHASE_AFTER.search(text) if ")" in text[-2:] else None)
        if phase is not None:
            parts.setdefault("phase", phase[1] or "eval")
        elif (phase := _PHASE_OF_ALL.match(parts.get("pairs", ""))) is not None:
            parts.setdefault("phase", phase[1])
        if "pairs" in parts and match.start("pairs") > place and _MEASURED_LINE.search(text, 0, place):
            # Values are before the step too; of two places, the first one is that of the line.
            earlier = _LOGGER.sub("", text[match.end("logged_at") if "logged_at" in parts else 0 : place])
            if step == "step" and _EPISODE.search(earlier):
                return None
            parts["pairs"] = f"{earlier}; {parts['pairs']}"
        return None if _PLANNED.search(before) and not _MEASURED_LINE.search(text) else parts

    def record(self, parts: dict[str, str]) -> dict[str, Any] | None:
        """Return the record of one writer in the groups *parts* of a line; None where it is a part of another."""
        if "columns" in parts:
            names = parts["columns"].split()
            self._columns[len(names)] = distinct(names)
            return None
        inner, cells = parts.pop(_JSON_GROUP, None), parts.pop("cells", "").split()
        pairs, eval_pairs = parts.pop("pairs", None), parts.pop("eval_pairs", None)
        found: dict[str, Any] = {}
        for name, part in parts.items():
            plain = _figure(part[:-1], part[-1]) if name in _STEPS and part[-1:] in _MULTIPLES else _cell(part)
            found |= self._listed(name, part) or {
                name: _SLASHED_DATE.sub(r"\1-\2-\3", part) if plain == part else plain
            }
        if self._place is not None:
            step = self._count.step(*map(found.get, (self._place.outer, self._place.size, self._place.inner)))
            found |= {} if step is None else {self._place.key: step}
            found = {name: each for name, each in found.items() if name not in (self._place.inner, self._place.size)}
        own = set(found)
        if not self._carried(found):
            return None
        if inner is not None:
            members = self._json.read(inner.encode(), first=False)
            members = members or self._json.validate(inner.encode(), first=False).value
            if members is None:
                return None
            found |= members
        # Two streams may be written to one file: a header of another width may be between.
        columns = self._columns.get(len(cells), [])
        found |= {name: _cell(cell.removesuffix("G")) for name, cell in zip(columns, cells, strict=False)}
        found = self._with_own_places(found, own, pairs)
        found = _with_pairs(_with_pairs(found, pairs), eval_pairs, prefix="eval/")
        if self._index:
            found.setdefault(self._index, self._rows)
            self._rows += 1
        return found

    def _carried(self, found: dict[str, Any]) -> bool:
        """Put what earlier lines said into *found*; return whether it is a record, and not of the settings."""
        if (
            self._follows
            and self._carry
            and all(name not in found and last is None for name, last in self._carry.items())
        ):
            return False
        for name in self._carry:
            if name in found:
                self._carry[name] = found[name]
            elif self._carry[name] is not None:
                found[name] = self._carry[name]
        return True

    def _with_own_places(self, found: dict[str, Any], own: set[str], pairs: str | None) -> dict[str, Any]:
        """Return *found* with the step or epoch that a pair of the line says in place of one that was carried."""
        carried = [name for name in self._carry if name not in own and name in (pairs or "")]
        if pairs is None or not carried:
            return found
        said = {name: _figure(figure, glued) for name, figure, glued in _pairs_in(pairs)}
        for name in carried:
            if _is_place(said.get(name)):
                found[name] = said[name]
                if (count := count_of(said[name])) is not None:
                    self._carry[name] = count
        return found

    def _listed(self, name: str, part: str) -> dict[str, Any]:
        """Return the numbers of the list in *part* by *name* and their place in it; empty if it is not one."""
        pairs = _named_pairs(f"{name}={part}") if self._lists and part.startswith("[") else []
        return {each: _figure(figure, glued) for each, figure, glued in pairs}

    def validate(self, data: bytes, *, first: bool) -> ValidatedLine:  # noqa: ARG002 - forms have one signature
        """Return the result for other output: it is passed over."""
        return _PASSED_OVER


def shown_states(data: bytes) -> Iterator[str]:
    """Yield what a terminal showed of a line, the last state first: a progress bar overwrites its line."""
    for state in reversed(data.rstrip(b"\r").rsplit(b"\r", _MOST_STATES)):
        if len(state) <= _MOST_TEXT:
            yield _ESCAPES.sub("", state.decode("utf-8", "replace"))


def _measured_in(text: str) -> tuple[str, ...]:
    """Return the names of the measured values in *text*, its shape if they have none; empty if it lists settings.

    A shape has ``#`` in place of each number.
    """
    after = _AFTER_BRACKETS.search(text)
    if after is not None:
        return (after[1].strip(),)
    pairs = _pairs_in(text)
    found = [
        name for name, figure, _ in pairs
        if ("." in figure or not figure[-1:].isdigit()) and MEASURED.search(name) and not _SETTING.search(name)
    ]  # fmt: skip
    if found or _SETTING.search(text):
        return tuple(dict.fromkeys(found)) if 3 * len(found) >= len(pairs) else ()
    shape = _ANY_NUMBER.sub("#", text).strip()
    return (shape,) if len(shape) <= _LONGEST_SHAPE else ()


def has_repeated_key(data: bytes, value: dict[str, Any], lines: int = 1) -> bool:
    """Return whether the JSON object *value* in *data*, or one of several *lines* with its keys, may have a key twice.

    False is certain: each key takes part in the count at least once.
    """
    return bool(_SPACED_COLON.search(data)) or data.count(b'":') != _key_count(value) * lines


def repeated_members(data: bytes) -> list[tuple[str, Any]]:
    """Return key and value of each member of the JSON object *data*, and of those in it, that a later one replaces."""
    # Imported here: only repeated keys need it.
    import json

    found: list[tuple[str, Any]] = []

    def taken(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last = {key: index for index, (key, _) in enumerate(pairs)}
        found.extend(pair for index, pair in enumerate(pairs) if last[pair[0]] != index)
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        json.JSONDecoder(object_pairs_hook=taken).raw_decode(data.decode("utf-8", "replace"))
    return found


_SPACED_COLON = re.compile(rb'"[ \t\r]+:')


def _key_count(value: Any) -> int:
    count = 0
    pending = [value]
    while pending:
        each = pending.pop()
        if type(each) is dict:
            # An object that was a list has no keys in the text; one with such keys is counted too low, which is safe.
            count += 0 if "0" in each and list(each) == list(map(str, range(len(each)))) else len(each)
            pending.extend(part for part in each.values() if type(part) in (dict, list))
        else:
            pending.extend(part for part in each if type(part) in (dict, list))
    return count


def _explained(verdict: ValidatedLine, data: bytes) -> ValidatedLine:
    """Return *verdict*, its message reporting the second record of a line if there is one."""
    if verdict.status != "unreadable" or verdict.findings[0].rule != rules.INVALID_JSON:
        return verdict
    # The records of a log begin with the same key, or at least with a brace.
    start = data[: data.find(b":") + 1] or b"{"
    glue = max(data.rfind(start), data.find(b"}{") + 1)
    if glue <= 0 or len(data) > _LONG_LINE or decode(data[glue:]) is None:
        return verdict
    first = verdict.findings[0]
    fact = messages.invalid_json_second_record(at=first.offset)
    return _unreadable([LineFinding(first.rule, first.offset, first.pointer, fact)])


def _with_bare_words(verdict: ValidatedLine, data: bytes) -> ValidatedLine:
    """Return *verdict* as readable if bare words for numbers are all that is wrong with the line."""
    others = [finding for finding in verdict.findings if finding.rule != rules.NON_FINITE_NUMBER]
    unlisted = {rule: number for rule, number in verdict.unlisted.items() if rule != rules.NON_FINITE_NUMBER}
    if any(finding.rule != rules.DUPLICATE_KEY for finding in others) or set(unlisted) - {rules.DUPLICATE_KEY}:
        return ValidatedLine("unreadable", others, unlisted, False, None)
    # Imported here: only lines with bare words need it.
    import json

    try:
        value = json.loads(data)
    except ValueError:
        # An integer of thousands of digits, which is reported as a number that is not finite.
        return verdict
    if type(value) is not dict:
        return verdict
    return ValidatedLine("readable", others, unlisted, b"\r" in data, value)


def _cell(text: Any) -> Any:
    """Return the number in the text of a cell, or the text."""
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    if _NUMBER.fullmatch(stripped):
        return float(stripped.replace("d", "e").replace("D", "e"))
    # A percentage is read as it is printed.
    mark = written_otherwise(stripped) if stripped[-1:] == "%" or "," in stripped else None
    return text if mark is None else _cell(stripped.replace(mark, ""))


def written_otherwise(text: str) -> str | None:
    """Return how *text* spells a number that is not plainly one: ``%`` or ``,``; None for all else."""
    stripped = text.strip()
    return "%" if _PERCENT.fullmatch(stripped) else "," if _GROUPED.fullmatch(stripped) else None


def _cell_with_comma(text: str) -> Any:
    """Return the number in the text of a cell, whose decimal mark may be a comma, or the text."""
    return float(text.replace(",", ".")) if _DECIMAL_COMMA.fullmatch(text) else _cell(text)


def _cell_without_comma(text: str) -> Any:
    """Return the number in the text of a cell, or the text; a number with a comma is text."""
    return text if "," in text else _cell(text)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or not_finite(text) is not None


def _number_in(text: str) -> Any:
    """Return the number that *text* spells; the text itself where it is none, or finite by no means."""
    return _cell(text) if text[:1] in _NUMBER_STARTS else text


def is_number_in_text(value: Any) -> bool:
    """Return whether *value* is a text that spells a finite number."""
    return type(value) is str and type(_number_in(value)) is not str


def _with_pairs(groups: dict[str, Any], text: str | None, *, prefix: str = "") -> dict[str, Any]:
    """Return *groups* and the numbers in *text* by *prefix* and the names before them, each under a name of its own."""
    if not text:
        return groups
    figures = [(prefix + name, _figure(figure, glued)) for name, figure, glued in _pairs_in(text)]
    # A pattern may name a part of the pairs, such as the epoch.
    figures = [(name, figure) for name, figure in figures if not _is_same(groups.get(name, _ABSENT), figure)]
    names = distinct([*groups, *(name for name, _ in figures)])[len(groups) :]
    return groups | {name: figure for name, (_, figure) in zip(names, figures, strict=True)}


def _is_same(first: Any, second: Any) -> bool:
    """Return whether two figures are equal; NaN is equal to NaN."""
    return bool(first == second) or (first != first and second != second)  # noqa: PLR0124 - only NaN differs from itself


def _is_place(figure: Any) -> bool:
    """Return whether *figure* was written for a step: a whole number ≥ 0, or one that is not finite, which is none."""
    if type(figure) is float:
        return not math.isfinite(figure) or (figure >= 0 and figure.is_integer())
    return type(figure) is int and figure >= 0


def _pairs_in(text: str) -> list[tuple[str, str, str]]:
    """Return names and numbers in *text*; those in ``total[loss=1.5, lr=0.1]`` are ``total/loss`` and ``total/lr``."""
    text = _COUNTED.sub(r"\1", _PRINTED.sub(r"\1\2", text)) if "(" in text else text
    text = _SLASHED.sub(r"\1\3\4\5, \2\3\4\6", text) if "/" in text else text
    if "[" not in text and "{" not in text:
        return _named_pairs(text)
    found: list[tuple[str, str, str]] = []
    at = 0
    for group in _IN_BRACKETS.finditer(text):
        found += _named_pairs(text[at : group.start()])
        outer, inner = group[1] or group[3], group[2] or group[4]
        found += [(f"{outer}/{name}", figure, glued) for name, figure, glued in _named_pairs(inner)]
        at = group.end()
    return found + _named_pairs(text[at:])


def _named_pairs(text: str) -> list[tuple[str, str, str]]:
    """Return names and numbers in *text*.

    A name has the words before it, back to a mark between pairs: ``, Val Loss: 0.5``. Without such a mark it has those
    that name a phase. Each number of a list is named after the list and its index: ``losses/0``.
    """
    text, lists = _without_lists(text)
    found: list[tuple[str, str, str]] = []
    starts: list[int] = []
    at = 0
    for pair in _PAIR.finditer(text):
        before = text[at : pair.start(1)]
        before = before if at else _START.sub("|", before, count=1)
        is_whole = _SIGN.search(text, pair.end(1), pair.start(2)) or _CLOSED.match(text, pair.end())
        words = (
            (_WORDS_BEFORE.search(before) or (_TITLED.match(before) if at else None)) if is_whole else None
        ) or _PHASE_BEFORE.search(before)
        name = (words[1] if words else "") + pair[1]
        items = lists.get(pair.start(2))
        found += [(name, pair[2], pair[3])] if items is None else _indexed(name, items)
        starts += [pair.start(1)] * (len(found) - len(starts))
        at = pair.end()
    names = {name for name, _, _ in found}
    if len(names) == len(found):
        return found
    # "D: loss 0.5; G: loss 0.4": the first word of a part, which is not a name, is before those that it has.
    parts = [max(text.rfind(mark, 0, start) for mark in "|;") + 1 for start in starts]
    heads = [_PART.match(text, part, start) for part, start in zip(parts, starts, strict=True)]
    return [
        (name if head is None or head[1] in names else f"{head[1]}/{name}", figure, glued)
        for head, (name, figure, glued) in zip(heads, found, strict=True)
    ]


def _without_lists(text: str) -> tuple[str, dict[int, list[str]]]:
    """Return *text* with 0 in place of each list of numbers after a name, and those numbers by the place of the 0."""
    if "[" not in text and "(" not in text:
        return text, {}
    parts: list[str] = []
    lists: dict[int, list[str]] = {}
    at = size = 0
    for found in _LIST.finditer(text):
        items = _items_of(found)
        if items is None:
            continue
        parts += [text[at : found.end(1)], "0"]
        size += found.end(1) - at + 1
        lists[size - 1] = items
        at = found.end()
    return "".join([*parts, text[at:]]), lists


def _items_of(found: re.Match[str]) -> list[str] | None:
    """Return the numbers of a list, None if they are too many or it is a place; *found* is a match of ``_LIST``."""
    text = found[2] or found[3]
    items = [match[1] if (match := _WRAPPED.fullmatch(item)) else item for item in _LIST_MARK.split(text)]
    is_place = found[2] is not None and _PLACE.fullmatch(text) is not None and "=" not in found[1]
    has_sign = bool(found[1].strip())
    return items if len(items) <= MOST_LISTED and not is_place and (has_sign or found[3] is None) else None


def _indexed(name: str, items: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(f"{name}/{index}", item, "") for index, item in enumerate(items)]


def _figure(figure: str, glued: str) -> Any:
    """Return the number in *figure*; the text of both if something follows that is not a part of one."""
    plain = figure.replace(",", "").replace("_", "")
    if glued in _MULTIPLES:
        return _cell(plain + _MULTIPLES[glued])
    if glued:
        return figure + glued
    value = not_finite(plain)
    return _cell(plain) if value is None else value


def distinct(names: Sequence[str]) -> list[str]:
    """Return *names*; one that occurred before has a number after it."""
    found: dict[str, None] = {}
    taken = set(names)
    for name in names:
        count = 0
        new = name
        while new in found or (count and new in taken):
            count += 1
            new = f"{name}.{count}"
        found[new] = None
    return list(found)


def _unreadable(findings: list[LineFinding]) -> ValidatedLine:
    return ValidatedLine("unreadable", findings, {}, False, None)
