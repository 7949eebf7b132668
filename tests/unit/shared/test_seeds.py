"""Seeds: stable for ever, different for different names, no global state."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from lib.seeds import derive, numpy_generator, seed_global, torch_generator


def test_values_never_change():
    """A change here breaks the resume of every run made before it."""
    assert derive(0) == 7366967517388494955
    assert derive(0, "weights") == 5656970315811082122
    assert derive(1, "mask", 3, 17) == 3125553065319772316
    assert numpy_generator(1, "mask").integers(0, 1000, 4).tolist() == [705, 609, 732, 423]


def test_the_same_in_another_process_with_another_hash_seed():
    code = "from lib.seeds import derive; print(derive(5, 'order', 2))"
    hash_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    out = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert int(out.stdout) == derive(5, "order", 2)


def test_63_bits_and_no_collision():
    values = {derive(seed, "name", epoch, rank) for seed in range(20) for epoch in range(50) for rank in range(50)}
    assert len(values) == 20 * 50 * 50
    assert all(0 <= value < 2**63 for value in values)
    # Each of the 63 bits is used: the mean of uniform draws is near the middle.
    assert abs(np.mean([value / 2**63 for value in values]) - 0.5) < 0.01


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, "a", "b"), (0, "ab")),
        ((0, "a", 1), (0, "a", "1")),
        ((0, 1, 11), (0, 11, 1)),
        ((1, "x"), (-1, "x")),
        ((12, 3), (1, 23)),
        ((0, "a"), (0, "a", "")),
    ],
)
def test_names_are_not_run_together(one, other):
    assert derive(*one) != derive(*other)


def test_numpy_integers_are_integers_and_others_are_refused():
    assert derive(np.int64(3), "a", np.uint8(7)) == derive(3, "a", 7)
    assert derive(2**70, "a") != derive(2**70 + 1, "a")
    for name in (1.5, None, True, b"a"):
        with pytest.raises(TypeError):
            derive(0, name)


def test_generators_repeat_and_differ():
    assert numpy_generator(3, "a").random(8).tolist() == numpy_generator(3, "a").random(8).tolist()
    assert numpy_generator(3, "a").random(8).tolist() != numpy_generator(3, "b").random(8).tolist()
    assert isinstance(numpy_generator(3).bit_generator, np.random.Philox)
    first = torch.rand(8, generator=torch_generator(3, "a"))
    assert torch.equal(first, torch.rand(8, generator=torch_generator(3, "a")))
    assert not torch.equal(first, torch.rand(8, generator=torch_generator(4, "a")))


def test_neighbouring_streams_are_independent():
    draws = np.stack([numpy_generator(0, "step", step).standard_normal(500) for step in range(100)])
    correlation = np.corrcoef(draws)[np.triu_indices(100, 1)]
    # 4,950 correlations of 500 normal pairs: standard deviation 1/sqrt(500), five of them are not reached by chance.
    assert np.abs(correlation).max() < 5 / np.sqrt(500)


def test_generators_leave_global_state_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    torch_generator(0, "a")
    assert torch.equal(before, torch.get_rng_state())


def test_seed_global_fixes_initial_weights_and_dropout():
    def draw(*names):
        seed_global(9, *names)
        return torch.nn.Linear(4, 4).weight.detach().clone(), torch.nn.functional.dropout(torch.ones(100))

    one, again, other = draw("weights"), draw("weights"), draw("dropout", 1, 0)
    assert torch.equal(one[0], again[0]) and torch.equal(one[1], again[1])
    assert not torch.equal(one[0], other[0]) and not torch.equal(one[1], other[1])
