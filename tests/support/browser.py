"""Drive a page in Chromium: query elements, press keys, wait for conditions."""

import base64
import time
from pathlib import Path
from typing import Any

from inferometer.report.chromium import Tab

COMPLAINTS = (
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
)
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}


def evaluate(tab: Tab, expression: str) -> Any:
    """Return the value of a JavaScript expression in the page."""
    reply = tab.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
    assert "exceptionDetails" not in reply, f"the page failed at {expression}: {reply['exceptionDetails']}"
    return reply["result"].get("value")


def complaints(tab: Tab) -> list[dict[str, Any]]:
    evaluate(tab, "1")  # all earlier messages of the page arrive before this answer
    return [event for event in tab.events if event.get("method") in COMPLAINTS]


def wait_until(tab: Tab, expression: str, *, deadline_s: float = 30.0) -> Any:
    """Wait until the expression is true; retry while the page is navigating."""
    until_s = time.monotonic() + deadline_s
    while True:
        shown = f"(found => found instanceof Node ? true : found)({expression})"
        reply = tab.call("Runtime.evaluate", expression=shown, returnByValue=True)
        value = reply.get("result", {}).get("value")
        if value and "exceptionDetails" not in reply:
            return value
        assert time.monotonic() < until_s, f"never true: {expression} on {_seen(tab)}"
        time.sleep(0.05)


def _seen(tab: Tab) -> str:
    return str(evaluate(tab, "location.href + ': ' + document.body.innerText.slice(0, 1000)"))


def press(tab: Tab, key: str, *, shift: bool = False) -> None:
    code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
    text = {"text": {"Enter": "\r", " ": " "}[key]} if key in ("Enter", " ") else {}
    tab.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
    tab.call("Input.dispatchKeyEvent", type="keyUp", **code)


def type_text(tab: Tab, text: str) -> None:
    """Type into the focused element."""
    tab.call("Input.insertText", text=text)


def colours(tab: Tab, scheme: str) -> None:
    """Emulate the system's colour scheme: light or dark."""
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def screenshot(tab: Tab, path: Path) -> None:
    path.write_bytes(base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"]))
