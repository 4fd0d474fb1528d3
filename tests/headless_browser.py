"""A page in a headless Chromium, looked into through the browser's debugging pipe (DevTools protocol)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--no-proxy-server"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--window-size=1500,1500", "--remote-debugging-pipe"),
)


def find_browser() -> str:
    """The browser's path; skips the test on a machine without one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    for path in filter(None, map(shutil.which, names)):
        return path
    pytest.skip(f"needs one of {', '.join(names)} on the PATH")


class Page:
    """`url` in a browser of its own, with an empty profile in `folder`. The test's timeout bounds every wait."""

    def __init__(self, browser: str, url: str, folder: Path) -> None:
        # The browser reads requests from descriptor 3 and answers on 4, each text ended by a zero byte.
        os.mkfifo(folder / "requests")
        os.mkfifo(folder / "replies")
        command = ["sh", "-c", 'exec "$@" 3<requests 4>replies', "sh", browser, *_FLAGS, f"--user-data-dir={folder / 'profile'}"]
        with (folder / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        self._requests = (folder / "requests").open("wb", buffering=0)
        self._replies = (folder / "replies").open("rb")
        self._session: dict[str, str] = {}
        self._complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Runtime", "Log", "Page"):
            self._call(f"{domain}.enable")
        self._call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript `expression` in the page now."""
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings so far: of scripts, and what the browser put on the console."""
        self.evaluate("0")  # events that were on their way are in by now
        return self._complaints

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        self._requests.close()
        self._replies.close()

    def _call(self, method: str, **params: object) -> Any:
        request = {"id": 1, "method": method, "params": params, **self._session}
        self._requests.write(json.dumps(request).encode() + b"\0")
        while "id" not in (reply := json.loads(self._read())):
            self._note(reply)
        return reply["result"]

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self._complaints.append(str(params["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self._complaints.append(str(params["args"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self._complaints.append(str(params["entry"]["text"]))

    def _read(self) -> bytes:
        text = bytearray()
        while (byte := self._replies.read(1)) != b"\0":
            if not byte:
                pytest.fail("the browser went away")
            text += byte
        return bytes(text)
