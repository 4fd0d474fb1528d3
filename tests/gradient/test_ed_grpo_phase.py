"""The ED-GRPO phase with an engine that samples by transformers: iterations, the cap, resuming, ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from module_engine import context, make_llama, run_ranks

from es_mpi.comm.single import SingleComm
from es_mpi.config.schema import EdGrpoPhase, GrpoPhase, TokenExplorationConfig
from es_mpi.errors import EngineError
from es_mpi.gradient.rows import pack
from es_mpi.phases.grpo import ITERATION, PREVIOUS, EdGrpo, Grpo

COMMON = {"updates": 9, "group_size": 6, "lr": 3e-3, "compute": "float32", "microbatch": 5}
EDO = {"outer_steps": 3, "kl_cap": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llama(tmp_path_factory.mktemp("llama"))


def opened(folder: Path, kappa: float = 0.05, resume_from: Path | None = None, **edo: Any) -> EdGrpo:
    phase = EdGrpoPhase(**{**COMMON, "kind": "ed_grpo", "kappa": kappa, "edo": TokenExplorationConfig(**{**EDO, **edo})})
    return EdGrpo(context(folder, SingleComm(10)), "tune", phase, resume_from)


def digests(phase: Any, steps: int) -> list[str]:
    return [phase.step(i).record["digest"] for i in range(steps)]


def test_without_kappa_it_is_grpo_and_with_it_another(folder: Path) -> None:
    plain = Grpo(context(folder, SingleComm(10)), "tune", GrpoPhase(**COMMON, kind="grpo"), None)
    wanted = digests(plain, 3)
    assert digests(opened(folder, kappa=0.0), 3) == wanted
    assert digests(opened(folder), 3)[-1] != wanted[-1]


@pytest.mark.parametrize("edo", [{"estimator": "k1"}, {"estimator": "k3"}, {"estimator": "full", "gate": None}])
def test_the_distance_starts_anew_with_every_iteration(folder: Path, edo: dict[str, Any]) -> None:
    phase = opened(folder, **edo)
    distances = [phase.step(i).metrics["edo/kl_prev"] for i in range(7)]
    assert all(distances[i] < 1e-9 for i in (0, 3, 6))
    assert all(0 < distances[i] < distances[i + 1] for i in (1, 4))


def test_the_term_pushes_away_from_the_previous_iterate(folder: Path) -> None:
    far = [opened(folder, kappa=kappa, estimator="full", gate=None, outer_steps=9) for kappa in (0.0, 0.5)]
    still, pushed = ([phase.step(i).metrics["edo/kl_prev"] for i in range(8)][-1] for phase in far)
    assert pushed > 1.05 * still


def test_the_cap_pauses_the_term_until_the_next_iteration(folder: Path) -> None:
    phase = opened(folder, kl_cap=1e-6)
    assert [phase.step(i).metrics["edo/paused"] for i in range(5)] == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("made", [2, 3, 4])
def test_a_resumed_phase_makes_the_same_steps(folder: Path, tmp_path: Path, made: int) -> None:
    wanted = digests(opened(folder, kl_cap=1e-4), 6)
    stopped = opened(folder, kl_cap=1e-4)
    assert digests(stopped, made) == wanted[:made]
    stopped.save(tmp_path)
    assert {PREVIOUS, ITERATION} <= {path.name for path in tmp_path.iterdir()}
    resumed = opened(folder, kl_cap=1e-4, resume_from=tmp_path)
    resumed.run.engine.store.master[:] = stopped.run.engine.store.master
    assert [resumed.step(i).record["digest"] for i in range(made, 6)] == wanted[made:]


def test_end_of_text_can_be_left_alone(folder: Path) -> None:
    phase = opened(folder, mask_end=True)
    batch = phase.run.batches.at(0)
    rows = pack([batch.prompts[0].token_ids], [(5, 2, 7)], "cpu")  # the model's eos is 2
    assert phase.pushable(rows).tolist() == [[1, 0, 1]] and rows.mask.tolist() == [[1, 1, 1]]


def test_a_copy_that_is_not_the_model_stops_the_iteration(folder: Path) -> None:
    phase = opened(folder)
    phase.weights *= 1.5
    with pytest.raises(EngineError, match="nats a token from its own copy"):
        phase.step(0)


def test_ranks_agree_with_one(folder: Path) -> None:
    (alone, weights), *_ = run_ranks([opened(folder, kl_cap=1e-4)], 3)
    together = run_ranks([opened(folder, kl_cap=1e-4) for _ in range(2)], 3)
    for reports, other in together:
        assert [r.record for r in reports] == [r.record for r in together[0][0]]
        assert abs(other - weights).max() < 1e-4
        for tag in ("edo/kl_prev", "edo/term", "edo/gated", "edo/paused", "grpo/loss"):
            assert reports[1].metrics[tag] == pytest.approx(alone[1].metrics[tag], rel=1e-3, abs=1e-7), tag
