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
    "mlflow": "how-to/come-from-another-tracker/",
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
    # Three more sets of 30, each written before its answers were looked at: 11, 16 and 21 had theirs first then.
    "log validation accuracy": "how-to/log-from-python/",
    "track gradient norm": "how-to/log-from-python/",
    "my log has a NaN in it what now": "explanation/numbers/",
    "open the dashboard in a browser": "viewer/",
    "record audio": "how-to/log-from-python/",
    "group runs together": "viewer/",
    "average over seeds": "viewer/",
    "monitor training on my phone": "viewer/",
    "kubernetes pods preempted": "how-to/resume-after-preemption/",
    "colab": "viewer/",
    "get a dataframe": "how-to/read-with-pandas-polars-duckdb/",
    "archive old experiments": "how-to/move-and-delete-runs/",
    "pre-commit hook": "how-to/check-in-ci/",
    "time zone of timestamps": "spec/encoding/",
    "what is a run id": "spec/bundle/",
    "custom x axis": "how-to/log-from-python/",
    "upload runs to the cloud": "how-to/runs-in-a-bucket/",
    "how is it different from mlflow": "how-to/come-from-another-tracker/",
    "checksum of a run": "how-to/log-from-python/",
    "llm agent read my runs": "how-to/for-agents/",
    "large integers lose precision": "explanation/numbers/",
    "is the file corrupted after kill -9": "explanation/crashes/",
    "stop a hanging job": "how-to/watch-over-a-training/",
    "multi node training logs": "how-to/train-on-many-processes/",
    "import wandb history": "how-to/come-from-another-tracker/",
    "uninstall": "install/",
    "autocomplete in shell": "install/",
    "does it need internet": "install/",
    "supported languages": "install/",
    "group multiple runs and plot the mean": "viewer/",
    "plot different scalars together in one chart": "viewer/",
    "select several runs with the keyboard": "viewer/",
    "show only parameters that differ between runs": "viewer/",
    "export all runs to a csv file": "how-to/read-with-pandas-polars-duckdb/",
    "log images every epoch": "how-to/log-from-python/",
    "my process was killed, are my metrics gone": "explanation/crashes/",
    "how to continue logging to an existing run": "how-to/resume-after-preemption/",
    "log from several gpus only on rank zero": "how-to/train-on-many-processes/",
    "my training script prints to stdout only": "how-to/describe-your-own-log/",
    "capture git commit and environment": "how-to/log-from-python/",
    "store the requirements.txt of a run": "how-to/log-from-python/",
    "text me when it is finished": "how-to/watch-over-a-training/",
    "training seems frozen for an hour": "how-to/watch-over-a-training/",
    "validation curve next to training curve": "viewer/",
    "does the writer block my gpu": "explanation/speed/",
    "two jobs wrote into one file": "how-to/train-on-many-processes/",
    "where do model weights go": "how-to/resume-after-preemption/",
    "log rewards in reinforcement learning": "how-to/log-from-frameworks/",
    "json schema for each event": "reference/schemas/",
    "where are the files saved": "how-to/log-from-python/",
    "github action for logs": "how-to/check-in-ci/",
    "what does step-skipped mean": "spec/rules/step-skipped/",
    "run without a network connection on a cluster node": "install/",
    "can my advisor see my charts without installing anything": "viewer/",
    "finetune a llama with trl": "how-to/log-from-frameworks/",
    "move my tensorboard logs over": "how-to/come-from-another-tracker/",
    "how can I see only the last week of runs": "viewer/",
    "the chart is too noisy": "viewer/",
    "why does my curve have a hole": "viewer/",
    "accidentally removed a run": "how-to/move-and-delete-runs/",
    "store hyperparameters": "how-to/log-from-python/",
    "log from perl": "how-to/write-an-emitter/",
    "is there a rust crate": "implementations/rust/",
    "go module": "implementations/go/",
    "npm package": "implementations/typescript/",
    "what changed in the latest release": "changelog/",
    "loss went to infinity": "explanation/numbers/",
    "job hit the time limit": "how-to/resume-after-preemption/",
    "restore from checkpoint after crash": "how-to/resume-after-preemption/",
    "which run had the lowest loss": "viewer/",
    "how does it compare to weights and biases": "how-to/come-from-another-tracker/",
    "read gzip compressed logs": "how-to/move-and-delete-runs/",
    "sync logs to google cloud": "how-to/runs-in-a-bucket/",
    "publish training curves with my model": "how-to/runs-on-hugging-face/",
    "discord bot when a run fails": "how-to/watch-over-a-training/",
    "audit trail for regulators": "how-to/for-agents/",
    "mark a run as favourite": "viewer/",
    "process crashed halfway through a write": "explanation/crashes/",
    "two gpus give different losses": "how-to/train-on-many-processes/",
    "speed of the validator": "explanation/speed/",
    "add it to my trainer library": "how-to/log-from-your-framework/",
    "custom record types": "how-to/make-your-own-profile/",
    "follow a log from another program": "how-to/follow-a-live-run/",
    "list of all error messages": "spec/rules/",
    "how accurate are the stored floats": "explanation/numbers/",
    "keras csv logger": "how-to/log-from-frameworks/",
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
