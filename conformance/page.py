"""Writes the tables of the conformance page of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.escaping import markdown
from conformance.probes.question import ROLES
from conformance.verdicts import BAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from conformance.interop import Interop
    from conformance.kill_score import Kill
    from conformance.reports.run import Run

_END = "<!-- /generated -->\n"


def put(path: str, part: str, lines: Iterable[str]) -> None:
    """Replace the part *part* of the page at *path* with *lines*; raise ValueError if the page has no such part."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    mark = f"<!-- generated:{part} -->\n"
    before, found, rest = text.partition(mark)
    _, end, after = rest.partition(_END)
    if not found or not end:
        raise ValueError(f"{path} has no part {mark.strip()}")
    body = "".join(f"{line}\n" for line in lines)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(f"{before}{mark}\n{body}\n{_END}{after}")


def matrix(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the table of implementations; it changes only when what is proven changes, not with every case."""
    yield f"| implementation | language | {' | '.join(ROLES)} | profiles |"
    yield f"|---|---|{'---|' * len(ROLES)}---|"
    for run in runs:
        cells = " | ".join(_cell(run, role) for role in ROLES)
        profiles = ", ".join(run.hello["profiles"])
        yield f"| {markdown(run.name)} | {markdown(str(run.hello['language']))} | {cells} | {markdown(profiles)} |"


def interop(found: Interop) -> Iterator[str]:
    """Yield the table of writers by readers."""
    writers = sorted({writer for writer, _ in found.pairs})
    readers = sorted({reader for _, reader in found.pairs})
    yield f"| written by | {' | '.join(f'read by {markdown(reader)}' for reader in readers)} |"
    yield f"|---|{'---|' * len(readers)}"
    for writer in writers:
        most = max(found.pairs[writer, reader] for reader in readers)
        cells = ("all" if found.pairs[writer, reader] == most else "**not all**" for reader in readers)
        yield f"| {markdown(writer)} | {' | '.join(cells)} |"


def kills(found: Sequence[Kill]) -> Iterator[str]:
    """Yield the score, by role; `make conform` prints which question catches which mutant."""
    killed = sum(kill.is_killed for kill in found)
    yield f"The corpus catches **{killed} of {len(found)}** mutants."
    yield ""
    yield "| wrong as | mutants | caught |"
    yield "|---|---|---|"
    by_role = {role: [kill for kill in found if kill.mutant.role == role] for role in ROLES}
    for role, members in by_role.items():
        if members:
            yield f"| {role} | {len(members)} | {sum(kill.is_killed for kill in members)} |"
    for kill in found:
        if not kill.is_killed:
            yield ""
            yield f"Not caught: `{kill.mutant.name}`. {markdown(kill.mutant.about)}"


def _cell(run: Run, role: str) -> str:
    if role not in run.roles:
        return "-"
    counts = run.tally(role).counts
    if any(counts[verdict] for verdict in BAD):
        return "**not all**"
    if counts["xfail"]:
        return f"all but {counts['xfail']}"
    if counts["deviation"]:
        return f"all but {counts['deviation']} deviations"
    return "all that can be asked" if counts["untestable"] else "all"
