"""Evolution strategies on a softmax bandit, one prompt and ten arms: test 3 of the specification's section 14.10."""

from __future__ import annotations

import pytest
from runs import es_mpi, journal, toy_config

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


def test_es_raises_the_reward_with_the_same_bits_on_one_and_two_ranks(tmp_path):
    phase = {"updates": 50, "population": 32, "sigma": 0.05, "alpha": 0.1}
    config = toy_config(tmp_path, phases={"warm": {"kind": "es", **phase}})
    bandit = ["task.train_size=1", "task.batch_size=1", "task.heldout_size=1"]
    ends = []
    for ranks in (1, 2):
        done = es_mpi(["train", config, *bandit, f"run.name=r{ranks}"], ranks=ranks)
        assert done.returncode == 0, done.stderr
        ends.append(journal(tmp_path / "runs" / f"r{ranks}"))
    one, two = ([(line["members"], line["terms"], line["digest"]) for line in end] for end in ends)
    assert one == two
    means = [sum(reward for _, reward, _ in record["members"]) / 32 for record in ends[0]]
    assert sum(means[-5:]) > sum(means[:5]) + 5 * 0.1
