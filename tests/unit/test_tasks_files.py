"""Problems from files: gsm8k and the checks of every row."""

from __future__ import annotations

from pathlib import Path

import pytest

from es_mpi.errors import UsageError
from es_mpi.tasks import make_task
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
