"""Where every checkpoint tensor lies in the one flat vector theta: the address space of the noise.

Tensors stand in the order of their Hugging Face names (so sharding of the files does not matter), tied tensors once,
each base rounded up to ALIGN elements. Reading a layout needs the headers of the safetensors files only.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from es_mpi.errors import UsageError

ALIGN = 1024
FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
BUFFERS = ("*.rotary_emb.inv_freq", "*.masked_bias", "*.attn.bias")  # recomputed by every engine, not parameters
TIED_HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One checkpoint tensor: `offset` is its first element's global index, `position` its first byte in `file`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    offset: int
    file: str
    position: int
    trained: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    folder: Path
    tensors: tuple[TensorSpec, ...]
    tied: bool

    @property
    def elements(self) -> int:
        """Length of the flat vector, padding included."""
        return _align(self.tensors[-1].offset + self.tensors[-1].size)

    @property
    def parameters(self) -> int:
        return sum(t.size for t in self.tensors)

    @property
    def trained_parameters(self) -> int:
        return sum(t.size for t in self.tensors if t.trained)

    def __getitem__(self, name: str) -> TensorSpec:
        return self._by_name()[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name()

    def _by_name(self) -> dict[str, TensorSpec]:
        index: dict[str, TensorSpec] | None = self.__dict__.get("_index")
        if index is None:
            index = self.__dict__["_index"] = {t.name: t for t in self.tensors}
        return index

    def fingerprint(self) -> str:
        """Hash of names, shapes, offsets and trained flags: equal on all ranks or they do not hold the same model."""
        words = [f"{t.name}|{t.shape}|{t.dtype}|{t.offset}|{t.trained}" for t in self.tensors]
        return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


def read_layout(folder: str | Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> Layout:
    """The layout of a Hugging Face model folder. `include`/`exclude` are fnmatch patterns of the tensors to train.

    Raises UsageError for a folder that is missing, has no safetensors weights, is quantised, or where the patterns
    leave nothing to train.
    """
    folder = Path(folder)
    config = read_config(folder)
    tied = bool(config.get("tie_word_embeddings", False))
    headers = [(file.name, *read_header(file)) for file in weight_files(folder)]
    found: dict[str, tuple[str, int, dict[str, Any]]] = {}
    for file, start, header in headers:
        for name, entry in header.items():
            found[name] = (file, start, entry)
    if tied and len(found) > 1:
        found.pop(TIED_HEAD, None)  # the embedding is the head: counted, perturbed and saved once
    tensors, offset = [], 0
    for name in sorted(found):
        if any(fnmatchcase(name, pattern) for pattern in BUFFERS):
            continue
        file, start, entry = found[name]
        if entry["dtype"] not in FLOATS:
            raise UsageError(
                f"tensor {name} is stored as {entry['dtype']}: a quantised checkpoint cannot be trained",
                value=str(folder),
                expected="weights in F32, F16 or BF16",
                key="model.path",
                remedy="use the unquantised model",
            )
        trained = _selected(name, include, exclude)
        shape = tuple(int(d) for d in entry["shape"])
        spec = TensorSpec(name, shape, entry["dtype"], offset, file, start + entry["data_offsets"][0], trained)
        tensors.append(spec)
        offset = _align(offset + spec.size)
    if not any(t.trained for t in tensors):
        raise UsageError(
            "model.include and model.exclude leave no tensor to train",
            value=[list(include), list(exclude)],
            key="model.include",
            remedy=f"patterns match names such as {tensors[0].name!r}" if tensors else "",
        )
    return Layout(folder, tuple(tensors), tied)


def end_ids(folder: Path) -> list[int]:
    """The tokens that end a response, of a model folder's config.json and generation_config.json (none where neither says)."""
    found: set[int] = set()
    path = folder / "generation_config.json"
    for config in (read_config(folder), json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}):
        ids = config.get("eos_token_id")
        found |= set(ids if isinstance(ids, list) else [] if ids is None else [ids])
    return sorted(found)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder, refused where it announces a quantised model."""
    if not folder.is_dir():
        raise UsageError(
            "model folder not found",
            value=str(folder),
            expected="a Hugging Face model folder",
            key="model.path",
            remedy="es-mpi model NAME --out DIR makes one of the embedded models",
        )
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            "model folder has no config.json", value=str(folder), key="model.path", expected="a Hugging Face model folder"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"config.json cannot be read: {error}", value=str(path), key="model.path") from None
    if config.get("quantization_config"):
        raise UsageError(
            "the model is quantised",
            value=str(folder),
            key="model.path",
            expected="a checkpoint without quantization_config",
            remedy="use the unquantised model",
        )
    return config


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model folder: those its index names, or all there are."""
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [f.name for f in files if not f.exists()]
    if missing or not files:
        raise UsageError(
            f"weights missing: {', '.join(missing)}" if missing else "model folder has no weights",
            value=str(folder),
            expected="*.safetensors files",
            key="model.path",
            remedy="download the folder again, or convert it with transformers' save_pretrained",
        )
    return files


def read_header(file: Path) -> tuple[int, dict[str, Any]]:
    """(first data byte, header) of a safetensors file: an 8-byte little-endian length, then that many bytes of JSON."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            size = file.stat().st_size
            if not 2 <= length <= size - 8:
                raise ValueError(f"header length {length} does not fit the file of {size} bytes")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        end = max((e["data_offsets"][1] for e in header.values()), default=0)
        if 8 + length + end != size:
            raise ValueError(f"the file has {size} bytes, its header promises {8 + length + end}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"weights cannot be read: {error}",
            value=str(file),
            key="model.path",
            expected="a whole safetensors file",
            remedy="copy or download the file again",
        ) from None
    return 8 + length, header


def _selected(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    wanted = not include or any(fnmatchcase(name, p) for p in include)
    return wanted and not any(fnmatchcase(name, p) for p in exclude)


def _align(elements: int) -> int:
    return -(-elements // ALIGN) * ALIGN
