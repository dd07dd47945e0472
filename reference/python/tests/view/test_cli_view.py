"""`toyspec view` as a command: where it listens, what it prints, and how it ends."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from toyspec.core.command_line import exit_codes
from toyspec.core.command_line.main import main
from toyspec.view import server as view_server
from toyspec.view.curve_store import default_directory
from toyspec.view.server import LOOPBACK, ViewServer, _is_loopback, _shown_host
from view_client import START, step, write_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from toyspec.view.live_runs import LiveRuns


class Served:
    """Takes the place of the loop that answers requests: keeps the server, and ends at once."""

    def __init__(self) -> None:
        self.server: ViewServer | None = None
        self.ending: BaseException | None = None

    def __call__(self, server: ViewServer, on_ready: Callable[[], object]) -> None:
        """Say that *server* is ready and end as a loop does."""
        self.server = server
        on_ready()
        server.close()
        if self.ending is not None:
            raise self.ending


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """Work in a folder with two roots, without settings, and serve nothing for long."""
    for root in "ab":
        write_run(tmp_path / root / "run", START, step(1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOYSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    made = Served()
    monkeypatch.setattr(view_server, "serve", made)
    return made


def test_address_is_printed_and_opened_where_that_is_asked_for(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One root is shown, several are; a browser opens the same address, only with --open."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert exit_codes.OK == main(["view", "--port", "0", "a"])
    assert served.server is not None
    assert f"http://localhost:{served.server.port}/" == served.server.url
    assert (f"a is shown at {served.server.url}\n", "") == tuple(capsys.readouterr())
    assert [] == opened
    assert exit_codes.OK == main(["view", "--port", "0", "--open", "a", "b"])
    assert (f"a, b are shown at {served.server.url}\n", "") == tuple(capsys.readouterr())
    assert [served.server.url] == opened


def test_end_is_named_on_a_terminal_only(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees how to end it, and the status of an interrupt is its own."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    served.ending = KeyboardInterrupt()
    assert exit_codes.INTERRUPTED == main(["view", "--port", "0", "a"])
    assert "Ctrl-C ends it" in capsys.readouterr().out


def test_root_that_cannot_be_searched_is_reported(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with a root is on standard error, once and without control characters; the address comes too."""

    def fail(catalog: LiveRuns) -> None:
        catalog.roots[0].problem = "a/\x1b[2Jx: Permission denied"

    monkeypatch.setattr("toyspec.view.commands.view.require_answers", fail)
    assert exit_codes.OK == main(["view", "--port", "0", "a", "b"])
    assert served.server is not None
    expected = f"a, b are shown at {served.server.url}\n", "toyspec view: a/\\x1b[2Jx: Permission denied\n"
    assert expected == tuple(capsys.readouterr())


def test_port_that_is_taken_is_replaced_unless_it_was_asked_for(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --port any free one does; with it, the reason is an error of use."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("toyspec.view.commands.view._DEFAULT_PORT", port)
        assert exit_codes.OK == main(["view", "a"])
        assert served.server is not None
        assert port != served.server.port
        assert exit_codes.USAGE == main(["view", "--port", str(port), "a"])
        assert f"cannot listen on {LOOPBACK} port {port}: " in capsys.readouterr().err
    monkeypatch.setattr("toyspec.view.commands.view._DEFAULT_PORT", port)
    assert exit_codes.OK == main(["view", "a"])
    assert port == served.server.port


@pytest.mark.parametrize(
    ("port", "status"), [("65535", exit_codes.OK), ("65536", exit_codes.USAGE), ("-1", exit_codes.USAGE)]
)
def test_port_is_a_port(port: str, status: int, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest is 65535."""
    monkeypatch.setattr(view_server, "ViewServer", lambda catalog, **_: ViewServer(catalog))
    assert status == main(["view", "--port", port, "a"])
    assert (status == exit_codes.OK) == (served.server is not None)


@pytest.mark.parametrize(
    ("host", "is_loopback", "shown"),
    [
        ("localhost", True, "localhost"),
        ("127.0.0.1", True, "127.0.0.1"),
        ("127.8.8.8", True, "127.8.8.8"),
        ("::1", True, "[::1]"),
        ("192.0.2.7", False, "192.0.2.7"),
        ("2001:db8::7", False, "[2001:db8::7]"),
        ("machine.example", False, "machine.example"),
        ("0.0.0.0", False, "this-machine"),
        ("::", False, "this-machine"),
    ],
)
def test_only_loopback_needs_no_token(
    host: str, is_loopback: bool, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that other machines reach is none of loopback; what means every address is shown as this machine."""
    monkeypatch.setattr("socket.gethostname", lambda: "this-machine")
    assert is_loopback == _is_loopback(host)
    assert shown == _shown_host(host)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TOYSPEC_CACHE": "/named", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/named"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/toyspec"),
        ({"HOME": "/h"}, "/h/.cache/toyspec"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/toyspec"),
    ],
)
@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="the user's cache is elsewhere on this system")
def test_curves_are_kept_in_the_cache_of_the_user(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable of toyspec counts before that of the desktop, and that before the home."""
    for name in ("TOYSPEC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert expected == default_directory()
