"""The noise library beside its limits and the usual way, as ratios within one process.

Limits: for PERTURB, copying as many bytes as it reads and writes; for UPDATE, the Philox words alone. The usual way is that
of the published ES trainers: for every tensor a torch generator seeded again, a bf16 normal tensor, an add in bf16; to undo
a member, the same once more.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from es_mpi.errors import EXIT_OK, UsageError
from es_mpi.noise import native
from es_mpi.noise.arguments import MAX_THREADS

ROUNDS = 5
USUAL_MEMBERS = 2  # the usual way's cost is per member: two measure it
ROWS, COLUMNS = 576, 1536  # of the tensors that the parameters are divided into
FLAT_MEMBERS, FLAT_PARAMETERS = (8, 32, 128, 1024), 1 << 18
SIGMA = 1e-3
BYTES = 4 + 4 + 2 + 2  # a parameter: master, working copies, the usual way's weights

Times = dict[str, list[float]]


def run(parameters: int, members: int, threads: int, as_json: bool) -> int:
    """Measure and print. Raises UsageError for a number below 1 or where there is no native library."""
    for name, value in (("--params", parameters), ("--members", members), ("--threads", threads)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1", value=value)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if BYTES * parameters > memory:
        raise UsageError("--params must fit the memory of this machine", value=parameters, expected=f"{memory // BYTES} or less")
    if threads > MAX_THREADS:
        raise UsageError(f"--threads must be at most {MAX_THREADS}", value=threads)
    native.philox(1, 0)
    times = measure(operations(parameters, members, threads))
    ns = {name: statistics.median(values) for name, values in times.items()}
    result = {
        "machine": machine(), "isa": native.isa(), "threads": threads, "parameters": parameters, "members": members,
        "rounds": ROUNDS, "ns": ns, "ratios": ratios(ns), "flatness": flatness(threads),
    }  # fmt: skip
    print(json.dumps(result, indent=1) if as_json else table(result))
    return EXIT_OK


def operations(parameters: int, members: int, threads: int) -> dict[str, tuple[Callable[[], object], int]]:
    """What is measured, by name: a call and the number of samples it stands for."""
    master = np.zeros(parameters, np.float32)
    out, bf16 = np.zeros(parameters, np.float32), np.zeros(parameters, np.uint16)
    seeds = np.arange(1, members + 1, dtype=np.uint64)
    coefficients = np.full(members, 1e-9, np.float32)
    usual = Usual(parameters, threads)
    part = 3 * parameters // 4  # copying so many fp32 moves 6 bytes a parameter, copying all of them 8
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "perturb bf16": (lambda: native.perturb(bf16, master, 1, SIGMA, threads=threads), parameters),
        "perturb fp32": (lambda: native.perturb(out, master, 1, SIGMA, threads=threads), parameters),
        "update": (lambda: native.update(master, seeds, coefficients, threads=threads), parameters * members),
        "copy 6 bytes": (lambda: copy(out[:part], master[:part], threads), parameters),
        "copy 8 bytes": (lambda: copy(out, master, threads), parameters),
        "philox": (lambda: native.philox(parameters, 1, threads=threads), parameters),
        "usual perturb": (lambda: usual.perturb(1, SIGMA), parameters),
        "usual restore": (lambda: usual.perturb(1, -SIGMA), parameters),
        "usual update": (usual.update, parameters * USUAL_MEMBERS),
    }
    if threads > 1:
        calls["update, 1 thread"] = (lambda: native.update(master, seeds, coefficients), parameters * members)
    return calls


class Usual:
    """Weights as bf16 torch tensors, perturbed and updated in place."""

    def __init__(self, parameters: int, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        whole, rest = divmod(parameters, ROWS * COLUMNS)
        shapes = [(ROWS, COLUMNS)] * whole + ([(rest,)] if rest else [])
        self.weights = [torch.zeros(shape, dtype=torch.bfloat16) for shape in shapes]
        self.generator = torch.Generator().manual_seed(0)

    def perturb(self, seed: int, sigma: float) -> None:
        for weight in self.weights:
            self.generator.manual_seed(seed)
            weight.add_(sigma * self.torch.empty_like(weight).normal_(generator=self.generator))

    def update(self) -> None:
        for weight in self.weights:
            step = self.torch.zeros_like(weight)
            for seed in range(USUAL_MEMBERS):
                self.generator.manual_seed(seed)
                step.add_(1e-9 * self.torch.empty_like(weight).normal_(generator=self.generator))
            weight.add_(step)


def copy(out: np.ndarray, master: np.ndarray, threads: int) -> None:
    """Memory read once and written once, in equal parts by all threads."""
    if threads == 1:
        return np.copyto(out, master)
    bounds = [len(out) * part // threads for part in range(threads + 1)]
    parts = [slice(first, last) for first, last in itertools.pairwise(bounds)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: np.copyto(out[part], master[part]), parts))


def measure(calls: dict[str, tuple[Callable[[], object], int]]) -> Times:
    """Nanoseconds a sample of every call, ROUNDS times in turn after one round that only warms up."""
    times: Times = {name: [] for name in calls}
    for number in range(ROUNDS + 1):
        for name, (call, samples) in calls.items():
            began = time.perf_counter()
            call()
            if number:
                times[name].append((time.perf_counter() - began) / samples * 1e9)
    return times


def ratios(ns: dict[str, float]) -> dict[str, float]:
    """What the figures mean: ours over its limit (from 1 up), the usual way over ours."""
    found = {
        "perturb bf16 / memory": ns["perturb bf16"] / ns["copy 6 bytes"],
        "perturb fp32 / memory": ns["perturb fp32"] / ns["copy 8 bytes"],
        "update / philox": ns["update"] / ns["philox"],
        "usual perturb / ours": ns["usual perturb"] / ns["perturb bf16"],
        "usual perturb and restore / ours": (ns["usual perturb"] + ns["usual restore"]) / ns["perturb bf16"],
        "usual update / ours": ns["usual update"] / ns["update"],
    }
    if "update, 1 thread" in ns:
        found["update, 1 thread / all threads"] = ns["update, 1 thread"] / ns["update"]
    return found


def flatness(threads: int) -> dict[str, float]:
    """Nanoseconds a sample of UPDATE by number of members."""
    master = np.zeros(FLAT_PARAMETERS, np.float32)

    def calls() -> Iterator[tuple[str, tuple[Callable[[], object], int]]]:
        for n in FLAT_MEMBERS:
            seeds, coefficients = np.arange(n, dtype=np.uint64), np.full(n, 1e-9, np.float32)
            update = lambda s=seeds, c=coefficients: native.update(master, s, c, threads=threads)  # noqa: E731
            yield str(n), (update, n * FLAT_PARAMETERS)

    return {name: statistics.median(values) for name, values in measure(dict(calls())).items()}


def machine() -> str:
    """The processor's name and the cores this process may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def table(result: dict) -> str:
    """The result for people."""
    head = "{machine}; {isa}, threads {threads}, {parameters:,} parameters, {members} members, medians of {rounds} rounds"
    lines = [head.format(**result), "", "nanoseconds a sample"]
    lines += [f"  {name:<36}{value:8.3f}" for name, value in result["ns"].items()]
    lines += ["", "ratios"]
    lines += [f"  {name:<36}{value:8.2f}" for name, value in result["ratios"].items()]
    lines += ["", f"update by members, {FLAT_PARAMETERS:,} parameters"]
    lines += [f"  {name:<36}{value:8.3f}" for name, value in result["flatness"].items()]
    return "\n".join(lines)
