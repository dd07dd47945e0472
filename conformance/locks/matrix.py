"""Fills the lock matrix: one stream for each holder, each party that tries to write to it, and each way to do so."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conformance.escaping import markdown
from conformance.locks.parties import LeftOutError, NoLockError
from conformance.locks.streams import RUN_ID, contents, make, tear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.locks.parties import Party
    from conformance.locks.streams import Action


@dataclass
class Cell:
    """The outcome for one party that tried to write to what another one holds."""

    tried: int = 0
    """Number of ways that were tried and refused, and that succeeded once the stream was released."""
    errors: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The cell in words."""
        if self.errors:
            return "; ".join(self.errors)
        return "refused" if self.tried else "-"


@dataclass
class Matrix:
    """The cells by holder and actor, and the parties without a lock, each with the reason."""

    holders: list[str]
    actors: list[str]
    cells: dict[tuple[str, str], Cell]
    without_lock: dict[str, str]

    @property
    def is_good(self) -> bool:
        """True when every attempt was refused in each cell where both take a lock."""
        return not any(cell.errors for pair, cell in self.cells.items() if self.without_lock.keys().isdisjoint(pair))


def fill(parties: Sequence[Party]) -> Matrix:
    """Return the matrix of *parties*; every pair with at least one writer of the registry has a cell."""
    matrix = Matrix([], [party.name for party in parties], {}, {})
    with tempfile.TemporaryDirectory(prefix="locks-") as folder:
        for holder in parties:
            if _can_hold(holder, folder, matrix):
                matrix.holders.append(holder.name)
                for actor in parties:
                    if holder.is_ours or actor.is_ours:
                        matrix.cells[holder.name, actor.name] = _cell(holder, actor, folder)
    return matrix


def lines(matrix: Matrix) -> Iterator[str]:
    """Yield the matrix as a table in Markdown."""
    yield f"| held by | {' | '.join(f'tried by {actor}' for actor in matrix.actors)} |"
    yield f"|---|{'---|' * len(matrix.actors)}"
    for holder in matrix.holders:
        cells = (matrix.cells.get((holder, actor)) for actor in matrix.actors)
        yield f"| {holder} | {' | '.join(_text(cell) for cell in cells)} |"
    for name, reason in matrix.without_lock.items():
        yield ""
        yield f"{name} takes no lock: {reason}."


def _can_hold(party: Party, folder: str, matrix: Matrix) -> bool:
    """Return whether *party* can hold a stream; note the reason if it has no lock."""
    if not party.can_hold:
        return False
    try:
        party.hold(make(os.path.join(tempfile.mkdtemp(dir=folder), RUN_ID), "append"))
        party.release()
    except NoLockError as error:
        matrix.without_lock[party.name] = str(error).rstrip(".")
    except LeftOutError as error:
        matrix.cells[party.name, party.name] = Cell(errors=[str(error)])
        matrix.holders.append(party.name)
    else:
        return True
    return False


def _cell(holder: Party, actor: Party, folder: str) -> Cell:
    cell = Cell()
    for action in actor.actions:
        path = make(os.path.join(tempfile.mkdtemp(dir=folder), RUN_ID), action)
        try:
            error_text = _tried(holder, actor, path, action)
        except LeftOutError as error:
            error_text = str(error)
        if error_text is None:
            cell.tried += 1
        else:
            cell.errors.append(f"{action}: {error_text}")
    return cell


def _tried(holder: Party, actor: Party, path: str, action: Action) -> str | None:
    """Return the error of *actor* in *action* on what *holder* holds and then releases, None if there is none."""
    holder.hold(path)
    try:
        tear(path, action)
        before = contents(os.path.dirname(path))
        outcome = actor.act(path, action)
        changed = contents(os.path.dirname(path)) != before
    finally:
        holder.release()
    if outcome != "refused":
        return outcome
    if changed:
        return "refused, but files changed"
    outcome = actor.act(path, action)
    return None if outcome == "written" else f"{outcome} after the release"


def _text(cell: Cell | None) -> str:
    return "" if cell is None else markdown(cell.text)
