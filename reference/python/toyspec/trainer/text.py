"""The text that is shipped for training, as tokens: one for each character."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from toyspec.trainer.architecture import Architecture
    from toyspec.trainer.arrays import Tokens

TEXT_NAME = "grey-point"
"""Name of the text in a log."""
_TRAINED_SHARE = 0.9


class Batch(NamedTuple):
    """What a model reads, and what it should predict."""

    inputs: Tokens
    """Batch by context."""
    targets: Tokens
    """Batch by predicted positions."""


class Text:
    """A text, its vocabulary, and its parts for training and for evaluation, which do not overlap."""

    def __init__(self, characters: str) -> None:
        self.vocabulary = sorted(set(characters))
        """The characters that occur, sorted; a token is an index into it."""
        self._tokens = {character: token for token, character in enumerate(self.vocabulary)}
        tokens = self.encoded(characters)
        cut = int(len(tokens) * _TRAINED_SHARE)
        self.trained, self.held_out = tokens[:cut], tokens[cut:]

    def encoded(self, characters: str) -> Tokens:
        """Return the tokens of *characters*; raise KeyError for one that is not in the vocabulary."""
        return np.array([self._tokens[character] for character in characters], dtype=np.int64)

    def decoded(self, tokens: Tokens) -> str:
        """Return the characters of *tokens*."""
        return "".join(self.vocabulary[token] for token in tokens)

    def batch(self, architecture: Architecture, seed: int, step: int) -> Batch:
        """Return the batch of *step*, which depends on nothing but *seed* and *step*: a resumed run goes on with it."""
        random = np.random.default_rng([seed, 1, step])
        starts = random.integers(0, len(self.trained) - architecture.context, size=architecture.batch)
        return _windows(self.trained, starts, architecture)

    def evaluation(self, architecture: Architecture) -> Batch:
        """Return all of the held-out text; each of its characters after the first context is predicted once."""
        starts = np.arange(0, len(self.held_out) - architecture.context, architecture.predicted)
        return _windows(self.held_out, starts, architecture)


def shipped_text() -> Text:
    """Return the text that is part of the package; a line break within a paragraph is read as a space."""
    path = os.path.join(os.path.dirname(__file__), "text.txt")
    with open(path, encoding="ascii") as file:
        paragraphs = file.read().strip().split("\n\n")
    return Text("\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs))


def _windows(tokens: Tokens, starts: Tokens, architecture: Architecture) -> Batch:
    read = tokens[starts[:, None] + np.arange(architecture.context + 1)]
    return Batch(read[:, :-1], read[:, 1:][:, -architecture.predicted :])
