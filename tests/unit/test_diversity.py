"""`es-mpi diversity` on the toy policy, whose members' policies and Fisher information are known exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
from runs import es_mpi, toy_config

from es_mpi.analysis.theory import jensen_shannon
from es_mpi.cli import main
from es_mpi.engine.toy import ToyEngine
from es_mpi.noise.address import subkey
from es_mpi.params.layout import read_layout
from es_mpi.params.store import MasterStore
from es_mpi.population import members
from es_mpi.runner.prepare import prepare

SIGMAS = (0.05, 0.1, 4.0)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diversity")
    return toy_config(folder), folder


def diversity_json(toy, *args, ranks=1):
    done = es_mpi(["diversity", toy[0], "--json", "--sigmas", ",".join(map(str, SIGMAS)), *args], ranks=ranks)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found(toy):
    return diversity_json(toy, "--samples", "80", "--prompts", "4", "--draws", "40", "task.batch_size=4")


@pytest.fixture(scope="module")
def exact(toy):
    """Policies [sigma, member, problem, digit] and those of the centre [problem, digit], from the toy's own weights."""
    from es_mpi.checkpoint.run_folder import RunFolder
    from es_mpi.config.load import load_config

    prepared = prepare(load_config(toy[0], ["task.batch_size=4"]), RunFolder(toy[1] / "none"))
    engine = ToyEngine(MasterStore(read_layout(toy[1] / "toy")))
    prompts = prepared.batches.at(0).prompts

    def policies(member, sigma):
        engine.load(member, sigma)
        logs = [[engine.logprobs([prompt], [[ord(digit)]])[0][0] for digit in "0123456789"] for prompt in prompts]
        return np.exp(logs)

    directions = members(subkey(prepared.config.run.seed, "diversity"), 0, 8, "one_point")
    return np.array([[policies(member, sigma) for member in directions] for sigma in SIGMAS]), policies(None, 0.0)


def test_js_is_that_of_the_policies(found, exact):
    for level, policies in zip(found["levels"], exact[0], strict=True):
        expected = np.mean([jensen_shannon(policies[:, problem]) for problem in range(4)])
        assert level["js"] == pytest.approx(expected, rel=0.04)
    assert found["levels"][-1]["js"] < found["ceiling"]


def test_fisher_trace_is_that_of_a_linear_softmax(found, exact):
    """Features have length 1 and there is a bias: tr I = 2 (1 - sum p^2), mean over the problems."""
    expected = np.mean(2 * (1 - np.sum(exact[1] ** 2, axis=1)))
    for trace in found["traces"]:
        assert trace["value"] == pytest.approx(expected, abs=4 * trace["error"])
        assert trace["error"] < 0.2 * expected


def test_the_prediction_holds_where_sigma_is_small_and_not_beyond(found):
    first, second, last = found["levels"]
    assert second["js"] / first["js"] == pytest.approx(4, rel=0.1)
    assert last["ratio"] < 0.8
    assert found["holds_to"] in (None, SIGMAS[0], SIGMAS[1]), "the trace is of eight directions: it may be off by a quarter"
    assert last["js_population"] == pytest.approx(last["js"] * (6 / 7) / (7 / 8))
    assert last["js_success"] > first["js_success"]
    assert last["js_success_plain"] >= last["js_success"]


def test_mirrored_members(found):
    """The fixed text's log-probability is nearly linear in sigma eps within a batch; the toy's greedy digits are not."""
    rows = {row["target"].split(",")[0]: row for row in found["mirrored"]}
    assert set(rows) == {"reward", "mean token log-probability", "sequence log-probability"}
    token, sequence = rows["mean token log-probability"], rows["sequence log-probability"]
    assert token == {**sequence, "target": token["target"]}, "the toy's responses are one token"
    assert all(-1 <= row["pair_correlation"] <= 1 and row["kappa_pair"] > 0 for row in rows.values())


def test_any_number_of_ranks_finds_the_same_and_nothing_is_written(toy):
    size = ("--members", "5", "--samples", "2", "--draws", "3", "sampling.temperature=0.5")
    alone, shared = diversity_json(toy, *size), diversity_json(toy, *size, ranks=3)
    assert (alone.pop("ranks"), shared.pop("ranks")) == (1, 3)
    del alone["seconds"], shared["seconds"]
    assert alone == shared
    assert len(alone["mirrored"]) == 4, "with sampled responses also independent decoding seeds"
    assert not (toy[1] / "runs").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--sigmas", "0,1"], "not a list of sigmas"),
        (["--members", "1"], "--members: out of range"),
        (["--samples", "0"], "--samples: out of range"),
        (["--draws", "1"], "one draw has no variance"),
        (["--fisher-sigma", "0"], "--fisher-sigma: out of range"),
        (["--phase", "wram"], "did you mean 'warm'?"),
        (["model.max_model_len=7"], "leaves no room"),
    ],
)
def test_bad_input(toy, capsys, monkeypatch, args, words):
    monkeypatch.syspath_prepend("tests")
    assert main(["diversity", str(toy[0]), *args]) == 2
    assert words in capsys.readouterr().err
