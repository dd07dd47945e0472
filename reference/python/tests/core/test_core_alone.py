"""The core is imported without rooms, and works with no packages but msgspec and jsonschema."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from files import in_subprocess

if TYPE_CHECKING:
    from pathlib import Path

ALONE = """
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import packages_distributions, requires
from importlib.util import find_spec

needed, waiting = set(), ["msgspec", "jsonschema"]
while waiting:
    name = waiting.pop()
    if name not in needed:
        needed.add(name)
        waiting += [each.split(";")[0].strip(" ").split(">")[0].split("!")[0].split("=")[0]
                    for each in requires(name) or () if "extra ==" not in each]
others = {top for top, names in packages_distributions().items()
          if not {each.lower() for each in names} & ({each.lower() for each in needed} | {"toyspec", "toyspec-engine"})}

class Walls(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] in others or (parts[0] == "toyspec" and {*parts[1:2]} & rooms):
            raise ModuleNotFoundError(f"{name} is outside of the core", name=name)

sys.meta_path.insert(0, Walls())
"""


ROOMS = (
    "agents",
    "catalog",
    "convert",
    "expect",
    "health",
    "integrations",
    "logs",
    "stores",
    "tracker",
    "trainer",
    "view",
)


def alone(program: str, directory: Path, *, without: tuple[str, ...] = ROOMS) -> subprocess.CompletedProcess[str]:
    """Return what *program* did in *directory*, where no other packages can be imported, nor the rooms *without*."""
    return in_subprocess(f"rooms = {{*{without!r}}}\n{ALONE}{program}", cwd=directory)


def test_each_module_of_the_core_is_imported_alone(tmp_path: Path) -> None:
    """No module of the core needs a room, or a package but those of the core."""
    done = alone(
        "import importlib, pkgutil, toyspec.core\n"
        "for module in pkgutil.walk_packages(toyspec.core.__path__, 'toyspec.core.'):\n"
        "    importlib.import_module(module.name)\n"
        "    print(module.name)\n",
        tmp_path,
    )
    assert "" == done.stderr
    assert 100 < len(done.stdout.splitlines())


def test_a_run_is_written_read_and_checked_alone(tmp_path: Path) -> None:
    """What the README shows first needs the core alone."""
    done = alone(
        "import toyspec\n"
        "with toyspec.start_run('runs', run_id='a', git=None) as run:\n"
        "    run.step(loss=2.5)\n"
        "print(toyspec.open_run('runs/a').facts.state, len(list(toyspec.read('runs/a'))))\n"
        "print(toyspec.check_bytes(open('runs/a/events.jsonl', 'rb').read()).findings)\n",
        tmp_path,
    )
    assert "" == done.stderr
    assert ["complete 3", "[]"] == done.stdout.splitlines()


def test_commands_of_the_core_need_no_other_package(tmp_path: Path) -> None:
    """Commands of the core, and what they ask rooms without an option, need the packages of the core alone."""
    lines = ["check runs", "show runs/a", "ls runs", "tail --once runs/a", "seal runs/a", "explain"]
    program = (
        "import toyspec\n"
        "toyspec.start_run('runs', run_id='a', git=None).run_end()\n"
        "from toyspec.core.command_line.main import main\n"
        f"sys.exit(repr([line for line in {lines!r} if main(line.split())] or ''))\n"
    )
    assert "''\n" == alone(program, tmp_path, without=()).stderr
