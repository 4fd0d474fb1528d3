"""Prompts to token ids, with a tokenizer of one token a character."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from es_mpi.errors import UsageError
from es_mpi.tasks import encode_prompts, make_task
from es_mpi.types import Message, Problem, PromptText

BOS, EOS = 1, 2


@dataclass
class Characters:
    """Ids are code points; `<s>` is the BOS. What `__call__` adds by itself and what the chat template writes can be chosen."""

    adds: tuple[int, ...] = ()
    chat_template: str | None = "<s>"
    ends: tuple[int, ...] = ()
    bos_token_id: int | None = BOS

    def __call__(self, text: list[str], *, add_special_tokens: bool = True) -> Mapping[str, Any]:
        rows = [[ord(c) for c in one.replace("<s>", chr(BOS))] for one in text]
        return {"input_ids": [[*self.adds, *ids, *self.ends] if add_special_tokens else ids for ids in rows]}

    def apply_chat_template(self, conversation: list[Message], *, tokenize: bool, add_generation_prompt: bool) -> str:
        if conversation[0]["role"] == "system":
            raise RuntimeError("System role not supported")
        assert not tokenize
        return f"{self.chat_template}" + "".join(m["content"] for m in conversation) + (">" if add_generation_prompt else "")


@dataclass
class Fixed:
    """A task with one prompt, given."""

    text: PromptText
    name: str = "fixed"
    version: int = 1
    stop: tuple[str, ...] = ()
    reward: str = "first_line"

    def problems(self, split: str) -> list[Problem]:
        return [Problem("p", "q", "a")]

    def prompt(self, problem: Problem) -> PromptText:
        return self.text


CHAT: list[Message] = [{"role": "user", "content": "hi"}]


def ids(tokenizer: Characters, text: PromptText) -> tuple[int, ...]:
    task = Fixed(text)
    return encode_prompts(tokenizer, task, task.problems("train"), max_model_len=99, max_tokens=1)[0].token_ids


def points(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


@pytest.mark.parametrize(
    ("tokenizer", "text", "expected"),
    [
        (Characters(adds=(BOS,)), "hi", (BOS, *points("hi"))),
        (Characters(adds=(BOS,)), "<s>hi", (BOS, *points("hi"))),
        (Characters(adds=(BOS,)), CHAT, (BOS, *points("hi>"))),  # once, though both template and tokenizer bring it
        (Characters(adds=(BOS,), chat_template="<s><s>"), CHAT, (BOS, *points("hi>"))),
        (Characters(adds=(BOS,), chat_template=" "), CHAT, (BOS, *points(" hi>"))),
        (Characters(adds=(BOS,), ends=(EOS,)), "hi", (BOS, *points("hi"))),  # a prompt never ends the text
        (Characters(), "hi", points("hi")),  # defined, not used
        (Characters(), CHAT, (BOS, *points("hi>"))),  # the template's own
        (Characters(bos_token_id=None, chat_template=" "), CHAT, points(" hi>")),
    ],
)
def test_exactly_one_bos_where_the_tokenizer_uses_one(tokenizer: Characters, text: PromptText, expected: tuple[int, ...]) -> None:
    assert ids(tokenizer, text) == expected


def test_prompts_keep_order_and_ids() -> None:
    task = make_task("largest", options={"shots": 0})
    problems = task.problems("heldout")[:5]
    prompts = encode_prompts(Characters(), task, problems, max_model_len=99, max_tokens=4)
    assert [(p.id, p.token_ids) for p in prompts] == [(q.id, points(q.question)) for q in problems]
    assert encode_prompts(Characters(), task, [], max_model_len=9, max_tokens=4) == []


def test_a_prompt_without_room_for_its_response_is_named() -> None:
    task = make_task("largest", options={"shots": 0})
    problems = [Problem("short", "12", "1"), Problem("long", "123456", "1"), Problem("middle", "1234", "1")]
    assert len(encode_prompts(Characters(), task, problems, max_model_len=10, max_tokens=4)) == 3
    with pytest.raises(UsageError, match=r"'long' has 6 tokens.*for 4 of a response\n.*found +9\n.*at least 10") as error:
        encode_prompts(Characters(), task, problems, max_model_len=9, max_tokens=4)
    assert error.value.key == "model.max_model_len"


def test_chat_needs_a_template_that_takes_it() -> None:
    with pytest.raises(UsageError, match="no chat template") as error:
        ids(Characters(chat_template=None), CHAT)
    assert error.value.key == "model.path"
    with pytest.raises(UsageError, match=r"refuses the prompt of problem 'p' \(System role not supported\)") as error:
        ids(Characters(), [{"role": "system", "content": "s"}, *CHAT])
    assert error.value.key == "task.system"
