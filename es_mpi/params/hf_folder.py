"""Read the weights of a Hugging Face folder into the flat fp32 master, and write a master back as such a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_mpi.noise import native
from es_mpi.params.layout import FLOATS, Layout, TensorSpec

SHARD_BYTES = 4 << 30
STORED = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
SKIPPED = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".msgpack", ".h5", ".onnx"}

Values = Callable[[TensorSpec], NDArray[np.float32]]


def load_master(layout: Layout, master: NDArray[np.float32]) -> None:
    """Fill `master` [layout.elements] with the folder's weights, exactly widened; padding is zero."""
    end = 0
    for spec in layout.tensors:
        master[end : spec.offset] = 0.0
        end = spec.offset + spec.size
        read_tensor(layout.folder, spec, 0, master[spec.offset : end])
    master[end:] = 0.0


def read_tensor(folder: Path, spec: TensorSpec, begin: int, out: NDArray[np.float32]) -> None:
    """The tensor's elements from `begin` on, as many as `out` holds, exactly widened."""
    stored = STORED[spec.dtype]
    position = spec.position + begin * stored.itemsize
    widen(np.memmap(folder / spec.file, stored, "r", position, out.shape), spec.dtype, out)


def widen(stored: NDArray[Any], dtype: str, out: NDArray[np.float32]) -> None:
    """What a checkpoint holds as `dtype`, exactly, in fp32; both flat, of the same length."""
    if dtype == "BF16":
        np.left_shift(stored, 16, out=out.view(np.uint32), dtype=np.uint32)
    else:
        out[:] = stored


def encode(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Flat weights rounded (to nearest, ties to even) to the dtype that a checkpoint stores."""
    out = np.empty(values.shape, STORED[dtype])
    native.perturb(out, values, 0, 0.0)
    return out


def save_folder(layout: Layout, master: NDArray[np.float32], out: Path) -> None:
    """Write `master` [layout.elements] as a model folder, see `save_tensors`."""
    save_tensors(layout, lambda spec: master[spec.offset : spec.offset + spec.size], out)


def save_tensors(layout: Layout, values: Values, out: Path) -> None:
    """Write a model folder that transformers and vLLM load unchanged: names, dtypes, config and tokenizer of the layout's.

    `values` is asked for one tensor after another, flat and in fp32. Raises OSError as the file system does; the caller owns
    the atomicity of the folder.
    """
    for file in sorted(layout.folder.iterdir()):
        if file.is_file() and file.suffix not in SKIPPED and not file.name.endswith(".index.json"):
            shutil.copyfile(file, out / file.name)
    shards = _shards(layout)
    names = (
        ["model.safetensors"]
        if len(shards) == 1
        else [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    )
    for name, shard in zip(names, shards, strict=True):
        _write_shard(shard, values, out / name)
    if len(shards) > 1:
        weight_map = {t.name: name for name, shard in zip(names, shards, strict=True) for t in shard}
        total = sum(t.size * FLOATS[t.dtype] for t in layout.tensors)
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2), encoding="utf-8")


def folder_bytes(layout: Layout) -> int:
    """What `save_tensors` writes, in bytes, but for the small files."""
    return sum(t.size * FLOATS[t.dtype] for t in layout.tensors)


def _write_shard(shard: list[TensorSpec], values: Values, path: Path) -> None:
    """One safetensors file, tensor by tensor: no more than one of them is in memory."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for spec in shard:
        begin, end = end, end + spec.size * FLOATS[spec.dtype]
        header[spec.name] = {"dtype": spec.dtype, "shape": list(spec.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # data starts at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for spec in shard:
            encode(values(spec), spec.dtype).tofile(file)


def _shards(layout: Layout) -> list[list[TensorSpec]]:
    shards: list[list[TensorSpec]] = [[]]
    filled = 0
    for spec in layout.tensors:
        size = spec.size * FLOATS[spec.dtype]
        if shards[-1] and filled + size > SHARD_BYTES:
            shards.append([])
            filled = 0
        shards[-1].append(spec)
        filled += size
    return shards
