"""The search of the site finds rules, kinds and words, without a server."""

from __future__ import annotations

import re
from contextlib import suppress

from playwright.sync_api import Error, Page, expect

QUERIES = {
    # What people ask.
    "NaN": "explanation/numbers/",
    "torn": "explanation/crashes/",
    "resume": "how-to/resume-after-preemption/",
    "how do I log from pytorch": "how-to/log-from-frameworks/",
    "number format": "explanation/numbers/",
    "wandb": "how-to/come-from-another-tracker/",
    "validate in github actions": "how-to/check-in-ci/",
    "install": "install/",
    "step": "spec/toy/v1/step/",
    "plot loss curve": "how-to/read-with-pandas-polars-duckdb/",
    "corrupt file": "how-to/read-a-torn-run/",
    "what is a bundle": "spec/bundle/",
    "changelog": "changelog/",
    "compare two runs": "viewer/",
    "schema": "reference/schemas/",
    # And more of the kind.
    "step-goes-backwards": "spec/rules/step-goes-backwards/",
    "non-finite-number": "spec/rules/non-finite-number/",
    "op_timing": "spec/toy/v1/op_timing/",
    "run_resume": "spec/toy/v1/run_resume/",
    "durability": "explanation/durability/",
    "fsync power loss": "explanation/durability/",
    "pandas": "how-to/read-with-pandas-polars-duckdb/",
    "adapter protocol": "conformance/PROTOCOL/",
    "exit code": "reference/cli/",
    "watch a live run": "how-to/follow-a-live-run/",
    "write an emitter in another language": "how-to/write-an-emitter/",
    "benchmark": "explanation/speed/",
    "rust": "implementations/rust/",
    "glossary": "glossary/",
    "lock two writers": "spec/writing/",
    "download corpus": "downloads/",
    "hugging face callback": "how-to/log-from-frameworks/",
    "lightning logger": "how-to/log-from-frameworks/",
    "keras callback": "how-to/log-from-frameworks/",
    "migrate from tensorboard": "how-to/come-from-another-tracker/",
    "mlflow": "reference/formats/",
    # What newcomers ask, in their words.
    "what is a torn run": "explanation/crashes/",
    "write a logger in C++": "how-to/write-an-emitter/",
    "size limit of a line": "spec/encoding/",
    "how fast is logging": "explanation/speed/",
    "file format version": "spec/versioning/",
    "compare runs": "viewer/",
    "fix a broken jsonl line": "how-to/read-a-torn-run/",
    "log images": "how-to/log-from-python/",
    "delete a run": "how-to/move-and-delete-runs/",
    "hyperparameter sweep": "viewer/",
    "smoothing": "viewer/",
    "docker": "install/",
    "license": "install/",
    "see my runs": "viewer/",
    "dashboard": "viewer/",
    "multiple gpus": "how-to/train-on-many-processes/",
    "loss is nan": "explanation/numbers/",
    "stop training early and continue": "how-to/resume-after-preemption/",
    "upload to s3": "how-to/runs-in-a-bucket/",
    "read csv": "how-to/read-any-log/",
    "python api": "reference/python/",
    "start_run": "reference/python/",
    "export to csv": "reference/formats/",
    "is it free": "install/",
    "offline": "install/",
    "learning rate schedule": "how-to/log-from-python/",
    "windows": "install/",
    "sign a log": "how-to/log-from-python/",
    "what does damaged mean": "explanation/crashes/",
    "my training crashed": "explanation/crashes/",
    "tensorboard alternative": "how-to/come-from-another-tracker/",
    "tutorial": "tutorial/",
    "getting started": "tutorial/",
    "add my own metric": "how-to/log-from-python/",
    "why json lines": "explanation/design/",
    # And more of theirs.
    "rename a run": "how-to/move-and-delete-runs/",
    "disk space": "how-to/move-and-delete-runs/",
    "out of memory": "explanation/crashes/",
    "slurm": "how-to/train-on-many-processes/",
    "early stopping": "how-to/watch-over-a-training/",
    "notify me on slack": "how-to/watch-over-a-training/",
    "quickstart": "tutorial/",
    "jupyter notebook": "viewer/",
    "breaking change": "spec/versioning/",
    "java logger": "how-to/write-an-emitter/",
    # Asked before their pages were looked at: 11 of 30 had theirs first then.
    "how do I start": "tutorial/",
    "why is my run shown in red": "viewer/",
    "does it slow down training": "explanation/speed/",
    "can two people use the same folder": "how-to/move-and-delete-runs/",
    "show gpu usage": "how-to/log-from-python/",
    "save model checkpoint": "how-to/resume-after-preemption/",
    "restart after power outage": "explanation/durability/",
    "zip my logs": "how-to/move-and-delete-runs/",
    "convert tfevents": "reference/formats/",
    "does it work with jax": "how-to/log-from-frameworks/",
    "share results with a colleague": "viewer/",
    "put a chart in my paper": "viewer/",
    "learning curve of many seeds": "viewer/",
    "email alert when loss explodes": "how-to/watch-over-a-training/",
    "what happens when the disk is full": "explanation/durability/",
    "how big are the files": "explanation/speed/",
    "change the name of an experiment": "how-to/move-and-delete-runs/",
    "search runs by hyperparameter": "viewer/",
    "privacy": "install/",
    "view logs on a remote server": "viewer/",
    "add a comment to a run": "how-to/log-from-python/",
    "log a confusion matrix": "how-to/log-from-python/",
    "validate json schema": "reference/schemas/",
    "typescript reader": "implementations/typescript/",
    "can I edit the log by hand": "how-to/read-a-torn-run/",
    "what python version": "install/",
    "command line options": "reference/cli/",
    "plot in terminal": "viewer/",
}
"""The page that has to come first, by what is typed."""

ADDRESSES = "[...document.querySelectorAll('.md-search-result__item > a')].map((link) => new URL(link.href).pathname)"


def search(page: Page, query: str) -> None:
    """Open the search of the start page and type *query* once the index is there."""
    page.goto("")
    page.keyboard.press("/")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("Type to start searching"))
    # At once, so that no results of a part of it come in between; the search listens to keys.
    page.keyboard.insert_text(query)
    page.keyboard.press("End")


def first_result(page: Page, query: str, wanted: str) -> str:
    """Return the page that comes first for *query*, as soon as it is *wanted*, else after a while."""
    # A search for what is on no page in between, so that no results of the query before are taken.
    for text, shown in (("xylophone", "No matching"), (query, "matching document")):
        page.locator(".md-search__input").fill(text)
        page.keyboard.press("End")
        expect(page.locator(".md-search-result__meta")).to_have_text(re.compile(shown))
    with suppress(Error):
        page.wait_for_function(f"path => {ADDRESSES}[0] === path", arg=f"/toyspec/{wanted}", timeout=1500)
    return str((page.evaluate(ADDRESSES) or ["nothing"])[0]).removeprefix("/toyspec/")


def test_search_finds(page: Page) -> None:
    """A question, in words of the project or of someone new to it, leads to its page, which is the first result."""
    search(page, "xylophone")
    found = {query: first_result(page, query, wanted) for query, wanted in QUERIES.items()}
    assert QUERIES == found


def test_search_finds_nothing_for_what_is_not_there(page: Page) -> None:
    """A word that is on no page has no result."""
    search(page, "xylophone")
    expect(page.locator(".md-search-result__meta")).to_have_text(re.compile("No matching documents"))
    assert [] == page.evaluate(ADDRESSES)


def test_result_leads_to_its_page(page: Page) -> None:
    """With the keyboard alone: arrow down and Enter open the first result."""
    search(page, "op_timing")
    expect(page.locator(".md-search-result__link").first).to_have_attribute("href", re.compile("/op_timing/"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/op_timing/**")
    expect(page.locator("article h1")).to_contain_text("op_timing")
