"""The generated tasks: fixed, disjoint splits and prompts of a known form."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import combinations

import pytest

from es_mpi.errors import UsageError
from es_mpi.grading import make_grader
from es_mpi.grading.countdown import problem, solution
from es_mpi.tasks import Task, make_task
from es_mpi.tasks.largest import _triple
from es_mpi.tasks.split import drawn
from es_mpi.types import Problem

FINGERPRINTS = {  # change them only together with the task's version
    ("largest", 1): "9ec844c0a42a1ebf",
    ("arithmetic", 1): "694f375819fb7969",
    ("countdown", 1): "c0d0bfc90cd99969",
}


def numbers(problem: Problem) -> list[int]:
    digits = "".join(c if c.isdigit() else " " for c in problem.question)
    return [int(word) for word in digits.split()]


def twins(problem: Problem) -> tuple[object, ...]:
    """The same for problems that differ only in order; the order matters for a difference."""
    sign = problem.question.split()[1] if " " in problem.question else ","
    return (sign, *(numbers(problem) if sign == "-" else sorted(numbers(problem))))


@pytest.mark.parametrize(("name", "version"), FINGERPRINTS)
def test_problems_never_change_within_a_version(name: str, version: int) -> None:
    task = make_task(name)
    problems = task.problems("heldout") + task.problems("train")
    text = "\n".join(f"{p.id} {p.question} {p.answer}" for p in problems) + str(task.prompt(problems[0]))
    assert task.version == version
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == FINGERPRINTS[name, version]


@pytest.mark.parametrize("task", [make_task("largest"), make_task("arithmetic")], ids=lambda task: task.name)
def test_splits_share_no_problem_in_any_order(task: Task) -> None:
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(heldout), len(train) >= 2000) == (400, True)
    assert not {twins(p) for p in train} & {twins(p) for p in heldout}
    assert len({twins(p) for p in heldout}) == 400  # held-out problems are independent
    assert len({p.id for p in train + heldout}) == len(train) + len(heldout)


@pytest.mark.parametrize("task", [make_task("largest"), make_task("arithmetic")], ids=lambda task: task.name)
def test_examples_are_in_no_split(task: Task) -> None:
    options = {"form": "plain"} if task.name == "arithmetic" else {}
    shown = make_task(task.name, options={"shots": 8, **options})
    examples = str(shown.prompt(shown.problems("train")[0])).splitlines()[:-1]
    questions = [line.partition("=")[0] + "=" for line in examples]
    own = {p.question.replace(" ", "").removesuffix("=") + "=" for split in ("train", "heldout") for p in shown.problems(split)}
    assert len(set(questions)) == 8
    assert not own & set(questions)


def test_largest_answers_and_prompt() -> None:
    task = make_task("largest", options={"shots": 2})
    for p in task.problems("heldout") + task.problems("train"):
        assert p.answer == str(max(numbers(p)))
        assert len(set(numbers(p))) == 3
        assert all(1 <= n <= 99 for n in numbers(p))
    places = Counter(numbers(p).index(int(p.answer)) for p in task.problems("train"))
    assert min(places.values()) > 500  # the place of the largest tells nothing
    problem = task.problems("heldout")[0]
    *examples, question = str(task.prompt(problem)).split("\n")
    assert question == problem.question
    assert all(line.endswith(f"={max(numbers(Problem('', line.partition('=')[0], '')))}") for line in examples)
    assert (len(examples), task.stop, task.reward) == (2, ("\n",), "first_line")


def test_arithmetic_answers_and_forms() -> None:
    chat, plain = make_task("arithmetic"), make_task("arithmetic", options={"form": "plain", "shots": 1})
    results = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "x": lambda a, b: a * b}
    for p in chat.problems("heldout") + chat.problems("train"):
        a, sign, b = p.question.split()
        assert p.answer == str(results[sign](int(a), int(b)))
        assert int(p.answer) >= 0
    assert chat.problems("train") == plain.problems("train")
    problem = Problem("", "7 x 8", "56")
    assert chat.prompt(problem) == [{"role": "user", "content": "What is 7 x 8? Answer with the number only."}]
    assert str(plain.prompt(problem)).splitlines()[1:] == ["7x8="]
    assert (chat.stop, chat.reward, plain.stop, plain.reward) == ((), "last_number", ("\n",), "first_line")
    told = make_task("arithmetic", system="Be brief.").prompt(problem)
    assert told[0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("task", [make_task("largest"), make_task("arithmetic")], ids=lambda task: task.name)
def test_the_tasks_reward_grades_its_own_answers_as_right(task: Task) -> None:
    grade = make_grader(task.reward)
    assert all(grade(p.answer, p.answer, False).reward == 1.0 for p in task.problems("heldout"))


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("largest", {"shots": 9}, "task.options.shots"),
        ("largest", {"shots": True}, "task.options.shots"),
        ("largest", {"shots": "2"}, "task.options.shots"),
        ("arithmetic", {"shots": 1}, "task.options.shots"),  # chat form has no examples
        ("arithmetic", {"form": "plan"}, "task.options.form"),
    ],
)
def test_bad_options_name_their_key(name: str, options: dict[str, object], key: str) -> None:
    with pytest.raises(UsageError) as error:
        make_task(name, options=options)
    assert error.value.key == key


def test_a_longer_sample_starts_with_the_shorter_one() -> None:
    assert drawn(range(1000), 50, "salt")[:20] == drawn(range(1000), 20, "salt")
    assert drawn(range(1000), 20, "salt") != drawn(range(1000), 20, "pepper")


def test_a_triple_is_found_by_its_place_in_the_list_of_all() -> None:
    assert [_triple(place) for place in range(156849)] == list(combinations(range(1, 100), 3))


def test_countdown_is_solvable_balanced_and_in_no_split_twice() -> None:
    task = make_task("countdown")
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (len(train), len(heldout)) == (200, 2000)
    assert len({p.id for p in train + heldout}) == 2200
    for p in train + heldout:
        given, target = problem(p.answer)
        assert len(given) in (3, 4)
        assert all(1 <= n <= 100 for n in (*given, target))
        assert str(given) in p.question and f" {target}." in p.question
        assert solution(given, target), p
    assert Counter(len(problem(p.answer)[0]) for p in heldout) == {3: 1000, 4: 1000}


def test_any_reasoning_gym_data_set_is_a_task() -> None:
    pytest.importorskip("reasoning_gym")
    task = make_task("reasoning_gym/chain_sum", options={"train_size": 20, "heldout_size": 10, "settings": {"max_terms": 3}})
    train, heldout = task.problems("train"), task.problems("heldout")
    assert (task.name, task.reward, len(heldout)) == ("reasoning_gym/chain_sum", "reasoning_gym", 10)
    assert train == task.problems("train")
    assert not {p.question for p in train} & {p.question for p in heldout}
    grade = make_grader(task.reward)
    for p in train:
        answer = json.loads(p.answer)["answer"]
        assert grade(f"so <answer> {answer} </answer>", p.answer, False).reward == 1.0
        assert grade(rf"so \boxed{{{answer}}}", p.answer, False).reward == 1.0
        assert grade("<answer>1234567</answer>", p.answer, False).reward < 1.0
        assert grade(f"<answer>{answer}", p.answer, False).verdict == "unparsed"


@pytest.mark.parametrize(
    ("name", "options", "key", "says"),
    [
        ("reasoning_gym", {}, "task.name", "did you mean 'reasoning_gym/<data set>'"),
        ("reasoning_gym/chain_sums", {}, "task.options.dataset", "did you mean 'chain_sum'"),
        ("reasoning_gym/chain_sum", {"settings": {"terms": 3}}, "task.options.settings", "terms"),
        ("reasoning_gym/chain_sum", {"setting": {}}, "task.options.setting", "did you mean 'settings'"),
    ],
)
def test_a_wrong_name_or_setting_of_reasoning_gym_is_named(name: str, options: dict[str, object], key: str, says: str) -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(UsageError, match=says) as error:
        make_task(name, options=options).problems("train")
    assert error.value.key == key
