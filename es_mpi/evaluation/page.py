"""A comparison as one HTML page that needs nothing else: page.html with the numbers and responses put into it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from es_mpi.evaluation.folder import Evaluation
from es_mpi.evaluation.rows import GREEDY, Row, by_problem

PLACE = "<!-- data -->"
SHOWN, LENGTH = 100, 6000  # examples of each kind a task and side, characters of a response
REWARD = "reward/mean"


def page(found: Mapping[str, Any], groups: Mapping[str, Sequence[Evaluation]]) -> str:
    """The page of the comparison `found` of `groups`. Responses are hostile: they are data in it, never markup."""
    data = {
        **found,
        "examples": {task: _examples(found, groups, task) for task in found["tasks"]},
        "curves": _curves(found, groups),
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # In a script element only "<" can end or change anything: </script>, <!--.
    text = text.replace("<", "\\u003c")
    template = files("es_mpi.evaluation").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace(PLACE, f'<script type="application/json" id="data">{text}</script>')


def _examples(found: Mapping[str, Any], groups: Mapping[str, Sequence[Evaluation]], task: str) -> dict[str, Any]:
    """For each side but the first: what both said to the problems gained and lost."""
    held = {name: by_problem(evaluations[0].tasks[task].rows) for name, evaluations in groups.items()}
    first = held[found["names"][0]]
    return {
        side: {
            kind: [_example(first[problem], held[side][problem]) for problem in problems[:SHOWN]]
            for kind, problems in changes.items()
        }
        for side, changes in found["tasks"][task]["changes"].items()
    }  # fmt: skip


def _example(a: Sequence[Row], b: Sequence[Row]) -> dict[str, Any]:
    return {
        "problem": a[0]["problem"], "question": a[0]["question"][:LENGTH], "answer": a[0]["answer"], "said": [_said(a), _said(b)]
    }  # fmt: skip


def _said(rows: Sequence[Row]) -> dict[str, Any]:
    """The greedy response, or the first sample."""
    row = next((row for row in rows if row["sample"] == GREEDY), rows[0])
    text = row["response"]
    cut = f"{text[:LENGTH]} [{len(text) - LENGTH} characters more]" if len(text) > LENGTH else text
    return {"response": cut, "extracted": row["extracted"], "verdict": row["verdict"]}


def _curves(found: Mapping[str, Any], groups: Mapping[str, Sequence[Evaluation]]) -> list[dict[str, Any]]:
    """Reward and entropy over the updates of the sides that are runs: one line a training seed."""
    wanted = [REWARD, *(f"eval/{task}/entropy" for task in found["tasks"])]
    charts = []
    for tag in wanted:
        lines = [
            {"side": name, "points": points}
            for name, evaluations in groups.items()
            for one in evaluations
            if (points := [[row["step"], row[tag]] for row in one.curves if row.get(tag) is not None])
        ]
        if lines:
            charts.append({"tag": tag, "lines": lines})
    return charts
