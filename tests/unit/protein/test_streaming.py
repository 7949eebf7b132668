"""The shard stream: every unit once, equal step counts, and a position from which the next batches are the same."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from cache_samples import own_clusters, write_many, write_structure
from torch.utils.data import DataLoader

from lib.errors import UserError
from lib.protein import cache_reading
from lib.protein.batching import load_unit
from lib.protein.cache import DamagedCache, build_cache
from lib.protein.cache_index import SHARDS
from lib.protein.split import make_units
from lib.protein.streaming import ShardStream


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """80 files in 20 blocks of 4 files, and the units in them."""
    folder = tmp_path_factory.mktemp("stream")
    write_many(folder, 80)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_reading, "FILES_PER_TASK", 4)
        store = build_cache(folder, folder, workers=1, log=str, cluster=own_clusters, shard_bytes=1)
    assert sum(len(shard.blocks) for shard in store.index.shards) == 20
    units, _ = make_units(store, log=str)
    return folder, store, units


def take(stream, count, loader_workers=0):
    """The next `count` batches, each recorded as consumed."""
    batches = []
    loader = DataLoader(stream, batch_size=None, num_workers=loader_workers) if loader_workers else stream
    for batch in loader:
        stream.consumed(batch)
        batches.append(batch)
        if len(batches) == count:
            break
    return batches


def content(batches):
    return [
        [(unit["name"], unit["coordinates"].tobytes(), len(unit["aa"])) for unit in batch.units] for batch in batches
    ]


def names(batches):
    return [unit["name"] for batch in batches for unit in batch.units]


@pytest.mark.parametrize("processes, loader_workers", [(1, 0), (2, 0), (3, 0), (2, 2)])
def test_one_pass_hands_out_every_unit_once(cache, processes, loader_workers):
    folder, _, units = cache
    seen = Counter()
    for rank in range(processes):
        stream = ShardStream(folder, max_tokens=300, rank=rank, processes=processes, repeat=False, window_blocks=2)
        batches = take(stream, None, loader_workers)
        assert all(0 < batch.residues <= 300 for batch in batches)
        seen.update(names(batches))
    assert seen == Counter(item.name for item in units)


def test_units_are_those_of_the_store(cache):
    folder, store, units = cache
    by_name = {item.name: item for item in units}
    for batch in take(ShardStream(folder, max_tokens=300), 10):
        for unit in batch.units:
            expected = load_unit(store, by_name[unit["name"]])
            assert all(np.array_equal(unit[key], expected[key]) for key in expected)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("consumed", [0, 1, 7, 40])
def test_the_next_batches_after_a_restore_are_the_same(cache, processes, consumed):
    folder, _, _ = cache
    for rank in range(processes):
        settings = {"max_tokens": 250, "seed": 5, "rank": rank, "processes": processes, "window_blocks": 3}
        stream = ShardStream(folder, **settings)
        if consumed:
            take(stream, consumed)
        state = json.loads(json.dumps(stream.state_dict()))
        restored = ShardStream(folder, **settings)
        restored.load_state_dict(state)
        following = content(take(restored, 30))
        whole = content(take(ShardStream(folder, **settings), consumed + 30))
        assert following == whole[consumed:]
        assert content(take(stream, 30)) == following, "the stream itself goes on in the same way"


@pytest.mark.parametrize("consumed", [3, 6])
def test_restore_with_loader_workers(cache, consumed):
    folder, _, _ = cache
    whole = content(take(ShardStream(folder, max_tokens=250), consumed + 8, loader_workers=2))
    stream = ShardStream(folder, max_tokens=250)
    take(stream, consumed, loader_workers=2)
    restored = ShardStream(folder, max_tokens=250)
    restored.load_state_dict(json.loads(json.dumps(stream.state_dict())))
    assert content(take(restored, 8, loader_workers=2)) == whole[consumed:]
    with pytest.raises(UserError, match="--num_workers to 2"):
        next(iter(restored))


def test_all_ranks_take_the_same_number_of_steps(cache):
    folder, store, units = cache
    streams = [ShardStream(folder, max_tokens=400, rank=rank, processes=2) for rank in range(2)]
    (steps,) = {stream.steps_per_epoch for stream in streams}
    assert steps == -(-int(store.lengths.sum()) // 800)
    seen = Counter()
    residues = []
    for stream in streams:
        batches = take(stream, steps)
        assert len(batches) == steps
        residues.append(sum(batch.residues for batch in batches))
        seen.update(names(batches))
    assert max(residues) / min(residues) < 1.1
    assert max(seen.values()) == 1 and len(seen) > 0.8 * len(units)


def test_ranks_are_disjoint_and_order_depends_on_seed_and_epoch(cache):
    folder, _, _ = cache
    shares = []
    for rank in range(2):
        stream = ShardStream(folder, max_tokens=400, rank=rank, processes=2, repeat=False)
        shares.append(set(names(take(stream, None))))
    assert not shares[0] & shares[1] and min(map(len, shares)) > 30
    first = names(take(ShardStream(folder, max_tokens=300, repeat=False), None))
    assert names(take(ShardStream(folder, max_tokens=300, repeat=False, seed=1), None)) != first
    endless = names(take(ShardStream(folder, max_tokens=300), 200))
    assert endless[: len(first)] == first
    assert sorted(endless[len(first) : 2 * len(first)]) == sorted(first) != endless[len(first) : 2 * len(first)]


def test_the_buffer_mixes_blocks(cache):
    folder, _, _ = cache
    order = [int(name[1:4]) // 4 for name in names(take(ShardStream(folder, max_tokens=300, repeat=False), None))]
    neighbours = sum(first == second for first, second in itertools.pairwise(order))
    assert neighbours < len(order) / 4, "units of one block (4 files) seldom follow each other"


def test_long_units_are_cropped_to_the_budget(tmp_path):
    write_structure(tmp_path, "long.pdb", {"A": 700}, seed=1)
    write_structure(tmp_path, "short.pdb", {"A": 30}, seed=2)
    build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    batches = take(ShardStream(tmp_path, max_tokens=100, repeat=False), None)
    found = {unit["name"]: (len(unit["aa"]), unit["cropped"]) for batch in batches for unit in batch.units}
    assert found == {"long:A": (100, True), "short:A": (30, False)}


def test_held_out_files_and_short_units_are_skipped(cache):
    folder, _, units = cache
    held = {item.file for item in units[:30]}
    stream = ShardStream(folder, max_tokens=300, repeat=False, skip_files=held, min_length=60)
    expected = {item.name for item in units if item.file not in held and item.length >= 60}
    assert set(names(take(stream, None))) == expected


def test_a_truncated_shard_is_refused_before_the_first_batch(tmp_path):
    write_many(tmp_path, 3)
    store = build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    path = tmp_path / SHARDS / store.index.shards[0].name
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedCache, match=path.name):
        ShardStream(tmp_path, max_tokens=300)


def test_wrong_worlds_are_named(cache, tmp_path):
    folder, _, _ = cache
    state = ShardStream(folder, max_tokens=300, processes=2).state_dict()
    with pytest.raises(UserError, match="processes 2, this run has 1"):
        ShardStream(folder, max_tokens=300).load_state_dict(state)
    with pytest.raises(UserError, match="seed 0, this run has 1"):
        ShardStream(folder, max_tokens=300, processes=2, seed=1).load_state_dict(state)
    with pytest.raises(UserError, match="no cache_index"):
        ShardStream(tmp_path, max_tokens=300)
    write_structure(tmp_path, "one.pdb", {"A": 30}, seed=2)
    build_cache(tmp_path, tmp_path, workers=1, log=str, cluster=own_clusters)
    streams = [ShardStream(tmp_path, max_tokens=300, rank=rank, processes=2) for rank in range(2)]
    with pytest.raises(UserError, match="too few units for 2 processes"):
        for stream in streams:
            take(stream, 1)
