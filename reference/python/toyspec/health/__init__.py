"""Rules over a run while it trains: what they say, and what happens then."""

from __future__ import annotations

from typing import Final, Literal, get_args

Preset = Literal["default", "rl", "strict"]
"""Rules for language models and most other training, for reinforcement learning, or stricter ones."""

PRESETS: Final[tuple[Preset, ...]] = get_args(Preset)
"""The names of the health rules that toyspec ships, in ``schemas/health/``."""
