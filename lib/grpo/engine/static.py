"""The rollout engine: static slots, prefixes computed once, keys and values kept across turns, refill."""

from concurrent.futures import Executor

import torch
from torch import nn

from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.decoder import Decoder, Segment
from lib.grpo.engine.sampling import turn_budget
from lib.grpo.engine.slot_round import Round, new_stores
from lib.grpo.engine.slots import Prefix
from lib.grpo.engine.waiting import WaitingRound
from lib.grpo.engine.weights import unsupported


class StaticEngine:
    """Plays conversations with an own forward over the weights of a Hugging Face causal LM (or peft's LoRA around one).

    model: unwrapped (no DDP). Its q, k, v and gate, up parameters become views of fused tensors: build the engine
        after `to(device)` and before `accelerator.prepare`. `refresh` after every change of the weights.
    slots: conversations played at once. dtype: None for the model's own (no second copy of the weights).
    chunk: most tokens in one forward of a prefill. check_every: decode steps between looks for stop tokens (default 1
        on CPU, 8 elsewhere, where a look waits for the device).
    share_prefix: False computes `shared` for every opening anew. lockstep: True waits for the slowest row of every
        turn and admits nobody before all are done. Both are for comparison only.

    Raises UserError naming `--engine hf` when the architecture cannot be run exactly: found by its structure and by
    comparing logits with the model's own on a few tokens.
    """

    def __init__(
        self,
        model: nn.Module,
        sampling: Sampling,
        slots: int = 64,
        dtype: torch.dtype | None = None,
        chunk: int = 1024,
        check_every: int | None = None,
        share_prefix: bool = True,
        lockstep: bool = False,
    ) -> None:
        self.sampling, self.slots, self.chunk = sampling, slots, chunk
        self.share_prefix, self.lockstep = share_prefix, lockstep
        self.decoder = Decoder(model, dtype)
        self.check_every = check_every or (1 if self.decoder.device.type == "cpu" else 8)
        self.shared: dict[tuple[int, ...], Prefix] = {}
        self.stops = torch.zeros(self.decoder.vocabulary, dtype=torch.bool, device=self.decoder.device)
        self.stops[list(sampling.stop_ids)] = True
        self._compare_with_model()

    def refresh(self) -> None:
        """Takes over changed weights; everything computed with the old ones is dropped."""
        with torch.no_grad():
            self.decoder.refresh()
        self.shared.clear()

    def budget(self, conversation: Conversation, length: int) -> int:
        """Most tokens of the next turn of a conversation of `length` ids; 0 cuts it."""
        return turn_budget(length, self.sampling)

    def play(self, conversations: list[Conversation], threads: Executor | None = None) -> dict:
        """See `Engine.play`. What `hear` raises comes through."""
        with torch.inference_mode():
            if threads is None:
                return Round(self, conversations).play()
            return WaitingRound(self, conversations, threads).play()

    @torch.no_grad()
    def _compare_with_model(self) -> None:
        decoder, lm = self.decoder, self.decoder.lm
        ids = torch.arange(2 * 12, device=decoder.device).view(2, 12) * 7919 % decoder.vocabulary
        training = lm.training
        lm.eval()
        expected = lm(input_ids=ids, use_cache=False).logits[:, -1].float()
        lm.train(training)
        found = decoder.logits(decoder.prefill([Segment(ids, new_stores(decoder, 2, 12), 0, None, 0)])).float()
        fault = ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6)).item()
        if not fault < (1e-3 if decoder.dtype == expected.dtype == torch.float32 else 0.1):
            raise unsupported(lm, f"its logits differ by {fault:.1e} of the largest")
