"""Serve the page on loopback, updated while a run goes on."""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ope_bench.errors import OpeBenchError
from ope_bench.report.content import ReportData
from ope_bench.report.page.html import render_page
from ope_bench.report.page.payload import payload

__all__ = ["LOOPBACK", "Live", "server"]

LOOPBACK = "127.0.0.1"
REST = 4.0
"""Least interval between reports, as a multiple of the time that the last one took."""


@dataclass
class Live:
    """A store's report, rebuilt when the store has changed.

    Parameters
    ----------
    store, suite, run : as for `ReportData.read`.
    """

    store: Path
    suite: str | None = None
    run: str | None = None
    _stamp: str = ""
    _content: ReportData | None = None
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self) -> tuple[str, ReportData]:
        """Return the store's stamp and data, as recent as the cost of a rebuild allows."""
        with self._lock:
            stamp = self._now()
            if self._content is None or (stamp != self._stamp and time.monotonic() >= self._next):
                began = time.monotonic()
                self._content = ReportData.read(self.store, suite=self.suite, run=self.run)
                self._stamp = stamp
                now = time.monotonic()
                self._next = now + REST * (now - began)
            return self._stamp, self._content

    def page(self) -> str:
        """Return the page, which polls for changes."""
        return render_page(self.current()[1], live=True)

    def data(self, seen: str) -> str | None:
        """Return the new data of the page; None without changes."""
        stamp, content = self.current()
        if stamp == seen:
            return None
        return json.dumps(payload(content, live=True) | {"stamp": stamp}, allow_nan=False)

    def _now(self) -> str:
        """Return a stamp that changes with the store and its write-ahead log."""
        parts = []
        for path in (self.store, self.store.with_name(self.store.name + "-wal")):
            try:
                facts = path.stat()
            except FileNotFoundError:
                continue
            parts.append(f"{facts.st_mtime_ns}-{facts.st_size}")
        return "_".join(parts)


def server(live: Live, port: int = 0) -> ThreadingHTTPServer:
    """Return a server that is reachable from this machine only; ``serve_forever`` starts it.

    Parameters
    ----------
    live : the report to serve.
    port : 0 for any free one.
    """
    return _Server((LOOPBACK, port), _handler(live))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser may close a connection before the answer is complete.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _handler(live: Live) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                name = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname
                asked = urllib.parse.urlsplit(self.path)
            except ValueError:  # such as an open bracket
                self.answer(400, "text/plain", "no such address\n")
                return
            answers: dict[str, Callable[[], str | None]] = {
                "/": live.page,
                "/data": lambda: live.data(
                    urllib.parse.parse_qs(asked.query).get("seen", [""])[0]
                ),
            }
            # Refuse requests of other sites whose names resolve to loopback.
            if name not in (LOOPBACK, "localhost"):
                self.answer(403, "text/plain", "only for this machine\n")
            elif asked.path not in answers:
                self.answer(404, "text/plain", "no such page\n")
            else:
                kind = "application/json" if asked.path == "/data" else "text/html"
                try:
                    text = answers[asked.path]()
                except OpeBenchError as exc:  # such as a store that was deleted
                    self.answer(503, "text/plain", f"{exc}\n")
                    return
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
            """Log nothing: the page polls every two seconds."""

    return Handler
