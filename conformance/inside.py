"""Asks an adapter that runs in this process, as if a pipe were between."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from conformance.adapters import AdapterError
from conformance.messages import ProtocolError, encoded
from conformance.probes.question import UntestableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.oracle.adapter import Oracle
    from conformance.probes.question import Question, Stage


class Inside:
    """Asks an adapter in this process; nothing is shared between question and answer but JSON."""

    def __init__(self, adapter: Oracle) -> None:
        self._adapter = adapter

    def __call__(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to *request*; raise AdapterError where the adapter raises anything."""
        bare = {key: request[key] for key in ("stream", "media") if key in request}
        message = json.loads(encoded(request)) | bare
        try:
            answer = self._adapter.answer(message)
        except Exception as error:  # noqa: BLE001  (a program would have crashed)
            raise AdapterError(f"crashed: {type(error).__name__}: {error}") from None
        carried: dict[str, Any] = json.loads(json.dumps({key: item for key, item in answer.items() if key != "stream"}))
        return carried | ({"stream": answer["stream"]} if "stream" in answer else {})


def reasons_of(question: Question, stage: Stage) -> list[str]:
    """Return what is wrong with the answers to *question*; a crash is wrong too."""
    try:
        return question.play(stage)
    except (AdapterError, ProtocolError) as error:
        return [str(error)]
    except UntestableError:
        return []
