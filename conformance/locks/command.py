"""The lock matrix: ``conform locks``, and ``nox -s locks``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from conformance import page
from conformance.adapters import Adapter, AdapterError
from conformance.locks.matrix import fill, lines
from conformance.locks.parties import AdapterParty, Party, foreign, toyspec_repair
from conformance.probes.question import capabilities_of
from conformance.runner import registered

if TYPE_CHECKING:
    from argparse import Namespace

GOOD, BAD = 0, 1


def run(options: Namespace) -> int:
    """Fill the matrix and print it; return 0 if every writer respects every other one's lock."""
    options.mode = "lines"
    # Beside an adapter of one's own, a build of seven languages would only keep one waiting.
    asked = registered(options.only, options) if options.only or not options.adapter else iter(())
    parties: list[Party] = []
    left_out: dict[str, str] = {}
    failed = False
    if options.adapter:
        parties.append(_outside(options))
    for implementation, adapter in asked:
        if not isinstance(adapter, Adapter):
            left_out[implementation.name] = str(adapter)
            failed = failed or adapter.is_failure
        elif "session" not in capabilities_of(adapter.hello, "writer"):
            left_out[implementation.name] = "its adapter lacks the capability session"
            failed = True
        else:
            parties.append(AdapterParty(implementation.name, adapter))
    others = dict(foreign())
    parties += [party for party in others.values() if isinstance(party, Party)]
    left_out |= {name: reason for name, reason in others.items() if not isinstance(reason, Party)}
    parties.append(toyspec_repair())
    try:
        matrix = fill(parties)
    finally:
        for party in parties:
            party.close()
    text = list(lines(matrix))
    sys.stdout.write("".join(f"{line}\n" for line in text))
    sys.stdout.write("".join(f"left out: {name}: {reason}\n" for name, reason in left_out.items()))
    if options.page and not (options.only or options.adapter or left_out):
        page.put(options.page, "locks", text)
    return BAD if failed or not matrix.is_good else GOOD


def _outside(options: Namespace) -> AdapterParty:
    """Return the writer that *options* name; raise AdapterError if it cannot hold a stream."""
    adapter = Adapter(options.adapter, deadline=options.deadline, mode=options.mode)
    adapter.ask_hello()
    if "session" not in capabilities_of(adapter.hello, "writer"):
        raise AdapterError("the adapter lacks the capability session, by which a writer holds a stream")
    return AdapterParty(str(adapter.hello["name"]), adapter)
