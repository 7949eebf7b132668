"""The static engine against the Hugging Face model: greedy tokens, dialogues, slots, order, weights that change."""

import random

import pytest
import torch
from engine_samples import VOCABULARY, ScriptedConversation, dialogues, largest_difference, played, said, tiny_model

from lib.grpo.engine import Sampling, make_engine
from lib.grpo.engine.reference import ReferenceEngine, causal_logits
from lib.grpo.engine.slots import groups_of_rows
from lib.grpo.engine.static import StaticEngine

WARM = Sampling(temperature=0.8, max_new_tokens=14, max_length=150, stop_ids=(3, 7, 11))
GREEDY = Sampling(temperature=0, max_new_tokens=14, max_length=150, stop_ids=(3, 7, 11))


class OneTurn(ScriptedConversation):
    def __init__(self, prompt: list[int]) -> None:
        super().__init__(0, turns=1)
        self.shared, self.opening, self.ids = (), tuple(prompt), list(prompt)


def test_greedy_tokens_are_those_of_generate_for_100_ragged_prompts():
    model, draw = tiny_model(), random.Random(1)
    prompts = [draw.choices(range(VOCABULARY), k=draw.randint(1, 40)) for _ in range(100)]
    talks = [OneTurn(prompt) for prompt in prompts]
    StaticEngine(model, Sampling(temperature=0, max_new_tokens=16), slots=24).play(talks)
    width = max(map(len, prompts))
    padded = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    expected = model.generate(padded, attention_mask=mask, max_new_tokens=16, do_sample=False)[:, width:]
    assert [talk.sampled[0] for talk in talks] == expected.tolist()
    for talk in talks[:10]:
        logits = causal_logits(model, talk.ids)[len(talk.opening) - 1 : -1]
        exact = torch.log_softmax(logits, -1).gather(-1, torch.tensor(talk.sampled[0])[:, None])[:, 0]
        assert (exact - torch.tensor(talk.log_probs[0])).abs().max() < 1e-5


@pytest.mark.parametrize("sampling", [WARM, GREEDY], ids=["sampled", "greedy"])
@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama"])
def test_dialogues_are_those_of_the_reference(kind, sampling):
    model = tiny_model(kind)
    expected = played(lambda: ReferenceEngine(model, sampling, 16), dialogues(20))
    found = played(lambda: StaticEngine(model, sampling, 6), dialogues(20))
    assert said(found) == said(expected)
    assert largest_difference(found, expected) < 1e-5
    assert any(any(talk.stops) for talk in found) and not all(all(talk.stops) for talk in found)


@pytest.mark.parametrize(
    "settings",
    [
        {"slots": 1},
        {"slots": 3},
        {"slots": 64, "chunk": 16},
        {"slots": 5, "check_every": 4},
        {"slots": 5, "share_prefix": False},
        {"slots": 5, "lockstep": True},
        {"slots": 5, "check_every": 3, "lockstep": True},
    ],
    ids=str,
)
def test_samples_do_not_depend_on_slots_sharing_or_checks(settings):
    model = tiny_model()
    expected = played(lambda: StaticEngine(model, WARM, 64), dialogues(24))
    found = played(lambda: StaticEngine(model, WARM, **settings), dialogues(24))
    assert said(found) == said(expected)
    assert largest_difference(found, expected) < 1e-5


def test_samples_do_not_depend_on_order_and_noise_makes_the_group_differ():
    model = tiny_model()
    expected = played(lambda: StaticEngine(model, WARM, 5), dialogues(24))
    turned = dialogues(24)
    random.Random(2).shuffle(turned)
    StaticEngine(model, WARM, 7).play(turned)
    assert said(sorted(turned, key=lambda talk: talk.seed)) == said(expected)
    assert len({tuple(talk.sampled[0]) for talk in expected[:4]}) > 1


def test_log_probabilities_are_those_of_a_forward_over_the_whole_trajectory():
    model = tiny_model()
    for talk in played(lambda: StaticEngine(model, WARM, 6), dialogues(12)):
        log_probs = torch.log_softmax(causal_logits(model, talk.ids) / WARM.temperature, -1)
        for (start, end), sampled, found in zip(talk.spans, talk.sampled, talk.log_probs):
            exact = log_probs[start - 1 : end - 1].gather(-1, torch.tensor(sampled)[:, None])[:, 0]
            assert (exact - torch.tensor(found)).abs().max() < 1e-5


def test_prefixes_are_computed_once_until_refresh_and_each_conversation_is_counted():
    model, draw = tiny_model(), random.Random(3)
    engine = StaticEngine(model, Sampling(max_new_tokens=4), slots=3)
    policy, openings = tuple(draw.choices(range(VOCABULARY), k=30)), [(5, 6, 7), (8, 9)]

    def group(size: int) -> list[ScriptedConversation]:
        talks = [ScriptedConversation(seed, turns=1) for seed in range(size)]
        for number, talk in enumerate(talks):
            talk.shared, talk.opening = policy, openings[number // 4]
        return talks

    counts = engine.play(group(8))
    assert counts["prefilled_tokens"] == 30 + 3 + 2
    assert counts["sampled_tokens"] == 8 * 4 and 0 < counts["busy_share"] <= 1 and counts["seconds"] > 0
    assert engine.play(group(1))["prefilled_tokens"] == 3
    engine.refresh()
    assert engine.play(group(1))["prefilled_tokens"] == 33


def test_refresh_takes_over_weights_after_an_optimiser_step_in_place():
    model = tiny_model()
    engine = StaticEngine(model, WARM, 6)
    before = played(lambda: engine, dialogues(8))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.03)
    model(input_ids=torch.arange(40)[None], labels=torch.arange(40)[None]).loss.backward()
    optimiser.step()
    engine.refresh()
    found = played(lambda: engine, dialogues(8))
    assert said(found) == said(played(lambda: ReferenceEngine(model, WARM), dialogues(8))) != said(before)


def test_refresh_takes_over_parameters_that_were_replaced():
    model, other = tiny_model(), tiny_model(seed=1)
    engine = StaticEngine(model, WARM, 6)
    for parameter, value in zip(model.parameters(), other.parameters(), strict=True):
        parameter.data = value.data.clone()
    engine.refresh()
    expected = played(lambda: ReferenceEngine(other, WARM), dialogues(8))
    assert said(played(lambda: engine, dialogues(8))) == said(expected)


def test_fused_parameters_are_views_that_train_and_save_like_before(tmp_path):
    model, plain = tiny_model(), tiny_model()
    StaticEngine(model, WARM)
    attention = model.model.layers[0].self_attn
    assert attention.q_proj.weight.untyped_storage().data_ptr() == attention.v_proj.weight.untyped_storage().data_ptr()
    for one in (model, plain):
        one(input_ids=torch.arange(30)[None], labels=torch.arange(30)[None]).loss.backward()
    for found, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(found, expected) and torch.equal(found.grad, expected.grad)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    for found, expected in zip(again.parameters(), plain.parameters(), strict=True):
        assert torch.equal(found, expected)


def test_another_dtype_is_a_copy_and_refreshed():
    model = tiny_model()
    engine = StaticEngine(model, GREEDY, 4, dtype=torch.bfloat16)
    assert engine.decoder.layers[0].qkv.weight.dtype == torch.bfloat16 and model.dtype == torch.float32
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight.zero_()
    engine.refresh()
    width = 4 * 16
    assert (engine.decoder.layers[0].qkv.weight[width : width + 32] == 0).all()
    assert all(talk.sampled for talk in played(lambda: engine, dialogues(4)))


def test_bfloat16_model_stays_near_the_reference():
    model = tiny_model().to(torch.bfloat16)
    found = played(lambda: StaticEngine(model, WARM, 4), [ScriptedConversation(seed, turns=1) for seed in range(6)])
    for talk in found:
        logits = causal_logits(model, talk.ids).float()[len(talk.ids) - len(talk.sampled[0]) - 1 : -1]
        exact = torch.log_softmax(logits / WARM.temperature, -1).gather(-1, torch.tensor(talk.sampled[0])[:, None])
        assert (exact[:, 0] - torch.tensor(talk.log_probs[0])).abs().max() < 0.3


def test_truncated_turn_stop_id_and_empty_answer():
    model = tiny_model()
    never = Sampling(temperature=1.0, max_new_tokens=5, max_length=200)
    found = played(lambda: StaticEngine(model, never, 4), dialogues(8, most_answer=0))
    assert all(len(turn) == 5 for talk in found for turn in talk.sampled) and not any(any(t.stops) for t in found)
    assert said(found) == said(played(lambda: ReferenceEngine(model, never), dialogues(8, most_answer=0)))
    always = Sampling(temperature=1.0, max_new_tokens=5, max_length=200, stop_ids=tuple(range(VOCABULARY)))
    found = played(lambda: StaticEngine(model, always, 4), dialogues(8))
    assert all(len(turn) == 1 for talk in found for turn in talk.sampled) and all(all(talk.stops) for talk in found)


@pytest.mark.parametrize("engine", ["static", "hf"])
def test_conversations_that_outgrow_the_context_are_cut(engine):
    model, sampling = tiny_model(), Sampling(max_new_tokens=10, max_length=40)
    talks = [ScriptedConversation(seed, turns=50, most_answer=4) for seed in range(6)]
    talks.append(OneTurn([1] * 40))
    talks.append(OneTurn([1] * 39))
    make_engine(engine, model, sampling, slots=3).play(talks)
    assert all(talk.was_cut for talk in talks[:6]) and all(len(talk.ids) >= 40 for talk in talks[:6])
    assert all(end <= 40 for talk in talks for _, end in talk.spans)
    assert talks[6].was_cut and not talks[6].sampled
    assert not talks[7].was_cut and len(talks[7].sampled[0]) == 1


def test_growth_over_many_buckets_keeps_what_was_known():
    model = tiny_model()
    sampling = Sampling(temperature=0.9, max_new_tokens=70, max_length=900, stop_ids=(3,))
    talks = [ScriptedConversation(seed, turns=3 + 3 * seed, most_answer=60) for seed in range(5)]
    StaticEngine(model, sampling, slots=4).play(talks)
    assert max(len(talk.ids) for talk in talks) > 300
    for talk in talks:
        log_probs = torch.log_softmax(causal_logits(model, talk.ids) / 0.9, -1)
        start, end = talk.spans[-1]
        exact = log_probs[start - 1 : end - 1].gather(-1, torch.tensor(talk.sampled[-1])[:, None])[:, 0]
        assert (exact - torch.tensor(talk.log_probs[-1])).abs().max() < 1e-5


def test_what_hear_raises_comes_through_and_the_engine_goes_on():
    class Broken(ScriptedConversation):
        def hear(self, *_):
            raise KeyError("no such tool")

    model = tiny_model()
    engine = StaticEngine(model, WARM, 4)
    with pytest.raises(KeyError, match="no such tool"):
        engine.play([*dialogues(5), Broken(9)])
    expected = played(lambda: ReferenceEngine(model, WARM), dialogues(6))
    assert said(played(lambda: engine, dialogues(6))) == said(expected)


def test_no_conversations_is_no_work():
    counts = StaticEngine(tiny_model(), WARM).play([])
    assert (counts["sampled_tokens"], counts["prefilled_tokens"], counts["decode_steps"]) == (0, 0, 0)


def test_steps_of_lockstep_and_refill_are_those_of_the_schedule():
    class Forced(StaticEngine):
        def budget(self, conversation, length):
            return conversation.lengths[len(conversation.sampled)]

    def talks() -> list[ScriptedConversation]:
        made = [ScriptedConversation(seed, turns=1 + seed % 3) for seed in range(6)]
        for talk in made:
            talk.lengths = [1 + (talk.seed * 3 + turn * 5) % 9 for turn in range(talk.turns)]
        return made

    expected, found = talks(), talks()
    rounds = [
        max(talk.lengths[turn] for talk in talks()[first : first + 3] if turn < talk.turns)
        for first in (0, 3)
        for turn in range(3)
    ]
    model, sampling = tiny_model(), Sampling(max_new_tokens=9)
    counts = Forced(model, sampling, slots=3, lockstep=True).play(expected)
    assert counts["decode_steps"] == sum(rounds)
    counts = Forced(model, sampling, slots=3).play(found)
    assert counts["decode_steps"] < sum(rounds) and said(found) == said(expected)
    assert counts["busy_share"] == counts["sampled_tokens"] / (3 * counts["decode_steps"])


def test_rows_of_similar_length_are_attended_together():
    assert groups_of_rows([5, 5, 7], 100) == [(0, 3, 0)]
    assert groups_of_rows([10, 500, 480, 490, 20], 100) == [(0, 1, 490), (1, 4, 0), (4, 5, 480)]
    assert groups_of_rows([10, 500, 480, 490, 20], None) == [(0, 5, 0)]
    assert groups_of_rows([3], 100) == [(0, 1, 0)]
