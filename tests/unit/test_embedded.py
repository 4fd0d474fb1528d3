"""How an embedded model becomes a folder: as a whole or not at all. The models themselves: tests/engine/."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from es_mpi.embedded import NAMES, catalog, fingerprint, materialise, smollm2, tiny
from es_mpi.errors import UsageError


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes `tiny` a model of one file that is written at once; the list gets the seed of every writing."""
    seeds: list[int] = []

    def write(folder: Path, seed: int) -> None:
        seeds.append(seed)
        (folder / "config.json").write_text("{}")

    monkeypatch.setitem(catalog.MODELS, "tiny", catalog.Embedded("a stand-in", lambda seed: {"seed": seed}, write))
    return seeds


def test_an_unknown_name_is_refused_with_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"smollm2-135m"):
        materialise("smollm-135m", tmp_path / "out")
    with pytest.raises(UsageError, match=r"tiny"):
        fingerprint("tyni")
    assert not list(tmp_path.iterdir())


def test_a_fingerprint_follows_what_decides_the_weights() -> None:
    assert len({fingerprint("tiny"), fingerprint("tiny", seed=1), fingerprint("smollm2-135m")}) == 3
    assert fingerprint("tiny") == fingerprint("tiny", seed=0)
    assert fingerprint("smollm2-135m") == fingerprint("smollm2-135m", seed=1), "nothing is drawn there"
    assert set(NAMES) == {"smollm2-135m", "tiny", "toy"}
    assert tiny.recipe(3) == asdict(tiny.Recipe(seed=3))


def test_a_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from es_mpi import cli; from es_mpi.embedded import catalog;"
        "stop = lambda folder, seed: os.kill(os.getpid(), signal.SIGTERM);"
        "catalog.MODELS['tiny'] = catalog.Embedded('', lambda seed: {}, stop);"
        f"sys.exit(cli.main(['model', 'tiny', '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert not list(tmp_path.iterdir())


def test_a_second_call_does_nothing(tmp_path: Path, written: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "a model"
    materialise("tiny", out, seed=7)
    before = (out / "origin.json").stat().st_mtime_ns
    materialise("tiny", out, seed=7)
    assert written == [7]
    assert (out / "origin.json").stat().st_mtime_ns == before
    assert json.loads((out / "origin.json").read_text())["name"] == "tiny"
    assert "already holds tiny" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == ["a model"]


@pytest.mark.parametrize("content", ["another file", "the same model by another recipe", "a damaged origin.json"])
def test_a_folder_that_holds_anything_else_is_left_as_it_is(tmp_path: Path, written: list[int], content: str) -> None:
    origins = {"the same model by another recipe": '{"fingerprint": "0"}', "a damaged origin.json": "[]"}
    (tmp_path / ("origin.json" if content in origins else "notes.txt")).write_text(origins.get(content, "mine"))
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match=r"--out") as caught:
        materialise("tiny", tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before
    assert written == []


def test_an_empty_folder_is_filled_and_a_file_is_refused(tmp_path: Path, written: list[int]) -> None:
    (tmp_path / "empty").mkdir()
    materialise("tiny", tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").is_file()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--out"):
        materialise("tiny", tmp_path / "file")


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_an_end_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]) -> None:
    def write(folder: Path, seed: int) -> None:
        (folder / "config.json").write_text("{}")
        raise end

    monkeypatch.setitem(catalog.MODELS, "tiny", catalog.Embedded("a stand-in", tiny.recipe, write))
    with pytest.raises(end):
        materialise("tiny", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_same_model_made_by_another_process_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path, seed: int) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "config.json").write_text("theirs")
        (tmp_path / "out" / "origin.json").write_text(json.dumps({"fingerprint": fingerprint("tiny")}))

    monkeypatch.setitem(catalog.MODELS, "tiny", catalog.Embedded("a stand-in", tiny.recipe, write))
    materialise("tiny", tmp_path / "out")
    assert (tmp_path / "out" / "config.json").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("a cut archive", "not a wheel"),
        ("an archive without the model", "not a wheel"),
        ("another model in the archive", "damaged or another version"),
        ("a cut GGUF file", "damaged or another version"),
        ("no file", "no such file"),
    ],
)
def test_a_damaged_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, message: str) -> None:
    source = tmp_path / (smollm2.GGUF_NAME if damage == "a cut GGUF file" else "package.whl")
    if damage.startswith("a cut"):
        source.write_bytes(b"PK\3\4")
    elif damage != "no file":
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("package/notes" if "without" in damage else f"package/{smollm2.GGUF_NAME}", b"GGUF")
    monkeypatch.setenv(smollm2.LOCAL_COPY, str(source))
    with pytest.raises(UsageError, match=message):
        materialise("smollm2-135m", tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path != source]


def test_where_pip_fetches_nothing_its_last_word_and_the_way_around_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "")  # pip refuses "==0.1.2" at once, without asking an index
    monkeypatch.delenv(smollm2.LOCAL_COPY, raising=False)
    with pytest.raises(UsageError, match=r"pip could not fetch") as caught:
        smollm2._fetch(tmp_path)
    assert "ERROR" in str(caught.value) and smollm2.LOCAL_COPY in str(caught.value)


def test_the_lines_that_tiny_learns_are_right_but_for_the_share_that_is_not() -> None:
    for seed in range(8):  # several seeds: each draws one kind of line
        right = list(islice(tiny.lines(np.random.default_rng(seed), wrong=0.0), 50))
        assert all(map(_is_right, right))
        assert set("".join(right)) <= set(tiny.VOCABULARY)
        partly = list(islice(tiny.lines(np.random.default_rng(seed), wrong=0.3), 400))
        assert 0.6 < np.mean([_is_right(line) for line in partly]) < 0.8


def _is_right(line: str) -> bool:
    question, answer = line.rstrip("\n").split("=")
    if question.startswith("max("):
        return max(int(n) for n in question[4:-1].split(",")) == int(answer)
    sign = next(sign for sign in "+-x" if sign in question)
    a, b = (int(n) for n in question.split(sign))
    return {"+": a + b, "-": a - b, "x": a * b}[sign] == int(answer)
