"""A whole optimiser step of GRPO with tool calls against TRL's GRPOTrainer and its tool loop.

    pip install trl==1.16.0 jmespath
    OMP_NUM_THREADS=1 python benchmarks/grpo_step.py [--rounds 3] [--tasks 1,2] [--trl_rows 8]

Both sides: the same Qwen3 (hidden 256, 4 layers, 4 heads / 2 kv heads of 64, mlp 768, vocabulary 1,024, random weights,
float32, one thread), a group of 8 for each task, prompts of 2,000 tokens, 6 turns of 24 sampled tokens, each but the
last answered by a tool's result of 40 tokens. Timed: all turns with decoding, calls, tools and encoding of results,
rewards, advantages, loss (dapo, no KL) forward and backward, clipping, AdamW. --trl_rows is TRL's
per_device_train_batch_size, accumulated to the same batch; gradient checkpointing, its default, is off, as is bf16.

TRL's own `train()` runs with `tools=[look_up]`: `_generate`, `_tool_call_loop`, `_generate_single_turn` by `generate`
with its KV cache, `parse_response`, all as installed. A callback takes the time between the begin and the end of a step
and plays our step, with the same prompts, before the next. Random weights neither end a turn nor write a call, so equal
work is forced by settings alone, nothing of TRL is replaced: `generation_kwargs` sets min_new_tokens = max_new_tokens =
24 (TRL's max_completion_length bounds the whole episode), the tokenizer's `response_template` reads any text as a call
of `look_up`, and max_tool_calling_iterations ends the loop. On our side a turn is 24 tokens by `max_new_tokens`, no
token stops it, any text is a call of the same tool, and prompts and results are encoded by the trainer's ChatFormat.

Checked in each round: prompt ids, episodes, sampled and observed tokens are the same on both sides. In the first round,
which warms up and is not counted, our gradient of TRL's episodes is compared with TRL's.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib.metadata
import importlib.util
import os
import random
import statistics
import tempfile
import time
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from datasets import Dataset
from record import write_result
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback
from transformers.utils import get_json_schema

from lib.grpo.chat.format import ChatFormat
from lib.grpo.chat.template import IM_END, IM_START, TRAINING_TEMPLATE
from lib.grpo.engine import Conversation, Sampling
from lib.grpo.engine.static import StaticEngine
from lib.grpo.learning.advantages import compute_advantages
from lib.grpo.learning.losses import Objective
from lib.grpo.learning.packing import Sample, pack
from lib.grpo.learning.policy import Policy, log_probs
from lib.grpo.trajectory import Trajectory
from lib.seeds import derive

TRL_VERSION = "1.16.0"
GROUP, PROMPT, TURNS, SAMPLED, ANSWER, VOCABULARY = 8, 2000, 6, 24, 40, 1024
COMPLETION = TURNS * SAMPLED + (TURNS - 1) * ANSWER
LEARNING_RATE, BETAS, WEIGHT_DECAY, MAX_NORM = 1e-6, (0.9, 0.95), 0.01, 1.0
MICRO_BATCH_TOKENS, SLOTS = 8192, 64  # the defaults of scripts/train_grpo.py
BAR, STRETCH, GRADIENT_BAR = 4.0, 6.0, 1e-4
# A header or a mark of the template is one token, as in tokenizers of real models; all other text one token a byte.
PIECES = ("system\n", "user", "assistant\n", "\n<tool_response>\n", "\n</tool_response>")
ANY_TEXT_IS_A_CALL = {
    "defaults": {"role": "assistant"},
    "start_anchor": f"{IM_START}assistant\n",
    "fields": {
        "tool_calls": {
            "open_pattern": r"(?=[\s\S])",
            "close_pattern": r"\Z",
            "repeats": True,
            "content": "text",
            "transform": {"type": "function", "function": {"name": "look_up", "arguments": {"query": "{content}"}}},
        },
        "content": {"close_pattern": r"\Z", "content": "text"},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="counted steps of each side; the median counts")
    parser.add_argument("--tasks", default="1", help="tasks of a step, 8 episodes each; comma list")
    parser.add_argument("--trl_rows", type=int, default=8, help="rows of TRL's forward pass; divides tasks x 8")
    arguments = parser.parse_args()
    if importlib.util.find_spec("trl") is None:
        raise SystemExit(f"trl is not installed: pip install trl=={TRL_VERSION} jmespath")
    torch.set_num_threads(1)
    figures = {}
    for tasks in map(int, arguments.tasks.split(",")):
        figures[f"{tasks} x {GROUP}"] = measure(tasks, arguments.rounds, arguments.trl_rows)
    settings = {"rounds": arguments.rounds, "tasks": arguments.tasks, "trl_rows": arguments.trl_rows}
    settings |= {"trl": importlib.metadata.version("trl"), "prompt_tokens": PROMPT, "turns": TURNS}
    settings |= {"sampled_tokens_per_turn": SAMPLED, "answer_tokens": ANSWER, "bar": BAR, "stretch": STRETCH}
    print(f"written: {write_result('grpo_step', figures, settings=settings).name}")
    misses = [f"{name} {each['ratio']:.2f}x" for name, each in figures.items() if each["ratio"] < BAR]
    if misses:
        raise SystemExit(f"below the bar of {BAR:g}x: " + "; ".join(misses))


def build_tokenizer() -> PreTrainedTokenizerFast:
    special = (IM_START, IM_END, "<|pad|>")
    words = [*special, *PIECES, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"word{number}" for number in range(VOCABULARY - len(words))]  # only ever sampled
    core = Tokenizer(models.BPE(vocab={word: at for at, word in enumerate(words)}, merges=[]))
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    core.add_tokens([AddedToken(word, special=word in special, normalized=False) for word in (*special, *PIECES)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=IM_END, pad_token="<|pad|>")
    tokenizer.chat_template, tokenizer.response_template = TRAINING_TEMPLATE, ANY_TEXT_IS_A_CALL
    assert len(tokenizer) == VOCABULARY
    return tokenizer


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
        intermediate_size=768, vocab_size=VOCABULARY, max_position_embeddings=8192, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
        attn_implementation="sdpa",
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def digits(count: int, *key) -> str:
    return "".join(random.Random(" ".join(map(str, key))).choices("0123456789", k=count))


def look_up(query: str) -> str:
    """Looks a record up.

    Args:
        query: What is looked for.
    """
    # Headers and marks around the result are 9 tokens.
    return digits(ANSWER - 9, query)


TOOLS = [get_json_schema(look_up)]


def task_messages(chat: ChatFormat, number: int) -> list[dict]:
    """A policy that all tasks share and a request, 2,000 tokens with the tools."""
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": digits(50, "request", number)}]
    rest = sum(map(len, chat.prompt(messages, TOOLS)))
    return [{"role": "system", "content": digits(PROMPT - rest, "policy")}, messages[1]]


def reward(completion: list[int]) -> float:
    """Any number that is cheap and differs from episode to episode."""
    return sum(completion) % 97 / 97


class Talk(Conversation):
    """A conversation of the engine in which every turn is a call."""

    def __init__(self, chat: ChatFormat, messages: list[dict], number: int, group: int, sample: int):
        self.chat, self.group, self.sample = chat, group, sample
        self.shared, self.opening = chat.prompt(messages, TOOLS)
        self.ids, self.spans, self.log_probs = [*self.shared, *self.opening], [], []
        self.noise = derive(0, "sampling", number, group, sample)

    def hear(self, ids: list[int], log_probs: list[float], stopped: bool) -> list[int] | None:
        self.spans.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids += ids
        self.log_probs += log_probs
        if len(self.spans) == TURNS:
            return None
        result = {"role": "tool", "name": "look_up", "content": look_up(query=self.chat.text_of(ids))}
        # As TRL does with a turn that ran into its limit, no end of turn is put in.
        answer = self.chat.answer([result], stopped=True)
        self.ids += answer
        return answer

    def cut(self) -> None:
        raise AssertionError("the benchmark's conversations fit")

    def trajectory(self) -> Trajectory:
        shared, prompt = len(self.shared), len(self.shared) + len(self.opening)
        return Trajectory("", "", self.group, self.sample, self.ids, shared, prompt, self.spans, self.log_probs)


@dataclass
class Step:
    """Seconds of a step, of its part before the rewards, and its work in tokens."""

    seconds: float
    rollout_s: float
    prompts: list[list[int]]
    sampled_tokens: int
    observed_tokens: int

    @classmethod
    def of(cls, seconds: float, rollout_s: float, found: list[Trajectory]) -> Step:
        prompts = sorted(each.ids[: each.prompt_tokens] for each in found)
        sampled = sum(each.sampled_tokens for each in found)
        observed = sum(len(each.ids) - each.prompt_tokens for each in found) - sampled
        return cls(seconds, rollout_s, prompts, sampled, observed)

    @property
    def work(self) -> tuple:
        return len(self.prompts), self.sampled_tokens, self.observed_tokens, self.prompts


class OurSide:
    """A step as scripts/train_grpo.py does it."""

    def __init__(self, model: Qwen3ForCausalLM, chat: ChatFormat):
        self.chat, self.policy = chat, Policy(model)
        self.engine = StaticEngine(model, Sampling(max_new_tokens=SAMPLED), SLOTS)
        self.optimiser = torch.optim.AdamW(
            self.policy.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY
        )

    def step(self, tasks: list[list[dict]], number: int) -> Step:
        start = time.perf_counter()
        self.engine.refresh()
        talks = [
            Talk(self.chat, task, number, group, sample) for group, task in enumerate(tasks) for sample in range(GROUP)
        ]
        self.engine.play(talks)
        found = [talk.trajectory() for talk in talks]
        rolled = time.perf_counter()
        rewards = [reward(each.ids[each.prompt_tokens :]) for each in found]
        judged = compute_advantages(rewards, [each.group for each in found])
        self.backward([Sample(*pair) for pair, live in zip(zip(found, judged.values), judged.live) if live])
        self.optimiser.step()
        self.optimiser.zero_grad()
        end = time.perf_counter()
        return Step.of(end - start, rolled - start, found)

    def backward(self, samples: list[Sample]) -> None:
        """From episodes to clipped gradients."""
        objective = Objective()
        divisor = objective.divisor(sample.trajectory.sampled_tokens for sample in samples)
        for batch in pack(samples, MICRO_BATCH_TOKENS):
            loss, _ = self.policy(batch, objective)
            (loss / divisor).backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), MAX_NORM)

    def gradient_difference(self, samples: list[Sample], expected: dict[str, torch.Tensor]) -> float:
        """How far the gradient of `samples`, sampled with these weights, is from `expected`, relative to that."""
        known = log_probs(self.policy, pack(samples, MICRO_BATCH_TOKENS), len(samples))
        for sample, own in zip(samples, known, strict=True):
            sample.old_log_probs = own
        self.backward(samples)
        found = {name: value.grad for name, value in self.policy.model.named_parameters()}
        assert found.keys() == expected.keys()
        apart, size = (
            torch.cat([each.flatten() for each in values]).norm()
            for values in ([found[name] - expected[name] for name in found], expected.values())
        )
        self.optimiser.zero_grad()
        return float(apart / size)


def episodes_of(buffered: list[dict]) -> list[Sample]:
    """The episodes that TRL trains on, from the micro-batches it keeps for a step."""
    found = []
    for batch in buffered:
        columns = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages")
        for prompt, prompt_mask, ids, mask, own, advantage in zip(*(batch[name] for name in columns)):
            start = prompt[prompt_mask.bool()].tolist()
            own = [0, *own[mask.bool()].tolist(), 0]
            edges = [len(start) + at for at in range(len(own) - 1) if own[at] != own[at + 1]]
            spans = list(zip(edges[::2], edges[1::2]))
            trajectory = Trajectory("", "", 0, len(found), start + ids[mask.bool()].tolist(), 0, len(start), spans)
            trajectory.log_probs = [0.0] * trajectory.sampled_tokens
            found.append(Sample(trajectory, float(advantage)))
    return found


class TakeTurns(TrainerCallback):
    """Times the steps of TRL's training and does one of ours after each. The first round is not counted."""

    def __init__(self, ours: OurSide, tasks: list[list[list[dict]]]):
        self.ours, self.tasks, self.trainer = ours, tasks, None
        self.steps: dict[str, list[Step]] = {"trl": [], "ours": []}
        self.gradient_difference: float | None = None

    def judge(self, completion_ids: list[list[int]], **_) -> list[float]:
        """TRL's reward function."""
        self.rolled = time.perf_counter()
        return [reward(completion) for completion in completion_ids]

    def on_step_begin(self, args, state, control, **_) -> None:
        gc.collect()
        self.start = time.perf_counter()

    def on_pre_optimizer_step(self, args, state, control, **_) -> None:
        if self.gradient_difference is None:
            expected = {name: value.grad for name, value in self.trainer.model.named_parameters()}
            samples = episodes_of(self.trainer._buffered_inputs)
            self.gradient_difference = self.ours.gradient_difference(samples, expected)
            print(f"our gradient of TRL's episodes differs by {self.gradient_difference:.1e}", flush=True)
            assert self.gradient_difference < GRADIENT_BAR

    def on_step_end(self, args, state, control, **_) -> None:
        end = time.perf_counter()
        samples = episodes_of(self.trainer._buffered_inputs)
        theirs = Step.of(end - self.start, self.rolled - self.start, [sample.trajectory for sample in samples])
        metrics = self.trainer._metrics["train"]
        assert metrics["tools/call_frequency"][-1] == TURNS - 1 and metrics["tools/failure_frequency"][-1] == 0
        gc.collect()
        number = len(self.steps["ours"])
        own = self.ours.step(self.tasks[number], number)
        episodes = len(own.prompts)
        expected = (episodes, episodes * TURNS * SAMPLED, episodes * (TURNS - 1) * ANSWER)
        assert own.work[:3] == expected, f"{own.work[:3]} episodes, sampled and observed tokens, not {expected}"
        assert theirs.work == own.work, f"unequal work: {theirs.work[:3]} in TRL, {own.work[:3]} here"
        self.steps["trl"].append(theirs)
        self.steps["ours"].append(own)
        print(
            f"{f'round {number}' if number else 'warm-up'}: {episodes} episodes, {own.sampled_tokens} sampled and"
            f" {own.observed_tokens} observed tokens on both sides; TRL {theirs.seconds:.1f} s"
            f" (rollout {theirs.rollout_s:.1f}), ours {own.seconds:.2f} s (rollout {own.rollout_s:.2f})",
            flush=True,
        )


def trl_trainer(model, tokenizer, turns: TakeTurns, tasks: int, rows: int, directory: str):
    from trl import GRPOConfig, GRPOTrainer

    assert tasks * GROUP % rows == 0, "--trl_rows divides the episodes of a step"
    config = GRPOConfig(
        output_dir=directory, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=0, shuffle_dataset=False,
        max_steps=len(turns.tasks), per_device_train_batch_size=rows, gradient_accumulation_steps=tasks * GROUP // rows,
        num_generations=GROUP, max_completion_length=COMPLETION, max_tool_calling_iterations=TURNS - 1,
        generation_kwargs={"min_new_tokens": SAMPLED, "max_new_tokens": SAMPLED}, temperature=1.0, loss_type="dapo",
        scale_rewards="group", epsilon=0.2, epsilon_high=0.28, beta=0.0, num_iterations=1, optim="adamw_torch",
        learning_rate=LEARNING_RATE, adam_beta1=BETAS[0], adam_beta2=BETAS[1], weight_decay=WEIGHT_DECAY,
        max_grad_norm=MAX_NORM, lr_scheduler_type="constant",
    )  # fmt: skip
    prompts = Dataset.from_list([{"prompt": task} for step in turns.tasks for task in step])
    trainer = GRPOTrainer(
        model, turns.judge, config, prompts, processing_class=tokenizer, callbacks=[turns], tools=[look_up]
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def measure(tasks: int, rounds: int, rows: int) -> dict:
    tokenizer = build_tokenizer()
    chat, model = ChatFormat(tokenizer), build_model(tokenizer)
    planned = [[task_messages(chat, step * tasks + task) for task in range(tasks)] for step in range(rounds + 1)]
    turns = TakeTurns(OurSide(copy.deepcopy(model), chat), planned)
    with tempfile.TemporaryDirectory() as directory:
        turns.trainer = trl_trainer(model, tokenizer, turns, tasks, rows, directory)
        turns.trainer.train()
    figures = {}
    for side, steps in turns.steps.items():
        counted = steps[1:]
        assert len(counted) == rounds
        figures[side] = {
            "step_s": round(statistics.median(step.seconds for step in counted), 3),
            "rollout_s": round(statistics.median(step.rollout_s for step in counted), 3),
            "train_s": round(statistics.median(step.seconds - step.rollout_s for step in counted), 3),
            "seconds": [round(step.seconds, 3) for step in counted],
        }
    ratios = {
        name: round(figures["trl"][f"{key}_s"] / figures["ours"][f"{key}_s"], 2)
        for name, key in {"ratio": "step", "ratio_rollout": "rollout", "ratio_train": "train"}.items()
    }
    episodes, sampled, observed, _ = turns.steps["ours"][-1].work
    figures |= ratios | {
        "episodes": episodes,
        "prompt_tokens": episodes * PROMPT,
        "sampled_tokens": sampled,
        "observed_tokens": observed,
        "gradient_difference": turns.gradient_difference,
    }
    print(f"{tasks} x {GROUP}: {figures}", flush=True)
    return figures


if __name__ == "__main__":
    main()
