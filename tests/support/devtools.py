"""A headless Chromium driven through its DevTools protocol over a pipe; the standard library is enough."""

import base64
import contextlib
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--mute-audio", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync"),
    # Several pages are open at once, none of them may sleep.
    *("--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    "--disable-backgrounding-occluded-windows",
)
KEY_CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, " ": 32, "Home": 36, "End": 35}
ANSWER_S = 30


def find_chromium() -> str | None:
    """Path of the browser, None when there is none; QUARTET_CHROMIUM names one that lies elsewhere."""
    return os.environ.get("QUARTET_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def asks_for_nothing_outside(text: str) -> bool:
    """Whether a page names no address, loads no file, and forbids itself to."""
    addresses = re.findall(r"(?:https?:|ws:|//[a-z0-9-]+\.[a-z])[^\s'\"]*", re.sub(r"^\s*//.*$", "", text, flags=re.M))
    loads = re.findall(r"<(?:link(?! rel=\"icon\" href=\"data:,\")|img|iframe|script src)", text)
    return not addresses and not loads and "default-src 'none'" in text


class Browser:
    """One browser process; messages go through two pipes, each ended by a zero byte."""

    def __init__(self, executable: str, folder: Path):
        theirs, self.out = os.pipe()
        self.inside, ours = os.pipe()
        # The shell moves the two ends to 3 and 4, where the browser looks for them.
        shell = f'exec "$0" "$@" 3<&{theirs} 4>&{ours}'
        command = [executable, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        self.log = open(folder / "browser.log", "wb")
        self.process = subprocess.Popen(
            ["bash", "-c", shell, *command],
            pass_fds=(theirs, ours),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        os.close(theirs)
        os.close(ours)
        self.number, self.rest, self.answers, self.pages = 0, b"", {}, {}

    def send(self, method: str, session: str | None = None, **params) -> dict:
        """One command and its answer; what else arrives meanwhile goes to the pages."""
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._write(message)
        deadline = time.monotonic() + ANSWER_S
        while number not in self.answers:
            assert self.pump(deadline - time.monotonic()), f"no answer to {method} in {ANSWER_S} s"
        answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _write(self, message: dict) -> None:
        content = memoryview(json.dumps(message).encode() + b"\0")
        while content:
            content = content[os.write(self.out, content) :]

    def pump(self, seconds: float) -> bool:
        """Read what has come within `seconds`; False when nothing has."""
        if not select.select([self.inside], [], [], max(seconds, 0))[0]:
            return False
        content = os.read(self.inside, 1 << 20)
        assert content, "the browser has gone"
        *whole, self.rest = (self.rest + content).split(b"\0")
        for text in whole:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            elif message.get("sessionId") in self.pages:
                self.pages[message["sessionId"]].events.append(message)
        return True

    def open(self, address: str = "about:blank", **media: str) -> "Page":
        """A new page; media: features such as prefers_color_scheme="dark"."""
        target = self.send("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        self.pages[session] = page
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        if media:
            features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
            page.send("Emulation.setEmulatedMedia", features=features)
        page.go(address)
        return page

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self._write({"id": self.number + 1, "method": "Browser.close", "params": {}})
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inside)
        self.log.close()


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, target: str):
        self.browser, self.session, self.target, self.events = browser, session, target, []

    def send(self, method: str, **params) -> dict:
        return self.browser.send(method, self.session, **params)

    def go(self, address: str) -> None:
        """Load an address and wait until it is there."""
        self.events.clear()
        failure = self.send("Page.navigate", url=address).get("errorText")
        assert not failure, f"{address}: {failure}"
        self.wait_event("Page.loadEventFired")

    def wait_event(self, method: str, seconds: float = ANSWER_S) -> dict:
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events:
                if event["method"] == method:
                    return event
            assert self.browser.pump(deadline - time.monotonic()), f"no {method} in {seconds} s"

    def evaluate(self, expression: str):
        """The JSON value of an expression; a promise is waited for. AssertionError when it throws."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, _thrown(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = ANSWER_S):
        """The first truthy value of `expression`."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"{expression} is {value!r} after {seconds} s"
            time.sleep(0.02)
        return value

    def press(self, key: str) -> None:
        """A real key press, down and up."""
        code = KEY_CODES.get(key, ord(key[0].upper()))
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **named, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named)

    def problems(self) -> list[str]:
        """Uncaught exceptions, console errors and warnings, refused or failed loads, since the page was loaded."""
        self.evaluate("1")
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(_thrown(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(f"console.{params['type']}: {params['args']}")
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
        return found

    def screenshot(self) -> bytes:
        """PNG of what is visible."""
        return base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self.target)


def _thrown(details: dict) -> str:
    return details.get("exception", {}).get("description") or details["text"]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with its profile in `folder`; needs find_chromium() to have found one."""
    running = Browser(find_chromium(), folder)
    try:
        yield running
    finally:
        running.close()
