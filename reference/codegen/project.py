"""Writes the addresses of ``project.json``, and the version, into the files of packages, workflows and pages.

These files are written by hand but for the texts named here: each is the one group of a pattern.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from codegen import sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_VERSION = "reference/python/toyspec/version.py"
_RUNS = "docs/assets/example-runs"
"""Runs that every clone has, for the first command of the site."""

_URLS = {
    r'^Documentation = "(.*)"$': "site",
    r'^Issues = "(.*)"$': "issues",
    r'^Source = "(.*)"$': "repository",
}
_CARGO = {r'\A\[package\]\nname = "(.*)"$': "crate", r'^version = "(.*)"$': "version"}
_FIRST_COMMAND = {
    r"^(.*)\n\n<!-- not run -->\n```console\n\$ python -m pip install ": "terminal",
    r"^\$ python -m pip install (\S+) && ": "installable",
    r"^\$ python -m pip install \S+ && toyspec view --open (\S+)$": "shown",
}
_GO_IMPORT = {r'^\ttoyspec "(.*)"$': "go"}

PLACES: dict[str, dict[str, str]] = {
    "pyproject.toml": {
        r'^\[project\]\nname = "(.*)"$': "python",
        r'^fast = \["([\w.-]+)==': "engine",
        r'^fast = \["[\w.-]+==([\w.]+)"': "version",
        r'"([\w.-]+)\[[\w,]+\]"': "python",
        **_URLS,
    },
    "conformance/pyproject.toml": {
        r'^\[project\]\nname = "(.*)"$': "corpus",
        r'^version = "(.*)"$': "version",
        r'^  "([\w.-]+)==': "python",
        r'^  "[\w.-]+==([\w.]+)"': "version",
        **_URLS,
    },
    "reference/engine/pyproject.toml": {r'^\[project\]\nname = "(.*)"$': "engine", **_URLS},
    "reference/engine/Cargo.toml": {
        r'^version = "(.*)"$': "version",
        r'^toyspec = \{ package = "(.*?)",': "crate",
    },
    "reference/rust/Cargo.toml": {
        **_CARGO,
        r'^repository = "(.*)"$': "repository",
        r'^homepage = "(.*)"$': "site",
    },
    "reference/typescript/package.json": {
        r'\A\{\n  "name": "(.*)",$': "npm",
        r'^  "version": "(.*)",$': "version",
        r'^  "homepage": "(.*)",$': "site",
        r'^    "url": "git\+(.*)\.git",$': "repository",
        r'^    "url": "(http.*)"$': "issues",
    },
    "reference/vscode/package.json": {
        r'^  "version": "(.*)",$': "version",
        r'^  "homepage": "(.*)",$': "site",
        r'^    "url": "git\+(.*)\.git",$': "repository",
        r'^    "url": "(http.*)"$': "issues",
    },
    "reference/typescript/README.md": {r' from "([^":/]+)";': "npm", r' from "([^":]+)/node";': "npm"},
    "reference/ruby/toyspec.gemspec": {
        r'^  spec\.name = "(.*)"$': "gem",
        r'^  spec\.homepage = "(.*)"$': "site",
        r'"bug_tracker_uri" => "(.*)",$': "issues",
        r'"source_code_uri" => "(.*)",$': "repository",
    },
    "reference/ruby/lib/toyspec.rb": {r'^  VERSION = "(.*)"$': "version"},
    "reference/c/Makefile": {r"^VERSION := (.*)$": "version"},
    "reference/ocaml/dune-project": {
        r"^\(homepage (.*)\)$": "site",
        r"^\(bug_reports (.*)\)$": "issues",
        r"^\(source \(uri git\+(.*)\.git\)\)$": "repository",
        r"^ \(version (.*)\)$": "version",
    },
    "reference/ocaml/toyspec.opam": {
        r'^homepage: "(.*)"$': "site",
        r'^bug-reports: "(.*)"$': "issues",
        r'^dev-repo: "git\+(.*)\.git"$': "repository",
        r'^version: "(.*)"$': "version",
    },
    "reference/go/go.mod": {r"\Amodule (.*)$": "go"},
    "reference/go/cmd/fault-writer/main.go": _GO_IMPORT,
    "reference/go/cmd/toyspec-adapter/reading.go": _GO_IMPORT,
    "reference/go/cmd/toyspec-adapter/tagging.go": _GO_IMPORT,
    "reference/go/cmd/toyspec-adapter/writing.go": _GO_IMPORT,
    "reference/go/README.md": {
        r'toyspec "([^"]*)"\)$': "go",
        r"-require=(\S+)@v": "go",
        r"-require=\S+@v([\w.]+) ": "version",
        r"-replace=(\S+)=path/": "go",
    },
    "CITATION.cff": {
        r"^version: (.*)$": "version",
        r"^repository-code: (.*)$": "repository",
        r"^url: (.*)$": "site",
    },
    "docs/install.md": {r"^\$ git clone (\S+) toyspec$": "repository"},
    "docs/how-to/describe-your-own-log.md": {r"^`#:schema (\S+)latest/schemas/": "site"},
    "docs/index.md": _FIRST_COMMAND,
    "docs/viewer.md": _FIRST_COMMAND,
    "docs/how-to/check-in-ci.md": {r'git\+(\S+?)"': "repository"},
    "conformance/PROTOCOL.md": {r"uses: (\S+)/\.github/": "owner", r"conformance\.yml@v(\S+)": "version"},
    ".github/workflows/conformance.yml": {
        r"uses: (\S+)/\.github/": "owner",
        r"conformance\.yml@v(\S+)": "version",
        r"^          repository: (.*)$": "owner",
    },
    ".github/workflows/docs.yml": {r'SITE_URL="(.*)\$\{GITHUB_REF_NAME': "site"},
}
"""What each file takes from the project: a pattern with one group, and the name of the value that it gets."""


def values(root: Path) -> dict[str, str]:
    """Return everything that a file may take from the project in *root*, by name."""
    project: Mapping[str, Any] = sources.load(root / "project.json")
    repository, site = project["repository"].rstrip("/"), project["site"].rstrip("/") + "/"
    address = urlsplit(repository)
    version = re.search(r'"(.+)"', (root / _VERSION).read_text(encoding="utf-8").partition("__version__")[2])
    assert version is not None, f"{_VERSION} has no version"
    clone = "In a [clone of the repository](install.md#from-a-clone):"
    where = ("In any terminal:", project["packages"]["python"], "runs/") if project["released"] else (clone, ".", _RUNS)
    return {
        **project["packages"],
        "go": f"{address.netloc}{address.path}/reference/go",
        **dict(zip(("terminal", "installable", "shown"), where, strict=True)),
        "issues": f"{repository}/issues",
        "owner": address.path.strip("/"),
        "repository": repository,
        "site": site,
        "version": version[1],
    }


def project_files(root: Path) -> dict[str, str]:
    """Return every file in *root* that names an address, a package or the version, with those of the project."""
    return dict(_files(root, values(root)))


def _files(root: Path, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, patterns in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        for pattern, value in patterns.items():
            text, count = re.subn(pattern, _with(known[value]), text, flags=re.MULTILINE)
            assert count, f"{name} has no place for the {value} of project.json: {pattern}"
        yield name, text


def _with(value: str) -> Any:
    """Return what replaces a match: the same text, with *value* for its group."""

    def replaced(match: re.Match[str]) -> str:
        begin, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:begin] + value + match[0][end:]

    return replaced
