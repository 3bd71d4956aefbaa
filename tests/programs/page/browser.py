# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that one talks to over pipes (the DevTools protocol), without any library."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 30  # seconds


def program():
    """Chromium, or None."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    def __init__(self, url, width=1400, height=800):
        to_browser, self.commands = os.pipe()
        self.events, from_browser = os.pipe()
        self.profile = tempfile.TemporaryDirectory(prefix="uroce-browser-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "browser", program(), "--headless", "--no-sandbox",
             "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
             f"--window-size={width},{height}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session, self.requests = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank", width=width, height=height)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Network.enable")
        self.call("Page.enable")
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def message(self):
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.events], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.events, 1 << 16) if ready else b""
            if not more:
                raise RuntimeError("the browser does not answer")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message.get("id") != self.number:
                continue
            if "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            return message["result"]

    def run(self, script):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise RuntimeError(f"did not happen: {condition}")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else "")

    def click(self, selector):
        """In its middle."""
        self.click_at(selector, *self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                                          " return [r.width / 2, r.height / 2]; })()"))

    def click_at(self, selector, x, y):
        """At a place of an element, from its upper left corner."""
        box = self.run(f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                       f" return [r.x + {x}, r.y + {y}]; }})()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def screenshot(self, path):
        import base64
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(TIMEOUT)
        os.close(self.commands)
        os.close(self.events)
        self.profile.cleanup()
