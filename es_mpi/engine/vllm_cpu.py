"""What vLLM on a CPU needs so that a response depends on its prompt, its seed and the weights, and on nothing else."""

from __future__ import annotations

import os
from typing import Any

BLOCK_SIZE = 32  # tokens; the CPU default of 128 leaves few-shot prefixes uncached
KV_CACHE_GIB = 1.0


def prepare_environment(deterministic: bool) -> None:
    """Settings vLLM reads when it is imported. Splitting the keys of one query over threads makes sums depend on how
    many sequences there are."""
    if deterministic:
        os.environ["VLLM_CPU_ATTN_SPLIT_KV"] = "0"


def notes(dtype: str) -> tuple[str, ...]:
    """A warning where this CPU has no fast matrix product in `dtype`."""
    import torch

    if dtype == "float32" or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return ()
    return (f"this CPU has no fast {dtype} arithmetic: model.dtype=float32 generates several times faster on it",)


def pad_single_rows() -> None:
    """Run one-row matrix products as two equal rows. oneDNN has another kernel for a single row, whose sums round
    differently, so a sequence decoded alone would differ from the same sequence in a batch."""
    import torch
    from vllm import _custom_ops as ops

    if getattr(ops.onednn_mm, "pads_single_rows", False):
        return
    plain = ops.onednn_mm

    def onednn_mm(handler: Any, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        if x.numel() != x.shape[-1]:
            return plain(handler, x, bias)
        return plain(handler, x.reshape(1, -1).expand(2, -1).contiguous(), bias)[:1].reshape(*x.shape[:-1], -1)

    onednn_mm.pads_single_rows = True  # type: ignore[attr-defined]
    ops.onednn_mm = onednn_mm
