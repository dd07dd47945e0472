"""Opens pages and notes everything that goes wrong in them."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response

# Each new window would load the two popups of its address bar, several hundred files, beside the page that is measured.
_UNUSED = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # What Playwright turns off: the last list alone counts.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
FLAGS = [
    "--headless",
    f"--disable-features={','.join(_UNUSED)}",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A page that asks for another host gets the answer that there is none.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

WIDE = (1280, 900)
PHONE = (375, 812)

LOCAL = {"blob", "data", "about"}
"""Schemes of addresses that no host is asked for."""

_OFFLINE = "net::ERR_INTERNET_DISCONNECTED"
"""What every request says in a context that a test took offline."""


class Watch:
    """Makes pages of one browser for the site at *server*, and collects their troubles."""

    def __init__(self, browser: Browser, server: str) -> None:
        self.troubles: list[str] = []
        self.expected: set[str] = set()
        """Addresses that a test asks for although they are not found."""
        self._browser = browser
        self._server = server
        self._contexts: list[BrowserContext] = []

    def new_page(
        self, size: tuple[int, int] = WIDE, scheme: Literal["light", "dark"] = "light", *, motion: bool = False
    ) -> Page:
        """Return a page in a context of its own, of *size* in pixels, for a reader who prefers the colour *scheme*."""
        context = self._browser.new_context(
            base_url=self._server,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="no-preference" if motion else "reduce",
        )
        context.set_default_timeout(120_000)
        context.on("console", self._see_console)
        context.on("weberror", lambda error: self._note(f"uncaught: {error.error}", error.page))
        context.on("requestfailed", self._see_failure)
        context.on("response", self._see_response)
        self._contexts.append(context)
        return context.new_page()

    def close(self) -> None:
        """Close every page that was made."""
        for context in self._contexts:
            context.close()

    def _note(self, trouble: str, page: Page | None) -> None:
        self.troubles.append(f"{page.url if page else 'worker'}: {trouble}")

    def _see_console(self, message: ConsoleMessage) -> None:
        is_expected = message.location["url"] in self.expected
        if message.type in ("error", "warning") and not is_expected and _OFFLINE not in message.text:
            self._note(f"console: {message.text} ({message.location['url']})", message.page)

    def _see_address(self, address: str) -> None:
        if urlsplit(address).scheme not in LOCAL and not address.startswith(self._server):
            self.troubles.append(f"request out of the site: {address}")

    def _see_failure(self, request: Request) -> None:
        self._see_address(request.url)
        # A page that is left drops what it still waits for; a context that a test took offline has no network.
        if request.failure not in {"net::ERR_ABORTED", _OFFLINE}:
            self.troubles.append(f"request failed: {request.url}: {request.failure}")

    def _see_response(self, response: Response) -> None:
        self._see_address(response.url)
        if response.status >= 400 and response.url not in self.expected:
            self.troubles.append(f"answer {response.status}: {response.url}")
