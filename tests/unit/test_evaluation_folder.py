"""Evaluations on disk: read back, refused where not whole; graded again; compared from the command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from evaluation_rows import evaluation, rows_of

from es_mpi.cli import main
from es_mpi.errors import UsageError
from es_mpi.evaluation.folder import RESULTS, SAMPLES, chosen_tasks, read_evaluation
from es_mpi.evaluation.page import PLACE

BASE = {"a": [True, True, False], "b": [False, False, False]}
BETTER = {"a": [True, True, False], "b": [True, True, True]}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    found = read_evaluation(evaluation(tmp_path / "e", BASE))
    assert list(found.tasks["sums"].rows) == rows_of(BASE)
    assert found.tasks["sums"].settings["reward"] == "exact"


def test_damage_is_named(tmp_path: Path) -> None:
    samples = evaluation(tmp_path / "e", BASE) / "sums" / SAMPLES
    whole = samples.read_bytes()
    samples.write_bytes(whole[:-9])
    with pytest.raises(UsageError, match="cannot read"):
        read_evaluation(tmp_path / "e")
    samples.write_bytes(gzip.compress(b'{"problem": "a"}\n'))
    with pytest.raises(UsageError, match=r"line 1 of .* lacks answer, extracted"):
        read_evaluation(tmp_path / "e")
    samples.write_bytes(gzip.compress(b"{}\n[1]\n"))
    with pytest.raises(UsageError, match=r"line 2 of .* is damaged"):
        read_evaluation(tmp_path / "e")
    (tmp_path / "e" / RESULTS).write_text('{"tasks": 3}')
    with pytest.raises(UsageError, match=r"cannot read .*results.json"):
        read_evaluation(tmp_path / "e")
    (tmp_path / "e" / RESULTS).unlink()  # killed before its end
    with pytest.raises(UsageError, match="holds no evaluation"):
        read_evaluation(tmp_path / "e")


def test_only_tasks_that_all_have_are_compared(tmp_path: Path) -> None:
    a, b = read_evaluation(evaluation(tmp_path / "a", BASE)), read_evaluation(evaluation(tmp_path / "b", BASE, "products"))
    with pytest.raises(UsageError, match="no task in common"):
        chosen_tasks([a, b], [])
    with pytest.raises(UsageError, match="no task that all of them have"):
        chosen_tasks([a, a], ["sum"])
    assert chosen_tasks([a, a], []) == ["sums"]


def compare(tmp_path: Path, *more: str) -> int:
    return main(["compare", str(evaluation(tmp_path / "a", BASE)), str(evaluation(tmp_path / "b", BETTER)), *more])


def test_compare_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(tmp_path, "--json", str(tmp_path / "c.json"), "--html", str(tmp_path / "c.html")) == 0
    said = capsys.readouterr().out
    assert "1 problems gained, 0 lost" in said and "pass@1" in said and "p=" in said
    assert json.loads((tmp_path / "c.json").read_text())["tasks"]["sums"]["changes"][str(tmp_path / "b")]["gained"] == ["b"]
    assert PLACE not in (tmp_path / "c.html").read_text()


def test_hostile_text_stays_data_in_the_page(tmp_path: Path) -> None:
    folder = evaluation(tmp_path / "b", BETTER)
    rows = [{**r, "response": "</script><script>alert(1)</script><!--"} for r in rows_of(BETTER)]
    (folder / "sums" / SAMPLES).write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    a = evaluation(tmp_path / "a", BASE)
    assert main(["compare", str(a), str(folder), "--html", str(tmp_path / "c.html")]) == 0
    page = (tmp_path / "c.html").read_text()
    assert "alert(1)" in page and "</script><script>alert" not in page
    assert page.count("<script") == 2
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "https://" not in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["A"], "nothing to compare"), (["A", "A"], "the same name twice"), (["A", "HERE"], "holds no evaluation"),
        (["A", "--group", "x"], "not a group"), (["A", "A@3"], "only run folders have steps"),
        (["A", "--group", "x=A", "--k", "1,x"], "--k"),
        (["A", "--group", "x=A", "--tasks", "sum"], "no task that all of them have"),
        (["A", "--group", "x=A", "--html", "HERE/no/page.html"], "cannot be written"),
    ],
)  # fmt: skip
def test_bad_words_are_refused_by_name(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = str(evaluation(tmp_path / "a", BASE))
    assert main(["compare", *(word.replace("HERE", str(tmp_path)).replace("A", a) for word in words)]) == 2
    assert said in capsys.readouterr().err


def test_regrading_tells_what_changed_and_writes_a_new_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evaluation(tmp_path / "a", {"a": [False, True], "b": [False, True]})
    assert main(["eval", "--regrade", str(folder), "--reward", "last_number", "--out", str(tmp_path / "r")]) == 0
    assert "no verdict changed" in capsys.readouterr().out  # "It is 1." and "It is 2."
    assert main(["eval", "--regrade", str(folder), "--reward", "boxed_string"]) == 0
    assert "2 x right -> unparsed" in capsys.readouterr().out
    again = read_evaluation(tmp_path / "r")
    assert again.tasks["sums"].settings["reward"] == "last_number"
    facts = json.loads((tmp_path / "r" / RESULTS).read_text())["tasks"]["sums"]
    assert facts["metrics"]["pass@1"]["mean"] == 1.0 and facts["verdicts"]["greedy"] == {"wrong": 2}


def test_regrading_refuses_what_makes_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(evaluation(tmp_path / "a", BASE))
    assert main(["eval", "--regrade", folder, "--out", folder]) == 2
    assert "the output folder exists" in capsys.readouterr().err
    assert main(["eval", "--regrade", folder, "--reward", "boxed_strin"]) == 2
    assert "boxed_string" in capsys.readouterr().err
    assert main(["eval", "model", "--regrade", folder]) == 2
    assert "has no meaning with --regrade" in capsys.readouterr().err
    assert main(["eval", "model"]) == 2
    assert "nothing to evaluate" in capsys.readouterr().err
