"""From rows to metrics: what counts, what abstains, what is not available."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_rows import row, rows_of

from es_mpi.errors import UsageError
from es_mpi.evaluation.metrics import guess_pass_at_k
from es_mpi.evaluation.rows import by_problem, intervals, problem_values, verdicts


def test_every_metric_of_a_small_evaluation() -> None:
    problems = by_problem(rows_of({"a": [True, True, False], "b": [False, False, False]}))
    values = problem_values(problems, [1, 2])
    assert {name: v.tolist() for name, v in values.items()} == {
        "greedy": [1.0, 0.0], "pass@1": [0.5, 0.0], "pass@2": [1.0, 0.0], "maj@2": [1.0, 0.0],
        "entropy": [0.5, 0.5], "distinct4": [0.5, 0.5], "distinct4_512": [0.5, 0.5],
        "length": [5.0, 5.0], "truncated": [0.0, 0.0],
    }  # fmt: skip
    assert intervals(values)["pass@1"].mean == 0.25
    assert verdicts(rows_of({"a": [True, True, False]})) == {"greedy": {"right": 1}, "sampled": {"right": 1, "wrong": 1}}


def test_rows_may_come_in_any_order() -> None:
    rows = rows_of({"a": [True, True, False], "b": [False, True, False]})
    straight, shuffled = by_problem(rows), by_problem(rows[::-1])
    assert shuffled == {"b": straight["b"], "a": straight["a"]}


def test_the_majority_is_over_equal_answers_and_blanks_abstain() -> None:
    said = [None, None, None, "7", "7"]
    rows = [row("p", n, "right" if a == "7" else "unparsed", a) for n, a in enumerate(said)]
    assert problem_values(by_problem(rows), [5])["maj@5"].tolist() == [1.0]
    votes = ["1/2", "1/2", "1/2", "1/2", "2", "2", "2"]  # .5 and 1/2 in the grader's normal form
    rows = [row("p", n, "right" if a == "1/2" else "wrong", a) for n, a in enumerate(votes)]
    assert problem_values(by_problem(rows), [7])["maj@7"].tolist() == [1.0]


def test_more_than_there_are_samples_is_not_available() -> None:
    assert "pass@5" not in problem_values(by_problem(rows_of({"a": [True, False, False]})), [5])


def test_entropy_weights_tokens_and_short_responses_have_no_diversity() -> None:
    rows = [row("p", 0, "right", token_ids=[1], logprob=-1.0), row("p", 1, "right", token_ids=[1, 2, 3], logprob=-7.0)]
    values = problem_values(by_problem(rows), [1])
    assert values["entropy"].tolist() == [2.0]
    assert np.isnan(values["distinct4"]).all() and "distinct4" not in intervals(values)


def test_diversity_at_a_fixed_length_sees_the_first_512_tokens_only() -> None:
    rows = [row("p", 0, "right", token_ids=[*range(512), *[1] * 512])]
    values = problem_values(by_problem(rows), [1])
    assert values["distinct4_512"].tolist() == [1.0] and values["distinct4"][0] < 0.51


def test_greedy_alone() -> None:
    values = problem_values(by_problem(rows_of({"a": [True], "b": [False]})), [1])
    assert set(values) == {"greedy", "length", "truncated"}


def test_an_evaluation_that_is_not_whole_is_refused() -> None:
    with pytest.raises(UsageError, match="problem 'b' lacks responses"):
        by_problem(rows_of({"a": [True, True], "b": [True]}))


def test_guessing_covers_multiple_choice() -> None:
    assert guess_pass_at_k(4, 32) == pytest.approx(0.9999, abs=1e-4)
    assert guess_pass_at_k(4, 1) == 0.25
