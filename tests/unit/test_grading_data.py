"""Agreement with published right/wrong labels."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from es_mpi.grading import make_grader
from es_mpi.grading.maths.node import Unreadable
from es_mpi.grading.maths.parser import parse
from es_mpi.tasks import make_task
from es_mpi.tasks.preflight import rejected
from es_mpi.types import Verdict


def rows(shared: Path, name: str) -> list[dict[str, Any]]:
    with (shared / "data" / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_last_number_agrees_with_every_label_of_2636_gsm8k_outputs(shared_dir: Path) -> None:
    grade = make_grader("last_number")
    table = Counter(
        (grade(row["output"], row["answer"], False).verdict == Verdict.RIGHT, row["correct"])
        for row in rows(shared_dir, "gsm8k_model_outputs.jsonl")
    )
    assert table == {(True, True): 1008, (False, False): 1628}


def test_boxed_string_accepts_no_wrong_answer_and_rejects_only_missing_thousands_separators(shared_dir: Path) -> None:
    """The paper's string comparison keeps commas in a reference: 3250 is not 3,\\!250. That is 13 of 357, all of one kind."""
    grade = make_grader("boxed_string")
    rejected = []
    for row in rows(shared_dir, "math_rollouts.jsonl"):
        for sample in row["samples"]:
            result = grade(sample["output"], row["answer"], False)
            right = result.verdict == Verdict.RIGHT
            assert sample["correct"] or not right, (row["answer"], result.extracted)
            if sample["correct"] and not right:
                rejected.append((result.extracted, row["answer"].replace(r"\!", "").replace("{,}", ",")))
    assert len(rejected) == 13
    assert all(given == answer.replace(",", "") for given, answer in rejected)


def test_boxed_string_accepts_no_wrong_answer_of_the_grader_cases(shared_dir: Path) -> None:
    grade = make_grader("boxed_string")
    cases = rows(shared_dir, "grader_cases.jsonl")
    accepted = [case["id"] for case in cases if grade(rf"\boxed{{{case['output']}}}", case["answer"], False).reward == 1.0]
    assert len(accepted) == 17
    assert all(case["correct"] for case in cases if case["id"] in accepted)


def test_gsm8k_references_and_solutions_grade_as_right(shared_dir: Path) -> None:
    grade = make_grader("last_number")
    for row in rows(shared_dir, "gsm8k_test_first659.jsonl"):
        assert grade(row["answer"], row["answer"], False).reward == 1.0
        assert grade(row["solution"], row["answer"], False).reward == 1.0


def verdicts(shared: Path, name: str) -> Counter[tuple[bool, bool, bool]]:
    """How often (graded right, is right, has a note)."""
    grade = make_grader("math_verify")
    cases = [(row, sample) for row in rows(shared, name) for sample in row.get("samples", [row])]
    return Counter(
        (grade(sample["output"], row["answer"], False).verdict is Verdict.RIGHT, sample["correct"], "note" in row)
        for row, sample in cases
    )


def test_math_verify_agrees_with_every_label_of_models(shared_dir: Path) -> None:
    assert verdicts(shared_dir, "gsm8k_model_outputs.jsonl") == {(True, True, False): 1008, (False, False, False): 1628}
    rollouts = verdicts(shared_dir, "math_rollouts.jsonl")
    assert sum(count for (graded, right, _), count in rollouts.items() if graded != right) == 0
    assert sum(count for (graded, _, _), count in rollouts.items() if graded) == 357


def test_math_verify_accepts_no_wrong_grader_case_and_rejects_few_right_ones(shared_dir: Path) -> None:
    """The library alone accepts 1 of the 101 wrong answers and rejects 49 of the 205 right ones."""
    table = verdicts(shared_dir, "grader_cases.jsonl")
    assert table[True, False, False] + table[True, False, True] == 0
    assert table[False, True, False] == 1  # a sum with dots in another order
    assert table[False, True, True] == 20  # answers in words, damaged references, decimals of too few digits


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("gsm8k", "gsm8k_train"), ("math", "math500_first250"), ("aime", "aime24"), ("deepscaler", "deepscaler_sample"),
        ("deepscaler", "deepscaler_extra"), ("svamp", "svamp_500"), ("math", "s1k_answers"),
    ],
)  # fmt: skip
def test_every_reference_answer_passes_the_preflight_of_its_task(task: str, file: str, shared_dir: Path) -> None:
    made = make_task(task, train=str(shared_dir / "data" / f"{file}.jsonl"))
    assert not rejected(made.problems("train"), made.reward)


def test_nearly_every_reference_answer_is_read_as_mathematics(shared_dir: Path) -> None:
    unread = 0
    for name in ("math500_first250", "deepscaler_sample", "deepscaler_extra", "s1k_answers"):
        for row in rows(shared_dir, f"{name}.jsonl"):
            try:
                parse(row["answer"])
            except Unreadable:
                unread += 1
    assert unread <= 12  # of 2,802
