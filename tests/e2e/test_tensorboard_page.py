"""A run that was killed and resumed, as a user sees it: TensorBoard's own server, its data and its page in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from headless_browser import Page, find_browser

from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.monitoring.monitor import open_monitor

TAGS = ("reward/mean", "es/update_norm", "gen/mean_length", "time/generate", "eval/arithmetic/greedy")
DEADLINE_S = 90.0
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _log(folder: RunFolder, steps: range, resume_step: int | None) -> None:
    """Report `steps` and stop without closing anything, as a killed process does."""
    monitor = open_monitor(0, folder, console="off", tensorboard=True, total=8, resume_step=resume_step)
    for step in steps:
        monitor.log(step, {tag: 0.25 + step / 64 + number for number, tag in enumerate(TAGS)}, phase="warm")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 0 to 5, killed in the middle of a record, resumed after step 2, on to 7."""
    runs = tmp_path_factory.mktemp("runs")
    folder = RunFolder(runs / "demo")
    folder.create("run: {name: demo}\n")
    _log(folder, range(6), None)
    [first] = folder.tensorboard.iterdir()
    with first.open("ab") as file:
        file.write(b"\x40\x00\x00\x00\x00\x00\x00\x00half")
    _log(folder, range(3, 8), 2)
    return runs


@pytest.fixture(scope="module", params=["auto", "false"])
def server(request: pytest.FixtureRequest, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a TensorBoard over `runs`, with its fast and with its Python reader."""
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(runs), "--host", "127.0.0.1", "--port", "0"]
    with log.open("wb") as out, subprocess.Popen([*command, f"--load_fast={request.param}"], stdout=out, stderr=out) as process:
        try:
            yield _wait_for_address(process, log)
        finally:
            process.terminate()


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text(errors="replace"))
        if found and _get(found[0], "/data/plugin/scalars/tags"):
            return found[0]
        time.sleep(0.2)
    pytest.fail(f"TensorBoard did not come up; it said:\n{log.read_text(errors='replace')}")


def _get(address: str, path: str, **query: str) -> object:
    with _DIRECT.open(f"{address}{path}?{urlencode(query)}", timeout=DEADLINE_S) as reply:
        return json.load(reply)


@pytest.mark.e2e
@pytest.mark.timeout(180)
@pytest.mark.parametrize("tag", TAGS)
def test_each_step_is_there_once(server: str, tag: str) -> None:
    points = _get(server, "/data/plugin/scalars/scalars", run="demo/tb", tag=tag)
    number = TAGS.index(tag)
    assert isinstance(points, list)
    assert [(step, value) for _, step, value in points] == [(step, 0.25 + step / 64 + number) for step in range(8)]


# Each chart's tag and the number of points its longest line goes through.
CHARTS = """
    Object.fromEntries([...document.querySelectorAll("scalar-card")].map(card => [
        card.querySelector("tb-truncated-path").title,
        Math.max(...[...card.querySelectorAll("line-chart path")].map(path => path.getAttribute("d").split("L").length)),
    ]))
"""


@pytest.mark.browser
@pytest.mark.timeout(180)
def test_page_draws_the_curves(server: str, tmp_path: Path) -> None:
    expected = dict.fromkeys(TAGS, 8)
    deadline = time.monotonic() + DEADLINE_S
    with Page(find_browser(), f"{server}/?forceSVG=true&tagFilter=/#timeseries", tmp_path) as page:
        while (charts := page.evaluate(CHARTS)) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
    assert charts == expected
