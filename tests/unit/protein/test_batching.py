"""The epoch plan: nothing dropped, global batches independent of the number of processes, crops that never crash."""

import numpy as np
import pytest
from cache_samples import own_clusters, write_many, write_structure

from lib.balance import split_balanced
from lib.errors import UserError
from lib.protein.batching import (
    Crop,
    epoch_plan,
    eval_shares,
    load_unit,
    micro_batches,
    nearest_residues,
    plan_counts,
)
from lib.protein.cache import build_cache
from lib.protein.split import Unit, make_units


def unit(index, length, key=None):
    return Unit(f"u{index}:A", (index,), length, index + 1 if key is None else key, index, f"u{index}.pdb", f"U{index}")


def units(count=300, low=40, high=400, seed=0):
    lengths = np.random.default_rng(seed).integers(low, high, count)
    return [unit(index, int(length)) for index, length in enumerate(lengths)]


def plan(items, **settings):
    return epoch_plan(items, **({"seed": 0, "epoch": 0, "processes": 1} | settings))


def draws(made):
    return [draw for step in made for share in step for draw in share]


def global_batches(made):
    return [sorted(draw.unit.name for share in step for draw in share) for step in made]


def test_balanced_parts():
    costs = np.random.default_rng(0).integers(1, 100, 57).tolist()
    parts = split_balanced(costs, 4)
    assert sorted(index for part in parts for index in part) == list(range(57))
    sums = [sum(costs[index] for index in part) for part in parts]
    assert max(sums) - min(sums) <= 3 and all(part == sorted(part) for part in parts)
    assert split_balanced([5], 3) == [[0], [], []] and split_balanced([], 2) == [[], []]


@pytest.mark.parametrize("budget", [{"max_tokens": 1000}, {"batch_size": 4}])
def test_every_key_once_an_epoch_and_budgets_hold(budget):
    items = units()
    made = plan(items, processes=2, **budget)
    assert sorted(draw.unit.name for draw in draws(made)) == sorted(item.name for item in items)
    for step in made:
        assert len(step) == 2
        if "max_tokens" in budget:
            assert sum(draw.cost for share in step for draw in share) <= 2000
        else:
            assert sum(len(share) for share in step) <= 8
    if "batch_size" in budget:
        assert [len(batch) for batch in global_batches(made)] == [8] * 37 + [4]


def test_ranks_carry_near_equal_residues():
    made = plan(units(), processes=4, max_tokens=2000)
    for step in made[:-1]:
        loads = [sum(draw.cost for draw in share) for share in step]
        assert max(loads) <= 1.15 * min(loads)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"processes": 1, "max_tokens": 4000}, {"processes": 4, "max_tokens": 1000}),
        ({"processes": 1, "max_tokens": 1000, "accumulation": 4}, {"processes": 2, "max_tokens": 2000}),
        ({"processes": 1, "batch_size": 12}, {"processes": 3, "batch_size": 2, "accumulation": 2}),
    ],
)
def test_global_batches_depend_on_the_global_budget_alone(one, other):
    items = units()
    assert global_batches(plan(items, **one)) == global_batches(plan(items, **other))


def test_order_depends_on_seed_and_epoch_but_not_on_the_order_of_the_files():
    items = units()
    first = plan(items, max_tokens=1000)
    assert plan(items[::-1], max_tokens=1000) == first == plan(items, max_tokens=1000)
    assert global_batches(plan(items, max_tokens=1000, epoch=1)) != global_batches(first)
    assert global_batches(plan(items, max_tokens=1000, seed=1)) != global_batches(first)


def test_identical_sequences_are_drawn_once_and_all_members_come_up():
    items = [unit(index, 50, key=7) for index in range(5)] + [unit(9, 60)]
    seen = set()
    for epoch in range(60):
        names = [draw.unit.name for draw in draws(plan(items, epoch=epoch, max_tokens=500))]
        assert len(names) == 2 and "u9:A" in names
        seen |= set(names)
    assert len(seen) == 6


def test_long_units_are_cropped_and_counted():
    items = [unit(0, 10_000), unit(1, 50), unit(2, 300)]
    made = plan(items, processes=2, max_tokens=200, max_length=1000)
    assert plan_counts(made) == {"steps": 2, "units": 3, "residues": 450, "cropped": 2, "largest_share": 200}
    crops = {draw.unit.name: draw.crop for draw in draws(made)}
    assert crops["u1:A"] is None and crops["u0:A"].length == 200
    later = {draw.unit.name: draw.crop for draw in draws(plan(items, processes=2, max_tokens=200, epoch=1))}
    assert later["u0:A"].seed != crops["u0:A"].seed
    assert {draw.crop.length for draw in draws(plan(items, batch_size=2, max_length=250)) if draw.crop} == {250}


def test_micro_batches_and_evaluation_shares():
    share = plan(units(), processes=1, max_tokens=3000, accumulation=3)[0][0]
    parts = micro_batches(share, 3)
    assert len(parts) == 3 and sorted(id(draw) for part in parts for draw in part) == sorted(map(id, share))
    assert [len(part) for part in micro_batches(share[:1], 3)] == [1, 0, 0]
    items = units(7)
    shares = eval_shares(items, 3)
    assert sorted(item.name for share in shares for item in share) == sorted(item.name for item in items)
    assert eval_shares(items[:1], 3) == [[items[0]], [], []]


def test_bad_budgets_are_named():
    for settings in ({}, {"max_tokens": 10, "batch_size": 2}, {"max_tokens": 0}, {"batch_size": 0}):
        with pytest.raises(UserError):
            plan(units(3), **settings)
    with pytest.raises(UserError, match="--max_length"):
        plan(units(3), batch_size=1, max_length=0)


def test_a_unit_is_loaded_whole(tmp_path):
    chains = write_structure(tmp_path, "1abc.pdb", {"A": 40, "B": 30}, seed=1)
    store = build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    (item,), _ = make_units(store, log=str)
    arrays = load_unit(store, item)
    assert {name: (array.dtype.name, array.shape) for name, array in arrays.items()} == {
        "coordinates": ("float32", (70, 4, 3)), "present": ("uint8", (70,)), "aa": ("uint8", (70,)),
        "chain": ("int16", (70,)), "position": ("int32", (70,)), "confidence": ("uint8", (70,)),
        "trusted": ("bool", (70,)), "twin": ("int32", (70,)),
    }  # fmt: skip
    assert arrays["chain"].tolist() == [0] * 40 + [1] * 30
    assert arrays["position"].tolist() == [*range(40), *range(30)]
    apart = chains["A"][1][0, 1] - chains["B"][1][0, 1]
    assert np.abs(arrays["coordinates"][0, 1] - arrays["coordinates"][40, 1] - apart).max() <= 0.011


def test_absent_atoms_are_zero_in_a_complex(tmp_path):
    write_structure(tmp_path, "1abc.pdb", {"A": 40, "B": 30}, seed=1)
    lines = (tmp_path / "1abc.pdb").read_text().splitlines()
    kept = [line for line in lines if not (line[13:15] == "O " and line[21:26] == "B   7")]
    assert len(lines) - len(kept) == 1
    (tmp_path / "1abc.pdb").write_text("\n".join(kept) + "\n")
    store = build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    arrays = load_unit(store, make_units(store, log=str)[0][0])
    assert arrays["present"][46] == 0b0111 and (arrays["coordinates"][46, 3] == 0).all()
    assert (arrays["coordinates"][46, :3] != 0).all()


def test_a_crop_is_the_neighbourhood_of_a_residue(tmp_path):
    write_many(tmp_path, 4, low=80, high=120)
    store = build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    item = make_units(store, log=str)[0][0]
    whole, crop = load_unit(store, item), Crop(25, 123)
    arrays = load_unit(store, item, crop)
    assert all(len(array) == 25 for array in arrays.values())
    keep = nearest_residues(whole["coordinates"], whole["present"], crop)
    assert (np.diff(keep) > 0).all()
    alpha = whole["coordinates"][:, 1]
    around = [
        set(np.argsort(np.linalg.norm(alpha - alpha[middle], axis=1))[:25].tolist()) for middle in range(len(alpha))
    ]
    assert set(keep.tolist()) in around
    assert (arrays["position"] == whole["position"][keep]).all()
    assert load_unit(store, item, Crop(10_000, 1))["aa"].tolist() == whole["aa"].tolist()


def test_a_crop_works_where_few_or_no_residues_have_a_ca():
    coordinates = np.zeros((50, 4, 3), np.float32)
    present = np.full(50, 0b1101, np.uint8)
    keep = nearest_residues(coordinates, present, Crop(20, 5))
    assert len(keep) == 20 and (np.diff(keep) == 1).all()
    present[[3, 40]] = 15
    keep = nearest_residues(coordinates, present, Crop(20, 5))
    assert {3, 40} <= set(keep.tolist()) and len(set(keep.tolist())) == 20
