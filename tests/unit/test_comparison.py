"""Evaluations side by side: matched by id, tested, corrected, and told apart honestly."""

from __future__ import annotations

import pytest
from evaluation_rows import SETTINGS, rows_of

from es_mpi.errors import UsageError
from es_mpi.evaluation.comparison import Side, compare_task, correct, doubling

BASE = {"a": [True, True, False], "b": [False, False, False], "c": [True, True, True]}
BETTER = {"c": [False, True, True], "b": [True, True, True], "a": [True, True, False]}


def side(name: str, *seeds: dict[str, list[bool]], **settings: object) -> Side:
    return Side(name, [rows_of(seed) for seed in seeds], [{**SETTINGS, **settings}] * len(seeds))


def test_problems_are_matched_by_id_and_changes_are_by_the_greedy_response() -> None:
    found = compare_task([side("base", BASE), side("es", BETTER)], [1, 2])
    assert found["changes"]["es"] == {"gained": ["b"], "lost": ["c"]}
    assert found["differences"]["es"]["pass@1"]["mean"] == pytest.approx(1 / 3)
    assert found["differences"]["es"]["greedy"]["mean"] == 0.0
    assert found["differences"]["es"]["greedy"]["p"] == 1.0
    assert found["problems"] == 3 and found["notes"] == []


def test_without_greedy_responses_most_samples_decide() -> None:
    drop = [[r for r in rows_of(one) if r["sample"] >= 0] for one in (BASE, BETTER)]
    sides = [Side(name, [rows], [SETTINGS]) for name, rows in zip("xy", drop, strict=True)]
    assert compare_task(sides, None)["changes"]["y"] == {"gained": ["b"], "lost": []}


def test_what_not_all_have_is_left_out_and_said() -> None:
    found = compare_task([side("base", BASE), side("es", {"a": [True, True, True], "z": [True, True, True]})], None)
    assert found["problems"] == 1 and found["notes"] == ["3 problems that not all have were left out"]
    with pytest.raises(UsageError, match="no problem in common"):
        compare_task([side("base", BASE), side("es", {"z": [True, True, True]})], None)


def test_another_reference_answer_is_another_problem() -> None:
    other = [{**r, "answer": "9"} for r in rows_of(BASE)]
    with pytest.raises(UsageError, match="'a' is not the same everywhere"):
        compare_task([side("base", BASE), Side("es", [other], [SETTINGS])], None)


def test_unlike_settings_are_said() -> None:
    found = compare_task([side("base", BASE), side("es", BETTER, temperature=1.0)], None)
    assert found["notes"] == ["temperature differs: base 0.6, es 1.0"]


def test_k_beyond_the_samples_is_not_available() -> None:
    found = compare_task([side("base", BASE), side("es", BETTER)], [2, 64])
    assert found["notes"] == ["not available with 2 samples: K = 64"]
    assert not any("64" in name for name in found["metrics"]["base"])
    assert doubling(32) == [1, 2, 4, 8, 16, 32] and doubling(6) == [1, 2, 4, 6] and doubling(0) == []


def test_seeds_are_shown_each_and_have_an_interval_of_their_own() -> None:
    found = compare_task([side("base", BASE, BASE), side("es", BETTER, {**BETTER, "b": [True, False, False]})], [1])
    pass1 = found["metrics"]["es"]["pass@1"]
    assert pass1["seeds"] == pytest.approx([2.5 / 3, 1.5 / 3]) and pass1["mean"] == pytest.approx(2 / 3)
    assert pass1["over_seeds"]["low"] < pass1["mean"] < pass1["over_seeds"]["high"]
    assert found["differences"]["es"]["pass@1"]["over_seeds"]["mean"] == pytest.approx(1 / 6)
    single = compare_task([side("base", BASE), side("es", BETTER)], [1])
    assert "over_seeds" not in single["differences"]["es"]["pass@1"]


def test_p_is_corrected_over_tasks_for_each_metric() -> None:
    gained = {str(i): [False, True] for i in range(8)}
    base = {str(i): [False, False] for i in range(8)}
    tasks = {name: compare_task([side("base", base), side("es", gained)], [1]) for name in ("one", "two")}
    correct(tasks)
    one = tasks["one"]["differences"]["es"]["pass@1"]
    assert one["p"] == pytest.approx(2 / 2**8) and one["p_holm"] == pytest.approx(4 / 2**8)


def test_a_metric_that_a_side_lacks_is_left_out() -> None:
    greedy = [r for r in rows_of(BASE) if r["sample"] < 0]
    found = compare_task([side("base", BASE), Side("es", [greedy], [SETTINGS])], None)
    assert set(found["differences"]["es"]) == {"greedy", "length", "truncated"}
