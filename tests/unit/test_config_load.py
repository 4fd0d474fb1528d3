"""Loading a config: what is accepted, and how each mistake is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from es_mpi.config import Config, load_config, load_resolved, to_yaml
from es_mpi.errors import UsageError

MINIMAL = """\
model: {path: models/tiny}
task: {name: largest}
phases:
  warm: {kind: es, updates: 10}
"""


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    path = tmp_path / "minimal.yaml"
    path.write_text(MINIMAL)
    return path


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_defaults_and_types(minimal: Path) -> None:
    config = load_config(minimal)
    assert config.run.seed == 0 and config.phases["warm"].sigma == 1.5e-3
    assert config.pipeline == ("warm",) and config.eval.k == (1, 8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.run.seed = 1  # type: ignore[misc]


def test_overrides_in_order_lists_nested_and_new_phases(minimal: Path) -> None:
    config = load_config(
        minimal,
        [
            "run.seed=1",
            "run.seed=2",
            "eval.k=[1,4]",
            "phases.tune={kind: es, updates: 3}",
            "phases.tune.sigma=2e-3",
            "task.options.digits=2",
        ],
    )
    assert config.run.seed == 2 and config.eval.k == (1, 4) and config.task.options == {"digits": 2}
    assert config.pipeline == ("warm", "tune") and config.phases["tune"].sigma == 2e-3


@pytest.mark.parametrize("text", ["1e-3", '"1e-3"', "0.001", "1.0e-3"])
def test_a_number_may_be_text(minimal: Path, text: str) -> None:
    assert load_config(minimal, [f"phases.warm.sigma={text}"]).phases["warm"].sigma == 1e-3


def test_interpolation_follows_overrides(minimal: Path) -> None:
    assert load_config(minimal, ["eval.max_tokens=${sampling.max_tokens}", "sampling.max_tokens=7"]).eval.max_tokens == 7


def test_bare_off_is_the_word_off(minimal: Path) -> None:
    config = load_config(minimal, ["monitor.console=off", "comm.fault_tolerance=off"])
    assert config.monitor.console == config.comm.fault_tolerance == "off"


@pytest.mark.parametrize(
    ("override", "key", "hint"),
    [
        ("phases.warm.popluation=64", "phases.warm.popluation", "'population'"),
        ("phases.new.popluation=64", "phases.new.popluation", "'population'"),
        ("phases.wram.sigma=1e-3", "phases.wram", "'warm'"),
        ("modle.path=x", "modle", "'model'"),
        ("engine.max_seqs=3", "engine.max_seqs", "'max_num_seqs'"),
        ("phases.warm.kind=gpro", "phases.warm.kind", "expected  es or grpo or ed_grpo or idpo or ed_idpo"),
        ("pipeline=[wram]", "pipeline", "'warm'"),
        ("model.dtype=bfloat", "model.dtype", "'bfloat16'"),
    ],
)
def test_a_wrong_word_is_named_with_the_near_one(minimal: Path, override: str, key: str, hint: str) -> None:
    message = refused(minimal, override)
    assert f"{key}: " in message and hint in message


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("phases.warm.sigma=0", "phases.warm.sigma"),
        ("phases.warm.sigma=-1e-3", "phases.warm.sigma"),
        ("phases.warm.sigma=.nan", "phases.warm.sigma"),
        ("phases.warm.sigma=nan", "phases.warm.sigma"),
        ("phases.warm.sigma=inf", "phases.warm.sigma"),
        ("phases.warm.sigma=small", "phases.warm.sigma"),
        ("phases.warm.sigma=", "phases.warm.sigma"),
        ("phases.warm.sigma=true", "phases.warm.sigma"),
        ("phases.warm.alpha=-1", "phases.warm.alpha"),
        ("phases.warm.population=true", "phases.warm.population"),
        ("phases.warm.population=8.0", "phases.warm.population"),
        ("phases.warm.population=0", "phases.warm.population"),
        ("phases.warm.population=1", "phases.warm.population"),
        ("phases.warm.min_valid=0", "phases.warm.min_valid"),
        ("phases.warm.min_valid=1.01", "phases.warm.min_valid"),
        ("phases.warm.updates=-1", "phases.warm.updates"),
        ("phases.0x.kind=es", "phases.0x"),
        ("phases.warm=3", "phases.warm"),
        ("pipeline=[warm,warm]", "pipeline"),
        ("task.batch_size=0", "task.batch_size"),
        ("task.options.when=!!binary aGk=", "task.options"),
        ("task.options.scale=.inf", "task.options"),
        ("sampling.temperature=-0.1", "sampling.temperature"),
        ("sampling.top_p=0", "sampling.top_p"),
        ("sampling.top_p=1.5", "sampling.top_p"),
        ("sampling.max_tokens=1024", "sampling.max_tokens"),
        ("eval.max_tokens=2000", "eval.max_tokens"),
        ("eval.k=[1,16]", "eval.k"),
        ("eval.k=[0]", "eval.k"),
        ("eval.k=8", "eval.k"),
        ("engine.tensor_parallel=2", "engine.tensor_parallel"),
        ("run.name=../up", "run.name"),
        ("run.name=7", "run.name"),
        ("run.seed=-1", "run.seed"),
        ("run.seed=true", "run.seed"),
        ("run.seed=18446744073709551616", "run.seed"),
        ("run=3", "run"),
        ("model.path=${oc.env:ES_MPI_NO_SUCH_VARIABLE}", "model.path"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(minimal: Path, override: str, key: str) -> None:
    assert f"{key}: " in refused(minimal, override)


def test_population_rules_follow_estimator_and_shaping(minimal: Path) -> None:
    assert "pairs" in refused(minimal, "phases.warm.population=3", "phases.warm.estimator=antithetic")
    assert refused(minimal, "phases.warm.population=1", "phases.warm.shaping=centered_rank")
    assert load_config(minimal, ["phases.warm.population=1", "phases.warm.shaping=none"]).phases["warm"].population == 1
    assert load_config(minimal, ["phases.warm.alpha=0", "phases.warm.updates=0"]).phases["warm"].alpha == 0
    assert load_config(minimal, ["eval.samples=0"]).eval.samples == 0


def test_all_problems_at_once(minimal: Path) -> None:
    message = refused(minimal, "modle.path=x", "phases.warm.sigma=0", "run.seed=one", "task.batch_size=1.5")
    assert "4 problems" in message
    assert all(key in message for key in ("modle: ", "phases.warm.sigma: ", "run.seed: ", "task.batch_size: "))


@pytest.mark.parametrize("override", ["sigma", "=3", "phases..warm=1", "task.system=["])
def test_a_broken_override_is_shown(minimal: Path, override: str) -> None:
    assert override in refused(minimal, override)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: {path: a}\nrun: [1\n", "line "),
        ("run:\n  seed: 1\n  seed: 2\n", "line 3"),
        ("- model\n", "list"),
        ("just words\n", "unknown key"),
        ("", "model.path"),
        ("run:\n\tseed: 1\n", "line 2"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    assert words in refused(path)


def test_a_missing_file_and_bytes_that_are_not_text(tmp_path: Path) -> None:
    assert "none.yaml" in refused(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    assert "bytes.yaml" in refused(tmp_path / "bytes.yaml")


def saved(config: Config, folder: Path) -> Config:
    (folder / "config.yaml").write_text(to_yaml(config))
    return load_resolved(folder)


def test_resolved_yaml_loads_to_the_same_config(minimal: Path, tmp_path: Path) -> None:
    config = load_config(
        minimal, ["phases.tune={kind: es, updates: 3}", "pipeline=[tune,warm]", "task.options={a: [1, {b: x}], c: null}"]
    )
    assert saved(config, tmp_path) == config
    assert load_resolved(tmp_path, ["run.seed=5"]).run.seed == 5


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from("\\${}?:#'\"\n"))


@settings(max_examples=40, deadline=None)
@given(text=TEXTS, alpha=st.floats(0, 1e3))
@example(text="${run.seed} \\${x} \\\\${y} ${", alpha=1e-5)
@example(text="1e-3", alpha=5e-324)
def test_any_text_and_number_survive_saving(tmp_path_factory: pytest.TempPathFactory, text: str, alpha: float) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "source.yaml").write_text(MINIMAL)
    config = load_config(folder / "source.yaml")
    task = dataclasses.replace(config.task, system=text, options={"text": [text]})
    warm = dataclasses.replace(config.phases["warm"], alpha=alpha)
    config = dataclasses.replace(config, task=task, phases={"warm": warm})
    assert saved(config, folder) == config


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("phases.warm.group_size=1", "phases.warm.group_size"),
        ("phases.warm.adv_ddof=2", "phases.warm.adv_ddof"),
        ("phases.warm.dual_clip=1", "phases.warm.dual_clip"),
        ("phases.warm.aggregation=mean", "phases.warm.aggregation"),
        ("phases.warm.overlong_buffer=999", "phases.warm.overlong_buffer"),
        ("phases.warm.sigma=1e-3", "phases.warm.sigma"),  # of another kind
        ("sampling.top_p=0.9", "sampling.top_p"),
        ("engine.kind=toy", "engine.kind"),
    ],
)
def test_a_gradient_phase_refuses_what_it_cannot_do(minimal: Path, override: str, key: str) -> None:
    gradient = "phases={warm: {kind: grpo, updates: 1}}"
    assert load_config(minimal, [gradient]).phases["warm"].kind == "grpo"
    with pytest.raises(UsageError, match=key):
        load_config(minimal, [gradient, override])


@pytest.mark.parametrize(
    ("changes", "key", "remedy"),
    [
        ("kind: ed_grpo, kappa: 1e-3, edo: {gate: null}", "kappa", "at most beta_ref / 2"),
        ("kind: ed_grpo, kappa: 1e-3, edo: {kl_cap: null}", "kappa", "phases.warm.edo.gate and phases.warm.edo.kl_cap"),
        ("kind: ed_grpo, kappa: 1e-4, beta_ref: 0, edo: {gate: null}", "kappa", "edo.gate"),
        ("kind: ed_grpo, edo: {outer_steps: 1}", "edo.outer_steps", "at least 2"),
        ("kind: ed_grpo, edo: {estimator: full}", "edo.gate", "estimator: k1"),
        ("kind: ed_grpo, group_size: 1", "group_size", "at least 2"),
        ("kind: idpo, microbatch: 1", "microbatch", "a pair is in one forward pass"),
        ("kind: idpo, alpha: 0.1", "alpha", "unknown key"),
        ("kind: ed_idpo, ref: last", "ref", "previous or phase_start or base"),
    ],
)
def test_a_phase_that_pushes_refuses_what_nothing_would_hold(minimal: Path, changes: str, key: str, remedy: str) -> None:
    text = refused(minimal, f"phases={{warm: {{{changes}, updates: 9}}}}")
    assert f"phases.warm.{key}" in text and remedy in text


@pytest.mark.parametrize(
    "changes",
    ["kappa: 0, edo: {gate: null, kl_cap: null}", "kappa: 0.5", "kappa: 5e-4, edo: {gate: null, estimator: full}"],
)
def test_a_push_that_something_holds_is_accepted(minimal: Path, changes: str) -> None:
    phase = load_config(minimal, [f"phases={{warm: {{kind: ed_grpo, updates: 9, {changes}}}}}"]).phases["warm"]
    assert phase.edo.outer_steps == 25


@pytest.mark.parametrize("override", ["model=[1]", "task=[1]", "phases=[1]", "phases.warm={sigma: [1]}", "eval.k={a: 1}"])
def test_a_list_where_keys_belong_or_the_other_way_round_is_an_error_by_name(minimal: Path, override: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(minimal, [override])
    assert override.partition("=")[0] in str(caught.value)


def test_a_file_that_is_no_config_does_not_flood_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text("".join(f"key{i}: {i}\n" for i in range(500)))
    with pytest.raises(UsageError, match=r"and \d+ more") as caught:
        load_config(tmp_path / "long.yaml")
    assert len(str(caught.value).splitlines()) < 80
