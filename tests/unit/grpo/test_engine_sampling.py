"""Random numbers and draws: against plain Python, against the exact distribution, against Hugging Face's cuts."""

import pytest
import torch
from transformers import TopKLogitsWarper, TopPLogitsWarper

from lib.grpo.engine import Sampling
from lib.grpo.engine.sampling import draw, turn_budget, uniforms

WORD = (1 << 64) - 1


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def test_uniforms_are_those_of_plain_python():
    noise = [0, 1, 12345678901234567, (1 << 63) - 1]
    positions = [0, 1, 77, 100_000]
    found = uniforms(torch.tensor(noise)[:, None], torch.tensor(positions))
    for row, number in enumerate(noise):
        for column, position in enumerate(positions):
            word = mix(number ^ mix((position + 1) * 0x9E3779B97F4A7C15 & WORD))
            assert found[row, column].item() == (word >> 16) / 2**48


def test_uniforms_are_uniform_and_unrelated_between_neighbours():
    found = uniforms(torch.arange(400)[:, None], torch.arange(500))
    counts = torch.histc(found.float(), 100, 0, 1)
    assert ((counts - 2000) ** 2 / 2000).sum() < 150  # chi-square, 99 degrees: above 150 once in 1,500 draws
    for other in (found[1:, :-1], found[:-1, 1:]):
        assert abs(torch.corrcoef(torch.stack([found[:-1, :-1].flatten(), other.flatten()]))[0, 1]) < 0.01


def chi_square(tokens: torch.Tensor, expected: torch.Tensor) -> float:
    counts = torch.bincount(tokens, minlength=len(expected)).double()
    assert counts[expected == 0].sum() == 0
    kept = expected > 0
    return float(((counts - expected * len(tokens))[kept] ** 2 / (expected * len(tokens))[kept]).sum())


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [(1.0, 0, 1.0), (0.6, 0, 1.0), (1.5, 7, 1.0), (1.0, 0, 0.7), (0.8, 12, 0.8), (1.0, 1, 1.0), (1.0, 100, 1e-9)],
)
def test_draws_follow_the_cut_distribution_and_log_probs_the_uncut_one(temperature, top_k, top_p):
    logits = torch.randn(40, generator=torch.Generator().manual_seed(4)) * 2
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    numbers = uniforms(torch.tensor(99), torch.arange(20_000))
    tokens, log_probs = draw(logits.expand(20_000, -1), numbers, sampling)
    scores = (logits / temperature)[None]
    exact = torch.log_softmax(scores, -1)[0]
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    expected = torch.softmax(scores.double(), -1)[0]
    degrees = int((expected > 0).sum()) - 1
    assert chi_square(tokens, expected) <= degrees + 4 * (2 * degrees) ** 0.5
    assert (log_probs - exact[tokens]).abs().max() < 1e-5


def test_temperature_zero_takes_the_most_probable():
    logits = torch.randn(50, 30, generator=torch.Generator().manual_seed(5))
    tokens, log_probs = draw(logits, torch.rand(50, dtype=torch.float64), Sampling(temperature=0, top_k=3))
    assert torch.equal(tokens, logits.argmax(-1))
    assert (log_probs - torch.log_softmax(logits, -1).max(-1).values).abs().max() < 1e-6


def test_extreme_numbers_never_draw_an_impossible_token():
    logits = torch.full((3, 5), float("-inf"))
    logits[:, 1:4] = torch.tensor([0.0, 1.0, 2.0])
    numbers = torch.tensor([0.0, 1 - 2.0**-48, 0.5], dtype=torch.float64)
    assert draw(logits, numbers, Sampling())[0].tolist() == [1, 3, 3]


def test_turn_budget_ends_at_the_context():
    sampling = Sampling(max_new_tokens=10, max_length=100)
    assert [turn_budget(length, sampling) for length in (0, 90, 95, 99, 100, 200)] == [10, 10, 5, 1, 0, 0]
