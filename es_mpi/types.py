"""The words every layer shares: plain values, no behaviour, no imports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Literal, NamedTuple, TypedDict


class Message(TypedDict):
    """One turn of a chat prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


PromptText = str | list[Message]  # a plain text continues; a list of messages goes through the chat template


@dataclass(frozen=True, slots=True)
class Problem:
    """One question with its reference answer. `id` is unique within a task and stable across versions of its data."""

    id: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A problem as the engine sees it: token ids, exactly one BOS where the tokenizer has one."""

    id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to decode. `temperature` 0 is greedy. `stop` strings end a response and are not part of it.

    `logprobs` asks for the log-probability of every token of a response, see `Completion`.
    """

    temperature: float
    top_p: float
    max_tokens: int
    stop: tuple[str, ...] = ()
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """One response. `version` is the weights version the engine held while it generated.

    `logprobs` has a natural logarithm for each of `token_ids` if the sampling asked for it: the token's probability under the
    distribution it was drawn from, after temperature and nucleus (greedy: temperature 1).
    """

    prompt_id: str
    text: str
    token_ids: tuple[int, ...]
    truncated: bool
    version: int
    logprobs: tuple[float, ...] = ()


class Verdict(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    ERROR = "error"  # the grader itself failed: no reward, and the response does not count


class Item(NamedTuple):
    """What a grader is asked."""

    response: str
    answer: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class Grade:
    """What a grader says of one response: the verdict, the training reward and the answer it read."""

    verdict: Verdict
    reward: float
    extracted: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One point of the population: theta + sign * sigma * eps(seed). `seed` is an unsigned 64-bit address."""

    index: int
    seed: int
    sign: int = 1


class Status(IntEnum):
    """State of a member's evaluation in the merged table."""

    MISSING = 0
    OK = 1
    FAILED = 2


@dataclass(frozen=True, slots=True)
class MemberScore:
    """The one number a member leaves behind: its mean reward over the batch (NaN unless `status` is OK)."""

    member: int
    reward: float
    status: Status = Status.OK


@dataclass(frozen=True, slots=True)
class UpdateTerm:
    """One term of the update: theta += coefficient * eps(seed). `coefficient` is exactly representable in fp32."""

    seed: int
    coefficient: float


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Lengths measured while an update is applied: monitoring only, last digits depend on the number of threads.

    `norm` is the L2 norm of the intended step (fp32), `moved_norm` of the step the bf16 engine copy makes, `cosine`
    the cosine between the two (NaN when either is zero).
    """

    norm: float
    moved_norm: float
    cosine: float
