"""Which slice of which engine tensor each checkpoint tensor goes to, and how a member's weights are written there.

The map is recorded, not assumed: our loader hands the model's own `load_weights` one tensor at a time and notes every
copy it makes. On a GPU, or wherever the engine keeps plain weights, the recorded slice is the live weight and is
written in place, so CUDA graphs stay valid. On a CPU vLLM packs linear weights for its kernels and drops the plain
ones; those layers are filled in a scratch buffer and packed again by vLLM's own function. That includes the packed
copy of a tied head, which vLLM's `reload_weights` leaves stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from es_mpi.engine.device_master import DeviceMaster, open_device_master
from es_mpi.errors import EngineError
from es_mpi.params.layout import Layout
from es_mpi.params.store import MasterStore
from es_mpi.types import Member

LOAD_FORMAT = "es_mpi"


@dataclass(frozen=True, slots=True)
class Slot:
    """Checkpoint tensor `name` occupies elements [start, start + size) of an engine tensor."""

    name: str
    start: int
    size: int


@dataclass(slots=True)
class Target:
    """One engine tensor. `packers` are the layers whose kernels hold a packed copy of it; `live` tells whether the
    plain tensor is still there to be written in place."""

    owner: torch.nn.Module
    attribute: str
    shape: tuple[int, ...]
    slots: list[Slot] = field(default_factory=list)
    packers: list[torch.nn.Module] = field(default_factory=list)
    live: bool = True

    @property
    def tensor(self) -> torch.Tensor:
        return getattr(self.owner, self.attribute).data  # type: ignore[no-any-return]


class _RecordCopies(TorchDispatchMode):
    """Notes each `copy_` from the tensor now being loaded into one of the model's parameters."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.targets: dict[int, Target] = {}
        for owner in model.modules():
            for attribute, parameter in owner.named_parameters(recurse=False):
                key = parameter.untyped_storage().data_ptr()
                self.targets.setdefault(key, Target(owner, attribute, tuple(parameter.shape)))
        self.name, self.source = "", torch.empty(0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.copy_.default:
            self._note(args[0], args[1])
        return func(*args, **(kwargs or {}))

    def _note(self, into: torch.Tensor, source: torch.Tensor) -> None:
        if source.untyped_storage().data_ptr() != self.source.untyped_storage().data_ptr():
            return
        target = self.targets.get(into.untyped_storage().data_ptr())
        whole = source.numel() == self.source.numel() and source.is_contiguous()
        if target is None or not whole or not into.is_contiguous():
            raise EngineError(
                f"the engine stores {self.name} {tuple(self.source.shape)} in a form this version cannot write "
                f"(a part {tuple(source.shape)} into {tuple(into.shape)}, strides {into.stride()})"
            )
        base = target.tensor.storage_offset()
        target.slots.append(Slot(self.name, into.storage_offset() - base, into.numel()))


class WeightMap:
    """All targets of one model. Built by the loader, completed by `bind` once vLLM has packed what it packs."""

    def __init__(self, store: MasterStore, dtype: torch.dtype, master: str = "auto", share: float = 1.0) -> None:
        """`master` is engine.master; `share` the part of a GPU's memory that the engine may fill."""
        self.store = store
        self.dtype = dtype
        self.note = ""
        self._choice, self._share = master, share
        self._on_device: DeviceMaster | None = None
        self.targets: list[Target] = []
        self._scratch = torch.empty(0, dtype=dtype)

    def record(self, model: torch.nn.Module) -> None:
        """Load theta into a freshly built model through its own loader, noting where every tensor went."""
        self._take_master(next(model.parameters()).device)
        recorder = _RecordCopies(model)

        def tensors() -> Iterator[tuple[str, torch.Tensor]]:
            for spec in self.store.layout.tensors:
                source = torch.empty(spec.shape, dtype=self.dtype, device="cpu")
                self.store.write(spec.name, numpy_view(source), None, 0.0)
                recorder.name, recorder.source = spec.name, source
                yield spec.name, source

        with recorder:
            model.load_weights(tensors())  # type: ignore[operator]
        self.targets = [t for t in recorder.targets.values() if t.slots]
        _check_coverage(self.targets, self.store.layout)

    def bind(self, model: torch.nn.Module) -> None:
        """Find the packed copies. Every layer with a CPU kernel must belong to a target, or a write would miss it."""
        heads = any(isinstance(m, ParallelLMHead) for m in model.modules())
        by_owner = {id(t.owner): t for t in self.targets if t.attribute == "weight"}
        by_address = {t.tensor.data_ptr(): t for t in self.targets if t.tensor.numel()}
        for name, layer in model.named_modules():
            if not hasattr(layer, "cpu_linear"):
                continue
            if heads and isinstance(layer, VocabParallelEmbedding) and not isinstance(layer, ParallelLMHead):
                del layer.cpu_linear  # never multiplied with: only looked up, so its packed copy is waste
                continue
            target = by_owner.get(id(layer)) or by_address.get(layer.weight.data_ptr())
            if target is None:
                raise EngineError(f"the engine packed layer {name}, but no checkpoint tensor is known to fill it")
            target.packers.append(layer)
            target.live = layer.weight.numel() > 0
        largest = max(int(np.prod(t.shape)) for t in self.targets)
        self._scratch = torch.empty(largest, dtype=self.dtype, pin_memory=torch.cuda.is_available())

    def write(self, member: Member | None, sigma: float) -> None:
        """Every engine tensor becomes RNE(theta + sign * sigma * eps), packed copies included."""
        for target in self.targets:
            if not target.live:
                weight = self._fill(target, member, sigma)
                for layer in target.packers:
                    _repack(layer, weight)
                continue
            flat = target.tensor.view(-1)
            for slot in target.slots:
                self._write_slot(flat[slot.start : slot.start + slot.size], slot, member, sigma)
            for layer in target.packers:
                _repack(layer, target.tensor)
        if self._on_device:
            self._on_device.wait()

    def mismatches(self, member: Member | None, sigma: float) -> list[str]:
        """Checkpoint names whose engine copy is not what `write(member, sigma)` should have left there.

        Plain tensors are compared bit by bit; a packed copy through its product with a fixed vector, within the
        rounding of the weights' dtype.
        """
        wrong = []
        for target in self.targets:
            expected = self._fill(target, member, sigma)
            same = True
            if target.live:
                same = all(
                    torch.equal(target.tensor.view(-1)[s.start : s.start + s.size].cpu().to(self.dtype),
                                expected.view(-1)[s.start : s.start + s.size])
                    for s in target.slots
                )
            same = same and all(_product_agrees(layer, expected) for layer in target.packers)
            if not same:
                wrong += [slot.name for slot in target.slots]
        return wrong

    def _fill(self, target: Target, member: Member | None, sigma: float) -> torch.Tensor:
        """The whole plain tensor of `target` in the scratch buffer; rows no checkpoint tensor fills are zero."""
        weight = self._scratch[: int(np.prod(target.shape))]
        if sum(slot.size for slot in target.slots) < weight.numel():
            weight.zero_()
        for slot in target.slots:
            self.store.write(slot.name, numpy_view(weight[slot.start : slot.start + slot.size]), member, sigma)
        return weight.view(target.shape)

    def _take_master(self, device: torch.device) -> None:
        """Put theta on a GPU, if it shall be there. Now, while vLLM loads weights: it counts this memory as theirs."""
        memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
        self._on_device, self.note = open_device_master(self.store, device, self._choice, int(memory * self._share))

    def _write_slot(self, into: torch.Tensor, slot: Slot, member: Member | None, sigma: float) -> None:
        if self._on_device and into.device == self._on_device.device:
            spec = self.store.layout[slot.name]
            out = into if into.dtype == self.dtype else torch.empty_like(into, dtype=self.dtype)
            seed, signed = (member.seed, member.sign * sigma) if member and spec.trained else (0, 0.0)
            self._on_device.write(out, spec.offset, seed, signed)
            if out is not into:
                into.copy_(out)
            return
        if into.device.type == "cpu" and into.dtype == self.dtype:
            self.store.write(slot.name, numpy_view(into), member, sigma)
            return
        scratch = self._scratch[: slot.size]
        self.store.write(slot.name, numpy_view(scratch), member, sigma)
        into.copy_(scratch)


def numpy_view(tensor: torch.Tensor) -> NDArray[np.generic]:
    """The memory of a contiguous CPU tensor as a flat array; bfloat16 shows as its bits in uint16."""
    flat = tensor.detach().view(-1)
    return (flat.view(torch.uint16) if flat.dtype == torch.bfloat16 else flat).numpy()  # type: ignore[no-any-return]


def register_loader(weights: WeightMap) -> None:
    """Make `load_format="es_mpi"` fill the next engine of this process from `weights`' master."""

    class MasterLoader(BaseModelLoader):
        def download_model(self, model_config: Any) -> None:
            """Nothing to fetch: theta is in memory."""

        def load_weights(self, model: torch.nn.Module, model_config: Any) -> None:
            weights.record(model)

    register_model_loader(LOAD_FORMAT)(MasterLoader)


def _repack(layer: torch.nn.Module, weight: torch.Tensor) -> None:
    """Replace the layer's packed copy. The old one is dropped first, so that two never stand side by side."""
    plain = layer.weight
    layer.cpu_linear = None
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=plain.numel() == 0)
    if plain.numel():
        layer.weight = plain


def _product_agrees(layer: torch.nn.Module, weight: torch.Tensor) -> bool:
    """Packed kernel against plain product on a fixed vector; a wrong weight differs by far more than rounding."""
    probe = torch.linspace(-1.0, 1.0, weight.shape[1], dtype=torch.float32).to(weight.dtype).expand(2, -1).contiguous()
    got = layer.cpu_linear(probe, layer.weight, None).float()
    expected = torch.nn.functional.linear(probe.float(), weight.float())
    tolerance = 1e-4 if weight.dtype == torch.float32 else 2e-2
    return bool((got - expected).norm() <= tolerance * expected.norm())


def _check_coverage(targets: list[Target], layout: Layout) -> None:
    """Every trained tensor mapped, whole, once; no element of an engine tensor written twice or (padding rows of
    the vocabulary aside) left out."""
    mapped: dict[str, int] = {}
    for target in targets:
        end = 0
        for slot in sorted(target.slots, key=lambda s: s.start):
            mapped[slot.name] = mapped.get(slot.name, 0) + slot.size
            if slot.start != end:
                raise EngineError(f"elements {end} to {slot.start} around {slot.name} are left out or written twice")
            end = slot.start + slot.size
        total = int(np.prod(target.shape))
        if end != total and not isinstance(target.owner, VocabParallelEmbedding):
            raise EngineError(f"the tensor that holds {target.slots[0].name} has {total} elements, {end} are written")
    wrong = [t.name for t in layout.tensors if mapped.get(t.name, 0) != t.size]
    if wrong:
        raise EngineError(f"{len(wrong)} checkpoint tensors have no place in the engine, first: {wrong[:3]}")
