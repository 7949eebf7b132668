"""The same protocol over vLLM in this process (`--engine vllm`). An extra: `pip install vllm`, a CUDA device.

Not measured: it was never run with vLLM itself, only its bookkeeping is tested, with a stand-in.

Token ids in, token ids out, turn by turn; vLLM's prefix cache keeps what earlier turns computed. Sampling follows a
seed made of (noise, position), so a turn can be repeated, but its tokens are not those of the other engines, and they
may depend on who else is in the batch.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor

import torch
from torch import Tensor, nn

from lib.errors import UserError
from lib.grpo.engine.conversation import Conversation, Sampling
from lib.grpo.engine.rounds import answered, begun, with_room
from lib.grpo.engine.sampling import turn_budget
from lib.grpo.engine.weights import causal_lm
from lib.seeds import derive


class VllmEngine:
    """model: unwrapped causal LM, also in peft's LoRA wrapper; its weights are handed over by `refresh`.

    memory: share of the GPU's memory for weights and keys and values. Raises UserError when vLLM is missing, and for
    a temperature other than 1 with top-k or top-p: vLLM has no log-probability with the one and without the other.
    """

    def __init__(self, model: nn.Module, sampling: Sampling, slots: int = 64, memory: float = 0.3) -> None:
        # The weights are handed over by a function call, which needs vLLM's worker in this process.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        try:
            import vllm
        except ImportError as error:
            advice = "run `pip install vllm` or use --engine static"
            raise UserError(f"--engine vllm: vLLM was not found; {advice}") from error
        cut = sampling.top_k > 0 or sampling.top_p < 1
        if cut and sampling.temperature not in (0, 1):
            raise UserError(
                f"--engine vllm: temperature {sampling.temperature:g} with top-k or top-p; "
                "expected temperature 1 or no cut; use --engine static"
            )
        self.vllm, self.model, self.sampling, self.slots = vllm, model, sampling, slots
        processed = sampling.temperature not in (0, 1) and not cut
        with tempfile.TemporaryDirectory() as folder:
            causal_lm(model).config.save_pretrained(folder)
            self.llm = vllm.LLM(
                model=folder,
                load_format="dummy",
                skip_tokenizer_init=True,
                enable_prefix_caching=True,
                max_model_len=sampling.max_length,
                max_num_seqs=slots,
                gpu_memory_utilization=memory,
                dtype=str(causal_lm(model).dtype).removeprefix("torch."),
                logprobs_mode="processed_logprobs" if processed else "raw_logprobs",
                distributed_executor_backend="external_launcher" if torch.distributed.is_initialized() else None,
            )
        self.refresh()

    def refresh(self) -> None:
        """Hands the weights over and drops the prefix cache, which was computed with the old ones."""
        weights = list(merged_weights(self.model))
        self.llm.apply_model(lambda served: served.load_weights(weights))
        self.llm.reset_prefix_cache()

    def play(self, conversations: list[Conversation], threads: Executor | None = None) -> dict:
        """See `Engine.play`. All conversations take their next turn together; vLLM orders the work inside a turn.

        `decode_steps` is the sum of the longest turns, `prefilled_tokens` counts what the prefix cache saves too.
        """
        began, counts = time.perf_counter(), {"sampled_tokens": 0, "prefilled_tokens": 0, "decode_steps": 0}
        talks = begun(conversations)
        while talks:
            fitting = with_room(talks, self.sampling)
            turns = [(new, log_probs, new[-1] in self.sampling.stop_ids) for new, log_probs in self._turns(fitting)]
            counts["sampled_tokens"] += sum(len(new) for new, _, _ in turns)
            counts["prefilled_tokens"] += sum(len(ids) for _, ids in fitting)
            talks = answered(fitting, turns, threads)
            counts["decode_steps"] += self.longest_turn
        busy = counts["sampled_tokens"] / max(1, self.slots * counts["decode_steps"])
        return counts | {"busy_share": busy, "seconds": time.perf_counter() - began}

    def _turns(self, talks: list[tuple[Conversation, list[int]]]) -> list[tuple[list[int], list[float]]]:
        self.longest_turn = 0
        if not talks:
            return []
        settings = [self._parameters(conversation, len(ids)) for conversation, ids in talks]
        outputs = self.llm.generate([{"prompt_token_ids": ids} for _, ids in talks], settings, use_tqdm=False)
        turns = []
        for output in outputs:
            sampled = output.outputs[0]
            new = list(sampled.token_ids)
            turns.append((new, [place[token].logprob for place, token in zip(sampled.logprobs, new)]))
        self.longest_turn = max(len(new) for new, _ in turns)
        return turns

    def _parameters(self, conversation: Conversation, length: int):
        sampling = self.sampling
        return self.vllm.SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k or -1,
            top_p=sampling.top_p,
            max_tokens=turn_budget(length, sampling),
            stop_token_ids=list(sampling.stop_ids),
            # Only `stop_ids` end a turn; the model's own end token is one of them or none.
            ignore_eos=True,
            seed=derive(conversation.noise, "turn", length),
            logprobs=0,
            detokenize=False,
        )


def merged_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) of the plain causal LM; active LoRA adapters added to the weights they belong to."""
    scaled = {}
    for name, module in causal_lm(model).named_modules():
        if hasattr(module, "lora_A") and not (module.merged or module.disable_adapters):
            adapters = [adapter for adapter in module.active_adapters if adapter in module.lora_A]
            scaled[f"{name}.weight"] = sum(module.get_delta_weight(adapter) for adapter in adapters)
    for name, parameter in causal_lm(model).named_parameters():
        if ".lora_" in name:
            continue
        plain = name.replace(".base_layer", "")
        value = parameter.detach()
        yield plain, value + scaled[plain].to(value.dtype) if plain in scaled else value
