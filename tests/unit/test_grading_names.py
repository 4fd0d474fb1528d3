"""first_line, the graders' names, and a user's own."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from es_mpi.errors import UsageError
from es_mpi.grading import GRADERS, make_grader
from es_mpi.grading.guarded import guarded
from es_mpi.grading.registry import ENTRIES
from es_mpi.types import Grade, Verdict


@pytest.mark.parametrize(
    ("response", "truncated", "verdict"),
    [
        ("40", False, Verdict.RIGHT),
        (" 40 \nmax(1,2,3)=3", False, Verdict.RIGHT),
        ("40\n", True, Verdict.RIGHT),
        ("40", True, Verdict.TRUNCATED),  # may have been the start of 400
        ("40.", False, Verdict.WRONG),
        ("040", False, Verdict.WRONG),
        ("41\n40", False, Verdict.WRONG),
        ("\n40", False, Verdict.UNPARSED),
        ("", False, Verdict.UNPARSED),
    ],
)
def test_first_line_is_exact(response: str, truncated: bool, verdict: Verdict) -> None:
    grade = make_grader("first_line")(response, "40", truncated)
    assert (grade.verdict, grade.reward) == (verdict, float(verdict == Verdict.RIGHT))


CHAIN_SUM = '{"question": "18 + 0 =", "answer": "18", "metadata": {"source_dataset": "chain_sum"}}'
REFERENCES = {"choice": "B", "countdown": '{"numbers": [3, 6], "target": 18}', "reasoning_gym": CHAIN_SUM}


@pytest.mark.parametrize("name", GRADERS)
def test_every_grader_accepts_its_own_reference_and_no_empty_response(name: str) -> None:
    if name == "reasoning_gym":
        pytest.importorskip("reasoning_gym")
    answer = REFERENCES.get(name, "18")
    respond = ENTRIES[name].respond or (lambda answer: "18")
    grade = make_grader(name)(respond(answer), answer, False)
    assert grade.verdict is Verdict.RIGHT
    assert grade.reward >= 1.0
    assert make_grader(name)("", answer, False) == Grade(Verdict.UNPARSED, 0.0)
    assert make_grader(name)("", answer, True) == Grade(Verdict.TRUNCATED, 0.0)


def test_an_unknown_name_suggests_the_near_one() -> None:
    with pytest.raises(UsageError, match="did you mean 'last_number'") as error:
        make_grader("last_numbr")
    assert error.value.key == "task.reward"


def test_a_users_own_grader_is_found_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from es_mpi.types import Grade, Verdict\ndef shout(response, answer, truncated):\n"
    (tmp_path / "my_rewards.py").write_text(source + "    return Grade(Verdict.RIGHT, float(response.isupper()))\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])  # a console script's path does not hold the working folder
    assert make_grader("my_rewards:shout")("YES", "", False).reward == 1.0
    with pytest.raises(UsageError, match="no function of that name"):
        make_grader("my_rewards:whisper")


@pytest.mark.parametrize("name", ["no_such_module_here:f", ":f", ".relative:f", "math:pi", "math:"])
def test_a_broken_reference_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError) as error:
        make_grader(name)
    assert error.value.key == "task.reward"


@pytest.mark.parametrize(
    ("given", "verdict"), [(1.0, Verdict.RIGHT), (True, Verdict.RIGHT), (2, Verdict.RIGHT), (0.5, Verdict.WRONG)]
)
def test_a_users_grader_may_return_a_number(given: float, verdict: Verdict) -> None:
    notes: list[str] = []
    graded = guarded(lambda response, answer, truncated: given, notes.append)("said", "7", False)  # type: ignore[arg-type, return-value]
    assert (graded.verdict, graded.reward, notes) == (verdict, float(given), [])


def _leaves() -> None:
    sys.exit(0)


@pytest.mark.parametrize("body", [_leaves, lambda: 1 / 0, lambda: math.nan, lambda: None, lambda: "right"])
def test_whatever_a_users_grader_does_fails_its_response_only(body: Callable[[], object]) -> None:
    notes: list[str] = []
    given = guarded(lambda response, answer, truncated: body(), notes.append)("said", "7", False)  # type: ignore[arg-type, return-value]
    assert given.verdict is Verdict.ERROR
    assert math.isnan(given.reward)
    assert len(notes) == 1


@pytest.mark.parametrize("text", ["def f(:", "raise SystemExit(0)", "undefined_name", "raise RuntimeError('x')"])
def test_a_users_module_that_does_not_load_is_bad_input(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_reward.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_reward", raising=False)
    with pytest.raises(UsageError, match="broken_reward"):
        make_grader("broken_reward:f")
