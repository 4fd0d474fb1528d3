"""Prompts as the token ids that the engine continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from es_mpi.errors import UsageError
from es_mpi.tasks.base import Task
from es_mpi.types import Message, Problem, Prompt, PromptText


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def chat_template(self) -> object: ...

    def __call__(self, text: list[str], *, add_special_tokens: bool = True) -> Mapping[str, Any]: ...

    def apply_chat_template(self, conversation: list[Message], *, tokenize: bool, add_generation_prompt: bool) -> Any: ...


def load_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a model folder or hub id. UsageError (model.path) when there is none that loads."""
    from transformers import AutoTokenizer

    try:
        return cast(Tokenizer, AutoTokenizer.from_pretrained(path))
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"no tokenizer could be loaded ({error})",
            value=path,
            expected="a folder with tokenizer.json, or the id of a model on the hub",
            key="model.path",
        ) from error


def encode_prompts(
    tokenizer: Tokenizer, task: Task, problems: Sequence[Problem], *, max_model_len: int, max_tokens: int
) -> list[Prompt]:
    """Prompts of `problems`, in their order, each with exactly one BOS if the tokenizer puts one in front of a text.

    `max_model_len` and `max_tokens` (of a response) are in tokens. Raises UsageError for a prompt that leaves no room
    for its response (model.max_model_len), and for a chat prompt where the model has no template or one that refuses.
    """
    texts = [_text(tokenizer, problem.id, task.prompt(problem)) for problem in problems]
    # Special tokens are not left to the tokenizer: it would add a second BOS to a template's, and some add an EOS.
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    bos = _bos(tokenizer)
    prompts = [Prompt(problem.id, _with_bos(bos, ids)) for problem, ids in zip(problems, encoded, strict=True)]
    longest = max(prompts, key=lambda prompt: len(prompt.token_ids), default=None)
    if longest and len(longest.token_ids) + max_tokens > max_model_len:
        raise UsageError(
            f"the prompt of problem {longest.id!r} has {len(longest.token_ids)} tokens, "
            f"which leaves no room for {max_tokens} of a response",
            value=max_model_len,
            expected=f"at least {len(longest.token_ids) + max_tokens}; this prompt is the longest",
            key="model.max_model_len",
            remedy="raise model.max_model_len, lower sampling.max_tokens, or leave the problem out",
        )
    return prompts


def _bos(tokenizer: Tokenizer) -> int | None:
    """The token that this tokenizer puts in front of every text; defining one does not mean using it."""
    bos = tokenizer.bos_token_id
    return bos if bos is not None and list(tokenizer(["a"])["input_ids"][0])[:1] == [bos] else None


def _with_bos(bos: int | None, ids: Sequence[int]) -> tuple[int, ...]:
    if bos is None:
        return tuple(ids)
    start = next((i for i, token in enumerate(ids) if token != bos), len(ids))
    return (bos, *ids[start:])


def _text(tokenizer: Tokenizer, problem_id: str, prompt: PromptText) -> str:
    return prompt if isinstance(prompt, str) else _render(tokenizer, problem_id, prompt)


def _render(tokenizer: Tokenizer, problem_id: str, messages: list[Message]) -> str:
    if not tokenizer.chat_template:
        raise UsageError(
            "the model has no chat template, and this task asks in chat form",
            key="model.path",
            remedy="take the instruction-tuned model, or a plain task: largest, or arithmetic with task.options.form=plain",
        )
    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template is a program from the checkpoint and may raise anything
        raise UsageError(
            f"the model's chat template refuses the prompt of problem {problem_id!r} ({error})",
            value=[message["role"] for message in messages],
            key="task.system",
            remedy="many templates take no system message: set task.system to an empty text",
        ) from error
