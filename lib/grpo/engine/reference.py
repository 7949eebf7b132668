"""The engine that is obviously right (`--engine hf`): the Hugging Face model, every turn prefilled anew from all ids.

It is what the static engine is tested against, and what runs architectures that the static engine refuses.
"""

import time
from concurrent.futures import Executor

import torch
from torch import Tensor, nn

from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.rounds import answered, begun, with_room
from lib.grpo.engine.sampling import draw, turn_budget, uniforms


class ReferenceEngine:
    """Same protocol, sampling and noise as `StaticEngine`. Batches of `slots` conversations are played to their ends;
    each turn is one padded prefill of all ids and then one forward a token, until the slowest row of the turn is done.

    model: an unwrapped causal LM, also one in peft's wrapper.
    """

    def __init__(self, model: nn.Module, sampling: Sampling, slots: int = 64) -> None:
        self.model, self.sampling, self.slots = model, sampling, slots

    def refresh(self) -> None:
        """Nothing is kept between turns."""

    def play(self, conversations: list[Conversation], threads: Executor | None = None) -> dict:
        """See `Engine.play`. What `hear` raises comes through."""
        began, counts = time.perf_counter(), {"sampled_tokens": 0, "prefilled_tokens": 0, "decode_steps": 0}
        training = self.model.training
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(conversations), self.slots):
                self._play_batch(conversations[start : start + self.slots], counts, threads)
        self.model.train(training)
        busy = counts["sampled_tokens"] / max(1, self.slots * counts["decode_steps"])
        return counts | {"busy_share": busy, "seconds": time.perf_counter() - began}

    def _play_batch(self, conversations: list[Conversation], counts: dict, threads: Executor | None) -> None:
        talks = begun(conversations)
        while talks:
            fitting = with_room(talks, self.sampling)
            if not fitting:
                return
            talks = answered(fitting, self._turn(fitting, counts), threads)

    def _turn(self, talks: list, counts: dict) -> list[tuple[list[int], list[float], bool]]:
        """(tokens, log-probabilities, stopped) of one turn of each conversation."""
        device, width = next(self.model.parameters()).device, max(len(ids) for _, ids in talks)
        lengths = torch.tensor([len(ids) for _, ids in talks], device=device)
        padded = torch.tensor([[0] * (width - len(ids)) + ids for _, ids in talks], device=device)
        noise = torch.tensor([conversation.noise for conversation, _ in talks], device=device)
        # (rows, tokens): 0 on the padding, which is on the left so that all rows end together
        mask = (torch.arange(width, device=device) >= width - lengths.unsqueeze(1)).long()
        budgets = [turn_budget(len(ids), self.sampling) for _, ids in talks]
        turns: list[tuple[list[int], list[float]]] = [([], []) for _ in talks]
        stopped, cache, ids = [False] * len(talks), None, padded
        positions = (mask.cumsum(1) - 1).clamp_min(0)
        counts["prefilled_tokens"] += int(lengths.sum())
        for step in range(max(budgets)):
            output = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache, place = output.past_key_values, lengths + step
            tokens, log_probs = draw(output.logits[:, -1], uniforms(noise, place), self.sampling)
            counts["decode_steps"] += 1
            for row, (token, log_prob) in enumerate(zip(tokens.tolist(), log_probs.tolist())):
                if not stopped[row] and step < budgets[row]:
                    turns[row][0].append(token)
                    turns[row][1].append(log_prob)
                    stopped[row] = token in self.sampling.stop_ids
            if all(done or step + 1 >= budget for done, budget in zip(stopped, budgets)):
                break
            ids, positions = tokens.unsqueeze(1), place.unsqueeze(1)
            mask = torch.cat([mask, mask.new_ones(len(talks), 1)], 1)
        counts["sampled_tokens"] += sum(len(new) for new, _ in turns)
        return [(new, log_probs, done) for (new, log_probs), done in zip(turns, stopped)]


def causal_logits(model: nn.Module, ids: list[int]) -> Tensor:
    """Logits (tokens, vocabulary) of one sequence alone: the plainest forward there is."""
    device = next(model.parameters()).device
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0]
