"""Secrets do not get into a log, whatever they are called, and settings that only sound like one do."""

import pytest

from toyspec.format.redaction import Redaction, command_line_without_secrets, is_secret_name, without_secrets
from toyspec.generated.redaction import HIDDEN


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "APIKEY",
        "WANDB_API_KEY",
        "hub_token",
        "hf_token",
        "push_to_hub_token",
        "token",
        "Authorization",
        "db.password",
        "aws_secret_access_key",
        "private-key",
        "credentials",
    ],
)
def test_name_of_a_secret_is_known(name: str) -> None:
    """Keys, tokens and passwords are secrets in every spelling."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "eos_token",
        "eos_token_id",
        "pad_token",
        "pad_token_id",
        "max_tokens",
        "max_token",
        "tokenizer",
        "num_key_value_heads",
        "keys",
        "lr",
        "passes",
        "monkey",
    ],
)
def test_setting_that_sounds_like_a_secret_is_none(name: str) -> None:
    """Tokens of a vocabulary, counts of tokens and heads of attention stay."""
    assert not is_secret_name(name)


def test_secrets_are_replaced_at_any_depth_and_numbers_stay() -> None:
    """Only texts are replaced, so that a limit of tokens keeps its value."""
    given = {"hub": {"token": "abc", "retries": 3}, "tokens": 512, "token": None, "runs": [{"api_key": "k"}]}
    assert {"hub": {"token": HIDDEN, "retries": 3}, "tokens": 512, "token": None, "runs": [{"api_key": HIDDEN}]} == (
        without_secrets(given)
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf_" + "a" * 30, HIDDEN),
        ("use sk-" + "b" * 30 + " here", f"use {HIDDEN} here"),
        ("https://user:word@host/data", f"https://{HIDDEN}@host/data"),
        ("https://host/user@data", "https://host/user@data"),
        ("half_precision", "half_precision"),
    ],
)
def test_text_of_the_form_of_a_secret_is_replaced_under_any_name(text: str, expected: str) -> None:
    """Keys of well-known services are recognised by their form, and a password in an address by its place."""
    assert expected == without_secrets(text)


def test_secret_of_a_key_that_is_cleared_stays() -> None:
    """A setting may be written unchanged: by its key, or by its path; what was replaced is named."""
    redaction = Redaction(["hub/token", "api_key"])
    given = {"hub": {"token": "abc"}, "other": {"token": "def"}, "api_key": "k"}
    assert given | {"other": {"token": HIDDEN}} == redaction.settings(given)
    assert ["--api-key", "k", f"--token={HIDDEN}"] == redaction.command_line(["--api-key", "k", "--token=d"])
    assert ["other/token", "argv"] == redaction.replaced


def test_command_line_loses_its_secrets() -> None:
    """A secret may be a word of its own or follow an equals sign."""
    given = ["train.py", "--api-key", "abc", "--token=def", "hub.token=ghi", "--lr", "0.1", "--token", "--fast"]
    assert [
        "train.py",
        "--api-key",
        HIDDEN,
        f"--token={HIDDEN}",
        f"hub.token={HIDDEN}",
        "--lr",
        "0.1",
        "--token",
        "--fast",
    ] == command_line_without_secrets(given)
