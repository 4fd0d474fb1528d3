"""The scripts of launch/ in a copy of the project whose Python, compiler and cores are stand-ins: nothing is installed.

The stand-in Python notes how it was called in the file `calls`, and makes `.venv` a folder of further stand-ins.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from mpi_launch import REPO

SCRIPTS = ["launch/local", "launch/quickstart", "launch/test"]
COPIED = ["launch", ".ci", "pyproject.toml", "CMakeLists.txt", "es_mpi/__init__.py", "es_mpi/noise/csrc"]
TOOLS = "bash cat cp dirname env find flock grep head mkdir rm sed sha256sum sleep tail".split()

STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo "version = 3.12.0" > "$3/pyvenv.cfg" ;;
  *"-m pip install"*torch==*--extra-index-url*) exit "${TORCH_INDEX_EXIT:-0}" ;;
  *"-m pip install"*torch==*) echo "WARNING: Location x is ignored"; echo "no such build"; exit "${TORCH_EXIT:-0}" ;;
  *"-m pip install"*-e*) sleep 0.3; for name in es-mpi mpirun ruff mypy; do cp "$0" "${0%/*}/$name"; done ;;
  *"import torchvision"*) exit "${TORCHVISION_EXIT:-0}" ;;
  --version) echo "Python 3.12.0" ;;
  "-m pytest"*) exit "${PYTEST_EXIT:-0}" ;;
esac
[ "${0##*/}" != ruff ] || exit "${RUFF_EXIT:-0}"
"""


class Project:
    """A copy of the launch scripts and what they read, in a folder with a space in its name, with a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin, self.calls_file = folder / "a copy", folder / "bin", folder / "calls"
        self.bin.mkdir()
        for name in COPIED:
            source, target = REPO / name, self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or f"/missing/{tool}")
        self.stand_in("python3", STAND_IN)
        self.stand_in("c++", "#!/bin/sh\n")
        self.stand_in("nproc", "#!/bin/sh\necho 4\n")

    def stand_in(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def start(self, script: str, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / script, *args], env={"PATH": str(self.bin), "CALLS": str(self.calls_file), **env}, cwd="/", text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )

    def run(self, script: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(script, *args, **env) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess([script, *args], process.returncode, out, err)

    def calls(self, part: str = "") -> list[str]:
        """Calls of stand-ins that contain `part`, since the last time this was asked for."""
        found = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return [call for call in found if part in call]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def installs(calls: Iterable[str]) -> list[str]:
    return [call.split("-m pip install ")[1].removeprefix("--disable-pip-version-check --no-input ") for call in calls]


@pytest.mark.parametrize("script", [*SCRIPTS, "launch/rank-env", "launch/common", ".ci/run"])
def test_the_syntax_is_right(script: str) -> None:
    done = subprocess.run(["bash", "-n", REPO / script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(REPO / script, os.X_OK) == (script != "launch/common")


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_shows_the_whole_comment_and_does_nothing(project: Project, script: str) -> None:
    for flag in ("-h", "--help"):
        done = project.run(script, flag)
        assert done.returncode == 0, done.stderr
        assert script in done.stdout
        assert "first call" in done.stdout or "Makes what is missing" in done.stdout
        assert "source" not in done.stdout
    assert not (project.root / ".venv").exists()
    assert not project.calls()


@pytest.mark.parametrize("script", [*SCRIPTS, ".ci/run"])
def test_without_a_compiler_nothing_is_made(project: Project, script: str) -> None:
    project.stand_in("c++", "#!/bin/sh\nexit 1\n")  # there, but it does not work
    arguments = ["check", "x.yaml"] if script == "launch/local" else []
    done = project.run(script, *arguments)
    assert done.returncode == 1
    assert "no working C++17 compiler" in done.stderr and "apt install g++" in done.stderr
    assert not (project.root / ".venv").exists()
    assert not installs(project.calls("-m pip install"))


def test_a_compiler_chosen_by_hand_is_the_only_one_tried(project: Project) -> None:
    done = project.run("launch/quickstart", CXX="no-such-compiler")
    assert done.returncode == 1
    assert "(CXX=no-such-compiler)" in done.stderr


@pytest.mark.parametrize("chosen", ["", "/no/such/python"])
def test_without_a_python_the_message_says_which(project: Project, chosen: str) -> None:
    if not chosen:
        project.stand_in("python3", "#!/bin/sh\nexit 1\n")  # too old, or without venv
    done = project.run("launch/test", **({"ES_MPI_PYTHON": chosen} if chosen else {}))
    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr and "ES_MPI_PYTHON" in done.stderr and chosen in done.stderr
    assert not (project.root / ".venv").exists()


def test_a_python_that_does_not_start_is_passed_over(project: Project) -> None:
    project.stand_in("python3.13", "#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    assert project.run("launch/test").returncode == 0
    assert project.calls("-m venv")[0].startswith("python3 ")


def test_a_second_call_installs_nothing_and_a_changed_source_installs_again(project: Project) -> None:
    assert project.run("launch/test").returncode == 0
    assert installs(project.calls("pip install")) == ["torch==2.13.0+cpu", "-e .[cpu,dev]"]
    for _ in range(2):
        assert project.run("launch/test").returncode == 0
        assert [call.split()[0] for call in project.calls()] == ["ruff", "mypy", "python"]
    for name in ("CMakeLists.txt", "pyproject.toml", "es_mpi/__init__.py", "es_mpi/noise/csrc/noise.cpp", ".venv/pyvenv.cfg"):
        with (project.root / name).open("a") as file:
            file.write("\n# changed\n")
        assert project.run("launch/test").returncode == 0
        assert installs(project.calls("-e .")) == ["-e .[cpu,dev]"], name


def test_tests_add_to_what_the_quickstart_installed_and_nothing_is_taken_away(project: Project) -> None:
    assert project.run("launch/quickstart").returncode == 0
    assert installs(project.calls("-e .")) == ["-e .[cpu]"]
    assert project.run("launch/test").returncode == 0
    assert installs(project.calls("-e .")) == ["-e .[cpu,dev]"]
    assert project.run("launch/quickstart").returncode == 0
    assert not project.calls("pip install")
    (project.root / "CMakeLists.txt").write_text("changed")
    assert project.run("launch/quickstart").returncode == 0
    assert installs(project.calls("-e .")) == ["-e .[cpu,dev]"]


def test_two_at_once_set_up_once(project: Project) -> None:
    both = [project.start("launch/test") for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert installs(project.calls("-e .")) == ["-e .[cpu,dev]"]


def test_pytorch_comes_from_its_own_index_where_the_usual_one_lacks_it(project: Project) -> None:
    assert project.run("launch/test", TORCH_EXIT="1").returncode == 0
    first, second, _ = installs(project.calls("pip install"))
    assert second == f"{first} --extra-index-url https://download.pytorch.org/whl/cpu"


def test_a_failed_set_up_says_why_and_is_taken_up_again(project: Project) -> None:
    done = project.run("launch/quickstart", TORCH_EXIT="1", TORCH_INDEX_EXIT="1")
    assert done.returncode == 1
    assert "no such build" in done.stderr and "PIP_FIND_LINKS" in done.stderr and "setup.log" in done.stderr
    assert "WARNING: Location" not in done.stdout + done.stderr
    assert not project.calls("-e .")
    assert project.run("launch/quickstart").returncode == 0
    assert installs(project.calls("-e .")) == ["-e .[cpu]"]


@pytest.mark.parametrize(("code", "removed"), [("0", 0), ("1", 1)])
def test_torchvision_goes_only_where_it_does_not_load(project: Project, code: str, removed: int) -> None:
    assert project.run("launch/test", TORCHVISION_EXIT=code).returncode == 0
    assert len(project.calls("pip uninstall --yes torchvision torchaudio torchcodec")) == removed


def test_a_moved_folder_gets_a_new_environment(project: Project) -> None:
    assert project.run("launch/test").returncode == 0
    (project.root / ".venv" / "old").touch()
    project.root = project.root.rename(project.root.with_name("moved"))
    project.calls()
    assert project.run("launch/test").returncode == 0
    assert not (project.root / ".venv" / "old").exists()
    assert len(project.calls("-m venv")) == 1


@pytest.mark.parametrize(
    ("env", "expected"),
    [({}, 0), ({"RUFF_EXIT": "1"}, 1), ({"PYTEST_EXIT": "5"}, 5), ({"RUFF_EXIT": "1", "PYTEST_EXIT": "2"}, 2)],
)
def test_every_check_runs_and_any_failure_is_the_exit_code(project: Project, env: dict[str, str], expected: int) -> None:
    done = project.run(".ci/run", "-x", "a folder/test_x.py", **env)
    assert done.returncode == expected
    assert project.calls()[-3:] == ["ruff check", "mypy ", "python -m pytest -rs -x a folder/test_x.py"]


@pytest.mark.parametrize(("ranks", "placed"), [(1, "PE=4"), (2, "PE=2"), (3, "PE=1"), (5, "--bind-to none")])
def test_ranks_share_the_cores_without_overlap_while_there_are_enough(project: Project, ranks: int, placed: str) -> None:
    assert project.run("launch/local", "-n", str(ranks), "train", "my config.yaml").returncode == 0
    [call] = project.calls("mpirun")
    assert placed in call
    assert call.endswith(f"-n {ranks} {project.root}/.venv/bin/es-mpi train my config.yaml")


@pytest.mark.parametrize("arguments", [["-n", "two", "doctor"], ["-n"], ["-n", "0", "doctor"], []])
def test_local_refuses_what_it_does_not_understand(project: Project, arguments: list[str]) -> None:
    done = project.run("launch/local", *arguments)
    assert done.returncode == 1 and "launch/local: " in done.stderr
    assert not project.calls()


def test_the_quickstart_takes_a_free_name_unless_it_is_given_one(project: Project) -> None:
    assert project.run("launch/quickstart", "run.seed=1").returncode == 0
    [call] = project.calls("mpirun")
    assert call.endswith("train configs/quickstart.yaml run.name=quickstart run.seed=1")
    (project.root / "runs" / "quickstart").mkdir(parents=True)
    (project.root / "runs" / "quickstart_2").mkdir()
    done = project.run("launch/quickstart")
    assert "run.name=quickstart_3" in project.calls("mpirun")[0]
    assert "--logdir runs/quickstart_3/tb" in done.stdout
    project.run("launch/quickstart", "run.name=mine", "run.dir=else where")
    assert project.calls("mpirun")[0].endswith("run.name=mine run.dir=else where")


def test_two_quickstarts_at_once_take_two_names(project: Project) -> None:
    project.run("launch/quickstart")
    (project.root / ".venv" / "bin" / "mpirun").write_text('#!/bin/sh\necho "mpirun $*" >> "$CALLS"\nsleep 1\n')
    project.calls()
    both = [project.start("launch/quickstart") for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert {call.split("run.name=")[1] for call in project.calls("mpirun")} == {"quickstart", "quickstart_2"}


def test_the_quickstart_ends_as_the_training_ended(project: Project) -> None:
    project.run("launch/quickstart")
    (project.root / ".venv" / "bin" / "mpirun").write_text("#!/bin/sh\nexit 75\n")
    done = project.run("launch/quickstart")
    assert done.returncode == 75
    assert "checkpoint" not in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["es-mpi", "mpirun"])
def test_a_signal_to_the_quickstart_reaches_the_command_it_runs(project: Project, command: str, number: signal.Signals) -> None:
    project.run("launch/quickstart")
    waits = "trap 'echo stopped >> \"$CALLS\"; exit 75' TERM\necho started\nwhile :; do sleep 0.05; done"
    (project.root / ".venv" / "bin" / command).write_text(f"#!/bin/sh\n{waits}\n")
    with project.start("launch/quickstart") as process:
        assert process.stdout is not None
        assert any(line == "started\n" for line in process.stdout)
        process.send_signal(number)
        assert process.wait(timeout=60) == 75
    assert "stopped" in project.calls()


@pytest.mark.parametrize(("cores", "ranks"), [(1, 1), (2, 2), (64, 2)])
def test_the_quickstart_uses_two_ranks_where_there_are_two_cores(project: Project, cores: int, ranks: int) -> None:
    project.stand_in("nproc", f"#!/bin/sh\necho {cores}\n")
    assert project.run("launch/quickstart").returncode == 0
    assert f" -n {ranks} " in project.calls("mpirun")[0]


def test_the_quickstart_refuses_a_word_that_is_no_override(project: Project) -> None:
    done = project.run("launch/quickstart", "configs/tiny.yaml")
    assert done.returncode == 1 and "'configs/tiny.yaml'" in done.stderr
    assert not project.calls()


def ranks_environment(**env: str) -> tuple[str, int, int]:
    """(devices, first port, threads) of a rank whose launcher and user gave it `env`."""
    show = 'echo "${CUDA_VISIBLE_DEVICES-unset} $VLLM_PORT $OMP_NUM_THREADS"'
    command = [REPO / "launch" / "rank-env", "bash", "-c", show]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=True)
    devices, port, threads = done.stdout.split()
    return devices, int(port), int(threads)


def test_rank_env_gives_every_rank_of_a_node_a_device_and_ports_of_its_own() -> None:
    node = {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
    jobs_and_ranks = [(str(job), str(rank)) for job in (900, 901) for rank in range(4)]
    given = [ranks_environment(SLURM_LOCALID=rank, SLURM_JOB_ID=job, **node) for job, rank in jobs_and_ranks]
    assert [devices for devices, _, _ in given] == ["4", "5", "6", "7"] * 2
    ports = sorted(port for _, port, _ in given)
    assert all(later - earlier >= 16 for earlier, later in itertools.pairwise(ports)) and ports[-1] < 32768


@pytest.mark.parametrize("list_", [{}, {"CUDA_VISIBLE_DEVICES": "3"}])
def test_rank_env_leaves_what_a_launcher_has_narrowed_already(list_: dict[str, str]) -> None:
    devices, port, threads = ranks_environment(OMPI_COMM_WORLD_LOCAL_RANK="1", VLLM_PORT="7", OMP_NUM_THREADS="5", **list_)
    assert (devices, port, threads) == (list_.get("CUDA_VISIBLE_DEVICES", "unset"), 7, 5)


def test_rank_env_divides_the_cores_of_unbound_ranks_only() -> None:
    cores = os.cpu_count() or 1
    shared = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": str(2 * cores)}
    assert ranks_environment(**shared)[2] == 1
    assert ranks_environment()[2] == len(os.sched_getaffinity(0))


def test_rank_env_needs_a_command() -> None:
    assert subprocess.run([REPO / "launch" / "rank-env"], capture_output=True, check=False).returncode == 2
