"""The page on loopback, following a store while a run goes on."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ope_bench.report.content import Content
from ope_bench.report.html import render_page
from ope_bench.report.payload import payload

__all__ = ["LOOPBACK", "Live", "server"]

LOOPBACK = "127.0.0.1"
REST = 4.0
"""A new report is made at most every so many times what the last one took."""


@dataclass
class Live:
    """A store's report, made again when the store has changed.

    Parameters
    ----------
    store, suite, run : as for `Content.read`.
    """

    store: Path
    suite: str | None = None
    run: str | None = None
    _stamp: str = ""
    _content: Content | None = None
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> tuple[str, Content]:
        """The stamp of the store's content and the content, as new as its cost allows."""
        with self._lock:
            stamp = self._now()
            if self._content is None or (stamp != self._stamp and time.monotonic() >= self._next):
                began = time.monotonic()
                self._content = Content.read(self.store, suite=self.suite, run=self.run)
                self._stamp = stamp
                now = time.monotonic()
                self._next = now + REST * (now - began)
            return self._stamp, self._content

    def page(self) -> str:
        """The page, which will ask for news."""
        return render_page(self.current()[1], live=True)

    def data(self, seen: str) -> str | None:
        """What the page shows next; None where it has seen all."""
        stamp, content = self.current()
        if stamp == seen:
            return None
        return json.dumps(payload(content, live=True) | {"stamp": stamp}, allow_nan=False)

    def _now(self) -> str:
        """Changes with the store: what is not yet checkpointed lies in the log beside it."""
        parts = []
        for path in (self.store, self.store.with_name(self.store.name + "-wal")):
            try:
                facts = path.stat()
            except FileNotFoundError:
                continue
            parts.append(f"{facts.st_mtime_ns}-{facts.st_size}")
        return "_".join(parts)


def server(live: Live, port: int = 0) -> ThreadingHTTPServer:
    """A server that only this machine reaches; ``serve_forever`` starts it.

    Parameters
    ----------
    live : what it shows.
    port : 0 for any free one.
    """
    found = ThreadingHTTPServer((LOOPBACK, port), _handler(live))
    found.daemon_threads = True
    return found


def _handler(live: Live) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page of another site that resolves to loopback is no reader of ours.
            name = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname
            asked = urllib.parse.urlsplit(self.path)
            answers: dict[str, Callable[[], str | None]] = {
                "/": live.page,
                "/data": lambda: live.data(
                    urllib.parse.parse_qs(asked.query).get("seen", [""])[0]
                ),
            }
            if name not in (LOOPBACK, "localhost"):
                self.answer(403, "text/plain", "only for this machine\n")
            elif asked.path not in answers:
                self.answer(404, "text/plain", "no such page\n")
            else:
                kind = "application/json" if asked.path == "/data" else "text/html"
                text = answers[asked.path]()
                self.answer(204 if text is None else 200, kind, text or "")

        def answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name in http.server
            """Quiet: a poll every two seconds is no news."""

    return Handler
