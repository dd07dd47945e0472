"""``nox -s lighthouse``: measures the start page with Lighthouse several times, as on a phone and as on a desk.

The site is served as a host serves it, with gzip. A busy machine lowers the figures: the best of several runs is
nearest to what a reader sees.
"""

from __future__ import annotations

import gzip
import http.server
import io
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from browser.serving import ROOT, Server, browser_program, built_site

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = ROOT / "build/lighthouse/node_modules/.bin/lighthouse"
PACKED = {".css", ".html", ".js", ".json", ".svg"}
SHOWN = ("first-contentful-paint", "largest-contentful-paint", "total-blocking-time", "cumulative-layout-shift")


class PackedFiles(http.server.SimpleHTTPRequestHandler):
    """Serves files, those of text with gzip."""

    protocol_version = "HTTP/1.1"

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send the head of an answer, and return its body."""
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() else path
        if path.suffix not in PACKED or not path.exists():
            return super().send_head()
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serving_packed(site: Path) -> Iterator[str]:
    """Serve *site* on the loopback interface, and yield its address."""
    with Server(("127.0.0.1", 0), partial(PackedFiles, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def measured(address: str, preset: str) -> tuple[float, str]:
    """Return the performance of the page at *address*, from 0 to 1, and a line with its parts."""
    options = [
        "--quiet",
        "--output=json",
        "--only-categories=performance",
        "--chrome-flags=--headless=new --no-sandbox",
    ]
    options += ["--preset=desktop"] if preset == "desktop" else []
    done = subprocess.run(
        [str(PROGRAM), address, *options],
        env=os.environ | {"CHROME_PATH": browser_program() or ""},
        stdout=subprocess.PIPE,
        check=True,
    )
    report = json.loads(done.stdout)
    score = float(report["categories"]["performance"]["score"])
    parts = ", ".join(f"{name} {report['audits'][name]['displayValue']}" for name in SHOWN)
    return score, f"{preset:8} {score:.2f}  {parts}, load {os.getloadavg()[0]:.1f}".replace("\u00a0", " ")


def main() -> int:
    """Print each measurement and the best of each kind; return 1 if one is below the goal, 0.95."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    best = {}
    with serving_packed(built_site(ROOT / "build/lighthouse/site")) as address:
        for preset in ("mobile", "desktop"):
            scores = []
            for _ in range(times):
                score, line = measured(address, preset)
                scores.append(score)
                sys.stdout.write(f"{line}\n")
                sys.stdout.flush()
            best[preset] = max(scores)
    sys.stdout.write("best: " + ", ".join(f"{preset} {score:.2f}" for preset, score in best.items()) + "; goal 0.95\n")
    return 0 if min(best.values()) >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
