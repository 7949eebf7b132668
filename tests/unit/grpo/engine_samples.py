"""What the engine tests share: tiny models built from their configs, and conversations that follow a script."""

import random
from collections.abc import Callable

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from lib.grpo.engine import Conversation

VOCABULARY = 96
_SIZES = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "initializer_range": 0.15,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def tiny_model(kind: str = "qwen3", seed: int = 0, **changes) -> torch.nn.Module:
    """A random float32 model; biases and norm weights are random too, so that none can be forgotten."""
    torch.manual_seed(seed)
    sizes = _SIZES | changes
    if kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=16, tie_word_embeddings=True, **sizes))
    elif kind == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**sizes))
    else:
        model = LlamaForCausalLM(LlamaConfig(**sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.2)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model.eval()


class ScriptedConversation(Conversation):
    """Answers that are a function of the seed and of what was sampled; keeps all that was said."""

    def __init__(self, seed: int, turns: int = 3, shared: int = 19, group: int = 4, most_answer: int = 11) -> None:
        def ids(key: str, count: int) -> tuple[int, ...]:
            return tuple(random.Random(key).choices(range(VOCABULARY), k=count))

        self.shared = ids(f"shared {seed // (2 * group) % 2}", shared)
        self.opening = ids(f"opening {seed // group}", seed // group % 5)
        self.noise = random.Random(f"noise {seed}").getrandbits(63)
        self.turns, self.most_answer, self.seed = turns, most_answer, seed
        self.ids = [*self.shared, *self.opening]
        self.spans: list[tuple[int, int]] = []
        self.sampled: list[list[int]] = []
        self.log_probs: list[list[float]] = []
        self.stops: list[bool] = []
        self.was_cut = False

    def hear(self, ids: list[int], log_probs: list[float], stopped: bool) -> list[int] | None:
        assert len(ids) == len(log_probs) > 0
        self.spans.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids += ids
        self.sampled.append(ids)
        self.log_probs.append(log_probs)
        self.stops.append(stopped)
        if len(self.sampled) == self.turns:
            return None
        draw = random.Random(f"{self.seed} {sum(ids)}")
        answer = draw.choices(range(VOCABULARY), k=draw.randint(0, self.most_answer))
        self.ids += answer
        return answer

    def cut(self) -> None:
        self.was_cut = True


def dialogues(count: int, **changes) -> list[ScriptedConversation]:
    """`count` conversations of one to five turns, two policies, groups of four."""
    return [ScriptedConversation(seed, turns=1 + seed * 7 % 5, **changes) for seed in range(count)]


def said(conversations: list[ScriptedConversation]) -> list[tuple]:
    return [(talk.sampled, talk.stops, talk.was_cut, talk.ids) for talk in conversations]


def largest_difference(first: list[ScriptedConversation], second: list[ScriptedConversation]) -> float:
    """Of the log-probabilities of equal turns."""
    pairs = [
        abs(one - other)
        for a, b in zip(first, second)
        for turn_a, turn_b in zip(a.log_probs, b.log_probs)
        for one, other in zip(turn_a, turn_b)
    ]
    assert pairs
    return max(pairs)


def played(make: Callable[[], object], conversations: list[ScriptedConversation]) -> list[ScriptedConversation]:
    make().play(conversations)
    return conversations
