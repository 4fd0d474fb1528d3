"""What the console prints, in each of its modes."""

from __future__ import annotations

import io
import os
import pty
from collections.abc import Iterator

import pytest

from es_mpi.monitoring.console import Console, EvalRow, Interval

UPDATE = {"reward/mean": 0.4125, "reward/std": 0.0507, "reward/max": 0.5, "time/generate": 3.0}
EVALUATION = {
    "eval/largest/greedy": 0.75,
    "eval/largest/greedy_low": 0.6861,
    "eval/largest/greedy_high": 0.8049,
    "eval/largest/pass@8": 0.9,
    "eval/gsm8k/greedy": 0.03,
}
ROWS = [
    EvalRow("largest", "greedy", Interval(0.23, 0.18, 0.29), Interval(0.75, 0.69, 0.80)),
    EvalRow("gsm8k", "pass@8", Interval(0.10, 0.05, 0.15), Interval(0.08, 0.04, 0.13)),
]


def _clock(*seconds: float) -> Iterator[float]:
    return iter((*seconds, *(seconds[-1:] * 100)))


def _plain(
    mode: str = "plain", *, total: int = 30, start: int = 0, seconds: tuple[float, ...] = (0.0,)
) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    ticks = _clock(*seconds)
    return Console(mode, total=total, start=start, stream=out, clock=lambda: next(ticks)), out  # type: ignore[arg-type]


def test_one_plain_line_an_update() -> None:
    console, out = _plain(seconds=(100.0, 110.0, 114.0))
    console.log(1, UPDATE, phase="warm")
    console.log(2, UPDATE, phase="warm")
    assert out.getvalue().splitlines() == [
        "update 1/30  warm  reward 0.412 (sd 0.051)  best 0.500  10.0 s/update  ETA 4m50s",
        "update 2/30  warm  reward 0.412 (sd 0.051)  best 0.500  4.0 s/update  ETA 3m16s",
    ]


def test_an_evaluation_is_no_part_of_the_next_update() -> None:
    console, out = _plain(seconds=(0.0, 10.0, 70.0, 75.0))
    console.log(1, {"reward/mean": 0.5})
    console.log(1, {"eval/largest/greedy": 0.5})
    console.log(2, {"reward/mean": 0.5})
    assert out.getvalue().splitlines()[-1] == "update 2/30  reward 0.500  5.0 s/update  ETA 3m30s"


def test_a_resumed_run_counts_its_own_updates() -> None:
    console, out = _plain(start=20, total=400, seconds=(0.0, 30.0))
    console.log(21, {"reward/mean": 0.5})
    assert out.getvalue() == "update 21/400  reward 0.500  30.0 s/update  ETA 3h09m\n"


def test_the_last_update_leaves_nothing_to_wait_for() -> None:
    console, out = _plain(total=1, seconds=(0.0, 2.0))
    console.log(1, {"reward/mean": 0.5})
    assert out.getvalue().endswith("ETA 0s\n")


def test_one_line_a_task() -> None:
    console, out = _plain()
    console.log(12, EVALUATION)
    assert out.getvalue().splitlines() == [
        "step 12  largest: greedy 75.0 % [68.6, 80.5]  pass@8 90.0 %",
        "step 12  gsm8k: greedy 3.0 %",
    ]


def test_numbers_that_concern_nobody_here_print_nothing() -> None:
    console, out = _plain()
    console.log(1, {"time/save": 2.0})
    assert out.getvalue() == ""


def test_the_table() -> None:
    console, out = _plain()
    console.before_after(ROWS)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.getvalue().splitlines() if line.startswith("|")]
    assert ["largest", "greedy", "23.0 % [18.0, 29.0]", "75.0 % [69.0, 80.0]", "+52.0 *"] in rows
    assert ["gsm8k", "pass@8", "10.0 % [5.0, 15.0]", "8.0 % [4.0, 13.0]", "-2.0"] in rows
    assert out.getvalue().isascii()


def test_text_is_taken_literally_and_never_wrapped() -> None:
    console, out = _plain()
    text = "[red]not markup[/red] [x] " + "y" * 300
    console.note(text)
    console.warn(text)
    assert out.getvalue() == f"{text}\nwarning: {text}\n"


def test_off_shows_warnings_only() -> None:
    console, out = _plain("off")
    console.log(1, {**UPDATE, **EVALUATION})
    console.note("note")
    console.before_after(ROWS)
    console.warn("disk full")
    console.close()
    assert out.getvalue() == "warning: disk full\n"


def test_rich_draws_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    console, out = _plain("rich", seconds=(0.0, 10.0))
    console.log(3, UPDATE, phase="warm")
    console.note("evaluating")
    console.close()
    assert "\x1b[" in out.getvalue()
    assert "3/30" in out.getvalue() and "reward 0.412" in out.getvalue() and "evaluating" in out.getvalue()


def test_auto_is_plain_in_a_file() -> None:
    console, out = _plain("auto")
    console.log(1, UPDATE)
    console.close()
    assert "\x1b" not in out.getvalue() and "update 1/30" in out.getvalue()


@pytest.mark.parametrize(("columns", "bar"), [(100, True), (0, False)])  # mpirun's terminals have 0 columns
def test_auto_on_a_terminal(columns: int, bar: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((columns, 40)))
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as screen, os.fdopen(follower, "w") as stream:
        console = Console("auto", total=30, stream=stream)
        console.log(1, UPDATE)
        console.close()
        stream.flush()
        shown = screen.read(10_000)
    assert (b"\x1b[" in shown) is bar
