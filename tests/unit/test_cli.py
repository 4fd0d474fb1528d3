"""The command line: what is imported, how errors leave, and what the light commands print."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_models import write_model

from es_mpi.cli import COMMANDS, main
from es_mpi.config import fingerprint, load_config
from es_mpi.errors import Divergence, TryAgain, UsageError

HEAVY = {"torch", "vllm", "mpi4py", "transformers", "tensorboard", "safetensors", "gguf"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with a tied embedding of 8 x 4 and a layer of 4 x 4, in float32."""
    tensors = {
        "model.embed_tokens.weight": ("F32", np.ones((8, 4), np.float32)),
        "model.layer.weight": ("F32", np.ones((4, 4), np.float32)),
    }
    sizes = {"vocab_size": 8, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    return write_model(tmp_path / "model", tensors, tie_word_embeddings=True, max_position_embeddings=512, **sizes)


@pytest.fixture
def config(tmp_path: Path, model: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(
        f"run: {{name: demo, dir: {tmp_path}/runs}}\n"
        f"model: {{path: {model}, max_model_len: 300}}\n"
        "task: {name: arithmetic, batch_size: 16, options: {form: plain}}\n"
        "phases:\n  warm: {kind: es, updates: 10, population: 8}\n"
    )
    return path


@pytest.mark.parametrize(
    "command", ["--help", "--version", *(f"{name} --help" for name in COMMANDS), "check CONFIG", "plan CONFIG --ranks 2"]
)
def test_light_commands_import_nothing_heavy(config: Path, command: str) -> None:
    words = command.replace("CONFIG", str(config)).split()
    script = (
        "import sys\n"
        "from es_mpi.cli import main\n"
        f"try: code = main({words!r})\n"
        "except SystemExit as end: code = end.code\n"  # argparse leaves --help this way
        f"heavy = sorted({HEAVY!r} & set(sys.modules))\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("trian CONFIG", "did you mean 'train'?"),
        ("check", "CONFIG"),
        ("check CONFIG phases.warm.popluation=64", "did you mean 'population'?"),
        ("check CONFIG --verbose", "does not understand --verbose"),
        ("check CONFIG sigma", "not an override"),
        ("check none.yaml", "none.yaml"),
        ("check CONFIG task.batch_size=5000", "task.batch_size"),
        ("check CONFIG task.name=arithmetics", "'arithmetic'"),
        ("check CONFIG task.reward=boxed", "task.reward"),
        ("check CONFIG task.options.shots=99", "task.options.shots"),
        ("check CONFIG task.name=gsm8k task.options=null", "task."),
        ("check CONFIG model.path=models/none", "model folder not found"),
        ("plan CONFIG", "--ranks"),
        ("plan CONFIG --ranks 0", "--ranks"),
        ("plan CONFIG --ranks 2 --gpu H10", "'H100'"),
        ("plan CONFIG --ranks 2 model.path=owner/name", "model.path"),
        ("show CONFIG", "not a run folder"),
        ("show CONFIG a=1", "a=1"),
        ("model smolm2-135m --out out", "'smollm2-135m'"),
        ("bench nose CONFIG", "nose"),
    ],
)
def test_bad_input_exits_2_with_a_reason(
    config: Path, words: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)
    before = sorted(config.parent.rglob("*"))
    assert main([str(config) if word == "CONFIG" else word for word in words.split()]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("es-mpi: ") and hint in captured.err and not captured.out
    assert sorted(config.parent.rglob("*")) == before, "bad input must leave nothing behind"


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the runner, so that dispatch is tested without an engine."""
    fake = types.ModuleType("es_mpi.runner")
    monkeypatch.setitem(sys.modules, "es_mpi.runner", fake)
    monkeypatch.setattr("es_mpi.runner", fake, raising=False)
    return fake


def raiser(error: BaseException) -> Callable[..., int]:
    def work(*args: object) -> int:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UsageError("bad", key="run.name"), 2, "es-mpi: run.name: bad"),
        (TryAgain("ranks lost"), 75, "es-mpi: ranks lost"),
        (Divergence("ranks disagree"), 76, "es-mpi: ranks disagree"),
        (KeyError("oops"), 70, "KeyError: 'oops'"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_codes(
    runner: types.ModuleType, error: BaseException, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.train = raiser(error)  # type: ignore[attr-defined]
    assert main(["train", "a.yaml"]) == code
    written = capsys.readouterr().err
    assert says in written if says else not written


def test_under_a_launcher_an_error_names_rank_and_host(
    runner: types.ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "3", "LOCAL_SIZE": "4"}.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{variable}", value)
    runner.train = raiser(UsageError("bad"))  # type: ignore[attr-defined]
    assert main(["train", "a.yaml"]) == 2
    assert capsys.readouterr().err.startswith("es-mpi [rank 3, ")


def test_arguments_reach_the_runner_in_any_order(runner: types.ModuleType) -> None:
    calls: list[tuple[object, ...]] = []

    def note(*args: object) -> int:
        calls.append(args)
        return 0

    runner.train = runner.resume = runner.replay = note  # type: ignore[attr-defined]
    main(["train", "a.yaml", "--verbose", "run.seed=1", "run.name=b"])
    main(["resume", "--force", "eval.k", "runs/a", "eval.k=[1]", "--force", "eval.samples", "eval.samples=4"])
    main(["replay", "runs/a", "--out", "x=y", "--step", "3"])
    assert calls == [
        ("a.yaml", ["engine.verbose=true", "run.seed=1", "run.name=b"]),
        ("runs/a", ["eval.k=[1]", "eval.samples=4"], ["eval.k", "eval.samples"]),
        ("runs/a", 3, "x=y"),
    ]
    main(["train", "a.yaml"])
    assert calls[-1] == ("a.yaml", []), "an option of one call must not stay for the next"


def test_check_prints_a_config_that_loads_to_itself(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(config), "eval.every=4", "model.exclude=[model.layer.*]"]) == 0
    out, err = capsys.readouterr()
    again = config.with_name("again.yaml")
    again.write_text(out)
    assert load_config(again) == load_config(config, ["eval.every=4", "model.exclude=[model.layer.*]"])
    assert "32 of 48 parameters" in out and "10 x 8 x 16 = 1,280" in out and fingerprint(load_config(again)) in out
    assert "# evaluations        4" in out
    assert "16 parameters stay" in err


def test_check_warns(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    assert (
        main(
            [
                "check",
                str(config),
                "model.max_model_len=1000",
                "phases.warm.alpha=0",
                "phases.b={kind: es, updates: 1}",
                "pipeline=[warm]",
            ]
        )
        == 0
    )
    err = capsys.readouterr().err
    assert all(word in err for word in ("es-mpi resume", "512 positions", "phase b", "no weight will move"))


def test_plan_as_text_and_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(config), "--ranks", "3"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("48 parameters", "master", "KV cache", "binds", "change"))
    assert main(["plan", str(config), "--ranks", "3", "--gpu", "h100", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["memory"]["master"] == 4 * 2048 and facts["model"]["tied_embedding"] == 32
    assert facts["model"]["kv_bytes"] == 2 * 1 * 2 * 2 * 2
    assert facts["phases"][0]["members_per_rank"] == 3 and facts["phases"][0]["bytes_per_rank"] == 16 * 8
    assert 3 <= facts["prompt"]["own"] <= 6, "12+7= is a token a character but the first, which prompts may share"


def test_doctor_reports_and_fails_with_the_noise_self_test(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from es_mpi.noise import native

    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("python", "numpy", "cores", "memory", "self-test passed", native.GOLDEN, native.isa()))
    monkeypatch.setattr(native, "self_test", raiser(Divergence("other noise")))
    assert main(["doctor"]) == 70
    assert "FAILED: Divergence: other noise" in capsys.readouterr().out


def test_a_reader_that_has_seen_enough_is_no_fault(config: Path) -> None:
    script = "import sys; from es_mpi.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", script, "check", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate()[1] == ""
    assert process.returncode == 141
