"""Problems from files: gsm8k and the checks of every row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from es_mpi.errors import UsageError
from es_mpi.grading import make_grader
from es_mpi.grading.gym import library
from es_mpi.tasks import make_task
from es_mpi.tasks.questions import KINDS
from es_mpi.types import Problem

GOOD = '{"question": "q", "answer": "1"}\n'


def gsm8k(tmp_path: Path, text: str | bytes) -> list[Problem]:
    path = tmp_path / "train.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return make_task("gsm8k", train=str(path)).problems("train")


def test_reads_answers_ids_and_questions(tmp_path: Path) -> None:
    rows = [
        '{"id": "a", "question": "How many?", "answer": "6 * 3 = <<6*3=18>>18\\n#### 18", "more": 1}',
        '{"question": "How \\u2028 many?", "answer": "1,024"}',
        "",
        '{"question": "And now?", "answer": 7}',
    ]
    assert gsm8k(tmp_path, "\n".join(rows)) == [
        Problem("a", "How many?", "18"),
        Problem("gsm8k-train-2", "How \u2028 many?", "1024"),
        Problem("gsm8k-train-4", "And now?", "7"),
    ]


def test_prompt_is_the_papers() -> None:
    task = make_task("gsm8k")
    assert task.prompt(Problem("a", "How many?", "18")) == [
        {"role": "system", "content": r"Please reason step by step, and put your final answer within \boxed{}."},
        {"role": "user", "content": "How many?"},
    ]
    assert make_task("gsm8k", system="").prompt(Problem("a", "q", "1")) == [{"role": "user", "content": "q"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD * 2 + "{oops\n" + GOOD, "line 3: not JSON"),
        (GOOD + "[" * 100_000, "line 2: not JSON"),
        (GOOD + "9" * 5000, "line 2: not JSON"),
        (GOOD + "[1]\n", "line 2: not an object"),
        (GOOD + '{"answer": "1"}\n', "line 2: field 'question' is missing"),
        (GOOD + '{"question": "q"}\n', "line 2: field 'answer' is missing"),
        (GOOD + '{"question": " ", "answer": "1"}\n', "line 2: field 'question' is empty"),
        (GOOD + '{"question": "q", "answer": ""}\n', "line 2: field 'answer' is empty"),
        (GOOD + '{"question": "q", "answer": null}\n', "line 2: field 'answer' is empty or no text"),
        (GOOD + '{"question": "q", "answer": true}\n', "line 2: field 'answer' is empty or no text"),
        (GOOD + '{"question": "q", "answer": "no marker ####"}\n', "'gsm8k-train-2': no final answer"),
        ('{"id": "a", "question": "q", "answer": "1"}\n' * 2, "line 2: this id was there before"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        (b"\xff\xfe{", "not UTF-8"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        gsm8k(tmp_path, text)
    assert error.value.key == "task.train"
    assert "train.jsonl" in str(error.value)


def test_a_missing_file_or_split_names_its_key(tmp_path: Path) -> None:
    task = make_task("gsm8k", train="somewhere.jsonl", heldout=str(tmp_path))
    with pytest.raises(UsageError, match=r"task\.train.*No such file"):
        task.problems("train")
    with pytest.raises(UsageError, match=r"task\.heldout.*directory"):
        task.problems("heldout")
    with pytest.raises(UsageError, match=r"task\.heldout: gsm8k needs a data file"):
        make_task("gsm8k").problems("heldout")


def test_the_shared_gsm8k_files_load(shared_dir: Path) -> None:
    data = shared_dir / "data"
    task = make_task("gsm8k", train=str(data / "gsm8k_train.jsonl"), heldout=str(data / "gsm8k_test_first659.jsonl"))
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(train), len(heldout)) == (7473, 659)
    assert train[0].answer == "72"
    assert all(p.answer.lstrip("-").replace(".", "", 1).isdigit() for p in train + heldout)


@pytest.mark.parametrize("name", KINDS)
def test_every_task_of_questions_reads_its_file_and_names_its_grader(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"problem": "q", "solution": "so \\\\boxed{7}", "final_answer": ["7"]}\n{"question": "r", "answer": 8.0}\n')
    task = make_task(name, heldout=str(path))
    assert [(p.question, p.answer) for p in task.problems("heldout")] == [("q", "7"), ("r", "8")]
    assert make_grader(task.reward)(r"\boxed{7}", "7", False).reward == 1.0
    assert task.prompt(task.problems("heldout")[0])[0]["content"].endswith(r"\boxed{}.")
    with pytest.raises(UsageError, match=rf"task\.train: {name} needs a data file"):
        task.problems("train")


def test_a_worked_solution_gives_its_final_answer(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    answers = [r"\frac{1}{2}", r"We get $x = \boxed{\frac{1}{2}}$.", "so\n#### 1,024", "1,2"]
    path.write_text("".join(json.dumps({"question": "q", "answer": answer}) + "\n" for answer in answers))
    assert [p.answer for p in make_task("math", train=str(path)).problems("train")] == [r"\frac{1}{2}"] * 2 + ["1,024", "1,2"]


def test_a_missing_field_suggests_the_near_one(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"question": "q", "answer": "1"}\n{"qestion": "q", "answer": "1"}\n')
    with pytest.raises(UsageError, match=r"(?s)line 2: field 'question' is missing.*did you mean 'qestion'"):
        make_task("math", train=str(path)).problems("train")


ROWS = [{"question": "q", "answer": "1"}, {"id": "a", "question": "r", "answer": "2"}]


def test_reads_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table
    path = tmp_path / "data.parquet"
    parquet.write_table(table.from_pylist([{"id": "b", **ROWS[0]}, ROWS[1]]), path)
    assert [(p.id, p.answer) for p in make_task("math", train=str(path)).problems("train")] == [("b", "1"), ("a", "2")]
    parquet.write_table(table.from_pylist([ROWS[0], {"question": "", "answer": "1"}]), path)
    with pytest.raises(UsageError, match=r"data\.parquet, row 2: field 'question' is empty"):
        make_task("math", train=str(path)).problems("train")
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match="cannot read the data file"):
        make_task("math", train=str(path)).problems("train")
    with pytest.raises(UsageError, match="cannot read the data file"):
        make_task("math", train=str(tmp_path / "none.parquet")).problems("train")


def test_reads_a_data_set_folder_by_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set"
    folder.mkdir()
    for split, row in zip(("train", "test"), ROWS, strict=True):
        (folder / f"{split}.jsonl").write_text(json.dumps({"question": row["question"], "answer": row["answer"]}) + "\n")
    task = make_task("math", train=str(folder), heldout=str(folder))
    assert [p.question for p in task.problems("train")] == ["q"]
    assert [p.question for p in task.problems("heldout")] == ["r"]
    assert [p.question for p in make_task("math", train=f"{folder}::test").problems("train")] == ["r"]


def test_a_hub_id_that_cannot_be_loaded_says_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def refuse(*arguments: object, **options: object) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    says = r"(?s)task\.train: neither a file nor a data set.*ConnectionError.*owner/name:configuration:split"
    with pytest.raises(UsageError, match=says):
        make_task("gsm8k", train="openai/gsm8k:main:train").problems("train")


def test_without_the_optional_libraries_an_error_names_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("datasets", "pyarrow", "pyarrow.parquet", "reasoning_gym"):
        monkeypatch.setitem(sys.modules, name, None)
    library.cache_clear()
    path = tmp_path / "data.parquet"
    path.touch()
    for source in (str(path), "openai/gsm8k"):
        with pytest.raises(UsageError, match=r"pip install 'es-mpi\[data\]'"):
            make_task("gsm8k", train=source).problems("train")
    with pytest.raises(UsageError, match=r"pip install 'es-mpi\[gym\]'") as error:
        make_task("reasoning_gym/chain_sum").problems("train")
    assert error.value.key == "task.name"
