"""metrics.jsonl, TensorBoard's files and the monitor that feeds them."""

from __future__ import annotations

import io
import json
import math
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as ServerAccumulator

from es_mpi.checkpoint.run_folder import RunFolder
from es_mpi.errors import UsageError
from es_mpi.monitoring import tags
from es_mpi.monitoring.console import Console
from es_mpi.monitoring.metrics import MetricsFile
from es_mpi.monitoring.monitor import Monitor, open_monitor
from es_mpi.monitoring.tensorboard import TensorBoardFile

DOC = Path(__file__).resolve().parents[2] / "docs" / "monitoring.md"


def _rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _points(folder: Path, tag: str = "reward/mean") -> list[tuple[int, float]]:
    """What a reader sees; TensorBoard's Python server, which purges by rules of its own, must see the same."""
    reader = EventAccumulator(str(folder)).Reload()
    server = ServerAccumulator(str(folder)).Reload()
    points = [(event.step, event.value) for event in reader.Scalars(tag)]
    assert points == [(event.step, event.tensor_proto.float_val[0]) for event in server.Tensors(tag)]
    return points


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "demo")
    run.create("")
    return run


def _open(run: RunFolder, resume_step: int | None = None, rank: int = 0) -> Monitor:
    return open_monitor(rank, run, console="off", tensorboard=True, total=8, resume_step=resume_step)


def test_metrics_are_exact(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.log(3, {"reward/mean": 0.1 + 0.2, "es/step_cosine": math.nan, "grpo/loss": -math.inf})
    [row] = _rows(tmp_path / "metrics.jsonl")
    assert row["step"] == 3 and isinstance(row["time"], float)
    assert (row["reward/mean"], row["es/step_cosine"], row["grpo/loss"]) == (0.30000000000000004, None, None)


def test_metrics_of_lost_steps_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for step in range(6):
        first.log(step, {"reward/mean": step / 7})
    kept = _rows(path)[:3]
    with path.open("ab") as file:
        file.write(b'{"step":6,"ti')
    MetricsFile(path, resume_step=2).log(3, {"reward/mean": 0.5})
    assert _rows(path)[:3] == kept
    assert [row["step"] for row in _rows(path)] == [0, 1, 2, 3]


def test_damaged_metrics_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step":0}\nx\n{"step":2}\n')
    with pytest.raises(UsageError, match=r"line 2 of .*metrics\.jsonl"):
        MetricsFile(tmp_path / "metrics.jsonl", resume_step=1)


def test_tensorboard_shows_the_numbers_at_once(tmp_path: Path) -> None:
    file = TensorBoardFile(tmp_path)
    file.log(0, {"reward/mean": 0.1, "reward/std": math.nan})
    assert _points(tmp_path) == [(0, struct.unpack("f", struct.pack("f", 0.1))[0])]
    assert math.isnan(EventAccumulator(str(tmp_path)).Reload().Scalars("reward/std")[0].value)
    file.log(1, {"reward/mean": 0.5})
    assert len(_points(tmp_path)) == 2
    [path] = tmp_path.iterdir()
    assert "tfevents" in path.name


def test_a_resumed_run_shows_each_step_once(run: RunFolder) -> None:
    first = _open(run)
    for step in range(6):
        first.log(step, {"reward/mean": step, "es/update_norm": step})
    resumed = _open(run, resume_step=2)
    for step in range(3, 8):
        resumed.log(step, {"reward/mean": step + 0.5, "es/update_norm": step + 0.5})
    expected = [(step, step + 0.5 * (step > 2)) for step in range(8)]
    for tag in ("reward/mean", "es/update_norm"):
        assert _points(run.tensorboard, tag) == expected
        assert [(row["step"], row[tag]) for row in _rows(run.metrics)] == expected


def test_resuming_twice_in_one_second_and_after_a_torn_record(run: RunFolder) -> None:
    for start, resume_step in ((0, None), (4, 3), (2, 1)):
        monitor = _open(run, resume_step)
        for step in range(start, start + 4):
            monitor.log(step, {"reward/mean": 10 * start + step})
        with sorted(run.tensorboard.iterdir())[-1].open("ab") as file:
            file.write(b"\x30\x00\x00\x00\x00\x00\x00\x00\x01\x02")
    assert _points(run.tensorboard) == [(0, 0), (1, 1), (2, 22), (3, 23), (4, 24), (5, 25)]


def test_tensorboard_needs_neither_torch_nor_tensorflow() -> None:
    code = "import sys, es_mpi.monitoring.tensorboard; print({'torch', 'tensorflow', 'mpi4py', 'vllm'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout == "set()\n"


def test_the_monitor_itself_loads_no_tensorboard() -> None:
    code = "import sys, es_mpi.monitoring.monitor; print({'tensorboard', 'torch', 'numpy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout == "set()\n"


class FullDisk:
    """A file that refuses the steps it is told to."""

    def __init__(self, refused: set[int]) -> None:
        self.refused = refused
        self.steps: list[int] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if step in self.refused:
            raise OSError(28, "No space left on device")
        self.steps.append(step)

    def close(self) -> None:
        self.steps.append(-1)


def test_a_full_disk_costs_one_warning_and_no_run(tmp_path: Path) -> None:
    shown = io.StringIO()
    monitor = Monitor(Console("off", total=8, stream=shown))
    full, good = FullDisk({1, 2}), FullDisk(set())
    monitor.add("TensorBoard", lambda: full)
    monitor.add("metrics.jsonl", lambda: good)
    for step in range(4):
        monitor.log(step, {"reward/mean": 0.0})
    monitor.close()
    assert (full.steps, good.steps) == ([0, 3, -1], [0, 1, 2, 3, -1])
    assert shown.getvalue().count("warning") == 1
    assert "TensorBoard misses step 1, perhaps more: No space left on device" in shown.getvalue()


def test_a_file_that_cannot_be_opened_costs_one_warning(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run.tensorboard.rmdir()
    monitor = _open(run)
    monitor.log(0, {"reward/mean": 0.25})
    assert capsys.readouterr().out.count("TensorBoard cannot be written") == 1
    assert _rows(run.metrics)[0]["reward/mean"] == 0.25


def test_a_tensorboard_record_that_does_not_fit_leaves_no_trace(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
from es_mpi.monitoring.tensorboard import TensorBoardFile
file = TensorBoardFile(Path(sys.argv[1]))
limit = Path(file._file.path).stat().st_size + 100
for step in range(8):
    soft = limit if 2 <= step < 5 else resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
    try:
        file.log(step, {"reward/mean": step})
    except OSError:
        print(step)
"""
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.split() == ["2", "3", "4"]
    assert [step for step, _ in _points(tmp_path)] == [0, 1, 5, 6, 7]


def test_other_ranks_show_and_write_nothing(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = _open(run, rank=1)
    monitor.log(1, {"reward/mean": 0.5})
    monitor.note("note")
    monitor.warn("warning")
    monitor.before_after([])
    monitor.close()
    assert capsys.readouterr() == ("", "")
    assert not run.metrics.exists() and not list(run.tensorboard.iterdir())


def test_tensorboard_can_be_left_out(run: RunFolder) -> None:
    monitor = open_monitor(0, run, console="off", tensorboard=False, total=1)
    monitor.log(1, {"reward/mean": 0.5})
    assert run.metrics.exists() and not list(run.tensorboard.iterdir())


def test_an_undocumented_tag_is_pointed_out_once(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = _open(run)
    for step in range(2):
        monitor.log(step, {"reward/maen": 0.5})
    assert capsys.readouterr().out.count("reward/maen is no documented tag") == 1
    assert _rows(run.metrics)[0]["reward/maen"] == 0.5


@pytest.mark.parametrize(
    ("tag", "known"),
    [
        ("reward/mean", True),
        ("eval/gsm8k/pass@16", True),
        ("eval/gsm8k/maj@8_low", True),
        ("eval/arithmetic/greedy_high", True),
        ("reward/mean_low", False),
        ("eval/<task>/greedy", True),  # a task may have any name
        ("eval/gsm8k/pass@", False),
        ("eval/gsm8k/recall", False),
        ("time/sleep", False),
    ],
)
def test_known_tags(tag: str, known: bool) -> None:
    assert tags.known(tag) is known


def test_tags_are_distinct_and_each_is_known() -> None:
    names = [tag.name for tag in tags.TAGS]
    assert len(set(names)) == len(names)
    assert all(tags.known(name.replace("<task>", "largest").replace("<k>", "32")) for name in names)


def test_the_document_lists_every_tag_with_the_same_words() -> None:
    lines = [line for line in DOC.read_text().splitlines() if line.startswith("| `") and "/" in line.split("`")[1]]
    lines = [line for line in lines if line.count("|") == 4 and "`tb/`" not in line]
    assert lines == [f"| `{tag.name}` | {tag.unit} | {tag.meaning} |" for tag in tags.TAGS]
