"""Reference answers graded against themselves before training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from es_mpi.errors import UsageError
from es_mpi.tasks.preflight import gradable, rejected
from es_mpi.types import Problem

EASY, IMPOSSIBLE = '{"numbers": [1, 2], "target": 3}', '{"numbers": [1, 1], "target": 9}'


def problems(answers: Sequence[str]) -> list[Problem]:
    return [Problem(f"p{i}", "q", answer) for i, answer in enumerate(answers)]


@pytest.mark.parametrize(
    ("reward", "answers", "bad"),
    [
        ("math_verify", ["7", "(1,2)", "A", r"\frac{1}{2}", "odd"], []),
        ("last_number", ["7", "(1,2)", "A", "1e6"], ["(1,2)", "A", "1e6"]),
        ("choice", ["7", "(1,2)", "A"], ["7", "(1,2)"]),
        ("boxed_string", ["7", "1,024", "a } b"], ["a } b"]),
        ("first_line", ["7", "two\nlines"], ["two\nlines"]),
        ("countdown", [EASY, IMPOSSIBLE], [IMPOSSIBLE]),
        ("toy_reward:closeness", ["7", "x"], []),  # nobody knows how to write an answer for it
    ],
)
def test_finds_the_answers_that_a_grader_rejects_for_themselves(reward: str, answers: list[str], bad: list[str]) -> None:
    assert [p.answer for p in rejected(problems(answers), reward)] == bad


def test_stops_with_a_list_or_drops_with_a_note() -> None:
    given = problems(["7", "(1,2)", "A"])
    says = r"last_number rejects 2 of 3 reference answers\n    p1: '\(1,2\)'\n    p2: 'A'"
    with pytest.raises(UsageError, match=says) as error:
        gradable(given, "last_number", "stop")
    assert error.value.key == "task.reward"
    assert "grading.bad_answers=drop" in str(error.value)
    kept, notes = gradable(given, "last_number", "drop")
    assert [p.id for p in kept] == ["p0"]
    assert len(notes) == 1 and "left out" in notes[0]
    assert gradable(given[:1], "last_number", "stop") == (given[:1], [])


def test_a_long_list_is_cut() -> None:
    with pytest.raises(UsageError, match="and 15 more"):
        gradable(problems(["x"] * 25), "last_number", "stop")


def test_references_of_the_own_countdown_are_all_solvable(tmp_path: Path) -> None:
    row = {"question": "q", "answer": json.dumps({"numbers": [2, 3], "target": 100})}
    (tmp_path / "c.jsonl").write_text(json.dumps(row))
    from es_mpi.tasks import make_task

    own = make_task("countdown")
    assert not rejected(own.problems("train"), own.reward)
    assert len(rejected(make_task("countdown", train=str(tmp_path / "c.jsonl")).problems("train"), "countdown")) == 1
