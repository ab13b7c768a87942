"""Drives a headless Chromium over its DevTools protocol: pages of one size and colour scheme, keys, complaints."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import websocket

from helpers.chromium_fetching import Chromium

_FLAGS = (
    "--headless", "--no-sandbox", "--no-zygote", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--font-render-hinting=none",
)  # fmt: skip
_START, _ANSWER = 30.0, 20.0
"""Seconds to wait for Chromium to start, and for one answer of it."""
_KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "/": (191, "/"),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}


class NavigatedError(AssertionError):
    """The page went elsewhere before it answered."""


@dataclass
class Page:
    """A tab; `events` are what it told so far, as the protocol has it."""

    socket: websocket.WebSocket
    session: str
    events: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self.asked += 1
        self.socket.send(json.dumps({"id": self.asked, "method": method, "params": parameters, "sessionId": self.session}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.asked and message.get("sessionId") == self.session:
                if "navigated" in str(message.get("error")):
                    raise NavigatedError(f"{method}: {message['error']}")
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            if "method" in message and message.get("sessionId") == self.session:
                self.events.append(message)

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.call("Page.navigate", url=file.as_uri())
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def visit(self, address: str) -> None:
        """Open an address and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        self.wait_for(f"document.readyState === 'complete' && location.href === {json.dumps(address)}")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        said = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _ANSWER
        while not self._is_true(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def _is_true(self, script: str) -> bool:
        try:
            return bool(self.evaluate(script))
        except NavigatedError:  # the page that was asked is gone, and the next one is on its way
            return False

    def press(self, key: str) -> None:
        """Press and release a key."""
        code, text = _KEYS[key]
        told = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **told)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write a PNG of what is seen, or of the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    def requests(self) -> list[str]:
        """What it asked for, without what is in the page itself."""
        sent = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Errors and warnings of its console, and exceptions."""
        found = []
        for event in self.events:
            told = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(str(told["entry"]["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                found.append(str(told["args"]))
        return found


@dataclass
class Browser:
    """A running Chromium."""

    address: str

    @contextmanager
    def page(self, *, width: int = 1280, height: int = 800, scheme: str = "light") -> Iterator[Page]:
        """A new tab of that size (CSS pixels), for readers who prefer light or dark; as a phone's below 600 wide."""
        socket = websocket.create_connection(self.address, suppress_origin=True, timeout=_ANSWER)
        try:
            root = Page(socket, "")
            target = _plain(root, "Target.createTarget", url="about:blank")["targetId"]
            page = Page(socket, _plain(root, "Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{domain}.enable")
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            page.call("Emulation.setDeviceMetricsOverride", **size)
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            yield page
        finally:
            socket.close()


def _plain(root: Page, method: str, **parameters: Any) -> Any:
    """Call a method of the browser itself, which has no session."""
    root.asked -= 1  # numbers below 0, which no tab uses
    root.socket.send(json.dumps({"id": root.asked, "method": method, "params": parameters}))
    while True:
        message = json.loads(root.socket.recv())
        if message.get("id") == root.asked:
            return message["result"]


@contextmanager
def browsing(chromium: Chromium) -> Iterator[Browser]:
    """A Chromium with a new profile, ended and cleaned up at the end."""
    profile = Path(tempfile.mkdtemp(prefix="cdc-views-chromium-"))
    log = profile / "stderr.log"
    command = [str(chromium.program), *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
    with log.open("wb") as complaints:
        process = subprocess.Popen(command, env=chromium.environment, stdout=subprocess.DEVNULL, stderr=complaints)
    try:
        yield Browser(_address(process, profile, log))
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def _address(process: subprocess.Popen[bytes], profile: Path, log: Path) -> str:
    """Where it listens; it writes that into its profile."""
    file, end = profile / "DevToolsActivePort", time.monotonic() + _START
    while time.monotonic() < end and process.poll() is None:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.02)
    raise AssertionError(f"Chromium did not start (exit code {process.poll()}): {log.read_text(errors='replace')[-2000:]}")
