"""Who the members of an update are, and which rank evaluates them."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal

from es_mpi.noise.address import member_seed, subkey
from es_mpi.types import Member

Estimator = Literal["one_point", "antithetic"]


def members(run_seed: int, update: int, population: int, estimator: Estimator) -> list[Member]:
    """The population of one update: `population` evaluations, in the order that the specification of the sum fixes.

    One-point draws `population` directions. Antithetic draws half as many: members 2k and 2k+1 are the same direction
    k with signs +1 and -1.
    """
    if estimator == "one_point":
        return [Member(i, member_seed(run_seed, update, i)) for i in range(population)]
    if population % 2:
        raise ValueError(f"population: {population} is odd, antithetic pairs need an even number")
    return [Member(i, member_seed(run_seed, update, i // 2), 1 - 2 * (i % 2)) for i in range(population)]


def random_reward(run_seed: int, update: int, member: int) -> float:
    """A standard normal number in place of a member's reward, the null control: a function of its address alone."""
    middle_of_cell = ((subkey(run_seed, "random reward", update, member) >> 12) + 0.5) * 2.0**-52  # in (0, 1), exactly
    return NormalDist().inv_cdf(middle_of_cell)


def share(population: list[Member], rank: int, size: int) -> list[Member]:
    """This rank's members, dealt round-robin: shares differ by one at most, whatever `population` and `size`."""
    return population[rank::size]
