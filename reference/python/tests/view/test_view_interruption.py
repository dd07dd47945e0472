"""How `toyspec view` ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from toyspec.view.curve_store import CurveStore
from toyspec.view.live_runs import LiveRuns
from toyspec.view.server import ViewServer

if TYPE_CHECKING:
    from pathlib import Path


def test_interruption_while_a_thread_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the thread raises another error then, which the loop of the server takes for one of a request."""
    server = ViewServer(LiveRuns(str(tmp_path), store=CurveStore(str(tmp_path / "cache"))))

    def start(_: threading.Thread) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    try:
        server.service_actions()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            patch.setattr(server, "get_request", lambda: (None, ("127.0.0.1", 1)))
            patch.setattr(server, "shutdown_request", lambda _: None)
            server._handle_request_noblock()  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt):
            server.service_actions()
    finally:
        server.server_close()
