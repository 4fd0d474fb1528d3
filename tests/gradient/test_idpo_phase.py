"""The iDPO and ED-iDPO phases with an engine that samples by transformers: pairs, micro-batches, learning, resuming, ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from module_engine import Share, context, make_llama, run_ranks

from es_mpi.comm.single import SingleComm
from es_mpi.config.schema import EdIdpoPhase, ExplorationConfig, IdpoPhase
from es_mpi.phases.context import Tally
from es_mpi.phases.idpo import Idpo
from es_mpi.types import Grade, Verdict

COMMON = {"updates": 9, "group_size": 8, "lr": 3e-3, "compute": "float32", "microbatch": 5, "minibatch": 2, "epochs": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llama(tmp_path_factory.mktemp("llama"))


def opened(folder: Path, resume_from: Path | None = None, grading: Share | None = None, **changes: Any) -> Idpo:
    """ED-iDPO where `alpha` is among the changes."""
    kind: Any = (EdIdpoPhase, "ed_idpo") if "alpha" in changes else (IdpoPhase, "idpo")
    phase = kind[0](**{**COMMON, "kind": kind[1], **changes})
    return Idpo(context(folder, SingleComm(10), grading), "tune", phase, resume_from)


@pytest.mark.parametrize("changes", [{}, {"alpha": 0.01}, {"ref": "base"}, {"nll": 0.0}])
def test_it_learns_and_its_curves_say_so(folder: Path, changes: dict[str, Any]) -> None:
    phase = opened(folder, **changes)
    reports = [phase.step(i) for i in range(12)]
    right = [report.metrics["grade/right"] for report in reports]
    assert sum(right[-3:]) / 3 > right[0] + 0.2
    assert reports[0].metrics["dpo/margin"] > 0 and reports[0].metrics["dpo/accuracy"] > 0.5
    assert reports[0].record["pairs"] == reports[0].metrics["dpo/pairs"] > 0
    assert reports[0].metrics["edo/kl_prev"] > 0 and reports[0].metrics["dpo/logp_gap"] < 1e-4


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_the_size_of_a_micro_batch_changes_nothing_but_the_last_bits(folder: Path, alpha: float) -> None:
    masters = []
    for size in (2, 3, 100):
        phase = opened(folder, alpha=alpha, microbatch=size)
        phase.step(0)
        masters.append(phase.run.engine.store.master)
    assert np.abs(masters[0] - masters[1]).max() < 2e-5 and np.abs(masters[0] - masters[2]).max() < 2e-5


def test_without_alpha_it_is_idpo_and_only_pairs_are_computed(folder: Path) -> None:
    plain, none, some = opened(folder), opened(folder, alpha=0.0), opened(folder, alpha=0.5)
    one, two, three = (phase.step(0) for phase in (plain, none, some))
    assert one.record == two.record and one.record["digest"] != three.record["digest"]
    samples = plain.sample(plain.run.batches.at(0), range(5), Tally())
    units = [len(unit) for place in samples for unit in some._units(place, samples[place])]
    assert sum(units) == 5 * 8 and units.count(2) == three.record["pairs"]
    assert [len(unit) for place in samples for unit in plain._units(place, samples[place])].count(1) == 0


def test_the_cap_stops_the_push_within_an_update(folder: Path) -> None:
    free, held = (opened(folder, alpha=0.5, edo=ExplorationConfig(kl_cap=cap)) for cap in (None, 1e-6))
    one, two = free.step(0), held.step(0)
    assert (one.metrics["edo/paused"], two.metrics["edo/paused"]) == (0.0, 1.0)
    assert one.record["digest"] != two.record["digest"]


def test_a_batch_without_pairs_moves_nothing(folder: Path) -> None:
    class Same(Share):
        def submit(self, items: Any) -> Any:
            return lambda: [Grade(Verdict.WRONG, 0.0) for _ in items]

    phase = opened(folder, grading=Same())
    before = phase.run.engine.store.digest()
    report = phase.step(0)
    assert report.record["pairs"] == 0 and report.record["digest"] == before
    assert report.metrics["dpo/loss"] == 0.0


def test_a_response_whose_grader_failed_is_in_no_pair(folder: Path) -> None:
    phase = opened(folder, grading=Share(broken=True), alpha=0.1)
    phase.step(0)
    assert 0 not in {number for pair in phase.pairs[0] for number in pair}


def test_a_resumed_phase_makes_the_same_steps(folder: Path, tmp_path: Path) -> None:
    for ref in ("previous", "phase_start"):
        straight, stopped = (opened(folder, alpha=0.01, ref=ref) for _ in range(2))
        wanted = [straight.step(i).record for i in range(4)]
        assert [stopped.step(i).record for i in range(2)] == wanted[:2]
        stopped.save(tmp_path)
        resumed = opened(folder, resume_from=tmp_path, alpha=0.01, ref=ref)
        resumed.run.engine.store.master[:] = stopped.run.engine.store.master
        assert [resumed.step(i).record for i in (2, 3)] == wanted[2:]


def test_ranks_agree_with_one(folder: Path) -> None:
    (alone, weights), *_ = run_ranks([opened(folder, alpha=0.1)], 2)
    for size in (2, 3):
        for reports, other in run_ranks([opened(folder, alpha=0.1) for _ in range(size)], 2):
            assert reports[0].record["rewards"] == alone[0].record["rewards"]
            assert reports[0].record["pairs"] == alone[0].record["pairs"]
            assert abs(other - weights).max() < 1e-3  # AdamW divides by gradients that differ in their last bits
            for tag in ("dpo/loss", "dpo/margin", "dpo/accuracy", "dpo/logp_chosen", "edo/term", "edo/kl_prev"):
                assert reports[0].metrics[tag] == pytest.approx(alone[0].metrics[tag], rel=1e-3, abs=1e-6), tag
