"""Secrets do not get into a log, whatever they are called, and settings that only sound like one do."""

import json
from pathlib import Path
from typing import Any

import pytest

from toyspec.core.format.canonical import encode
from toyspec.core.format.redaction import Redaction, is_secret_name
from toyspec.core.generated.limits import MAX_DEPTH
from toyspec.core.generated.redaction import HIDDEN

SCHEMAS = Path(__file__).parents[4] / "schemas"

EXAMPLES = json.loads((SCHEMAS / "redaction.json").read_bytes())["examples"]


@pytest.mark.parametrize("name", EXAMPLES["secret_names"])
def test_name_of_a_secret_is_known(name: str) -> None:
    """Keys, tokens and passwords are secrets in every spelling."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", EXAMPLES["plain_names"])
def test_setting_that_sounds_like_a_secret_is_none(name: str) -> None:
    """Tokens of a vocabulary, counts of tokens and heads of attention stay."""
    assert not is_secret_name(name)


@pytest.mark.parametrize(("text", "expected"), EXAMPLES["texts"].items())
def test_text_of_the_form_of_a_secret_is_replaced_under_any_name(text: str, expected: str) -> None:
    """Keys of well-known services are recognised by their form, a password in an address by its place."""
    assert expected == Redaction().settings(text)


@pytest.mark.parametrize(("words", "expected"), EXAMPLES["command_lines"])
def test_command_line_loses_its_secrets(words: list[str], expected: list[str]) -> None:
    """A secret may be a word of its own, follow an equals sign, or be the value of a header."""
    assert expected == Redaction().command_line(words)


def test_secret_is_found_as_deep_as_a_record_may_be() -> None:
    """A secret below 62 objects is as secret as one above."""
    given: Any = {"note": "plain", "token": "abc"}
    for _ in range(MAX_DEPTH - 2):
        given = {"a": given}
    found = encode(Redaction().settings(given))
    assert (b"abc" in found, b"plain" in found) == (False, True)


def test_long_text_of_beginnings_costs_no_more_than_its_length() -> None:
    """Beginnings of secrets that follow each other are searched once: each to its end would take hours."""
    for beginning in ("eyJ-", "-----BEGIN ", "://", "?a", "token", "https://hooks.slack.com"):
        text = beginning * (1_000_000 // len(beginning))
        assert text == Redaction().settings(text)
    assert "=x" in Redaction().settings("eos_token_" * 100_000 + "=x")


def test_secrets_are_replaced_at_any_depth_and_numbers_stay() -> None:
    """Only texts are replaced, so that a limit of tokens keeps its value."""
    given = {"hub": {"token": "abc", "retries": 3}, "tokens": 512, "token": None, "api_keys": {"my": [{"own": "k"}]}}
    expected = given | {"hub": {"token": HIDDEN, "retries": 3}, "api_keys": {"my": [{"own": HIDDEN}]}}
    assert expected == Redaction().settings(given)
    remarks = dict.fromkeys(("notes", "text", "error"), "password=abc")
    Redaction().record(remarks)
    assert {f"password={HIDDEN}"} == set(remarks.values())


def test_secret_of_a_key_that_is_cleared_stays() -> None:
    """A setting may be written unchanged: by its key, or by its path; what was replaced is named."""
    redaction = Redaction(["hub/token", "api_key"])
    given = {"hub": {"token": "abc"}, "other": {"token": "def"}, "api_key": "k"}
    assert given | {"other": {"token": HIDDEN}} == redaction.settings(given)
    assert ["--api-key", "k", f"--token={HIDDEN}"] == redaction.command_line(["--api-key", "k", "--token=d"])
    assert ["other/token", "argv"] == redaction.replaced
