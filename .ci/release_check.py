"""Says what is missing before a tag makes a release; `nox -s release_check` calls it.

It looks at the tree alone, builds nothing and asks no registry. What only a person can do is listed at the end.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.project import values

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
_RESERVED = re.compile(r"(?:[/.@]|^)example\.(?:org|com|net)(?:/|$)")
_USES = re.compile(r"^\s*-? ?uses: (?!\./)(\S+)@(\S+)", re.MULTILINE)
_PINNED = re.compile(r"[0-9a-f]{40}")
_BY_HAND = (
    "PyPI (all three packages), crates.io, npm and RubyGems trust the workflow release.yml in the environment release",
    "the environment release asks a maintainer before it publishes",
    "a pull request to opam-repository with the files of dist/opam",
)


def missing(root: Path = ROOT) -> Iterator[str]:
    """Yield what a release of the tree at *root* lacks, each with what to do."""
    known = values(root)
    for name in ("repository", "site"):
        if _RESERVED.search(known[name]):
            yield f"project.json: {name} is {known[name]}, a reserved example. Give the real one, then `make generate`"
    yield from _version(root, known["version"])
    for path in sorted((root / ".github/workflows").glob("*.yml")):
        unpinned = [f"{action}@{at}" for action, at in _USES.findall(_text(path)) if not _PINNED.fullmatch(at)]
        own = [use for use in unpinned if not use.startswith(f"{known['owner']}/")]
        if own:
            yield f"{path.relative_to(root)}: not pinned by hash: {', '.join(dict.fromkeys(own))}"
    for name in ("CITATION.cff", "GOVERNANCE.md", "LICENSE", "SECURITY.md"):
        if not (root / name).is_file():
            yield f"{name}: is missing"
    if changed := _git(root, "status", "--porcelain"):
        yield f"git: {len(changed.splitlines())} files are not committed"


def _version(root: Path, version: str) -> Iterator[str]:
    if re.search(r"(dev|a|b|rc)\d*$", version):
        yield f"version.py: {version} is not the version of a release"
    heading = re.search(rf"^## \[{re.escape(version)}\] - (.+)$", _text(root / "CHANGELOG.md"), re.MULTILINE)
    if heading is None:
        yield f"CHANGELOG.md: no entry for {version}"
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", heading[1]):
        yield f"CHANGELOG.md: {version} is {heading[1]!r}; give its date"
    tagged = _git(root, "rev-list", "-n", "1", f"v{version}", "--")
    if tagged and tagged != _git(root, "rev-parse", "HEAD"):
        yield f"git: the tag v{version} is on another commit; raise the version"


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main() -> int:
    """Print what is missing and what is done by hand; return 1 if anything is missing."""
    found = list(missing())
    for fact in found:
        print(f"missing: {fact}")
    for fact in _BY_HAND:
        print(f"by hand: {fact}")
    print(f"{len(found)} missing" if found else "nothing is missing: `make test-all packages-test`, then tag")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
