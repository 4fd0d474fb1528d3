"""Tasks by name, and a user's own in a file of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from es_mpi.errors import UsageError
from es_mpi.tasks import TASKS, make_task

OWN_TASK = """
from es_mpi.types import Problem

class Reverse:
    name, version, stop, reward = "reverse", 1, ("\\n",), "first_line"

    def __init__(self, length: int = 3) -> None:
        self.words = [f"{i:0{length}d}" for i in range(10)]

    def problems(self, split):
        return [Problem(w, w, w[::-1]) for w in (self.words[:8] if split == "train" else self.words[8:])]

    def prompt(self, problem):
        return f"{problem.question} -> "

def from_file(train):
    return Reverse()
"""


def test_a_users_own_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_task.py").write_text(OWN_TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])
    task = make_task("own_task:Reverse", options={"length": 5})
    assert [p.answer for p in task.problems("heldout")] == ["80000", "90000"]
    with pytest.raises(UsageError, match="did you mean 'length'") as error:
        make_task("own_task:Reverse", options={"lenght": 5})
    assert error.value.key == "task.options.lenght"
    with pytest.raises(UsageError, match=r"task\.train: task 'own_task:from_file' needs this"):
        make_task("own_task:from_file")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_the_contract(name: str) -> None:
    task = make_task(name)
    assert task.name == name
    assert task.version >= 1
    assert isinstance(task.stop, tuple)


def test_an_unknown_task_suggests_the_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'arithmetic'") as error:
        make_task("aritmetic")
    assert error.value.key == "task.name"


def test_a_setting_the_task_has_no_use_for_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        make_task("largest", train="data.jsonl")
    assert error.value.key == "task.train"
    with pytest.raises(UsageError, match="has no options"):
        make_task("gsm8k", options={"shots": 1})
