"""A page in headless Chromium, used as a person does: what is seen there, keys and clicks.

Chromium is told what to do by its DevTools protocol over a pair of pipes: JSON documents, each
with a byte 0 behind it.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
    --disable-background-networking --disable-component-update --window-size=1280,1000
    --remote-debugging-pipe about:blank"""
# The numbers that Chromium's end of the pipes has.
READS, WRITES = 3, 4
# Of DevTools: what a page tells of itself.
CONSOLE = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
# Of DevTools: keys of the keyboard that Input.dispatchKeyEvent is told of.
CONTROL, SHIFT = 2, 8


class Page:
    """The page of a browser.

    Args:
        told, tells: descriptors of the pipes to and from Chromium.

    Attributes:
        console: what the page wrote there, and its errors, from `read_console` on.
    """

    def __init__(self, told: int, tells: int) -> None:
        self._told, self._tells = told, tells
        self._number = 0
        self._session = ""
        self._rest = b""
        self.console: list[str] = []
        targets = self._do("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        attached = self._do("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]

    def open(self, address: str) -> None:
        """Go to an address."""
        self._do("Page.navigate", url=address)

    def hasten(self) -> None:
        """Let timers of pages come as soon as nothing else is to be done."""
        self._do("Emulation.setVirtualTimePolicy", policy="advance")

    def read_console(self) -> None:
        """Keep what pages write there."""
        for domain in ("Log", "Runtime"):
            self._do(f"{domain}.enable")

    def show_as(self, width: int, dark: bool, height: int = 900) -> None:
        """Be a screen of so many CSS pixels, whose owner likes light or dark pages."""
        about = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._do("Emulation.setDeviceMetricsOverride", **about)
        likes = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._do("Emulation.setEmulatedMedia", features=[likes])

    def picture(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._do("Page.captureScreenshot")["data"])

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to; None where it fails, or is null."""
        answer = self._do("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, expression: str, seconds: float = 240) -> Any:
        """What an expression comes to, as soon as that is something."""
        deadline = time.monotonic() + seconds
        while not (value := self.value(expression)):
            seen = self.value("document.body.innerText")
            assert time.monotonic() < deadline, f"{expression}\n{str(seen)[:2000]}"
            time.sleep(0.2)
        return value

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that a selector finds."""
        box = self.wait_for(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
            "?.getBoundingClientRect();"
            " return box && [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._do("Input.dispatchMouseEvent", type=kind, **place)

    def click_until(self, selector: str, expression: str, seconds: float = 240) -> None:
        """Click there again and again, until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < deadline, f"clicks on {selector} do not lead to {expression}"
            self.click(selector)
            time.sleep(0.5)

    def press(self, key: str, code: int, modifiers: int = 0, text: str = "") -> None:
        """Press a key and let it go.

        Args:
            key, code: its name, and its number in Windows.
            text: what it writes.
        """
        about = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self._do("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self._do("Input.dispatchKeyEvent", type="keyUp", **about)

    def write(self, text: str) -> None:
        """Write a text where the cursor is."""
        self._do("Input.insertText", text=text)

    def _do(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        document = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            document["sessionId"] = self._session
        os.write(self._told, json.dumps(document).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                read = os.read(self._tells, 1 << 16)
                assert read, "Chromium has ended"
                self._rest += read
            line, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(line)
            if answer.get("method") in CONSOLE:
                self.console.append(line.decode())
            if answer.get("id") == self._number:
                assert "result" in answer, answer
                result: dict[str, Any] = answer["result"]
                return result


@contextmanager
def open_browser() -> Iterator[Page]:
    """Start Chromium with an empty page; it ends with this."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    assert browser, "this test needs chromium"
    to_read, told = os.pipe()
    tells, to_write = os.pipe()
    # Out of the way of the numbers that the child gets, which one of them may have.
    ends = [os.dup(os.dup(end)) for end in (to_read, to_write)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        line = f'exec "$@" {READS}<&{ends[0]} {WRITES}>&{ends[1]}'
        process = subprocess.Popen(
            ["bash", "-c", line, "bash", browser, f"--user-data-dir={folder}", *FLAGS.split()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=ends,
        )
        for end in (to_read, to_write, *ends):
            os.close(end)
        try:
            yield Page(told, tells)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(told)
            os.close(tells)
