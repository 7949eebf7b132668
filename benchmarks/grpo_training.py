"""The training forward and backward over shared prefixes against plain rows, and memory of log-probabilities.

    OMP_NUM_THREADS=1 python benchmarks/grpo_training.py [--rounds 5]

Speed: a group of 8 episodes with a common prompt and completions of equal length, random ids, a Qwen3 of 4 layers with
random weights, float32. Plain rows run transformers' own model with sdpa attention on all 8 rows, `logits_to_keep` and
log_softmax; both sides use the same loss (dapo) and give the same gradient, which is measured as well. The two take
turns, and medians over the rounds are quoted.

Memory: 1,024 tokens at a vocabulary of 151,936, forward and backward, each way in a process of its own; quoted is the
growth of the peak of resident memory, weights and hidden states already there, the gradient of the weights included.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch
from record import interleaved, write_result
from transformers import Qwen3Config, Qwen3ForCausalLM

from lib.grpo.learning.log_probs import token_log_probs
from lib.grpo.learning.losses import Objective
from lib.grpo.learning.packing import Sample, pack
from lib.grpo.learning.policy import Policy
from lib.grpo.trajectory import Trajectory

GROUP_SIZE = 8
# prompt tokens, completion tokens, least ratio, ratio aimed at
SHAPES = ((259, 128, 1.6, 2.0), (1500, 200, 3.0, 4.0))
VOCABULARY, MEMORY_TOKENS, MEMORY_WIDTH = 151_936, 1024, 256
MEMORY_BAR, GRADIENT_BAR = 8, 1e-5


def build_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"head_dim": 64, "intermediate_size": 768, "vocab_size": 1024, "tie_word_embeddings": True}
    return Qwen3ForCausalLM(Qwen3Config(**sizes, attn_implementation="sdpa"))


def group(prompt: int, completion: int) -> list[Sample]:
    """A group whose rollout log-probabilities are near those of a model that knows nothing, and mixed advantages."""
    generator = torch.Generator().manual_seed(1)
    start = torch.randint(1024, (prompt,), generator=generator).tolist()
    samples = []
    for sample in range(GROUP_SIZE):
        ids = start + torch.randint(1024, (completion,), generator=generator).tolist()
        log_probs = (-6.9 + 0.1 * torch.randn(completion, generator=generator)).tolist()
        span = (prompt, prompt + completion)
        trajectory = Trajectory("domain", "task", 0, sample, ids, prompt // 2, prompt, [span], log_probs)
        samples.append(Sample(trajectory, 1.0 if sample % 2 else -1.0))
    return samples


def plain_step(model: Qwen3ForCausalLM, samples: list[Sample]) -> None:
    """Rows that all hold the prompt, as trainers do it; no padding is needed at equal lengths."""
    ids = torch.tensor([sample.trajectory.ids for sample in samples])  # (rows, tokens)
    old = torch.tensor([sample.trajectory.log_probs for sample in samples])
    advantages = torch.tensor([sample.advantage for sample in samples])[:, None]
    model.zero_grad()
    logits = model(ids[:, :-1], logits_to_keep=old.shape[1], use_cache=False).logits
    log_probs = logits.log_softmax(-1).gather(-1, ids[:, -old.shape[1] :, None])[..., 0]
    ratio = (log_probs - old).exp()
    losses = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.28) * advantages)
    (losses.sum() / old.numel()).backward()


def packed_step(policy: Policy, samples: list[Sample]) -> None:
    """From episodes to gradients, packing included."""
    policy.zero_grad()
    divisor = sum(sample.trajectory.sampled_tokens for sample in samples)
    for batch in pack(samples, 1 << 20):
        (policy(batch, Objective())[0] / divisor).backward()


def relative_difference(model: Qwen3ForCausalLM, policy: Policy) -> float:
    expected, found = (
        torch.cat([parameter.grad.flatten() for parameter in each.parameters()]) for each in (model, policy)
    )
    return float((found - expected).norm() / expected.norm())


def measure_speed(rounds: int) -> dict:
    model = build_model()
    policy = Policy(copy.deepcopy(model))
    figures = {}
    for prompt, completion, bar, aim in SHAPES:
        samples = group(prompt, completion)
        steps = {"plain": partial(plain_step, model, samples), "packed": partial(packed_step, policy, samples)}
        interleaved(steps, 1)
        difference = relative_difference(model, policy)
        seconds = interleaved(steps, rounds)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        ratio = statistics.median(a / b for a, b in zip(seconds["plain"], seconds["packed"]))
        name = f"{prompt} + {completion}"
        figures[name] = {f"{way}_s": medians[way] for way in medians}
        figures[name] |= {"ratio": ratio, "bar": bar, "aim": aim, "gradient_difference": difference, "seconds": seconds}
        print(
            f"{name:>10}: plain {medians['plain']:.3f} s, packed {medians['packed']:.3f} s, {ratio:.2f}x "
            f"(bar {bar}, aim {aim}); gradients differ by {difference:.1e} (bar {GRADIENT_BAR:.0e})",
            flush=True,
        )
    return figures


def resident_mib(field: str) -> float:
    """VmRSS, resident memory of this process now, or VmHWM, its peak since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def memory_child(way: str) -> None:
    """Prints by how much the peak of resident memory exceeds what was resident before, in MiB (Linux)."""
    torch.manual_seed(0)
    hidden = torch.randn(MEMORY_TOKENS, MEMORY_WIDTH, requires_grad=True)
    weight = torch.nn.Parameter(torch.empty(VOCABULARY, MEMORY_WIDTH).normal_(0, 0.02))
    targets = torch.randint(VOCABULARY, (MEMORY_TOKENS,))
    # A first small step loads the kernels.
    token_log_probs(hidden[:4], weight[:8], targets[:4] % 8)[0].sum().backward()
    hidden.grad = weight.grad = None
    Path("/proc/self/clear_refs").write_text("5")
    before = resident_mib("VmRSS")
    start = time.perf_counter()
    if way == "plain":
        logits = torch.nn.functional.linear(hidden, weight)
        log_probs = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    else:
        log_probs, _ = token_log_probs(hidden, weight, targets)
    log_probs.mean().backward()
    seconds = time.perf_counter() - start
    grown = resident_mib("VmHWM") - before
    print(json.dumps({"mib": grown, "seconds": seconds, "gradient_norm": float(weight.grad.double().norm())}))


def measure_memory() -> dict:
    found = {}
    for way in ("plain", "chunked"):
        command = [sys.executable, __file__, "--memory_child", way]
        found[way] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    plain, chunked = found["plain"], found["chunked"]
    ratio = plain["mib"] / chunked["mib"]
    print(
        f"log-probabilities of {MEMORY_TOKENS} tokens, {VOCABULARY:,} words: plain +{plain['mib']:.0f} MiB "
        f"{plain['seconds']:.1f} s, in slices +{chunked['mib']:.0f} MiB {chunked['seconds']:.1f} s, "
        f"{ratio:.1f}x less (bar {MEMORY_BAR})"
    )
    return found | {"ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory_child", choices=("plain", "chunked"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.memory_child:
        memory_child(arguments.memory_child)
        return
    figures = {"speed": measure_speed(arguments.rounds), "log_prob_memory": measure_memory()}
    settings = {"rounds": arguments.rounds, "group_size": GROUP_SIZE, "dtype": "float32"}
    write_result("grpo_training", figures, settings=settings | {"memory_bar": MEMORY_BAR, "gradient_bar": GRADIENT_BAR})


if __name__ == "__main__":
    main()
