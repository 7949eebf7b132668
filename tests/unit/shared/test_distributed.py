"""lib.distributed with one process; two ranks are in tests/distributed/test_collectives.py."""

import math
import random
import threading
from types import SimpleNamespace

import pytest
import torch
from torch.distributed import HashStore

from lib import distributed
from lib.balance import split_balanced
from lib.distributed import (
    any_rank,
    assert_equal_across_ranks,
    broadcast_value,
    gather_rows,
    global_sums,
    main_only_first,
    state_hash,
)
from lib.errors import UserError

ALONE = SimpleNamespace(num_processes=1, process_index=0, is_main_process=True, device=torch.device("cpu"))


def test_one_process_needs_no_process_group():
    rows = [{"a": 1}, {"a": 2}]
    gathered = gather_rows(ALONE, rows)
    assert gathered == rows and gathered is not rows
    assert gather_rows(ALONE, []) == []
    assert global_sums(ALONE, {"b": 2, "a": 0.1}) == {"b": 2.0, "a": 0.1}
    assert list(global_sums(ALONE, {"b": 2, "a": 0.1})) == ["b", "a"]
    assert any_rank(ALONE, True) is True and any_rank(ALONE, False) is False
    assert broadcast_value(ALONE, {"x": [1]}) == {"x": [1]}
    assert_equal_across_ranks(ALONE, "text", "the plan")
    with main_only_first(ALONE):
        pass
    with pytest.raises(UserError, match="no such"), main_only_first(ALONE):
        raise UserError("no such folder")


def test_a_timeout_below_the_heartbeat_does_not_give_up_a_living_main_process(monkeypatch):
    monkeypatch.setattr(distributed, "_HEARTBEAT_S", 0.3)
    store, finished = HashStore(), threading.Event()
    pulse = threading.Thread(target=distributed._beat, args=(store, "turn", finished), daemon=True)
    end = threading.Timer(1.2, lambda: store.set("turn/outcome", '{"error": ""}'))
    pulse.start()
    end.start()
    distributed._await_main(store, "turn", 0.01)
    finished.set()
    pulse.join()
    # A main process without heartbeat is still given up.
    with pytest.raises(RuntimeError, match=r"no sign of life from the main process for 0\.9 s"):
        distributed._await_main(store, "silent", 0.01)


@pytest.mark.parametrize("value", [{"a": 1}, "text", (1, 2), None, torch.ones(2)])
def test_gather_rows_refuses_what_gather_object_would_take_apart(value):
    with pytest.raises(TypeError, match="takes a list"):
        gather_rows(ALONE, value)


def test_split_balanced_gives_every_item_once_in_order():
    source = random.Random(3)
    for parts in (1, 2, 3, 8):
        costs = [source.randint(1, 1000) for _ in range(101)]
        shares = split_balanced(costs, parts)
        assert len(shares) == parts
        assert sorted(position for share in shares for position in share) == list(range(101))
        assert all(share == sorted(share) for share in shares)
        loads = [sum(costs[i] for i in share) for share in shares]
        assert max(loads) <= 4 / 3 * max(math.ceil(sum(costs) / parts), max(costs))
        # Far better in practice, with a hundred items.
        assert max(loads) - min(loads) <= max(costs) / 4
        assert shares == split_balanced(list(costs), parts)


def test_split_balanced_edges():
    assert split_balanced([], 3) == [[], [], []]
    assert split_balanced([5], 3) == [[0], [], []]
    assert split_balanced([1, 1, 1, 3], 2) == [[3], [0, 1, 2]]
    # Nothing to weigh: equal numbers.
    assert sorted(len(share) for share in split_balanced([0] * 9, 4)) == [2, 2, 2, 3]
    with pytest.raises(ValueError, match="parts"):
        split_balanced([1], 0)


def test_state_hash_sees_every_bit_name_shape_and_type():
    weights = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    base = {"b": torch.zeros(2), "a": weights}
    same = state_hash(base)
    assert same == state_hash({"a": weights.clone(), "b": torch.zeros(2)})
    assert same == state_hash({"a": weights.t().contiguous().t(), "b": torch.zeros(2)})
    touched = weights.clone()
    touched[1, 2] = torch.nextafter(touched[1, 2], torch.tensor(9.0))
    for other in (
        {"a": touched, "b": torch.zeros(2)},
        {"a": weights.reshape(3, 2), "b": torch.zeros(2)},
        {"c": weights, "b": torch.zeros(2)},
        {"a": weights, "b": torch.zeros(2, dtype=torch.int32)},
        {"a": weights, "b": -torch.zeros(2)},
        {"a": weights},
    ):
        assert state_hash(other) != same
    assert (
        len(state_hash({"x": torch.ones(3, dtype=torch.bfloat16), "scalar": torch.tensor(1), "none": torch.empty(0)}))
        == 64
    )


def test_state_hash_of_a_module_is_that_of_its_state():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    assert state_hash(module) == state_hash(module.state_dict())
    with pytest.raises(TypeError, match="epoch"):
        state_hash({"epoch": 3})
