"""The journal: whole lines or none, whatever kills the writer or fills the disk."""

from __future__ import annotations

import json
import logging
import math
import random
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from es_mpi.checkpoint.journal import Journal, read_journal, repair
from es_mpi.errors import TryAgain, UsageError

APPEND_FOR_EVER = """
import sys
from pathlib import Path
from es_mpi.checkpoint.journal import Journal
journal = Journal(Path(sys.argv[1]))
step = 0
while True:
    step += 1
    journal.append({"step": step, "members": [[i, i / 7] for i in range(300)]})
    print(step, flush=True)
"""

# The file may not grow beyond 1000 bytes: the fourth line is cut short, as on a full disk. Then there is room again.
FILL_THE_DISK = """
import resource, sys
from pathlib import Path
from es_mpi.checkpoint.journal import Journal
from es_mpi.errors import TryAgain
journal = Journal(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for step in range(1, 10):
    try:
        journal.append({"step": step, "pad": "x" * 300})
    except TryAgain as error:
        print(error)
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append({"step": step, "pad": ""})
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def _write(path: Path, *records: dict[str, object]) -> None:
    journal = Journal(path)
    for record in records:
        journal.append(record)
    journal.close()


def test_records_come_back(path: Path) -> None:
    records = [{"step": 1, "phase": "warm", "seeds": [2**64 - 1]}, {"step": 2, "text": "ä\n\u2028\ud800"}]
    _write(path, *records)
    assert read_journal(path) == records
    assert path.read_bytes().count(b"\n") == 2


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    _write(path, {"values": values})
    [record] = read_journal(path)
    assert struct.pack(f"{len(values)}d", *record["values"]) == struct.pack(f"{len(values)}d", *values)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_json_cannot_say_leaves_no_trace(path: Path, value: float) -> None:
    journal = Journal(path)
    with pytest.raises(ValueError):
        journal.append({"step": 1, "value": value})
    assert path.read_bytes() == b""


@pytest.mark.parametrize("tail", [b'{"step": 3', b'{"step": 3}', b'{"step"\n', b"\0" * 700, b"3\n", b"\xff\xfe\n", b"\n"])
def test_a_torn_last_line_is_no_step(path: Path, tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    _write(path, {"step": 1}, {"step": 2})
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with caplog.at_level(logging.WARNING):
        assert read_journal(path) == [{"step": 1}, {"step": 2}]
    assert "line 3 is torn" in caplog.text and str(path) in caplog.text
    assert repair(path) == len(tail)
    assert path.read_bytes() == whole
    assert repair(path) == 0


def test_opening_repairs_before_it_appends(path: Path) -> None:
    path.write_bytes(b'{"step":1}\n{"step":2,"rew')
    _write(path, {"step": 2, "reward": 0.5})
    assert read_journal(path) == [{"step": 1}, {"step": 2, "reward": 0.5}]


def test_a_whole_journal_gives_no_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write(path, {"step": 1})
    read_journal(path)
    assert caplog.text == ""


@pytest.mark.parametrize("line", [b'{"step":2', b"", b"[2]", b"\0\0\0", b"\xff"])
def test_damage_in_the_middle_is_named(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"step":1}\n' + line + b'\n{"step":3}\n')
    for read in (read_journal, repair, Journal):
        with pytest.raises(UsageError, match=r"line 2 of .*journal\.jsonl"):
            read(path)


def test_a_missing_journal_is_bad_input(path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_journal(path)


def test_a_place_that_refuses_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(UsageError, match=r"run\.dir: the journal cannot be opened"):
        Journal(tmp_path / "journal.jsonl")


def test_a_full_disk_leaves_no_half_line(path: Path) -> None:
    out = subprocess.run([sys.executable, "-c", FILL_THE_DISK, str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert "step 4 could not be recorded" in out.stdout
    assert f"es-mpi resume {path.parent}" in out.stdout
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3, 4]
    assert TryAgain.exit_code == 75


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_keeps_every_recorded_step(path: Path, seed: int) -> None:
    count = random.Random(seed).randrange(1, 60)
    with subprocess.Popen([sys.executable, "-c", APPEND_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(count)][-1]
        process.send_signal(signal.SIGKILL)
    steps = [record["step"] for record in read_journal(path)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= seen
    _write(path, {"step": len(steps) + 1})
    assert read_journal(path)[-1] == {"step": len(steps) + 1}
