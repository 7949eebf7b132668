"""The rollout engine against Hugging Face `generate`, refill against lockstep, exactness.

    OMP_NUM_THREADS=1 python benchmarks/grpo_rollout.py [--repeats 3] [--parts shapes,ragged,exact]

Model: Qwen3, hidden 256, 4 layers, 4 heads / 2 kv heads of 64, mlp 768, vocabulary 1,024, random weights, float32, one
thread. Shapes: a group of 8; the prompt is shared by the group (all but 64 tokens as policy, 64 as the task's opening);
`generate` has its KV cache on, is greedy, batched over the 8 rows, and generates each turn from the full ids. Both
sides sample the same number of tokens. Ragged: 64 conversations of 3 to 14 turns, log-normal turn lengths of median
30, 16 slots; lockstep = a batch of 16 played to its end before the next is admitted, all rows waiting for the slowest
turn, finished conversations dropped between turns. Exact: greedy tokens and log-probabilities of 100 ragged prompts.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from record import interleaved, write_result
from transformers import Qwen3Config, Qwen3ForCausalLM

from lib.grpo.engine import Conversation, Sampling
from lib.grpo.engine.static import StaticEngine

PARTS = ("shapes", "ragged", "exact")
GROUP, OPENING, VOCABULARY = 8, 64, 1024
# name -> prompt tokens, turns, sampled tokens a turn, tokens of an answer, bar, stretch
SHAPES = {
    "259 + 128": (259, 1, 128, 0, 2.0, 2.5),
    "700 + 8 x (24 + 32)": (700, 8, 24, 32, 5.5, 7.0),
    "2000 + 6 x (24 + 40)": (2000, 6, 24, 40, 8.5, 11.0),
}
RAGGED_BAR, RAGGED_STRETCH, RAGGED_SLOTS, RAGGED_CONVERSATIONS = 1.5, 2.5, 16, 64
EXACT_BAR = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="interleaved rounds; the median counts")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma list")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figures, misses = {}, []
    for part in arguments.parts.split(","):
        figures[part], wrong = globals()[f"measure_{part}"](arguments.repeats)
        misses += wrong
    settings = {"repeats": arguments.repeats, "parts": arguments.parts, "group": GROUP, "ragged_slots": RAGGED_SLOTS}
    print(f"written: {write_result('grpo_rollout', figures, settings=settings).name}")
    if misses:
        raise SystemExit("below the bars: " + "; ".join(misses))


def benchmark_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
        intermediate_size=768, vocab_size=VOCABULARY, max_position_embeddings=8192, tie_word_embeddings=True,
        eos_token_id=None, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


class Talk(Conversation):
    """A conversation with a given number of tokens in each turn and each answer, whatever is sampled."""

    def __init__(self, number: int, prompt: list[int], opening: int, lengths: list[int], answers: list[list[int]]):
        self.shared, self.opening = tuple(prompt[: len(prompt) - opening]), tuple(prompt[len(prompt) - opening :])
        self.noise, self.lengths, self.answers = number, lengths, answers
        self.ids, self.sampled, self.log_probs = list(prompt), [], []

    def hear(self, ids: list[int], log_probs: list[float], stopped: bool) -> list[int] | None:
        assert len(ids) == self.lengths[len(self.sampled)]
        self.sampled.append(ids)
        self.log_probs.append(log_probs)
        self.ids += ids
        if len(self.sampled) == len(self.lengths):
            return None
        self.ids += self.answers[len(self.sampled) - 1]
        return self.answers[len(self.sampled) - 1]

    def cut(self) -> None:
        raise AssertionError("the benchmark's conversations fit")


class ForcedLengths(StaticEngine):
    """Turns end after the number of tokens that the conversation says: random weights have no sense of an ending."""

    def budget(self, conversation: Talk, length: int) -> int:
        return conversation.lengths[len(conversation.sampled)]


def random_ids(key: str, count: int) -> list[int]:
    return random.Random(key).choices(range(VOCABULARY), k=count)


def group_talks(prompt: int, turns: int, sampled: int, answer: int) -> list[Talk]:
    ids = random_ids("prompt", prompt)
    return [
        Talk(row, ids, OPENING, [sampled] * turns, [random_ids(f"{row} {turn}", answer) for turn in range(turns)])
        for row in range(GROUP)
    ]


def play_generate(model, talks: list[Talk]) -> None:
    """What `generate` does for the same conversations: each turn from the full ids of all rows."""
    for turn in range(len(talks[0].lengths)):
        ids = torch.tensor([talk.ids for talk in talks])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=talks[0].lengths[turn], do_sample=False
        )
        for talk, new in zip(talks, out[:, ids.shape[1] :].tolist()):
            talk.hear(new, [], False)


def measure_shapes(repeats: int) -> tuple[dict, list[str]]:
    """Row 1. The engine gets a new policy in effect every round: `refresh` drops what was computed."""
    figures, misses, model = {}, [], benchmark_model()
    engines = {"sampled": Sampling(max_new_tokens=128), "greedy": Sampling(temperature=0, max_new_tokens=128)}
    engines = {name: ForcedLengths(model, sampling, slots=GROUP) for name, sampling in engines.items()}
    for name, (prompt, turns, sampled, answer, bar, stretch) in SHAPES.items():
        shape, ended = (prompt, turns, sampled, answer), {}

        def with_engine(kind: str, shape=shape, ended=ended) -> None:
            engines[kind].refresh()
            ended[kind] = group_talks(*shape)
            engines[kind].play(ended[kind])

        def with_generate(shape=shape, ended=ended) -> None:
            ended["generate"] = group_talks(*shape)
            play_generate(model, ended["generate"])

        functions = {"generate": with_generate} | {kind: lambda k=kind: with_engine(k) for kind in engines}
        for function in functions.values():
            function()
        seconds = {key: statistics.median(rounds) for key, rounds in interleaved(functions, repeats).items()}
        assert [talk.ids for talk in ended["greedy"]] == [talk.ids for talk in ended["generate"]], "not the same tokens"
        ratio = seconds["generate"] / seconds["sampled"]
        figures[name] = {
            "generate_s": round(seconds["generate"], 3),
            "engine_s": round(seconds["sampled"], 3),
            "engine_greedy_s": round(seconds["greedy"], 3),
            "engine_tokens_per_s": round(GROUP * turns * sampled / seconds["sampled"]),
            "ratio": round(ratio, 2),
            "ratio_greedy": round(seconds["generate"] / seconds["greedy"], 2),
            "bar": bar,
            "stretch": stretch,
        }
        print(f"{name}: {figures[name]}", flush=True)
        misses += [f"{name} {ratio:.2f}x"] if ratio < bar else []
    return figures, misses


def ragged_talks() -> list[Talk]:
    """64 conversations in groups of 8, one policy of 400 tokens, openings of 40."""
    talks = []
    for number in range(RAGGED_CONVERSATIONS):
        draw = random.Random(f"ragged {number}")
        lengths = [max(1, min(256, round(draw.lognormvariate(3.4, 0.8)))) for _ in range(draw.randint(3, 14))]
        answers = [random_ids(f"answer {number} {turn}", draw.randint(8, 48)) for turn in range(len(lengths))]
        prompt = random_ids("policy", 400) + random_ids(f"opening {number // GROUP}", 40)
        talks.append(Talk(number, prompt, 40, lengths, answers))
    return talks


def measure_ragged(repeats: int) -> tuple[dict, list[str]]:
    """Row 2."""
    model, sampling, counts = benchmark_model(), Sampling(max_new_tokens=256), {}
    engines = {
        "refill": ForcedLengths(model, sampling, slots=RAGGED_SLOTS),
        "lockstep": ForcedLengths(model, sampling, slots=RAGGED_SLOTS, lockstep=True),
    }

    def play(kind: str) -> None:
        engines[kind].refresh()
        counts[kind] = engines[kind].play(ragged_talks())

    rounds = interleaved({kind: lambda k=kind: play(k) for kind in engines}, repeats)
    seconds = {kind: statistics.median(values) for kind, values in rounds.items()}
    ratio = seconds["lockstep"] / seconds["refill"]
    figures = {"ratio": round(ratio, 2), "bar": RAGGED_BAR, "stretch": RAGGED_STRETCH}
    for kind, count in counts.items():
        figures[kind] = {
            "seconds": round(seconds[kind], 2),
            "tokens_per_s": round(count["sampled_tokens"] / seconds[kind]),
            "decode_steps": count["decode_steps"],
            "busy_share": round(count["busy_share"], 3),
        }
    print(f"ragged: {figures}", flush=True)
    return figures, [f"ragged {ratio:.2f}x"] if ratio < RAGGED_BAR else []


def measure_exact(repeats: int) -> tuple[dict, list[str]]:
    """Row 3."""
    model, draw, new = benchmark_model(), random.Random(5), 64
    prompts = [random_ids(f"exact {number}", draw.randint(4, 200)) for number in range(100)]
    talks = [Talk(number, ids, len(ids), [new], []) for number, ids in enumerate(prompts)]
    StaticEngine(model, Sampling(temperature=0, max_new_tokens=new), slots=64).play(talks)
    different, largest = 0, 0.0
    for prompt, talk in zip(prompts, talks):
        ids = torch.tensor([prompt])
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, do_sample=False)[0]
        different += expected.tolist() != talk.ids
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([talk.ids])).logits[0, len(prompt) - 1 : -1]
        exact = torch.log_softmax(logits, -1).gather(-1, torch.tensor(talk.sampled[0])[:, None])[:, 0]
        largest = max(largest, (exact - torch.tensor(talk.log_probs[0])).abs().max().item())
    figures = {"prompts": len(prompts), "different": different, "largest_log_prob_difference": largest}
    print(f"exact: {figures}", flush=True)
    misses = [f"{different} greedy outputs differ"] if different else []
    return figures, misses + ([f"log-probabilities differ by {largest:.1e}"] if largest >= EXACT_BAR else [])


if __name__ == "__main__":
    main()
