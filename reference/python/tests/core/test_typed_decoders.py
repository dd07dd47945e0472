from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from toyspec.core.format import decoding

if TYPE_CHECKING:
    import pytest


def test_decoders_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads never make decoders at once, which would end the interpreter where they share a type."""
    busy: list[Any] = []
    seen = []

    def made(wanted: Any) -> Any:
        busy.append(wanted)
        time.sleep(0.005)
        seen.append(len(busy))
        busy.remove(wanted)
        return real(wanted)

    real = msgspec.json.Decoder
    monkeypatch.setattr(msgspec.json, "Decoder", made)
    with ThreadPoolExecutor(4) as pool:
        decoders = list(pool.map(decoding.typed_decoder, [int, str, float, bool]))
    assert [1] * 4 == seen
    assert 3 == decoders[0].decode(b"3")
