"""The page of `es-mpi compare` in a real browser: it draws all it should and says nothing on the console."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from evaluation_rows import evaluation
from headless_browser import Page, find_browser

from es_mpi.cli import main

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
FOUND = """({
    title: document.title, charts: document.querySelectorAll("svg").length, tables: document.querySelectorAll("table").length,
    lines: document.querySelectorAll("polyline").length, bands: document.querySelectorAll("polygon").length,
    examples: document.querySelectorAll("details").length, pictures: document.querySelectorAll("img").length,
    outside: performance.getEntriesByType("resource").length, wide: document.documentElement.scrollWidth > innerWidth,
    said: [...document.querySelectorAll("pre")].map(e => e.textContent),
})"""


@pytest.mark.browser
@pytest.mark.timeout(120)
def test_the_page_shows_everything_and_runs_nothing_of_the_model(tmp_path: Path) -> None:
    flags = {str(i): [i % 3 == 0, True, i % 2 == 0, False] for i in range(12)}
    better = {name: [True, True, True, one[3]] for name, one in flags.items()}
    a, b = evaluation(tmp_path / "a", flags), evaluation(tmp_path / "b", better, temperature=0.8)
    _say(b / "sums", HOSTILE)
    assert main(["compare", "--group", f"base={a}", "--group", f"ES={b}", "--html", str(tmp_path / "c.html")]) == 0
    (tmp_path / "browser").mkdir()
    with Page(find_browser(), (tmp_path / "c.html").as_uri(), tmp_path / "browser") as page:
        while page.evaluate("document.readyState") != "complete":
            pass
        found, complaints = page.evaluate(FOUND), page.complaints()
    assert complaints == []
    assert found["title"] == "es_mpi comparison" and found["pictures"] == 0 and found["outside"] == 0
    assert (found["tables"], found["charts"], found["lines"], found["bands"]) == (1, 2, 2, 2)
    assert found["examples"] == 8 and HOSTILE in found["said"] and not found["wide"]


def _say(folder: Path, text: str) -> None:
    [samples] = folder.glob("*.gz")
    rows = [json.loads(line) for line in gzip.decompress(samples.read_bytes()).splitlines()]
    samples.write_bytes(gzip.compress("".join(json.dumps({**row, "response": text}) + "\n" for row in rows).encode()))
