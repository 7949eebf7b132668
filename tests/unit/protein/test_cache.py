"""The cache: exact content, incremental, killed runs, and nothing damaged that is trusted."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cache_samples import own_clusters, touch_later, write_many, write_structure

from lib.errors import UserError
from lib.protein import cache_reading
from lib.protein.cache import DamagedCache, build_cache, open_cache
from lib.protein.cache_format import Block, encode_block, expand_runs, quantise, run_lengths
from lib.protein.cache_index import INDEX, SHARDS, _body_digest
from lib.protein.residues import ALPHABET
from lib.protein.structure import Chain, ReadOptions


def build(source, cache_dir, log=None, **options):
    return build_cache(
        source, cache_dir, options.pop("read", None), 1, log or (lambda _: None), cluster=own_clusters, **options
    )


def shard_path(cache_dir: Path) -> Path:
    (path,) = (cache_dir / SHARDS).glob("shard-*.arrow")
    return path


def content(store) -> list:
    """Everything a store holds, for comparison."""
    return [
        (
            store.ids[row],
            store.files[row],
            store.entries[row],
            store.coordinates(row).tolist(),
            store.centre(row).tolist(),
            store.aa(row).tolist(),
            store.present(row).tolist(),
            store.confidence(row).tolist(),
            store.numbers(row).tolist(),
            store.insertions(row),
        )
        for row in range(len(store))
    ]


@pytest.fixture
def reads(monkeypatch):
    """Names of the files that are parsed, in order."""
    names = []
    original = cache_reading.read_file

    def counted(path, root, options):
        names.append(Path(path).name)
        return original(path, root, options)

    monkeypatch.setattr(cache_reading, "read_file", counted)
    return names


def sample_chain(length=5, **changes) -> Chain:
    generator = np.random.default_rng(length)
    values = {
        "id": "x:A", "file": "x.pdb", "entry": "X", "name": "A", "is_plddt": False,
        "coordinates": generator.uniform(-50, 50, (length, 4, 3)).astype(np.float32),
        "present": np.full(length, 15, np.uint8), "aa": generator.integers(0, 21, length).astype(np.uint8),
        "confidence": generator.integers(0, 256, length).astype(np.uint8),
        "numbers": np.arange(length, dtype=np.int32), "insertions": {},
    }  # fmt: skip
    return Chain(**(values | changes))


def test_rounding_is_within_half_a_hundredth_angstrom_up_to_650_and_float_beyond():
    generator = np.random.default_rng(0)
    coordinates = (generator.uniform(-325, 325, (500, 4, 3)) + [900, -400, 20]).astype(np.float32)
    coordinates[0, 0], coordinates[0, 1] = [575, -725, -305], [1225, -75, 345]
    present = np.full(500, 15, np.uint8)
    stored, centre = quantise(coordinates, present)
    assert stored.dtype == np.int16 and np.abs(stored).max() >= 32_499
    assert np.abs(stored * 0.01 + centre.astype(np.float64) - coordinates).max() <= 0.005 + 1e-4
    coordinates[0, 0, 0] -= 1.0
    wide, centre = quantise(coordinates, present)
    assert wide.dtype == np.float32
    assert np.abs(wide * 0.01 + centre - coordinates).max() < 1e-3


def test_absent_atoms_do_not_move_the_centre_and_read_as_zero():
    chain = sample_chain(4)
    chain.coordinates += 100
    chain.present[2] = 0b0110
    chain.coordinates[2, [0, 3]] = 0.0
    block = Block(encode_block([chain], [0]))
    assert (block.coordinates(0)[2, [0, 3]] == 0).all()
    assert block.present(0).tolist() == [15, 15, 6, 15]
    assert np.abs(block.centre(0)).min() > 40


def test_wide_and_complete_columns_share_a_block():
    wide = sample_chain(6, id="w:A")
    wide.coordinates[0] += 2000
    gap = sample_chain(7, id="g:A", present=np.array([15, 15, 7, 15, 15, 15, 15], np.uint8))
    chains = [sample_chain(5), wide, gap, sample_chain(9)]
    block = Block(encode_block(chains, [0, 1, 2, 3]))
    for row, chain in enumerate(chains):
        assert block.aa(row).tolist() == chain.aa.tolist()
        assert block.present(row).tolist() == chain.present.tolist()
        assert block.coordinates(row).dtype == (np.float32 if chain is wide else np.int16)
        assert block.coordinates(row).shape == (len(chain), 4, 3)


def test_numbers_with_gaps_repeats_and_negatives_survive():
    for numbers in ([], [5], [-3, -2, -1, 0, 1, 7, 8, 8, 8, 9, 3], [1, 1, 1]):
        array = np.array(numbers, np.int32)
        assert expand_runs(run_lengths(array)).tolist() == numbers
    chain = sample_chain(4, numbers=np.array([51, 52, 52, 53], np.int32), insertions={2: "A"})
    block = Block(encode_block([chain], [0]))
    assert block.numbers(0).tolist() == [51, 52, 52, 53] and block.insertions(0) == {2: "A"}


def test_content_of_files_comes_back(tmp_path):
    chains = write_structure(tmp_path / "pdb", "1abc.pdb", {"A": 40, "B": 35}, seed=1)
    store = build(tmp_path / "pdb", tmp_path / "cache")
    assert store.ids == ["1abc:A", "1abc:B"] and store.lengths.tolist() == [40, 35]
    for row, name in enumerate("AB"):
        sequence, coordinates = chains[name]
        assert "".join(ALPHABET[index] for index in store.aa(row)) == sequence
        back = store.coordinates(row) * 0.01 + store.centre(row)
        assert np.abs(back - coordinates).max() <= 0.0051
        assert store.confidence(row).tolist() == [20 + index % 50 for index in range(len(sequence))]
    both = np.concatenate([chains["A"][1], chains["B"][1]])
    batch = store.chain_batch([0, 1])
    assert batch.dtype == np.float32
    shift = (batch - both).reshape(-1, 3)
    assert np.ptp(shift, axis=0).max() < 0.011, "the chains keep their places to each other"
    assert store.report["files"] == 1 and store.report["chains_kept"] == 2


def test_views_are_zero_copy_and_read_only(tmp_path):
    write_many(tmp_path / "pdb", 3)
    store = build(tmp_path / "pdb", tmp_path / "cache")
    first, again = store.coordinates(0), store.coordinates(0)
    assert np.shares_memory(first, again) and not first.flags.writeable


def test_only_changed_files_are_read_again(tmp_path, reads):
    folder = tmp_path / "pdb"
    write_many(folder, 6)
    build(folder, tmp_path / "cache")
    assert len(reads) == 6
    reads.clear()
    build(folder, tmp_path / "cache")
    assert reads == []

    write_structure(folder, "x002.pdb", {"A": 77}, seed=99)
    touch_later(folder / "x002.pdb")
    write_structure(folder, "x0015.pdb", {"A": 33}, seed=98)
    (folder / "x004.pdb").unlink()
    store = build(folder, tmp_path / "cache")
    assert sorted(reads) == ["x0015.pdb", "x002.pdb"]
    assert "x004.pdb" not in store.files and store.files == sorted(store.files)
    assert store.lengths[store.files.index("x002.pdb")] == 77
    assert content(store) == content(build(folder, tmp_path / "clean"))
    shard_path(tmp_path / "cache")  # the old rows are gone and one shard remains


def test_options_that_change_content_read_again(tmp_path, reads):
    write_many(tmp_path, 3)
    assert build(tmp_path, tmp_path / "cache").lengths.min() >= 20
    reads.clear()
    lines = []
    store = build(tmp_path, tmp_path / "cache", lines.append, read=ReadOptions(min_length=60))
    assert len(reads) == 3 and store.lengths.min() >= 60 and "another options" in lines[0]
    reads.clear()
    build(tmp_path, tmp_path / "cache", read=ReadOptions(min_length=60, strict=True))
    assert reads == []


def test_structures_and_cache_in_one_folder(tmp_path, reads):
    write_many(tmp_path, 3)
    first = content(build(tmp_path, tmp_path))
    reads.clear()
    assert content(build(tmp_path, tmp_path)) == first and reads == []
    for path in tmp_path.glob("*.pdb"):
        path.unlink()
    lines = []
    assert content(build(tmp_path, tmp_path, lines.append)) == first
    assert "used alone" in lines[0]
    assert content(build(tmp_path / "gone", tmp_path)) == first
    assert content(build(None, tmp_path)) == first


def test_a_full_shard_is_closed_and_rows_stay_in_file_order(tmp_path):
    write_many(tmp_path / "pdb", 80)
    whole = build(tmp_path / "pdb", tmp_path / "whole")
    store = build(tmp_path / "pdb", tmp_path / "small", shard_bytes=1)
    assert len(store.index.shards) == 3, "one for each task of 32 files"
    assert content(store) == content(whole)
    joined = build(tmp_path / "pdb", tmp_path / "small")
    assert len(joined.index.shards) == 1 and content(joined) == content(whole)


@pytest.mark.parametrize("harm", ["flip", "flip_same_time", "truncate", "remove", "garbage"])
def test_a_damaged_shard_is_read_again_not_trusted(tmp_path, reads, harm):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 4)
    expected = content(build(folder, cache_dir))
    path = shard_path(cache_dir)
    data, status = bytearray(path.read_bytes()), path.stat()
    if harm.startswith("flip"):
        data[len(data) // 2] ^= 4
    elif harm == "truncate":
        del data[len(data) // 2 :]
    elif harm == "garbage":
        data = b"not Arrow at all" * 10
    path.write_bytes(data)
    if harm == "flip_same_time":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if harm == "remove":
        path.unlink()
    with pytest.raises(DamagedCache, match=path.name):
        open_cache(cache_dir)
    reads.clear()
    lines = []
    assert content(build(folder, cache_dir, lines.append)) == expected
    assert len(reads) == 4 and any(path.name in line for line in lines)
    assert content(open_cache(cache_dir, verify="full")) == expected


def test_a_large_cache_is_hashed_when_its_time_changed_or_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.protein.cache.FULL_CHECK_BYTES", 0)
    write_many(tmp_path / "pdb", 3)
    build(tmp_path / "pdb", tmp_path / "cache")
    path = shard_path(tmp_path / "cache")
    data, status = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(DamagedCache, match="sha256"):
        open_cache(tmp_path / "cache")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    open_cache(tmp_path / "cache")
    with pytest.raises(DamagedCache, match="sha256"):
        open_cache(tmp_path / "cache", verify="full")


@pytest.mark.parametrize("harm", ["flip", "truncate", "empty", "table", "table_gone"])
def test_a_damaged_index_costs_no_parsing(tmp_path, reads, harm):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 4)
    expected = content(build(folder, cache_dir))
    (table,) = (cache_dir / SHARDS).glob("sources-*.arrow")
    path = table if harm.startswith("table") else cache_dir / INDEX
    data = path.read_bytes()
    at = data.index(b'"rows"') if b'"rows"' in data else len(data) // 2
    new = {
        "flip": data.replace(b'"threshold": 80', b'"threshold": 81'),
        "truncate": data[: len(data) // 2],
        "empty": b"",
    }
    path.write_bytes(new.get(harm, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]))
    if harm == "table_gone":
        path.unlink()
    with pytest.raises(DamagedCache):
        open_cache(cache_dir)
    with pytest.raises(DamagedCache):
        build(None, cache_dir)
    reads.clear()
    lines = []
    assert content(build(folder, cache_dir, lines.append)) == expected
    assert reads == [] and len(lines) == 1
    assert content(open_cache(cache_dir)) == expected


def test_a_cache_of_another_version_is_made_again_with_one_line(tmp_path, reads):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 3)
    expected = content(build(folder, cache_dir))
    body = json.loads((cache_dir / INDEX).read_text())
    del body["sha256"]
    body["version"] = body["fingerprint"]["cache"] = 99
    body["sha256"] = _body_digest(body)
    (cache_dir / INDEX).write_text(json.dumps(body))
    with pytest.raises(UserError, match="version 99 found"):
        open_cache(cache_dir)
    lines = []
    assert content(build(folder, cache_dir, lines.append)) == expected
    assert len(lines) == 1 and "version 99" in lines[0]


def test_a_new_reader_version_reads_again(tmp_path, reads, monkeypatch):
    write_many(tmp_path / "pdb", 3)
    build(tmp_path / "pdb", tmp_path / "cache")
    reads.clear()
    monkeypatch.setattr(cache_reading, "READER_VERSION", 10_000)
    lines = []
    build(tmp_path / "pdb", tmp_path / "cache", lines.append)
    assert len(reads) == 3 and len(lines) == 1 and "another reader" in lines[0]


def test_a_killed_run_continues_from_its_finished_shards(tmp_path, reads, monkeypatch):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 80)
    expected = content(build(folder, tmp_path / "whole"))
    script = (
        "import os, sys\n"
        "from lib.protein import cache_reading\n"
        "from lib.protein.cache import build_cache\n"
        "read, count = cache_reading.read_file, []\n"
        "def dying(path, root, options):\n"
        "    count.append(path)\n"
        "    if len(count) == 70:\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return read(path, root, options)\n"
        "cache_reading.read_file = dying\n"
        "build_cache(sys.argv[1], sys.argv[2], workers=1, shard_bytes=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder), str(cache_dir)], check=False)
    assert done.returncode == -9
    (cache_dir / SHARDS / ".tmp-1-0.arrow").write_bytes(b"half a shard")
    with pytest.raises(UserError, match=r"no cache_index\.json found"):
        open_cache(cache_dir)
    reads.clear()
    store = build(folder, cache_dir)
    assert len(reads) == 80 - 64, "two tasks of 32 files were finished"
    assert content(store) == expected
    assert not list((cache_dir / SHARDS).glob(".tmp-*"))


def test_rejected_files_are_remembered_and_reported(tmp_path, reads):
    write_many(tmp_path, 2)
    (tmp_path / "bad.pdb").write_text("")
    store = build(tmp_path, tmp_path / "cache")
    assert store.report["rejections"]["empty"]["count"] == 1
    reads.clear()
    lines = []
    again = build(tmp_path, tmp_path / "cache", lines.append)
    assert reads == [] and again.report == store.report and "bad.pdb" in again.data_report().table()
    with pytest.raises(UserError, match=r"bad\.pdb: empty"):
        build(tmp_path, tmp_path / "strict", read=ReadOptions(strict=True))
    with pytest.raises(UserError, match=r"bad\.pdb: empty"):
        build(tmp_path, tmp_path / "cache", read=ReadOptions(strict=True))


def test_nothing_usable_leaves_the_old_cache(tmp_path):
    write_many(tmp_path / "pdb", 2)
    expected = content(build(tmp_path / "pdb", tmp_path / "cache"))
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "a.pdb").write_text("")
    with pytest.raises(UserError, match="none of 1 files gave a usable chain"):
        build(tmp_path / "junk", tmp_path / "cache")
    assert content(open_cache(tmp_path / "cache")) == expected
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no structure file found"):
        build(tmp_path / "empty", tmp_path / "new")
    with pytest.raises(UserError, match="no such file or folder"):
        build(tmp_path / "nowhere", tmp_path / "new")


def test_a_cache_of_the_original_program_is_refused(tmp_path):
    (tmp_path / "1abc.pt").write_bytes(b"pickled")
    for call in (lambda: open_cache(tmp_path), lambda: build(None, tmp_path), lambda: build(tmp_path, tmp_path)):
        with pytest.raises(UserError, match=r"original.*rebuild") as raised:
            call()
        assert "\n" not in str(raised.value)


def test_equal_stems_get_full_file_names(tmp_path):
    write_structure(tmp_path / "pdb", "1abc.pdb", {"A": 30}, seed=1)
    shutil.copy(tmp_path / "pdb" / "1abc.pdb", tmp_path / "pdb" / "1abc.ent")
    write_structure(tmp_path / "pdb", "2abc.pdb", {"A": 30}, seed=2)
    lines = []
    store = build(tmp_path / "pdb", tmp_path / "cache", lines.append)
    assert any("2 chains of files that differ only by extension" in line for line in lines)
    assert store.ids == ["1abc.ent:A", "1abc.pdb:A", "2abc:A"]
    assert store.sequence_keys[0] == store.sequence_keys[1] != store.sequence_keys[2]


def test_clusters_follow_the_sequences_and_are_computed_once(tmp_path):
    write_many(tmp_path / "pdb", 3)
    shutil.copy(tmp_path / "pdb" / "x001.pdb", tmp_path / "pdb" / "y001.pdb")
    calls = []

    def by_length(sequences, *, threshold, log):
        calls.append(list(sequences))
        return np.array([len(sequence) for sequence in sequences], np.int32)

    def run():
        return build_cache(tmp_path / "pdb", tmp_path / "cache", workers=1, log=str, cluster=by_length)

    store = run()
    assert len(calls[0]) == 4, "distinct sequences only"
    assert store.clusters.tolist() == store.lengths.tolist()
    assert run().clusters.tolist() == store.lengths.tolist() and len(calls) == 1
    (tmp_path / "pdb" / "y001.pdb").unlink()
    run()
    assert len(calls) == 1, "the set of sequences is the same"
    write_structure(tmp_path / "pdb", "z.pdb", {"A": 50}, seed=50)
    assert run().clusters.tolist() != store.clusters.tolist() and len(calls) == 2


def test_worker_processes_give_the_same_shards_and_lose_only_the_file_that_ends_them(tmp_path, monkeypatch):
    write_many(tmp_path / "pdb", 70)
    alone = build(tmp_path / "pdb", tmp_path / "alone")
    monkeypatch.setattr(cache_reading, "BYTES_FOR_WORKERS", 0)
    store = build_cache(tmp_path / "pdb", tmp_path / "workers", workers=2, log=str, cluster=own_clusters)
    assert [shard.name for shard in store.index.shards] == [shard.name for shard in alone.index.shards]

    # A sitecustomize on the path of the workers makes one of them die on one file.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, pathlib\n"
        "read = pathlib.Path.read_bytes\n"
        "pathlib.Path.read_bytes = lambda path: os._exit(9) if path.name == 'x040.pdb' else read(path)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    store = build_cache(tmp_path / "pdb", tmp_path / "dying", workers=2, log=str, cluster=own_clusters)
    assert [item["file"] for item in store.report["rejections"]["unreadable"]["items"]] == ["x040.pdb"]
    assert set(alone.files) - set(store.files) == {"x040.pdb"}


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    write_many(tmp_path / "pdb", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        build(tmp_path / "pdb", tmp_path / "file" / "cache")


def test_a_full_disk_names_the_folder_and_leaves_no_half_file(tmp_path, monkeypatch):
    write_many(tmp_path / "pdb", 2)
    expected = content(build(tmp_path / "pdb", tmp_path / "cache"))
    write_structure(tmp_path / "pdb", "new.pdb", {"A": 30}, seed=7)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lib.protein.cache_shards.os.fsync", full)
    with pytest.raises(UserError, match="no space left"):
        build(tmp_path / "pdb", tmp_path / "cache")
    monkeypatch.undo()
    assert not list((tmp_path / "cache" / SHARDS).glob(".tmp-*"))
    assert content(open_cache(tmp_path / "cache")) == expected


def test_two_runs_on_one_folder_take_turns(tmp_path, reads):
    write_many(tmp_path, 2)
    (tmp_path / SHARDS).mkdir()
    waiting = threading.Event()
    with (tmp_path / SHARDS / "lock").open("a") as handle, ThreadPoolExecutor(1) as pool:
        fcntl.flock(handle, fcntl.LOCK_EX)
        other = pool.submit(build, tmp_path, tmp_path, lambda line: waiting.set() if "waiting for it" in line else None)
        assert waiting.wait(10) and reads == []
        fcntl.flock(handle, fcntl.LOCK_UN)
        assert len(other.result(10).files) >= 2


def test_a_run_killed_while_it_writes_the_index_has_read_everything(tmp_path, reads, monkeypatch):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 5)
    build(folder, cache_dir)
    before = (cache_dir / INDEX).read_bytes()
    write_structure(folder, "new.pdb", {"A": 30}, seed=7)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lib.protein.cache.write_index", killed)
    with pytest.raises(KeyboardInterrupt):
        build(folder, cache_dir)
    assert (cache_dir / INDEX).read_bytes() == before and len(open_cache(cache_dir).index.sources) == 5
    monkeypatch.undo()
    monkeypatch.setattr(cache_reading, "read_file", None)  # any reading would fail
    assert content(build(folder, cache_dir)) == content(open_cache(cache_dir)) and "new:A" in open_cache(cache_dir).ids
    shard_path(cache_dir)


def test_a_cache_that_may_only_be_read_is_used_while_it_is_current(tmp_path, monkeypatch):
    folder, cache_dir = tmp_path / "pdb", tmp_path / "cache"
    write_many(folder, 3)
    expected = content(build(folder, cache_dir))
    monkeypatch.setattr("lib.protein.cache.os.access", lambda *_: False)
    before = {path: path.stat().st_mtime_ns for path in cache_dir.rglob("*")}
    assert content(build(folder, cache_dir)) == expected
    assert {path: path.stat().st_mtime_ns for path in cache_dir.rglob("*")} == before
    touch_later(folder / "x001.pdb")
    with pytest.raises(UserError, match="out of date and its folder cannot be written"):
        build(folder, cache_dir)


def test_shards_open_as_plain_arrow(tmp_path):
    write_many(tmp_path / "pdb", 3)
    store = build(tmp_path / "pdb", tmp_path / "cache")
    table = pa.ipc.open_file(shard_path(tmp_path / "cache")).read_all()
    assert table["id"].to_pylist() == store.ids
    assert table["aa"][0].as_py() == store.aa(0).tolist()
