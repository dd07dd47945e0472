"""The fault runner: ``conform faults``, and ``nox -s writer_faults``."""

from __future__ import annotations

import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance import page
from conformance.escaping import markdown, printable
from conformance.faults.case import Case, LeftOutError, MachineError
from conformance.faults.catalogue import FAULTS, Fault
from conformance.faults.programs import ProgramError, Writer, outside_writer, writers
from conformance.registry import BuildError
from conformance.reports.published import with_durable_writer, write_report

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Sequence

GOOD, BAD = 0, 1


@dataclass
class Cell:
    """How one writer met one fault."""

    complaints: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    lacks_machine: bool = False
    """True when this machine cannot make the fault."""
    met: int = 0
    """Number of the parts of the fault that were run to their end."""

    @property
    def text(self) -> str:
        """The cell in words."""
        if self.complaints:
            return "**not ok**"
        return "ok" if self.met else "-"


def run(options: Namespace) -> int:
    """Let every writer meet every fault, and print the table; return 0 when all cells are ok."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores it in the background, and so would the programs, one of which a fault interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = [fault for fault in FAULTS if options.fault in fault.title]
    columns: dict[str, list[Cell]] = {}
    left_out: dict[str, str] = {}
    failed = False
    for writer in [outside_writer(options.program, options.lacks)] if options.program else writers(options.only):
        try:
            if why := writer.missing():
                left_out[writer.name] = why
                continue
            if not options.no_build:
                writer.make()
        except BuildError as error:
            left_out[writer.name] = str(error)
            failed = True
            continue
        columns[writer.name] = _column(writer, faults, is_long=options.long)
    text = list(lines(faults, columns))
    sys.stdout.write("".join(f"{line}\n" for line in text))
    sys.stdout.write("".join(f"left out: {name}: {reason}\n" for name, reason in left_out.items()))
    lacks_machine = any(cell.lacks_machine for cells in columns.values() for cell in cells)
    if options.page and not (options.only or options.program or options.fault or left_out or lacks_machine):
        page.put(options.page, "writer-faults", text)
    if options.report:
        for name, cells in columns.items():
            write_report(
                options.report, with_durable_writer(options.report, name, durable(faults, cells), options.source)
            )
    is_bad = any(cell.complaints for cells in columns.values() for cell in cells)
    return BAD if failed or is_bad or not columns else GOOD


def lines(faults: Sequence[Fault], columns: dict[str, list[Cell]]) -> Iterator[str]:
    """Yield the table in Markdown, then what is not ok and what was left out."""
    yield f"| fault | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for number, fault in enumerate(faults):
        yield f"| {markdown(fault.title)} | {' | '.join(cells[number].text for cells in columns.values())} |"
    yield ""
    for number, fault in enumerate(faults):
        for name, cells in columns.items():
            for complaint in cells[number].complaints:
                yield f"- not ok: {name}, {fault.title}: {printable(complaint)}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for number, fault in enumerate(faults):
        for name, cells in columns.items():
            for reason in cells[number].left_out:
                reasons.setdefault((fault.title, reason), []).append(name)
    for (title, reason), names in reasons.items():
        yield f"- left out: {', '.join(dict.fromkeys(names))}: {title}: {printable(reason)}"


def durable(faults: Sequence[Fault], cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the result of one writer, as its published report has it."""
    named = list(zip(faults, cells, strict=True))
    return {
        "ok": sum(cell.text == "ok" for _, cell in named),
        "not_ok": [fault.title for fault, cell in named if cell.complaints],
        "left_out": {fault.title: "; ".join(dict.fromkeys(cell.left_out)) for fault, cell in named if cell.left_out},
    }


def _column(writer: Writer, faults: Sequence[Fault], *, is_long: bool) -> list[Cell]:
    """Return the cells of one writer. Two faults are met in parallel: most of the time is waiting."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        cells = list(pool.map(lambda fault: meet(writer, fault, is_long=is_long), faults))
    met = [cell for cell in cells if cell.text != "-"]
    sys.stderr.write(f"{writer.name}: {sum(cell.text == 'ok' for cell in met)} of {len(met)} ok\n")
    return cells


def meet(writer: Writer, fault: Fault, *, is_long: bool = False) -> Cell:
    """Let *writer* meet *fault*."""
    cell = Cell()
    for part in fault.parts:
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            case = Case(writer, folder, is_long=is_long)
            try:
                part(case)
                cell.met += 1
            except LeftOutError as error:
                cell.left_out.append(str(error))
                cell.lacks_machine = isinstance(error, MachineError)
            except ProgramError as error:
                case.demand(False, str(error))
            except (OSError, LookupError, ValueError) as error:
                # A file that has to be there is not, or is not what it was.
                case.demand(False, f"{type(error).__name__}: {error}")
            finally:
                case.abandon()
            cell.complaints += case.complaints
    return cell
