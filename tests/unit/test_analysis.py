"""Drift, pruning and their controls against closed forms and figures worked out by hand."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest
from runs import journal, toy_config
from safetensors.numpy import load_file, save_file
from small_models import bf16_bits, two_layers, write_model

from es_mpi.analysis import weights as weights_module
from es_mpi.analysis.drift import cuts, kind, layer, measure
from es_mpi.analysis.gaussian import journal_std, norm_kept, random_walk_std, sparsity_at
from es_mpi.analysis.prune import threshold_for
from es_mpi.analysis.weights import MasterWeights, RoundedWeights, StoredWeights
from es_mpi.cli import main
from es_mpi.errors import UsageError
from es_mpi.noise import reference
from es_mpi.params.layout import read_layout

BASE = [0.1, -0.2, 0.3, 0.05, 0.0]
DELTA = [0.0, 1e-4, -5e-4, 2e-3, -1.5e-3]  # the specification's worked example, section 14.9


def stored(folder, name, values, code="F32"):
    model = write_model(folder / name, {"w": (code, np.asarray(values, np.float32))})
    return StoredWeights(read_layout(model))


@pytest.fixture
def example(tmp_path):
    return stored(tmp_path, "base", BASE), stored(tmp_path, "model", np.add(BASE, DELTA))


def test_relative_drift_of_the_worked_example(example):
    whole = measure(*example).whole
    assert whole.relative == pytest.approx(0.00675900958, rel=1e-5)
    assert (whole.elements, whole.moved) == (5, 4)
    assert whole.largest == pytest.approx(2e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("threshold", "sparsity", "relative"),
    [(1e-5, 0.0, 0.00675900958), (5.001e-4, 0.5, 0.00662266179), (1.5001e-3, 0.75, 0.00529812943)],
)
def test_a_threshold_undoes_the_small_changes(example, threshold, sparsity, relative):
    (cut,) = cuts(*example, [threshold])
    assert cut.sparsity == sparsity
    assert 0.00675900958 * math.sqrt(cut.kept) == pytest.approx(relative, rel=1e-5)


@pytest.mark.parametrize(("sparsity", "magnitude"), [(0.0, 0.0), (0.1, 1e-4), (0.5, 5e-4), (0.51, 1.5e-3), (0.75, 1.5e-3)])
def test_the_threshold_for_a_sparsity_is_exact(example, sparsity, magnitude):
    assert threshold_for(*example, sparsity) == pytest.approx(magnitude, rel=1e-3)


def test_the_threshold_is_the_order_statistic_of_many(tmp_path):
    delta = np.random.Generator(np.random.PCG64(1)).normal(0, 1e-3, 5000).astype(np.float32)
    base, model = stored(tmp_path, "base", np.zeros(5000)), stored(tmp_path, "model", delta)
    assert threshold_for(base, model, 0.37) == np.sort(np.abs(delta))[math.ceil(0.37 * 5000) - 1]


@pytest.mark.parametrize(
    ("sparsity", "kept"), [(0.7911, 0.664), (0.9247, 0.367), (0.9757, 0.167), (0.6218, 0.855), (0, 1), (1, 0)]
)
def test_norm_kept_by_a_normal(sparsity, kept):
    """Second check of the specification's section 10, from the published sparsities."""
    assert norm_kept(sparsity) == pytest.approx(kept, abs=6e-4)


def test_sparsity_of_a_random_walk():
    """The last row of the table in section 10: 234 updates of 32 members at alpha 2.5e-4."""
    std = random_walk_std(2.5e-4, 234, 32)
    assert std == pytest.approx(6.76e-4, rel=1e-3)
    found = [100 * sparsity_at(t, std) for t in (2.5e-4, 5e-4, 1e-3, 1.5e-3, 2e-3)]
    assert found == pytest.approx([28.8, 54.0, 86.1, 97.3, 99.7], abs=0.06)


def test_the_law_from_a_journal_is_that_of_the_coefficients():
    terms = [["00", 3e-3], ["01", -4e-3]]
    assert journal_std([{"terms": terms}, {"terms": []}, {"terms": terms}]) == pytest.approx(math.sqrt(50e-6))
    assert journal_std([{"terms": terms}, {"phase": "grpo"}]) is None


def test_kinds_and_layers():
    assert kind("model.layers.3.self_attn.q_proj.weight") == "q_proj.weight"
    assert layer("model.layers.3.self_attn.q_proj.weight") == "003"
    assert layer("model.embed_tokens.weight") == "outside"


def test_chunks_add_up_to_the_whole(tmp_path, monkeypatch):
    values = np.random.Generator(np.random.PCG64(2)).normal(size=1000)
    base, model = stored(tmp_path, "base", values), stored(tmp_path, "model", values * 1.01)
    at_once, threshold = measure(base, model), threshold_for(base, model, 0.6)
    monkeypatch.setattr(weights_module, "CHUNK", 7)
    assert measure(base, model).whole.norm == pytest.approx(at_once.whole.norm, rel=1e-12)
    assert measure(base, model).largest == at_once.largest
    assert threshold_for(base, model, 0.6) == threshold


def test_memory_is_that_of_a_few_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(weights_module, "CHUNK", 1 << 12)
    values = np.ones(1 << 20)
    base, model = stored(tmp_path, "base", values), stored(tmp_path, "model", values + 0.5)
    tracemalloc.start()
    try:
        measure(base, model)
        cuts(base, model, [0.1, 1.0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50 * 4 * (1 << 12)  # bytes; a model has 4 << 20


def test_what_a_bf16_checkpoint_stores_of_a_master(tmp_path):
    base = stored(tmp_path, "base", [1.0, 1.0, 1.0], "BF16")
    master = np.array([1.0, 1.001, 1.1], np.float32)
    rounded = RoundedWeights(MasterWeights(base.layout, master))
    assert list(bf16_bits(rounded.read("w", 0, 3))) == list(reference_bf16(master))
    assert measure(base, rounded).whole.moved == 1  # .001 is below half a step of bf16 at 1


def reference_bf16(values):
    out = np.empty(len(values), np.uint16)
    reference.perturb(out, values, 0, 0.0)
    return out


def test_weights_that_are_not_finite_are_named(tmp_path):
    with pytest.raises(UsageError, match="tensor w holds values that are not finite"):
        measure(stored(tmp_path, "base", [1, 2]), stored(tmp_path, "model", [1, math.nan]))


# The commands, on runs of the toy.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of ten updates in one folder: one on the task's reward, one on random rewards without responses."""
    folder = tmp_path_factory.mktemp("analysis")
    phase = {"kind": "es", "updates": 10, "population": 8, "sigma": 0.05, "alpha": 0.02}
    for name, more in {"real": {}, "null": {"reward": "random", "generate": False}}.items():
        config = toy_config(folder, name, phases={"warm": {**phase, **more}}, monitor={"console": "off", "tensorboard": False},
                            checkpoint={"every": 5}, task={"reward": "last_number"})  # fmt: skip
        assert main(["train", str(config)]) == 0
    return folder


def drift_json(capsys, *args):
    capsys.readouterr()
    assert main(["drift", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_drift_of_a_run_beside_its_controls(runs, capsys):
    facts = drift_json(capsys, runs / "toy", runs / "runs" / "real", "--null", runs / "runs" / "null")
    assert facts["step"] == 10
    learnt = sum(bool(record["terms"]) for record in journal(runs / "runs" / "real"))
    assert facts["law"]["std"] == pytest.approx(0.02 * math.sqrt(learnt / 8), rel=1e-6)
    assert facts["law"]["ratio"] == pytest.approx(1.0, abs=0.15)  # 650 weights: 3 % standard error
    assert {"model", "stored", "null"} == set(facts["columns"])
    assert facts["null_std"] == pytest.approx(0.02 * math.sqrt(10 / 8), rel=1e-6)
    assert main(["drift", str(runs / "toy"), str(runs / "runs" / "real")]) == 0
    assert "norm / walk" in capsys.readouterr().out


@pytest.mark.parametrize("step", [0, 3, 5])
def test_any_step_of_a_run_is_rebuilt(runs, capsys, step):
    facts = drift_json(capsys, runs / "toy", runs / "runs" / "real", "--step", step)
    assert facts["step"] == step
    assert facts["columns"]["model"]["moved"] == float(step > 0)


def test_a_checkpoint_is_a_step_of_its_run(runs, capsys):
    run = runs / "runs" / "real"
    of_run = drift_json(capsys, runs / "toy", run, "--step", 5)
    assert drift_json(capsys, runs / "toy", run / "checkpoints" / "step_000005") == of_run


def test_a_plain_folder_has_the_law_of_the_options(runs, capsys):
    checkpoint = runs / "runs" / "real" / "checkpoints" / "step_000010"
    plain = write_plain(runs / "plain", checkpoint)
    facts = drift_json(capsys, runs / "toy", plain, "--alpha", 0.02, "--updates", 10, "--population", 8)
    assert facts["law"]["std"] == pytest.approx(0.02 * math.sqrt(10 / 8))
    assert set(facts["columns"]) == {"model"}


def write_plain(folder, checkpoint):
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((checkpoint / name).read_bytes())
    return folder


def test_a_pruned_run_loads_and_says_what_it_kept(runs, capsys):
    out = runs / "pruned"
    assert main(["prune", str(runs / "toy"), str(runs / "runs" / "real"), "--sparsity", "0.5", "--out", str(out)]) == 0
    facts = json.loads((out / "prune.json").read_text())
    assert facts["sparsity"] == 0.5
    assert facts["norm2_kept_by_a_normal"] == pytest.approx(norm_kept(0.5))
    pruned = drift_json(capsys, runs / "toy", out)["columns"]["model"]
    full = drift_json(capsys, runs / "toy", runs / "runs" / "real")["columns"]["model"]
    assert pruned["moved"] == 0.5
    assert (pruned["norm"] / full["norm"]) ** 2 == pytest.approx(facts["norm2_kept"], rel=1e-5)
    assert pruned["largest"] == pytest.approx(full["largest"])


def test_random_rewards_depend_on_their_address_only(runs):
    records = journal(runs / "runs" / "null")
    rewards = [reward for record in records for _, reward, _ in record["members"]]
    assert len(set(rewards)) == 80
    assert abs(np.mean(rewards)) < 0.4
    assert np.std(rewards) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["{toy}", "{other}"], "a.weight: missing in the base, 4x4 in the model"),
        (["{toy2}", "{run}"], "not the model that"),
        (["{toy}", "{toy2}", "--step", "3"], "only a run has steps"),
        (["{toy}", "{run}", "--step", "11"], "no such step"),
        (["{toy}", "{run}", "--alpha", "1"], "a run's journal has them"),
        (["{toy}", "{toy2}", "--alpha", "1"], "the law needs all three"),
        (["{toy}", "{toy}", "--null", "{other}"], "not the same architecture"),
        (["{toy}", "nowhere"], "model folder not found"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(runs, capsys, args, words):
    from es_mpi.engine.toy import write_toy_model

    write_toy_model(runs / "toy2", seed=1)
    names = {"toy": runs / "toy", "toy2": runs / "toy2", "other": two_layers(runs / "other"), "run": runs / "runs" / "real"}
    assert main(["drift", *(arg.format(**names) for arg in args)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--sparsity", "1"], "out of range"),
        (["--threshold", "-1"], "out of range"),
        (["--threshold", "nan"], "out of range"),
        ([], "one of the arguments --sparsity --threshold is required"),
    ],
)
def test_bad_pruning_writes_nothing(runs, capsys, args, words):
    out = runs / "never"
    assert main(["prune", str(runs / "toy"), str(runs / "runs" / "real"), *args, "--out", str(out)]) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()
    assert not list(runs.glob(".never*"))


def test_a_failed_pruning_leaves_nothing(runs, capsys):
    broken = write_plain(runs / "broken", runs / "toy")
    file = broken / "model.safetensors"
    tensors = load_file(file)
    tensors["policy.weight"][0, 0] = math.nan
    save_file(tensors, file)
    assert main(["prune", str(runs / "toy"), str(broken), "--threshold", "0", "--out", str(runs / "halfway")]) == 2
    assert "policy.weight holds values that are not finite" in capsys.readouterr().err
    assert not [path for path in runs.iterdir() if "halfway" in path.name]


def test_an_output_folder_that_exists_is_kept(runs, capsys):
    assert main(["prune", str(runs / "toy"), str(runs / "runs" / "real"), "--sparsity", "0", "--out", str(runs / "toy")]) == 2
    assert "the output folder exists" in capsys.readouterr().err
