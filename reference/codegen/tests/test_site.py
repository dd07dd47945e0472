"""Tests of the parts of the site that are not committed: pages of requirements, downloads, llms.txt."""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import toyspec
from codegen import sources
from codegen.docs_stubs import stubs
from codegen.reference_pages import rules_page
from codegen.site import downloads, llms, requirement_pages
from codegen.site.__main__ import GENERATED_FOLDERS
from codegen.site.addresses import address_of, chapter_of
from codegen.site.case_text import example, expected
from codegen.site.earlier_revisions import earlier_pages
from codegen.site.evidence import Evidence, evidence, implementations
from codegen.site.requirement_pages import FOLDER, INDEX
from codegen.site.statements import moved, requirements, statements
from conformance.corpus import selected
from conformance.loading import CASES, load_case

pytestmark = pytest.mark.slow

SHOWN = re.compile(
    r'<!-- example profile=(\S+) findings="([^"]*)"( unterminated)? -->\n```jsonl\n(.*?)^```$', re.MULTILINE | re.DOTALL
)
MOST_PAGES = 170


@pytest.fixture(scope="module")
def shown() -> dict[str, Evidence]:
    """Return what there is to show about each statement."""
    return evidence()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the pages of requirements: one for each chapter, and the index."""
    return requirement_pages.requirement_pages()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Return the downloads."""
    return downloads.download_files()


def test_every_statement_is_found_where_it_is_made() -> None:
    """No statement of requirements.json is without its sentence, its place and something that is said about it."""
    found = statements()
    assert [entry["id"] for entry in requirements()] == [statement.id for statement in found]
    assert [] == [statement.id for statement in found if not statement.text.endswith(".")]
    assert [] == [statement.id for statement in found if not statement.heading]


def test_links_hold_where_they_are_moved_to() -> None:
    """A relative link still names the same page, with its anchor; one to another site is left alone."""
    text = "[a](rules/x.md) [b](../c.md#d) [e](#f) [g](https://example.org/h)"
    expected_text = "[a](../../spec/rules/x.md) [b](../../c.md#d) [e](../../spec/y.md#f) [g](https://example.org/h)"
    assert expected_text == moved(text, "docs/spec/y.md", "docs/requirements/z/w.md")


def _section(pages: dict[str, str], statement: str) -> str:
    """Return what the site shows about *statement*."""
    path, _, anchor = address_of(statement).partition("#")
    return pages[f"docs/{path}"].partition(f"{{ #{anchor} }}\n")[2].partition("\n## ")[0]


def test_every_statement_has_a_section_and_a_row(pages: dict[str, str]) -> None:
    """The index leads to every section of every page, in the order of the statements."""
    ids = [entry["id"] for entry in requirements()]
    assert {INDEX, *(f"{FOLDER}/{chapter_of(name)}.md" for name in ids)} == pages.keys()
    assert ids == re.findall(r"^\| \[([^\]]+)\]", pages[INDEX], re.MULTILINE)
    assert [] == [name for name in ids if not _section(pages, name)]
    since = dict(
        re.findall(r"^\| \[([^\]]+)\].*?(?<!\\\\) \| [A-Z ]+ \| [^|]+ \| ([^|]*) \|", pages[INDEX], re.MULTILINE)
    )
    assert ("1.3", "changed in 1.3") == (since["ranks/found"], since["views/toy-reason"])
    assert f"Of {len(ids)} statements, {sum('observable' in entry for entry in requirements())} are" in pages[INDEX]


def test_section_has_all_cases(pages: dict[str, str], shown: dict[str, Evidence]) -> None:
    """A case is named in the section of each statement that it proves, once as accepted and once as rejected."""
    for entry in requirements():
        text = _section(pages, entry["id"])
        named = Counter(re.findall(r"`((?:(?:toy|metrics|kaun)-v1|none)/[^`]+|sessions/[^`]+)`", text))
        found = shown.get(entry["id"], Evidence())
        assert named == Counter([*found.accepts, *found.rejects])


def test_section_says_who_keeps_the_statement(pages: dict[str, str]) -> None:
    """The number of implementations and their limits are those of the last proof."""
    applies = {entry["id"]: set(entry["applies"]) for entry in requirements() if "observable" in entry}
    limits = [
        (statement, f"{entry['name']} as {role}: {limit}")
        for entry in implementations()
        for statement, by_role in entry["except"].items()
        for role, limit in by_role.items()
        if role in applies.get(statement, ())
    ]
    assert limits
    for statement, limit in limits:
        kept = _section(pages, statement).partition("- Kept by: ")[2].partition("\n")[0]
        assert re.match(r"\d+ implementations; ", kept)
        assert limit in kept


def test_statement_that_no_case_can_show_is_marked(pages: dict[str, str]) -> None:
    """An excluded statement has its reason in its section, and no implementation claims it."""
    for entry in requirements():
        text = _section(pages, entry["id"])
        assert ("\n- No case can show it: " in text) == ("excluded" in entry)
        assert not ("excluded" in entry and "- Kept by: " in text)


def test_plain_case_is_shown_as_it_is() -> None:
    """A stream that can be read is shown byte for byte, so that it can be checked from the page."""
    case = load_case(str(Path(CASES, "toy-v1/unterminated-line/ends-in-line-feed")))
    assert f'<!-- example profile=toy/v1 findings="" -->\n```jsonl\n{case.data.decode()}```\n' == example(case)
    assert "state *complete*, no findings" == expected(case)
    torn = load_case(str(Path(CASES, "toy-v1/unterminated-line/half-a-record")))
    note = '<!-- example profile=toy/v1 findings="unterminated-line@3:" unterminated -->'
    assert f"{note}\n```jsonl\n{torn.data.decode()}\n```\n\nNo LF ends the last line.\n" == example(torn)


def test_other_case_is_shown_with_escapes() -> None:
    """What cannot be seen is spelled out, the LF that is missing at the end too."""
    case = load_case(str(Path(CASES, "toy-v1/nul-bytes/one-byte-tail")))
    assert "\\n\n\\x00\n```" in example(case)
    assert "state *torn*, `nul-bytes` in line 4" == expected(case)


def test_shown_cases_give_what_the_page_says(pages: dict[str, str]) -> None:
    """Checking the shown bytes gives the findings in the comment above them."""
    checked = 0
    for page, text in pages.items():
        for profile, findings, torn, body in SHOWN.findall(re.sub("^    ", "", text, flags=re.MULTILINE)):
            data = body.removesuffix("\n").encode() if torn else body.encode()
            name = "metrics.jsonl" if profile == "metrics/v1" else "events.jsonl"
            report = toyspec.check_bytes(data, name=name, dialect=None)
            found = " ".join(f"{finding.rule}@{finding.line}:{finding.pointer}" for finding in report.findings)
            assert findings == found, page
            checked += 1
    assert checked > 100


def test_shown_cases_cannot_end_their_block() -> None:
    """No stream of the corpus closes the fence around it."""
    assert [] == [case.name for case in selected(()) if example(case).count("```") not in (0, 2)]


def test_downloads_are_the_files_of_the_tree(files: dict[str, bytes]) -> None:
    """Every schema is there, byte for byte, at the path that it has in the tree."""
    for path in sources.SCHEMAS.rglob("*.json"):
        assert path.read_bytes() == files[f"docs/{path.relative_to(sources.ROOT).as_posix()}"]
    assert json.loads(files["docs/spec/requirements.json"])["requirements"] == requirements()


def test_corpus_is_one_archive_of_fixed_bytes(files: dict[str, bytes]) -> None:
    """The archive has every file of the corpus, and is the same when it is made again."""
    root = sources.ROOT / "conformance"
    with zipfile.ZipFile(io.BytesIO(files[downloads.CORPUS])) as archive:
        names = set(archive.namelist())
        for part in ("cases", "sessions", "schema"):
            for path in (root / part).rglob("*"):
                if path.is_file():
                    assert path.read_bytes() == archive.read(f"toyspec-corpus/{path.relative_to(root).as_posix()}")
    assert {"toyspec-corpus/LICENSE", "toyspec-corpus/README.md", "toyspec-corpus/PROTOCOL.md"} <= names
    assert files[downloads.CORPUS] == downloads._corpus()


def test_page_of_downloads_has_all(files: dict[str, bytes]) -> None:
    """Each file is listed with its size on the page, and with its digest in the list for programs."""
    page, sums = files[downloads.PAGE].decode(), files[downloads.SUMS].decode()
    for name, data in files.items():
        if name not in (downloads.PAGE, downloads.SUMS):
            path, digest = name.removeprefix("docs/"), hashlib.sha256(data).hexdigest()
            row = rf"^\| \[`{re.escape(path)}`\]\({re.escape(path)}\)<br>.+ \| {len(data):,} \|$"
            assert re.search(row, page, re.MULTILINE)
            assert f"{digest}  {path}\n" in sums


def test_llms_txt_lists_every_page_of_the_navigation(files: dict[str, bytes], pages: dict[str, str]) -> None:
    """Each page has its title, its address and a sentence; the rules come last, as what may be left out."""
    text = llms.llms_texts(
        pages | stubs(sources.ROOT) | rules_page() | {downloads.PAGE: files[downloads.PAGE].decode()}
    )[llms.LIST]
    navigation = (sources.ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^- \[([^\]]+)\]\(([^)]+)\): (\S.*)$", text, re.MULTILINE)
    assert text.startswith("# toyspec\n\n> ")
    assert sorted(map(llms._address, re.findall(r"(\S+\.md)$", navigation, re.MULTILINE))) == sorted(
        address for _, address, _ in listed
    )
    assert "spec/rules/step-skipped/" in text.partition("\n## Optional\n")[2]


def test_llms_full_has_every_statement() -> None:
    """The whole specification is in one text."""
    text = "\n\n".join(llms._full())
    assert [] == [entry["id"] for entry in requirements() if f"**[{entry['id']}]** " not in text]


@pytest.mark.parametrize("revision", ["1.2", "1.3"])
def test_text_of_an_earlier_revision_is_whole(revision: str) -> None:
    """Every statement of the revision is on its pages, and no link leaves them but the one to the current text."""
    folder = f"docs/spec/{revision}/"
    found = {name.removeprefix(folder): text for name, text in earlier_pages().items() if name.startswith(folder)}
    entries = json.loads(found.pop("requirements.json"))["requirements"]
    text = "".join(found.values())
    assert [] == [entry["id"] for entry in entries if f"**[{entry['id']}]** " not in text]
    links = {(name, link) for name, page in found.items() for link in re.findall(r"\]\(([^)#:]+)[)#]", page)}
    led = {posixpath.normpath(posixpath.join(posixpath.dirname(name), link)) for name, link in links}
    assert {"../README.md"} == led - found.keys() - {"requirements.json"}


def test_site_is_small_enough_to_be_browsed(pages: dict[str, str]) -> None:
    """A statement or a case is an anchor of a page, not a page: they would make a thousand."""
    made = {*pages, *stubs(sources.ROOT), *rules_page(), downloads.PAGE}
    parts = ("docs/includes/", "docs/parts/", "docs/overrides/", *(f"{folder}/" for folder in GENERATED_FOLDERS))
    written = {path.relative_to(sources.ROOT).as_posix() for path in (sources.ROOT / "docs").rglob("*.md")}
    found = made | {name for name in written if not name.startswith(parts)}
    assert len(found) in range(100, MOST_PAGES), sorted(found)
