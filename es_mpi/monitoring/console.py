"""What the user sees while a run goes on: a progress bar on a terminal, one plain line a report otherwise."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TextIO

from rich import box
from rich.console import Console as RichConsole
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from es_mpi.monitoring.tags import EVAL, REWARD_MAX, REWARD_MEAN, REWARD_STD, SCORES, UNITS

Mode = Literal["auto", "rich", "plain", "off"]

_PLAIN_WIDTH = 120


class Interval(NamedTuple):
    """A metric's value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class EvalRow:
    """One line of the table that ends a run."""

    task: str
    metric: str
    before: Interval
    after: Interval


class Console:
    """Progress from update `start` to `total` on `stream`. `off` shows warnings only. `clock` returns seconds."""

    def __init__(
        self,
        mode: Mode,
        *,
        total: int,
        start: int = 0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stream = stream or sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # a process may be started without a stdout
        mode = _choose(stream) if mode == "auto" else mode
        self._mode, self._total, self._start, self._clock = mode, total, start, clock
        self._last, self._spent = clock(), 0.0
        rich = mode == "rich"
        self._out = RichConsole(file=stream, force_terminal=rich, highlight=False, width=None if rich else _PLAIN_WIDTH)
        # No refresh thread: the display moves when there is something new to say.
        self._bar = Progress(
            TextColumn("[bold]{task.fields[phase]}"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._out,
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=total, completed=start, phase="", text="")
        if rich:
            self._bar.start()

    def log(self, step: int, values: Mapping[str, float], phase: str = "") -> None:
        """Show the update that `values` reports (if it holds a mean reward) and the evaluations in it."""
        if REWARD_MEAN in values:
            text = f"{_reward(values)}  {self._pace(step)}"
            if self._mode == "rich":
                self._bar.update(self._task, completed=step, phase=phase, text=text, refresh=True)
            else:
                self._say(f"update {step}/{self._total}  {phase}{'  ' if phase else ''}{text}")
        for task, text in _evaluations(values).items():
            self.note(f"step {step}  {task}: {text}")

    def note(self, text: str) -> None:
        self._say(text)
        self._last = self._clock()  # what a note tells of (a start, an evaluation) is no part of the next update

    def warn(self, text: str) -> None:
        self._out.print(f"[yellow]warning: {escape(text)}[/yellow]", soft_wrap=True)

    def before_after(self, rows: Iterable[EvalRow]) -> None:
        """The table of a run's gains, with 95 % intervals; a star marks intervals that do not overlap."""
        table = Table(box=box.SIMPLE_HEAD if self._mode == "rich" else box.ASCII2)
        for name in ("task", "metric", "before (95 %)", "after (95 %)", "change"):
            table.add_column(name, justify="left" if name in ("task", "metric") else "right")
        for row in rows:
            apart = row.before.high < row.after.low or row.after.high < row.before.low
            change = row.after.value - row.before.value
            text = f"{change:+.3g}" if row.metric in UNITS else f"{100 * change:+.1f}"
            shown = (_value(row.metric, row.before), _value(row.metric, row.after), f"{text}{' *' if apart else '  '}")
            table.add_row(escape(row.task), row.metric, *shown)
        if self._mode != "off":
            self._out.print(table)

    def close(self) -> None:
        if self._mode == "rich":
            self._bar.stop()

    def _say(self, text: str) -> None:
        if self._mode != "off":
            self._out.print(escape(text), soft_wrap=True)

    def _pace(self, step: int) -> str:
        """Seconds of the last update, and the time left at the mean pace of all."""
        now = self._clock()
        seconds, self._last = now - self._last, now
        self._spent += seconds
        left = self._spent / max(1, step - self._start) * (self._total - step)
        return f"{seconds:.1f} s/update  ETA {_duration(left)}"


def silence_stdout() -> None:
    """What Python still holds for stdout goes nowhere: its flush at the end would fail, and change the exit code."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _choose(stream: TextIO) -> Mode:
    """`rich` on a terminal. mpirun gives each rank one of its own, as wide as mpirun's, or of 0 columns where that has none."""
    if not stream.isatty():
        return "plain"
    return "rich" if os.get_terminal_size(stream.fileno()).columns > 0 else "plain"


def _reward(values: Mapping[str, float]) -> str:
    text = f"reward {values[REWARD_MEAN]:.3f}"
    if REWARD_STD in values:
        text += f" (sd {values[REWARD_STD]:.3f})"
    if REWARD_MAX in values:
        text += f"  best {values[REWARD_MAX]:.3f}"
    return text


def _evaluations(values: Mapping[str, float]) -> dict[str, str]:
    """One text a task: each score in percent, with its interval where that is known."""
    texts: dict[str, str] = {}
    for tag, value in values.items():
        match = EVAL.fullmatch(tag)
        if match and not match["bound"] and SCORES.fullmatch(match["metric"]):
            low, high = (values.get(tag + bound, math.nan) for bound in ("_low", "_high"))
            part = f"{match['metric']} {_value(match['metric'], Interval(value, low, high))}"
            texts[match["task"]] = "  ".join(filter(None, (texts.get(match["task"]), part)))
    return texts


def _value(metric: str, found: Interval) -> str:
    """A share in percent, another metric in its unit, with its interval where that is known."""
    if metric in UNITS:
        ends = "" if math.isnan(found.low) else f" [{found.low:.3g}, {found.high:.3g}]"
        return f"{found.value:.3g} {UNITS[metric]}{ends}"
    ends = "" if math.isnan(found.low) else f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{100 * found.value:.1f} %{ends}"


def _duration(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}h{minute:02d}m" if hours else f"{minute}m{second:02d}s" if minute else f"{second}s"
