"""Agreement with published right/wrong labels."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from es_mpi.grading import make_grader
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
