"""Killable grading processes: limits, deaths, stops, what they inherit, and that verdicts do not depend on any of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import psutil
import pytest

from es_mpi.config.schema import GradingConfig
from es_mpi.grading.process import Died, clean_environment
from es_mpi.grading.service import Grading
from es_mpi.types import Item, Verdict

pytestmark = pytest.mark.timeout(120)

GRADER = """
import os, signal, sys, time
from es_mpi.types import Grade, Verdict

def grade(response, answer, truncated):
    if response == "hang":
        9**9**9**9  # in C code, deaf to Python's signal handlers
    if response == "spin":
        while True: pass
    if response == "sleep":
        time.sleep(1000)
    if response == "eat":
        bytearray(2**30)  # of the half GiB allowed
    if response == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if response == "leave":
        os._exit(0)
    if response == "raise":
        raise ValueError("no")
    if response == "text":
        return "right"
    if response == "print":
        print("[]")
    if response == "pid":
        return Grade(Verdict.RIGHT, 1.0, str(os.getpid()))
    if response == "environment":
        return Grade(Verdict.RIGHT, 1.0, " ".join(os.environ))
    if response == "modules":
        return Grade(Verdict.RIGHT, 1.0, " ".join(m for m in ("mpi4py", "torch", "vllm") if m in sys.modules))
    if response == "work":
        end = time.process_time() + 0.08
        while time.process_time() < end: pass
    return 1.0
"""


@pytest.fixture(scope="module", autouse=True)
def own_grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("rewards")
    (folder / "pool_reward.py").write_text(GRADER)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def grading(notes: list[str]) -> Iterator[Grading]:
    made = Grading("pool_reward:grade", GradingConfig(workers=2, cpu_s=0.5, asleep_s=2.0, memory_gib=0.5))
    made.start(notes.append)
    yield made
    made.close()


def verdicts(grading: Grading, *responses: str) -> list[Verdict]:
    return [grade.verdict for grade in grading.submit([Item(response, "7", False) for response in responses])()]


def pids(grading: Grading) -> set[int]:
    found: set[int] = set()
    while len(found) < 2:
        found |= {int(grade.extracted or 0) for grade in grading.submit([Item("pid", "7", False)] * 8)()}
    return found


def test_what_runs_out_of_time_or_memory_is_a_timeout_and_the_rest_is_graded(grading: Grading, notes: list[str]) -> None:
    bad = ["hang", "spin", "sleep", "eat"]
    given = verdicts(grading, *(response for one in bad for response in ("good", one)), "good")
    assert given == [Verdict.RIGHT, Verdict.TIMEOUT] * 4 + [Verdict.RIGHT]
    assert sorted(note.split(",")[0] for note in notes) == [
        "the grader needed too much memory", "the grader needed too much time", "the grader needed too much time",
        "the grader slept for 2.0 s",
    ]  # fmt: skip
    assert len(pids(grading)) == 2  # the pool is whole


def test_what_a_grader_breaks_costs_its_sample_only(grading: Grading, notes: list[str]) -> None:
    given = verdicts(grading, "good", "crash", "good", "leave", "raise", "text", "print", "good")
    right, error = Verdict.RIGHT, Verdict.ERROR
    assert given == [right, error, right, error, error, error, right, right]
    assert any("SIGSEGV" in note for note in notes)
    assert any("exit code 0" in note for note in notes)
    assert any("ValueError: no" in note for note in notes)
    assert any("a reward function returns a number, or es_mpi.types.Grade" in note for note in notes)


def test_twenty_answers_of_which_ten_hang() -> None:
    grading = Grading("pool_reward:grade", GradingConfig(workers=4, cpu_s=1.0))
    grading.start(lambda text: None)
    try:
        assert verdicts(grading, *["good", "hang"] * 10) == [Verdict.RIGHT, Verdict.TIMEOUT] * 10
        assert verdicts(grading, *["good"] * 8) == [Verdict.RIGHT] * 8
    finally:
        grading.close()


def test_a_process_that_is_stopped_for_longer_than_its_limits_gives_the_same_verdict(grading: Grading) -> None:
    """6 s stopped, as a paused machine is, against limits of 0.5 s of CPU time and 2 s asleep."""
    held = pids(grading)
    waiting = grading.submit([Item("work", "7", False)] * 4)
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    wake = threading.Timer(6, lambda: [os.kill(pid, signal.SIGCONT) for pid in held])
    wake.start()
    assert [grade.verdict for grade in waiting()] == [Verdict.RIGHT] * 4
    wake.join()
    assert pids(grading) == held  # none was replaced


def test_a_loaded_machine_changes_no_verdict(grading: Grading) -> None:
    """0.08 s of work where a first try has 0.125 s, beside as many busy processes that go first as there are cores, and more."""
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert verdicts(grading, *["work", "hang"] * 2) == [Verdict.RIGHT, Verdict.TIMEOUT] * 2
    finally:
        for process in load:
            process.kill()
            process.wait()


def test_a_killed_process_is_replaced_and_its_work_done_again(grading: Grading) -> None:
    held = pids(grading)
    waiting = grading.submit([Item("work", "7", False)] * 4)
    for pid in held:
        os.kill(pid, signal.SIGKILL)
    assert [grade.verdict for grade in waiting()] == [Verdict.RIGHT] * 4
    assert not pids(grading) & held


def test_signals_that_a_scheduler_sends_to_all_processes_do_not_disturb_them(grading: Grading) -> None:
    held = pids(grading)
    for pid in held:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            os.kill(pid, number)
    assert verdicts(grading, "good") == [Verdict.RIGHT]
    assert pids(grading) == held


def test_nothing_of_mpi_is_inherited(grading: Grading, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMI_RANK": "1", "SLURM_PROCID": "1", "HOME": "/root", "PRTE_X": "1"}
    assert set(clean_environment(given)) - {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} == {"HOME"}
    for name in given:
        monkeypatch.setenv(name, "1")
    fresh = Grading("pool_reward:grade", GradingConfig(workers=1))
    fresh.start(lambda text: None)
    try:
        names = (fresh("environment", "7", False).extracted or "").split()
        assert not [name for name in names if name.startswith(("OMPI_", "PMI", "SLURM_", "PRTE_"))]
        assert fresh("modules", "7", False).extracted == ""
    finally:
        fresh.close()


OWNER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from es_mpi.config.schema import GradingConfig
from es_mpi.types import Item
from es_mpi.grading.service import Grading
grading = Grading("pool_reward:grade", GradingConfig(workers=2, cpu_s=1000))
grading.start(print)
found = set()
while len(found) < 2:
    found |= {grade.extracted for grade in grading.submit([Item("pid", "7", False)] * 8)()}
grading.submit([Item("spin", "7", False)] * 2)
print(*found, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_owner_even_in_the_middle_of_an_answer(number: signal.Signals) -> None:
    command = [sys.executable, "-c", OWNER, sys.path[0]]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert owner.stdout
    workers = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(workers) == 2
    owner.send_signal(number)
    owner.wait()
    deadline = time.monotonic() + 60
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    owner.stdout.close()


def test_grades_come_in_the_order_of_the_batch_and_the_pool_keeps_up(grading: Grading) -> None:
    fast = Grading("math_verify", GradingConfig(workers=2))
    fast.start(lambda text: None)
    try:
        items = [Item(rf"\boxed{{{i}}}", "7", False) for i in range(500)]
        assert [grade.extracted for grade in fast.submit(items)()] == [str(i) for i in range(500)]
    finally:
        fast.close()


def test_without_processes_a_grader_runs_here() -> None:
    here = Grading("pool_reward:grade", GradingConfig(workers=0))
    here.start(lambda text: None)
    assert here("pid", "7", False).extracted == str(os.getpid())
    assert Grading("last_number", GradingConfig()).submit([Item("7", "7", False)])()[0].verdict is Verdict.RIGHT


def test_closing_does_not_wait_for_what_hangs() -> None:
    grading = Grading("pool_reward:grade", GradingConfig(workers=1, cpu_s=1000))
    grading.start(lambda text: None)
    waiting = grading.submit([Item("spin", "7", False)] * 3)
    grading.close()
    with pytest.raises((Died, CancelledError)):
        waiting()
