"""The probe: signal against noise from rewards by member and prompt, its recommendation, and the command on the toy."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from runs import es_mpi, toy_config

from es_mpi.analysis.probe import recommend
from es_mpi.analysis.signal import signal
from es_mpi.cli import main


def rewards_of(member_std: float, noise_std: float, members: int = 400, prompts: int = 64) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(3))
    member, prompt = rng.normal(0, member_std, (members, 1)), rng.normal(0, 5, (1, prompts))
    return member + prompt + rng.normal(0, noise_std, (members, prompts))


def test_signal_and_noise_are_told_apart():
    """Members of std .1, noise of std .8 / sqrt(64) = .1 in the mean: ratio 1, and a correlation of sqrt(1/2) with the truth."""
    found = signal(rewards_of(0.1, 0.8))
    assert found.noise == pytest.approx(0.1, rel=0.02)
    assert found.spread == pytest.approx(math.sqrt(0.02), rel=0.1)
    assert found.to_noise == pytest.approx(1.0, abs=0.15)
    assert found.fidelity == pytest.approx(math.sqrt(0.5), abs=0.07)
    assert found.significant


def test_equal_members_are_noise():
    found = signal(rewards_of(0.0, 0.8))
    assert found.fidelity < 0.3
    assert not found.significant


def test_by_hand():
    """Two members, two prompts: means 1 and 2; interaction .5, so the noise in a mean is sqrt(1 / 1 / 2)."""
    found = signal(np.array([[0.0, 2.0], [2.0, 2.0]]))
    assert found.spread == pytest.approx(math.sqrt(0.5))
    assert found.noise == pytest.approx(math.sqrt(0.5))
    assert found.ratio == pytest.approx(1.0)


def test_all_equal_rewards_hold_no_signal():
    found = signal(np.ones((4, 8)))
    assert (found.to_noise, found.fidelity, found.significant) == (0.0, 0.0, False)


def test_prompts_without_a_grade_are_left_out():
    rewards = rewards_of(0.1, 0.1, members=5, prompts=6)
    with_hole = rewards.copy()
    with_hole[2, 3] = math.nan
    assert signal(with_hole) == signal(np.delete(rewards, 3, axis=1))


def test_one_prompt_tells_no_noise():
    assert math.isnan(signal(np.array([[1.0], [2.0]])).noise)


CENTER = {"mean": 0.5, "invalid": 0.1}


def level(sigma, fidelity, *, mean=0.5, invalid=0.1, significant=True, identical=0.5):
    return {
        "sigma": sigma,
        "fidelity": fidelity,
        "mean": mean,
        "invalid": invalid,
        "significant": significant,
        "identical": identical,
    }


def unclear(sigma, *, mean=0.5, identical=0.5):
    return level(sigma, 0.4, mean=mean, significant=False, identical=identical)


@pytest.mark.parametrize(
    ("levels", "sigma", "words"),
    [
        ([level(1, 0.2), level(2, 0.6), level(3, 0.5)], 2, "correlation of 0.60"),
        ([level(1, 0.2), level(2, 0.5), level(3, 0.6)], 3, "largest of the grid"),
        ([level(1, 0.2), level(2, 0.5), level(3, 0.9, mean=0.2)], 2, "correlation of 0.50"),
        ([level(1, 0.2), level(2, 0.5), level(3, 0.9, invalid=0.3)], 2, "correlation of 0.50"),
        ([level(1, 0.2), unclear(2), unclear(3)], 1, "correlation of 0.20"),
        ([unclear(1), unclear(2, mean=0.46), unclear(3, mean=0.4)], 2, "keeps 90% of the centre's reward; at no sigma"),
        ([unclear(1, mean=0.4), unclear(2, mean=0.3)], None, "raise task.batch_size"),
        ([unclear(1, identical=1.0), unclear(2, identical=1.0)], None, "try larger"),
        ([unclear(1, identical=1.0), unclear(2, mean=0.4)], None, "raise task.batch_size"),
        ([level(1, 0.5, mean=0.0)], None, "try smaller"),
    ],
)
def test_the_recommendation_and_its_reason(levels, sigma, words):
    found = recommend(CENTER, levels)
    assert found["sigma"] == sigma
    assert words in found["reason"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probe")
    return toy_config(folder), folder


def probe_json(toy, *args, ranks=1):
    done = es_mpi(["probe", toy[0], "--json", "--members", "6", *args], ranks=ranks)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_any_number_of_ranks_finds_the_same(toy):
    alone, shared = probe_json(toy), probe_json(toy, ranks=3)
    assert shared["levels"] == alone["levels"]
    assert shared["recommended"] == alone["recommended"]
    assert (alone["center"]["evaluations"], shared["center"]["evaluations"]) == (2, 6)
    assert alone["center"]["identical"] == shared["center"]["identical"] == 1.0
    assert alone["center"]["repeat_std"] == 0.0
    assert [level["sigma"] for level in alone["levels"]] == [0.3 * f for f in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)]
    assert not (toy[1] / "runs").exists()


def test_larger_sigmas_change_more_responses(toy):
    shares = [level["identical"] for level in probe_json(toy, "--sigmas", "1e-6,1e-2,1")["levels"]]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.5


def test_sampled_responses_also_measure_the_noise_of_sampling(toy):
    center = probe_json(toy, "--sigmas", "1e-6", "sampling.temperature=1", "task.batch_size=32")["center"]
    assert center["repeat_std"] == 0.0
    assert center["resample_std"] > 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--sigmas", "0,1"], "not a list of sigmas"),
        (["--sigmas", "x"], "not a list of sigmas"),
        (["--members", "1"], "--members: out of range"),
        (["--repeats", "0"], "--repeats: out of range"),
        (["--phase", "wram"], "did you mean 'warm'?"),
        (["phases.warm.sgima=1"], "phases.warm.sgima"),
    ],
)
def test_bad_input(toy, capsys, args, words, monkeypatch):
    monkeypatch.syspath_prepend("tests")
    assert main(["probe", str(toy[0]), *args]) == 2
    assert words in capsys.readouterr().err
