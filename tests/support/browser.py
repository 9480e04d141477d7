"""A real Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)


class Browser:
    """One headless browser with one page, and everything that it asked for or complained of."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [
                str(CHROMIUM),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        # A factory of its own: without one, the loop of the whole thread would be set, and unset.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._numbers = itertools.count(1)
        self._socket: Any = None
        try:
            self._socket = self._runner.run(self._connect())
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> Any:
        from tornado.websocket import websocket_connect

        port_file = Path(self._folder.name) / "DevToolsActivePort"
        deadline = time.monotonic() + 30
        while not (port_file.exists() and port_file.read_text().count("\n")):
            if time.monotonic() > deadline or self._process.poll() is not None:
                msg = "chromium did not start"
                raise RuntimeError(msg)
            await asyncio.sleep(0.05)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(one for one in json.load(answer) if one["type"] == "page")
        return await websocket_connect(page["webSocketDebuggerUrl"], max_message_size=1 << 28)

    def send(self, method: str, **params: Any) -> Any:
        """One command; its result."""
        return self._runner.run(self._send(method, params))

    async def _send(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self._numbers)
        await self._socket.write_message(
            json.dumps({"id": number, "method": method, "params": params})
        )
        while True:
            told = json.loads(await asyncio.wait_for(self._socket.read_message(), 60))
            if told.get("id") == number:
                if "error" in told:
                    raise RuntimeError(told["error"])
                return told["result"]
            await self._note(told)

    async def _note(self, told: dict[str, Any]) -> None:
        method, params = told.get("method"), told.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(params["entry"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            await self._socket.write_message(
                json.dumps(
                    {
                        "id": next(self._numbers),
                        "method": "Page.handleJavaScriptDialog",
                        "params": {"accept": True},
                    }
                )
            )

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the screen."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def open(self, url: str) -> None:
        """Load a page from nothing, and wait until it has drawn itself."""
        self.send("Page.navigate", url="about:blank")
        self.requests.clear()
        self.complaints.clear()
        self.send("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && document.querySelector('main section')")

    def js(self, expression: str) -> Any:
        """The value of an expression, promises awaited."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 60.0) -> None:
        """Wait until an expression holds."""
        deadline = time.monotonic() + seconds
        while not self.js(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"never true: {expression}\n{self.complaints}"
            time.sleep(0.03)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """What the page looks like."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser."""
        try:
            if self._socket is not None:
                self._runner.run(self._disconnect())
        finally:
            self._process.kill()
            self._process.wait()
            self._runner.close()
            self._folder.cleanup()

    async def _disconnect(self) -> None:
        """Close the socket in its loop, and wait until the browser has closed its end."""
        self._socket.close()
        with contextlib.suppress(TimeoutError):
            while await asyncio.wait_for(self._socket.read_message(), 5) is not None:
                pass
