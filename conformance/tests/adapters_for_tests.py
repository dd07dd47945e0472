"""Small adapters that each differ from the oracle in one thing."""

import sys
from pathlib import Path

from conformance.registry import ROOT

HEAD = f"""\
import base64, json, os, sys, time
sys.path.insert(0, {ROOT!r})
from conformance.oracle.adapter import Oracle, oneshot
oracle = Oracle()
hello = oracle.hello() | {{"name": "for-a-test", "roles": ["checker"]}}
def say(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
def ask():
    for line in sys.stdin:
        request = json.loads(line)
        request["stream"] = base64.b64decode(request.get("stream", ""))
        yield request
if sys.argv[1] == "--oneshot":
    sys.exit(oneshot(oracle, sys.argv[2], sys.argv[3:]))
say({{"hello": hello}})
if sys.argv[1] == "--hello":
    sys.exit()
"""


def program(folder: Path, body: str, *, head: str = HEAD) -> list[str]:
    """Write an adapter whose ``--lines`` mode is *body*, and return the command that starts it."""
    path = folder / "adapter.py"
    path.write_text(head + body)
    return [sys.executable, str(path)]
