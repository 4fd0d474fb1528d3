"""Every curve that TensorBoard shows, by name: what it is and in which unit. docs/monitoring.md says the same."""

from __future__ import annotations

import re
from typing import NamedTuple


class Tag(NamedTuple):
    """One curve. In `name`, `<task>` stands for a task's name and `<k>` for one of `eval.k`."""

    name: str
    unit: str
    meaning: str


TAGS = (
    Tag("reward/mean", "reward", "mean over the members of the update (in a gradient phase: over its responses)"),
    Tag("reward/std", "reward", "standard deviation over the same"),
    Tag("reward/min", "reward", "lowest of the same"),
    Tag("reward/max", "reward", "highest of the same"),
    Tag("reward/center", "reward", "mean reward of theta itself on the batch, with `center` on"),
    Tag("es/update_norm", "weight", "L2 norm of the update theta' - theta in fp32"),
    Tag("es/step_cosine", "-1 to 1", "cosine between that update and the step the engine's bf16 copy makes"),
    Tag("es/update_cosine", "-1 to 1", "cosine of the update with the one before, on a slice: 0 within .003 or seeds repeat"),
    Tag("es/distinct_rewards", "1 to N", "effective number of different rewards: exp of the entropy of their frequencies"),
    Tag("es/center_rank", "0 to 1", "share of the members with a reward below theta's own, ties half, with `center` on"),
    Tag("es/valid_members", "members", "members whose evaluation succeeded; the update divides by their number"),
    Tag("es/zero_std", "0 or 1", "1 when all rewards were equal, so that nothing was learnt and theta stayed"),
    Tag("grpo/loss", "", "the objective that was minimised, KL loss included; mean over the update's optimiser steps"),
    Tag("grpo/kl", "nats", "KL to the reference, as phases.<name>.kl estimates it, aggregated like the loss"),
    Tag("grpo/clip_frac", "0 to 1", "share of the tokens that clipping kept from moving the policy, weighted like the loss"),
    Tag("grpo/entropy", "nats", "mean entropy of the policy a token, at the temperature of training"),
    Tag("grpo/logp_gap", "nats", "mean absolute difference of log pi_trainer and log pi_engine a token"),
    Tag("grpo/grad_norm", "", "norm of the gradient before clipping, mean over the update's optimiser steps"),
    Tag("grpo/zero_std_groups", "0 to 1", "share of the groups whose rewards were all equal, which only the KL loss moves"),
    Tag("grpo/redrawn", "prompts", "prompts of the update that dynamic sampling replaced"),
    Tag("dpo/loss", "", "the objective that was minimised; this and the next are means over the update's optimiser steps"),
    Tag("dpo/margin", "", "beta (Delta(y_w) - Delta(y_l)), Delta = log pi - log pi_ref of a response; mean over pairs"),
    Tag("dpo/accuracy", "0 to 1", "share of the pairs whose winner gained more probability than its loser"),
    Tag("dpo/logp_chosen", "nats", "Delta(y_w), mean over pairs: below 0 winners lose probability too"),
    Tag("dpo/pairs", "pairs", "pairs of the update, all ranks"),
    Tag("dpo/grad_norm", "", "norm of the gradient before clipping, mean over the update's optimiser steps"),
    Tag("dpo/logp_gap", "nats", "mean absolute difference of log pi_trainer and log pi_engine a token"),
    Tag("edo/kl_prev", "nats", "estimate of KL(pi_prev, pi) a token, pi_prev the model at the start of the outer iteration"),
    Tag("edo/term", "", "what kappa (ED-GRPO: the same KL, gated) or alpha (ED-iDPO: J) multiplies"),
    Tag("edo/gated", "0 to 1", "share of the tokens that the gate holds back"),
    Tag("edo/paused", "0 or 1", "1 when the cap on that KL has stopped the term for the rest of the iteration"),
    Tag("diversity/entropy", "nats", "of a gradient phase: mean entropy of the policy a token, at the temperature of training"),
    Tag("diversity/distinct4", "0 to 1", "of a gradient phase: different 4-grams of tokens over all, pooled over each group"),
    Tag("gen/tokens", "tokens", "tokens generated in the update, all ranks"),
    Tag("gen/mean_length", "tokens", "mean length of a response"),
    Tag("gen/truncated", "0 to 1", "share of the responses that were cut at sampling.max_tokens"),
    Tag("grade/right", "0 to 1", "share of the responses graded right"),
    Tag("grade/wrong", "0 to 1", "share of the responses graded wrong"),
    Tag("grade/unparsed", "0 to 1", "share of the responses in which no answer was found"),
    Tag("grade/truncated", "0 to 1", "share of the responses that were cut before their answer was whole"),
    Tag("grade/timeout", "0 to 1", "share of the responses whose grading ran out of time"),
    Tag("grade/error", "0 to 1", "share of the responses whose grader failed; they do not count"),
    Tag("time/load", "seconds", "writing members' weights into the engine, mean over ranks"),
    Tag("time/generate", "seconds", "generating, mean over ranks"),
    Tag("time/grade", "seconds", "grading, mean over ranks"),
    Tag("time/merge", "seconds", "exchanging scores, mean over ranks"),
    Tag("time/update", "seconds", "computing and applying the update, mean over ranks"),
    Tag("time/eval", "seconds", "evaluating on the evaluation tasks"),
    Tag("time/save", "seconds", "writing the checkpoint"),
    Tag("time/idle", "seconds", "waiting for the slowest rank, mean over ranks"),
    Tag("perf/tokens_per_s", "tokens/s", "tokens generated by a second of the whole update, all ranks"),
    Tag("perf/overhead", "ratio", "seconds of the update over seconds of its generation; 1 is ideal"),
    Tag("perf/bytes_per_step", "bytes", "sent by a rank to the others, mean over ranks, whatever the model's size"),
    Tag("eval/<task>/greedy", "0 to 1", "share of the problems that the greedy response solves"),
    Tag("eval/<task>/pass@<k>", "0 to 1", "chance that one of k sampled responses is right, mean over the problems"),
    Tag("eval/<task>/maj@<k>", "0 to 1", "share of the problems that a majority vote of k sampled responses solves"),
    Tag("eval/<task>/length", "tokens", "mean length of the sampled responses (of the greedy ones if none was sampled)"),
    Tag("eval/<task>/truncated", "0 to 1", "share of the same that were cut at the longest length"),
    Tag("eval/<task>/entropy", "nats", "mean of -ln p over the tokens of sampled responses, p as they were drawn"),
    Tag("eval/<task>/distinct4", "0 to 1", "different 4-grams of tokens over all, pooled over the samples of a problem"),
    Tag("eval/<task>/distinct4_512", "0 to 1", "the same of the first 512 tokens of each response"),
)

REWARD_MEAN, REWARD_STD, REWARD_MAX = "reward/mean", "reward/std", "reward/max"
EVAL = re.compile(
    r"eval/(?P<task>.+)/(?P<metric>greedy|pass@\d+|maj@\d+|length|truncated|entropy|distinct4|distinct4_512)(?P<bound>_low|_high)?"
)

UNITS = {"length": "tokens", "entropy": "nats"}  # of the metrics in EVAL; all others are shares
SCORES = re.compile(r"greedy|pass@\d+|maj@\d+")

_PLAIN = frozenset(tag.name for tag in TAGS if "<" not in tag.name)


def known(name: str) -> bool:
    """Whether `name` is one of TAGS; an evaluation tag also with `_low` or `_high`, the ends of its 95 % interval."""
    return name in _PLAIN or EVAL.fullmatch(name) is not None
