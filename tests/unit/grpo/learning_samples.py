"""Tiny random models and made-up episodes for the tests of the learning side."""

import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from lib.grpo.learning.packing import Sample
from lib.grpo.trajectory import Trajectory

VOCABULARY = 61
FAMILIES = {
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 8}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "llama": (LlamaConfig, LlamaForCausalLM, {"attention_bias": True}),
}


def tiny_model(family: str = "qwen3", dtype: torch.dtype = torch.float64, seed: int = 0, **changes):
    """A model of 2 layers, 4 heads on 2 key-value heads; weights large enough for attention to be far from uniform."""
    config_class, model_class, extra = FAMILIES[family]
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 512}
    torch.manual_seed(seed)
    model = model_class(config_class(**(sizes | {"initializer_range": 0.3} | extra | changes))).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
    return model


def episodes(domains: int = 2, groups: int = 3, group_size: int = 4, seed: int = 0) -> list[Trajectory]:
    """Ragged episodes of 1 to 3 turns whose beginnings are shared as `Trajectory` says; log_probs are random."""
    draw = random.Random(seed)
    made = []
    for domain in range(domains):
        policy = _ids(draw, 20 + 7 * domain)
        for group in range(groups):
            opening = _ids(draw, 5 + 3 * group)
            for sample in range(group_size):
                ids, spans = policy + opening, []
                for _ in range(draw.randint(1, 3)):
                    start = len(ids)
                    ids = ids + _ids(draw, draw.randint(1, 9))
                    spans.append((start, len(ids)))
                    ids = ids + _ids(draw, draw.randint(1, 5))
                sampled = sum(end - start for start, end in spans)
                log_probs = [-4 + draw.random() for _ in range(sampled)]
                lengths = len(policy), len(policy) + len(opening)
                number = domain * groups + group
                made.append(
                    Trajectory(f"domain {domain}", f"task {group}", number, sample, ids, *lengths, spans, log_probs)
                )
    return made


def samples_of(trajectories: list[Trajectory], seed: int = 0) -> list[Sample]:
    """Samples with random advantages, old and reference log-probabilities near those of the rollout."""
    draw = random.Random(seed)
    made = []
    for trajectory in trajectories:
        near = [[value + draw.uniform(-0.5, 0.5) for value in trajectory.log_probs] for _ in range(2)]
        made.append(Sample(trajectory, draw.choice([-1, 1]) * draw.uniform(0.2, 1.5), *near))
    return made


def gradients(model: torch.nn.Module) -> torch.Tensor:
    """All gradients of a model in one row."""
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of what was expected."""
    return float((found - expected).norm() / expected.norm())


def _ids(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(VOCABULARY) for _ in range(count)]
