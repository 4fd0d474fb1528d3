"""A character-level model of 0.3 million parameters, trained here on arithmetic lines that are partly wrong.

It exists so that tests and trials meet a real checkpoint in a real engine within seconds. It is deliberately
half-taught: it knows the form of a line and much of the arithmetic, and leaves evolution strategies room to improve.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

DESCRIPTION = "0.3M parameters, character level, trained here in about a minute on partly wrong arithmetic"

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
VOCABULARY = [PAD, BOS, EOS, UNK, "\n", *map(chr, range(32, 127))]

# A turn is its bare text: the user writes "12+7=", the assistant "19" and a new line, as in the training lines.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] != 'user' %}{{ '\\n' }}{% endif %}{% endfor %}"
)


QUESTION_WEIGHT = 0.1  # of a token outside the answers, in the loss


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights. Lengths in tokens, `wrong` is the share of lines with a false answer."""

    seed: int = 0
    layers: int = 2
    width: int = 128
    heads: int = 4
    kv_heads: int = 2
    mlp: int = 256
    context: int = 1024
    steps: int = 1000
    batch: int = 16
    length: int = 64
    learning_rate: float = 4e-3
    warmup: int = 20
    wrong: float = 0.1
    lines_per_document: int = 8


def recipe(seed: int) -> dict[str, object]:
    return asdict(Recipe(seed=seed))


def lines(rng: np.random.Generator, wrong: float) -> Iterator[str]:
    """Endless lines of one kind: `12+7=19`, `20-8=12`, `6x7=42` or `max(12,40,7)=40`, a share `wrong` of them false."""
    kind = rng.choice(["+", "-", "x", "max"])
    while True:
        a, b = (int(n) for n in rng.integers(0, 31, 2))
        match kind:
            case "+":
                question, answer = f"{a}+{b}", a + b
            case "-":
                question, answer = f"{max(a, b)}-{min(a, b)}", abs(a - b)
            case "x":
                question, answer = f"{a % 21}x{b % 21}", (a % 21) * (b % 21)
            case _:
                numbers = [int(n) for n in rng.integers(1, 100, 3)]
                question, answer = f"max({','.join(map(str, numbers))})", max(numbers)
        if rng.random() < wrong:
            answer = int(rng.integers(0, 100))
        yield f"{question}={answer}\n"


def rows(tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator, r: Recipe) -> np.ndarray:
    """One batch of token ids, int64 [batch, length + 1]: documents of a few lines of one kind, packed."""
    texts = []
    for _ in range(r.batch):
        text = ""
        while len(text) < 2 * r.length:
            document = lines(rng, r.wrong)
            text += BOS + "".join(next(document) for _ in range(rng.integers(1, r.lines_per_document + 1))) + EOS
        texts.append(text)
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return np.asarray([row[: r.length + 1] for row in ids], dtype=np.int64)


def character_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character (printable ASCII and the line feed), one BOS in front of every text."""
    from tokenizers import Tokenizer, decoders, models, processors
    from transformers import PreTrainedTokenizerFast

    ids = {token: i for i, token in enumerate(VOCABULARY)}
    inner = Tokenizer(models.BPE(vocab=ids, merges=[], unk_token=UNK))
    inner.decoder = decoders.Fuse()
    inner.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=UNK,
        clean_up_tokenization_spaces=False,
        model_max_length=Recipe.context,
        chat_template=CHAT_TEMPLATE,
    )


def untrained(r: Recipe, generator: torch.Generator) -> PreTrainedModel:
    """A Qwen2 model with tied embeddings, every weight drawn from `generator`."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=r.width,
        intermediate_size=r.mlp,
        num_hidden_layers=r.layers,
        num_attention_heads=r.heads,
        num_key_value_heads=r.kv_heads,
        max_position_embeddings=r.context,
        tie_word_embeddings=True,
        pad_token_id=VOCABULARY.index(PAD),
        bos_token_id=VOCABULARY.index(BOS),
        eos_token_id=VOCABULARY.index(EOS),
    )
    with torch.random.fork_rng(devices=[]):  # the constructor draws from the global generator: give it back as it was
        model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, parameter.shape[1] ** -0.5, generator=generator)
    return model


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, r: Recipe) -> None:
    """Next-token training with AdamW, linear warm-up and decay. All data come from `r.seed`."""
    import torch

    rng = np.random.default_rng(r.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=r.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / r.warmup, (r.steps - step) / (r.steps - r.warmup))
    )
    for _ in range(r.steps):
        ids = torch.from_numpy(rows(tokenizer, rng, r))
        loss = answer_loss(model(ids[:, :-1]).logits, ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()


def answer_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits [batch, length, vocabulary] against ids [batch, length + 1], mostly of the answers' tokens.

    What comes before an `=` is drawn at random: it only teaches the form of a line, and would drown the rest.
    """
    import torch

    equals, ends = (ids == VOCABULARY.index(sign) for sign in "=\n")
    in_answer = (equals.cumsum(1) > ends.cumsum(1))[:, :-1]  # the next token belongs to an answer
    weight = in_answer + QUESTION_WEIGHT
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return (loss * weight).sum() / weight.sum()


def write(folder: Path, seed: int) -> None:
    """Train the model and save it with its tokenizer in `folder` as a bfloat16 checkpoint."""
    import torch

    r = Recipe(seed=seed)
    tokenizer = character_tokenizer()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the number of threads would change the last digits, and gains nothing at this size
    try:
        model = untrained(r, torch.Generator().manual_seed(seed))
        train(model, tokenizer, r)
    finally:
        torch.set_num_threads(threads)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
