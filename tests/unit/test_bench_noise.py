"""`es-mpi bench noise`: its figures, in miniature."""

from __future__ import annotations

import json

import pytest

from es_mpi.bench import noise
from es_mpi.cli import main


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "ROUNDS", 2)
    monkeypatch.setattr(noise, "FLAT_MEMBERS", (1, 4))
    monkeypatch.setattr(noise, "FLAT_PARAMETERS", 1 << 12)


def test_every_figure_is_there_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "noise", "--params", "0.1M", "--members", "3", "--threads", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["parameters"], result["members"], result["threads"]) == (100_000, 3, 2)
    ns = result["ns"]
    assert min(ns.values()) > 0
    assert result["ratios"]["update / philox"] == pytest.approx(ns["update"] / ns["philox"])
    assert result["ratios"]["usual update / ours"] == pytest.approx(ns["usual update"] / ns["update"])
    assert result["ratios"]["update, 1 thread / all threads"] > 0
    assert list(result["flatness"]) == ["1", "4"]


def test_the_table_names_machine_and_instruction_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "noise", "--params", "5000", "--members", "2"]) == 0
    out = capsys.readouterr().out
    assert "threads 1, 5,000 parameters, 2 members" in out
    assert "perturb bf16 / memory" in out and "1 thread" not in out


def test_the_usual_way_is_undone_by_its_restore_only_nearly() -> None:
    """What the comparison compares with: bf16 weights drift, which ours do not."""
    usual = noise.Usual(10_000, 1)
    usual.weights[0].fill_(1.0)
    for seed in range(20):
        usual.perturb(seed, 1e-2)
        usual.perturb(seed, -1e-2)
    assert (usual.weights[0] != 1.0).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["noise", "--params", "0"], "--params must be at least 1"),
        (["noise", "--threads", "-1"], "--threads must be at least 1"),
        (["noise", "--params", "9000B"], "--params must fit the memory"),
        (["noise", "--params", "infB"], "invalid count value: 'infB'"),
        (["noise", "--threads", "5000"], "--threads must be at most 1024"),
        (["noise", "--params", "many"], "invalid count value: 'many'"),
        (["noise", "config.yaml"], "bench noise takes no config"),
        (["noise", "engine.threads=1"], "bench noise takes no config"),
        (["step"], "bench step takes a config"),
        (["step", "config.yaml", "--members", "3"], "bench step takes a config"),
    ],
)
def test_bad_arguments_are_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err
