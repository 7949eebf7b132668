"""Which models the static engine takes, LoRA, attention parts, and the vLLM engine over a stand-in."""

import math
import sys
import types

import pytest
import torch
from engine_samples import VOCABULARY, ScriptedConversation, dialogues, largest_difference, played, said, tiny_model
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from lib.errors import UserError
from lib.grpo.engine import Sampling, decoder, make_engine
from lib.grpo.engine.attention import attend, attend_by_products, join
from lib.grpo.engine.reference import ReferenceEngine
from lib.grpo.engine.static import StaticEngine
from lib.grpo.engine.vllm import merged_weights

WARM = Sampling(temperature=0.8, max_new_tokens=10, max_length=150, stop_ids=(3, 7, 11))
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def lora(model, **changes):
    peft = pytest.importorskip("peft", reason="needs peft: pip install peft")
    torch.manual_seed(7)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=16, lora_dropout=0.1, **changes))
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
    return wrapped


@pytest.mark.parametrize("targets", ["all-linear", ["q_proj", "v_proj", "down_proj"]], ids=["all", "some"])
@pytest.mark.parametrize("kind", ["qwen3", "qwen2"])
def test_lora_is_the_wrapped_model(kind, targets):
    model = lora(tiny_model(kind), target_modules=targets)
    engine = StaticEngine(model, WARM, 5)
    expected = played(lambda: ReferenceEngine(model, WARM), dialogues(10))
    found = played(lambda: engine, dialogues(10))
    assert said(found) == said(expected) and largest_difference(found, expected) < 1e-5
    plain = played(lambda: StaticEngine(tiny_model(kind), WARM, 5), dialogues(10))
    assert said(plain) != said(found)
    with model.disable_adapter():
        engine.refresh()
        assert said(played(lambda: engine, dialogues(10))) == said(plain)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_A" in name:
                parameter.mul_(-2)
    engine.refresh()
    found = played(lambda: engine, dialogues(10))
    assert said(found) == said(played(lambda: ReferenceEngine(model, WARM), dialogues(10)))


def test_more_than_plain_lora_is_refused():
    with pytest.raises(UserError, match=r"plain LoRA.*--engine hf"):
        StaticEngine(lora(tiny_model(), target_modules="all-linear", use_dora=True), WARM)


def test_layers_without_rotation_and_untied_heads_run():
    torch.manual_seed(0)
    config = SmolLM3Config(initializer_range=0.15, use_sliding_window=False, tie_word_embeddings=False, **SMALL)
    assert 0 in config.no_rope_layers
    model = SmolLM3ForCausalLM(config).eval()
    expected = played(lambda: ReferenceEngine(model, WARM), dialogues(10))
    assert said(played(lambda: StaticEngine(model, WARM, 5), dialogues(10))) == said(expected)


def test_mistral_without_window_runs_and_with_one_is_refused():
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(initializer_range=0.15, sliding_window=None, **SMALL)).eval()
    expected = played(lambda: ReferenceEngine(model, WARM), dialogues(10))
    assert said(played(lambda: StaticEngine(model, WARM, 5), dialogues(10))) == said(expected)
    with pytest.raises(UserError, match=r"MistralForCausalLM.*windowed.*--engine hf"):
        StaticEngine(MistralForCausalLM(MistralConfig(sliding_window=64, **SMALL)), WARM)


def gpt2():
    return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=VOCABULARY))


def gemma():
    return Gemma2ForCausalLM(Gemma2Config(**SMALL, layer_types=["full_attention"] * 4))


def mixture():
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, **SMALL))


def growing_rope():
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return tiny_model("llama", rope_parameters=rope)


def other_activation():
    return tiny_model("llama", hidden_act="gelu")


@pytest.mark.parametrize("make", [gpt2, gemma, mixture, growing_rope, other_activation])
def test_other_architectures_are_refused_by_name_and_run_by_the_reference(make):
    model = make().eval()
    with pytest.raises(UserError, match=rf"cannot run {type(model).__name__}.*use --engine hf"):
        make_engine("static", model, WARM)
    assert played(lambda: make_engine("hf", model, WARM), dialogues(2))[0].sampled


def test_a_model_that_only_looks_alike_is_found_by_its_logits():
    model = tiny_model("llama")
    model.model.layers[0].register_forward_hook(lambda module, inputs, output: output * 0.5)
    with pytest.raises(UserError, match="logits differ"):
        StaticEngine(model, WARM)


def test_unknown_engine_and_missing_vllm_are_named(monkeypatch):
    with pytest.raises(UserError, match="'fast'; expected one of static, hf, vllm"):
        make_engine("fast", tiny_model(), WARM)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="pip install vllm"):
        make_engine("vllm", tiny_model(), WARM)


@pytest.mark.parametrize("kernel", [attend, attend_by_products])
def test_attention_in_parts_is_attention_over_all(kernel):
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 3, n, 16) for n in (5, 12, 12))
    mask = torch.zeros(2, 1, 1, 12)
    mask[1, ..., 10:] = float("-inf")
    expected = torch.softmax(query @ key.transpose(-1, -2) * 0.3 + mask, -1) @ value
    first = kernel(query, key[:, :, :7], value[:, :, :7], 0.3)
    second = kernel(query, key[:, :, 7:], value[:, :, 7:], 0.3, mask[..., 7:])
    assert (join(first, second)[0] - expected).abs().max() < 1e-6
    scores = query @ key.transpose(-1, -2) * 0.3 + mask
    assert (join(first, second)[1] - scores.logsumexp(-1)).abs().max() < 1e-5
    new_key = key[:, :, :5]
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    scores = (query @ new_key.transpose(-1, -2) * 0.3).masked_fill(later, -math.inf)
    found, _ = kernel(query, new_key, value[:, :, :5], 0.3, causal=True)
    assert (found - torch.softmax(scores, -1) @ value[:, :, :5]).abs().max() < 1e-6


def test_the_plain_kernel_of_other_devices_gives_the_same_dialogues(monkeypatch):
    model = tiny_model()
    expected = played(lambda: StaticEngine(model, WARM, 5), dialogues(10))
    monkeypatch.setattr(decoder, "attend", attend_by_products)
    found = played(lambda: StaticEngine(model, WARM, 5, check_every=8), dialogues(10))
    assert said(found) == said(expected) and largest_difference(found, expected) < 1e-5


class FakeLLM:
    """Samples the id that is the prompt's length; remembers what it was given."""

    def __init__(self, **settings) -> None:
        self.settings, self.calls, self.weights, self.resets = settings, [], {}, 0

    def apply_model(self, function) -> None:
        function(types.SimpleNamespace(load_weights=lambda items: self.weights.update(items)))

    def reset_prefix_cache(self) -> None:
        self.resets += 1

    def generate(self, prompts, parameters, use_tqdm):
        self.calls.append((prompts, parameters))
        outputs = []
        for prompt, settings in zip(prompts, parameters, strict=True):
            ids = [len(prompt["prompt_token_ids"]) % VOCABULARY, 3][: settings.max_tokens]
            places = [{token: types.SimpleNamespace(logprob=-0.5 * token)} for token in ids]
            outputs.append(types.SimpleNamespace(outputs=[types.SimpleNamespace(token_ids=ids, logprobs=places)]))
        return outputs


def test_vllm_engine_keeps_the_books(monkeypatch):
    fake = types.ModuleType("vllm")
    fake.LLM, fake.SamplingParams = FakeLLM, lambda **settings: types.SimpleNamespace(**settings)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    model = tiny_model()
    engine = make_engine("vllm", model, Sampling(max_new_tokens=10, max_length=26, stop_ids=(3,)), slots=4)
    assert engine.llm.settings["enable_prefix_caching"] and engine.llm.settings["logprobs_mode"] == "raw_logprobs"
    assert set(engine.llm.weights) == {name for name, _ in model.named_parameters()} and engine.llm.resets == 1
    talks = [ScriptedConversation(seed, turns=2, most_answer=2) for seed in range(2)]
    long = ScriptedConversation(5, turns=9)
    counts = engine.play([*talks, long])
    assert [talk.sampled[0] for talk in talks] == [[19, 3], [19, 3]] and talks[0].log_probs[0] == [-9.5, -1.5]
    assert talks[0].stops == [True, True] and long.was_cut
    assert counts["sampled_tokens"] == sum(len(turn) for talk in (*talks, long) for turn in talk.sampled)
    second = engine.llm.calls[1][0][0]["prompt_token_ids"]
    assert second == talks[0].ids[: talks[0].spans[1][0]]
    first_seeds = [parameters.seed for parameters in engine.llm.calls[0][1]]
    assert len(set(first_seeds)) == 3 and all(p.logprobs == 0 and p.ignore_eos for p in engine.llm.calls[0][1])
    with pytest.raises(UserError, match=r"temperature 0\.5"):
        make_engine("vllm", model, Sampling(temperature=0.5, top_k=3))


def test_vllm_is_handed_merged_weights():
    model = lora(tiny_model(), target_modules="all-linear")
    found, ids = tiny_model(seed=3), torch.arange(20)[None]
    found.load_state_dict(dict(merged_weights(model)), strict=False)
    assert (found(input_ids=ids).logits - model.eval()(input_ids=ids).logits).abs().max() < 1e-4
