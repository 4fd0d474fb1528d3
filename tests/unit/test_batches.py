"""The schedule of prompts: a function of (run seed, update) that loses no prompt."""

from __future__ import annotations

from collections import Counter

from es_mpi.tasks.batches import Batches
from es_mpi.types import Problem, Prompt


def batches(n, size, seed=0):
    problems = [Problem(f"p{i}", f"q{i}", str(i)) for i in range(n)]
    return Batches(problems, [Prompt(p.id, (i,)) for i, p in enumerate(problems)], size, seed)


def test_gsm8k_schedule_has_117_updates_an_epoch_the_last_of_49():
    schedule = batches(7473, 64, 42)
    assert schedule.per_epoch == 117
    assert len(schedule.at(116).problems) == 49 == len(schedule.at(233).problems)
    assert schedule.at(117).epoch == 1 and schedule.at(117).index == 0


def test_an_epoch_is_a_permutation_and_epochs_and_seeds_differ():
    schedule = batches(100, 16)
    for epoch in range(2):
        seen = Counter(p.id for u in range(7) for p in schedule.at(7 * epoch + u).problems)
        assert seen == Counter(f"p{i}" for i in range(100))
    orders = {tuple(p.id for p in b.problems) for b in (schedule.at(0), schedule.at(7), batches(100, 16, 1).at(0))}
    assert len(orders) == 3


def test_a_batch_is_a_function_of_its_address():
    one, two = batches(50, 8).at(5), batches(50, 8).at(5)
    assert one == two and one.id == two.id
    assert [p.id for p in one.prompts] == [p.id for p in one.problems]


def test_decoding_seeds_are_63_bit_and_all_different():
    seeds = [s for u in range(50) for s in batches(50, 8).at(u).seeds]
    assert len(set(seeds)) == len(seeds) and all(0 <= s < 2**63 for s in seeds)
