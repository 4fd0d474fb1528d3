"""Model folders of a few kilobytes, written byte by byte so that tests do not depend on what they test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

CODES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "<i1"}


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 values that bfloat16 can hold exactly."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any(), "not exact in bfloat16"
    return (bits >> 16).astype(np.uint16)


def write_safetensors(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> None:
    header, data, end = {}, b"", 0
    for name, (code, values) in tensors.items():
        raw = (bf16_bits(values) if code == "BF16" else values.astype(CODES[code])).tobytes()
        header[name] = {"dtype": code, "shape": list(values.shape), "data_offsets": [end, end + len(raw)]}
        data, end = data + raw, end + len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def write_model(folder: Path, tensors: dict[str, tuple[str, np.ndarray]], **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **config}))
    return folder


def two_layers(folder: Path) -> Path:
    """Two 4x4 layers and a norm in float32."""
    ones = np.ones((4, 4), np.float32)
    return write_model(folder, {"a.weight": ("F32", ones), "b.weight": ("F32", ones * 2), "c.norm": ("F32", ones[0])})
