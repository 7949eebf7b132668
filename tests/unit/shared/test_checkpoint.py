"""Checkpoints: exact resume, which are kept and found, damage of every kind, exports, two processes."""

import builtins
import errno
import io
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoint_samples import build, bytes_of, damage, refused, steps_of, train
from safetensors.torch import load_file, save_file
from torch import nn

from lib import files, manifests
from lib.checkpoint import (
    best_checkpoint,
    find_checkpoint,
    load_checkpoint,
    load_export,
    load_export_tensors,
    save_checkpoint,
    save_export,
)

ROOT = Path(__file__).resolve().parents[3]
TENSOR_FILES = ("model.safetensors", "optimizer.safetensors")
ALL_FILES = (*TENSOR_FILES, "optimizer.json", "state.json", "manifest.json")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"betas": (0.8, 0.95), "amsgrad": True}),
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.SGD, {}),
        (torch.optim.Adagrad, {}),
        (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
        (torch.optim.Adam, {"lr": torch.tensor(0.01), "capturable": False, "foreach": False}),
        (torch.optim.NAdam, {}),
        (torch.optim.Rprop, {}),
    ],
)
def test_resume_is_bit_equal(acc, run, kind, options):
    straight = build(kind, **options)
    train(*straight, range(5))
    model, optimizer = build(kind, **options)
    train(model, optimizer, range(3))
    path = save_checkpoint(acc, run, 3, model=model, optimizer=optimizer, state={}, keep=1)
    model, optimizer = build(kind, **options)
    with torch.no_grad():
        model.first.weight.fill_(7)
    assert load_checkpoint(acc, path, model=model, optimizer=optimizer) == {"step": 3}
    assert model.tied.weight is model.first.weight
    train(model, optimizer, range(3, 5))
    assert bytes_of(model, optimizer) == bytes_of(*straight)
    assert optimizer.param_groups[1]["named"] == "rest"


def test_options_of_the_optimizer_are_this_runs_and_the_learning_rate_is_the_saved_one(acc, run):
    model, optimizer = build(weight_decay=0.1, betas=(0.8, 0.95))
    train(model, optimizer, range(3))
    optimizer.param_groups[0]["lr"] = 0.005
    path = save_checkpoint(acc, run, 3, model=model, optimizer=optimizer, state={}, keep=1)
    again, changed = build(weight_decay=0.3, betas=(0.7, 0.9))
    load_checkpoint(acc, path, model=again, optimizer=changed)
    for group, rate in zip(changed.param_groups, (0.005, 0.02), strict=True):
        assert (group["weight_decay"], group["betas"], group["lr"]) == (0.3, (0.7, 0.9), rate)
    for group in optimizer.param_groups:
        group.update(weight_decay=0.3, betas=(0.7, 0.9))
    train(model, optimizer, range(3, 5))
    train(again, changed, range(3, 5))
    assert bytes_of(again, changed) == bytes_of(model, optimizer)


def test_an_option_that_decides_what_is_kept_cannot_change(acc, saved):
    model, optimizer = build(amsgrad=True)
    before = bytes_of(model, optimizer)
    path = saved.checkpoints / "step-00000002"
    message = refused(lambda: load_checkpoint(acc, path, model=model, optimizer=optimizer))
    assert "amsgrad False, this run has True" in message
    assert bytes_of(model, optimizer) == before


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("optimizer.state.low.exp_avg", torch.zeros(3), "exp_avg of low as 3 float32, the model as 4 float32"),
        ("optimizer.state.low.exp_avg", None, "lacks 'optimizer.state.low.exp_avg'"),
    ],
)
def test_optimizer_state_that_does_not_fit_is_refused_before_anything_is_copied(acc, saved, name, value, words):
    newest = saved.checkpoints / "step-00000002"
    tensors = load_file(newest / "optimizer.safetensors")
    assert name in tensors
    tensors = {key: tensor.clone() for key, tensor in tensors.items() if key != name}
    save_file(tensors if value is None else {**tensors, name: value}, newest / "optimizer.safetensors")
    header = json.loads((newest / "manifest.json").read_text())
    (newest / "manifest.json").unlink()
    manifests.write_manifest(newest, {key: header[key] for key in header if key not in ("files", "manifest_sha256")})
    model, optimizer = build()
    before = bytes_of(model, optimizer)
    assert words in refused(lambda: load_checkpoint(acc, newest, model=model, optimizer=optimizer))
    assert bytes_of(model, optimizer) == before


def test_sharding_is_imported_by_those_who_shard_only():
    code = "import sys, torch, accelerate; a = set(sys.modules); import lib.checkpoint; print(*(set(sys.modules) - a))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "lib.checkpoint" in done.stdout.split(), done.stderr
    assert not {name for name in done.stdout.split() if name.startswith("torch.distributed.checkpoint")}


def test_lbfgs_with_lists_of_tensors(acc, run):
    def make():
        torch.manual_seed(1)
        model = nn.Linear(3, 2)
        return model, torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=2)

    straight = make()
    train(*straight, range(5))
    model, optimizer = make()
    train(model, optimizer, range(3))
    path = save_checkpoint(acc, run, 3, model=model, optimizer=optimizer, state={}, keep=1)
    model, optimizer = make()
    load_checkpoint(acc, path, model=model, optimizer=optimizer)
    train(model, optimizer, range(3, 5))
    assert bytes_of(model, optimizer) == bytes_of(*straight)


def test_prepared_model_and_optimizer(acc, run):
    model, optimizer = acc.prepare(*build())
    train(model, optimizer, range(2))
    path = save_checkpoint(acc, run, 2, model=model, optimizer=optimizer, state={}, keep=1)
    wanted = bytes_of(acc.unwrap_model(model), optimizer.optimizer)
    model, optimizer = acc.prepare(*build())
    load_checkpoint(acc, path, model=model, optimizer=optimizer)
    assert bytes_of(acc.unwrap_model(model), optimizer.optimizer) == wanted


def test_empty_optimizer_state_and_float32_moments_of_bfloat16_weights(acc, run):
    model, optimizer = build()
    path = save_checkpoint(acc, run, 0, model=model, optimizer=optimizer, state={}, keep=1)
    again, fresh = build()
    load_checkpoint(acc, path, model=again, optimizer=fresh)
    assert bytes_of(again, fresh) == bytes_of(model, optimizer)
    train(model, optimizer, range(1))
    kept = torch.tensor([1 / 3] * 4)
    optimizer.state[model.low]["exp_avg"] = kept
    path = save_checkpoint(acc, run, 1, model=model, optimizer=optimizer, state={}, keep=1)
    load_checkpoint(acc, path, model=again, optimizer=fresh)
    moment = fresh.state[again.low]["exp_avg"]
    assert moment.dtype == torch.float32 and torch.equal(moment, kept)


def test_state_comes_back_as_it_was(acc, run):
    model, optimizer = build()
    state = {
        "best": math.inf,
        "worst": -math.inf,
        "pair": (1, (2.5, None)),
        "by_step": {3: "a", (1, 2): "b"},
        "$float": "a key like ours",
        "text": "Å\n",
        "empty": [{}, [], ()],
        "big": 2**62 + 1,
        "tiny": 5e-324,
        "flag": True,
    }
    path = save_checkpoint(acc, run, 7, model=model, optimizer=optimizer, state={**state, "nan": math.nan}, keep=1)
    back = load_checkpoint(acc, path, model=model, optimizer=optimizer)
    assert math.isnan(back.pop("nan"))
    assert back == {**state, "step": 7}
    assert type(back["pair"]) is tuple and type(back["flag"]) is bool
    # Standard JSON: readers other than Python's accept it.
    json.loads(path.joinpath("state.json").read_text(), parse_constant=lambda name: pytest.fail(name))


def test_state_that_cannot_be_saved_is_an_error_and_leaves_nothing(acc, run):
    model, optimizer = build()
    with pytest.raises(TypeError, match=r"state\.thing is a object"):
        save_checkpoint(acc, run, 1, model=model, optimizer=optimizer, state={"thing": object()}, keep=1)
    assert list(run.checkpoints.glob("*")) == []


def test_manifest_says_what_it_is(acc, saved):
    manifest = json.loads((saved.checkpoints / "step-00000002" / "manifest.json").read_text())
    assert {name: manifest[name] for name in ("trainer", "step", "sequence", "world_size", "best")} == {
        "trainer": "tester",
        "step": 2,
        "sequence": 2,
        "world_size": 1,
        "best": False,
    }
    assert set(manifest["files"]) == set(ALL_FILES) - {"manifest.json"}
    for name, entry in manifest["files"].items():
        file = saved.checkpoints / "step-00000002" / name
        assert (entry["size"], entry["sha256"]) == (file.stat().st_size, files.sha256_file(file))


def test_newest_and_best_are_kept(acc, run):
    model, optimizer = build()
    for step in range(1, 8):
        save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={}, keep=2, best=step in (2, 4))
    assert steps_of(run) == [4, 6, 7]
    assert best_checkpoint(acc, run).name == "step-00000004"
    # Saving that step again (a stop signal) does not take the mark from it.
    save_checkpoint(acc, run, 4, model=model, optimizer=optimizer, state={}, keep=1)
    assert steps_of(run) == [4] and best_checkpoint(acc, run).name == "step-00000004"


def test_without_a_best_one(acc, saved):
    assert best_checkpoint(acc, saved) is None


def test_a_damaged_best_one_is_named_and_skipped(acc, run, capsys):
    model, optimizer = build()
    for step in (1, 2):
        save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={}, keep=3, best=True)
    (run.checkpoints / "step-00000002" / "state.json").unlink()
    assert best_checkpoint(acc, run).name == "step-00000001"
    assert "skipped checkpoint step-00000002" in capsys.readouterr().out


def test_going_back_makes_the_earlier_step_the_newest(acc, run):
    model, optimizer = build()
    for step in (1, 2, 3):
        save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={}, keep=3)
    assert find_checkpoint(acc, run, str(run.checkpoints / "step-00000001")).name == "step-00000001"
    assert run.resumed_step == 1
    save_checkpoint(acc, run, 2, model=model, optimizer=optimizer, state={}, keep=2)
    assert steps_of(run) == [2, 3]
    assert find_checkpoint(acc, run, "auto").name == "step-00000002"
    assert run.resumed_step == 2


def test_auto_without_any_starts_from_nothing_and_says_so(acc, run, capsys):
    assert find_checkpoint(acc, run, None) is None
    assert find_checkpoint(acc, run, "auto") is None
    assert (run.resumed_from, run.resumed_step) == (None, None)
    assert "no usable checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize("how", ["truncate", "empty", "flip", "delete"])
@pytest.mark.parametrize("name", ALL_FILES)
def test_every_damage_is_skipped_or_refused(acc, saved, capsys, name, how):
    newest = saved.checkpoints / "step-00000002"
    damage(newest, name, how)
    assert find_checkpoint(acc, saved, "auto") == saved.checkpoints / "step-00000001"
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("skipped")]
    assert len(lines) == 1 and "step-00000002" in lines[0] and name in lines[0]
    assert saved.resumed_step == 1
    model, optimizer = build()
    before = bytes_of(model, optimizer)
    for action in (
        lambda: find_checkpoint(acc, saved, str(newest)),
        lambda: load_checkpoint(acc, newest, model=model, optimizer=optimizer),
    ):
        message = refused(action)
        assert "step-00000002" in message and name in message
        expected = {"delete": ("missing", "has no manifest"), "flip": ("corrupted", "digest", "JSON")}
        assert any(word in message for word in expected.get(how, ("bytes", "JSON", "digest")))
    assert bytes_of(model, optimizer) == before


def test_damage_after_a_verification_is_still_seen(acc, saved):
    newest = saved.checkpoints / "step-00000002"
    assert find_checkpoint(acc, saved, str(newest)) == newest
    damage(newest, "model.safetensors", "flip")
    assert "corrupted" in refused(lambda: find_checkpoint(acc, saved, str(newest)))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"trainer": "someone"}, "written by someone, this is tester"),
        ({"format": "other-2"}, "of another format (other-2)"),
        ({"files": {}}, "does not list model.safetensors"),
    ],
)
def test_foreign_manifests(acc, saved, capsys, edit, words):
    newest = saved.checkpoints / "step-00000002"
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest.update(edit)
    manifest["manifest_sha256"] = manifests._digest(manifest)
    (newest / "manifest.json").write_text(json.dumps(manifest))
    assert find_checkpoint(acc, saved, "auto").name == "step-00000001"
    assert words in capsys.readouterr().out
    assert words in refused(lambda: find_checkpoint(acc, saved, str(newest)))


def test_a_manifest_that_is_not_an_object(acc, saved):
    (saved.checkpoints / "step-00000002" / "manifest.json").write_text("[1]")
    assert "another format (list)" in refused(
        lambda: find_checkpoint(acc, saved, str(saved.checkpoints / "step-00000002"))
    )


def test_all_damaged(acc, saved):
    for path in saved.checkpoints.iterdir():
        damage(path, "state.json", "flip")
    message = refused(lambda: find_checkpoint(acc, saved, "auto"))
    assert message.count("is corrupted") == 2 and "move these folders away" in message
    assert saved.resumed_step is None
    message = refused(lambda: find_checkpoint(acc, saved, str(saved.path)))
    assert "no usable checkpoint" in message and message.count("corrupted") == 2


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
@pytest.mark.parametrize("call", ["stat", "open"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_disk_that_fails_is_not_a_damaged_checkpoint(acc, saved, monkeypatch, name, call, number):
    owner = os if call == "stat" else io if name == "manifest.json" else builtins
    real = getattr(owner, call)

    def fail(path, *args, **kwargs):
        if str(path).endswith(f"step-00000002/{name}"):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(manifests, "_digests", {})
    monkeypatch.setattr(owner, call, fail)
    with pytest.raises(OSError, match=name) as caught:
        find_checkpoint(acc, saved, "auto")
    assert caught.value.errno == number


def test_a_run_or_its_checkpoints_folder_stands_for_its_newest(acc, saved):
    for path in (saved.path, saved.checkpoints):
        assert find_checkpoint(acc, saved, str(path)).name == "step-00000002"


@pytest.mark.parametrize(
    ("name", "word"), [("old.pt", "pickled"), ("x.json", "is a file"), ("folder", "manifest.json")]
)
def test_other_things_are_refused(acc, run, tmp_path, name, word):
    target = tmp_path / name
    target.touch() if "." in name else target.mkdir()
    assert word in refused(lambda: find_checkpoint(acc, run, str(target)))


def test_other_world_size_is_explained_and_loads(acc, saved, capsys):
    newest = saved.checkpoints / "step-00000002"
    manifest = json.loads((newest / "manifest.json").read_text())
    manifest["world_size"] = 4
    manifest["manifest_sha256"] = manifests._digest(manifest)
    (newest / "manifest.json").write_text(json.dumps(manifest))
    assert find_checkpoint(acc, saved, "auto") == newest
    assert "written by 4 processes, this run has 1" in capsys.readouterr().out
    assert any("4 processes" in note for note in saved.notes)
    model, optimizer = build()
    assert load_checkpoint(acc, newest, model=model, optimizer=optimizer)["note"] == "step 2"


def more_layers():
    model, _ = build()
    model.extra = nn.Linear(2, 2)
    return model, torch.optim.AdamW(model.parameters())


def one_group():
    model, _ = build()
    return model, torch.optim.AdamW(model.parameters())


def in_double():
    model, _ = build()
    model.double()
    return model, torch.optim.AdamW(model.parameters())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: build(width=5), "has first.weight as 6x3 float32, the model as 5x3 float32"),
        (more_layers, "lacks extra.bias (and 1 more)"),
        (in_double, "has low as 4 bfloat16, the model as 4 float64"),
        (lambda: build(torch.optim.SGD), "the optimiser AdamW, this run builds SGD"),
        (one_group, "parameter groups of [2, 3] parameters, this run of [5]"),
    ],
)
def test_another_architecture(acc, saved, make, words):
    model, optimizer = make()
    before = bytes_of(model, optimizer)
    path = saved.checkpoints / "step-00000002"
    message = refused(lambda: load_checkpoint(acc, path, model=model, optimizer=optimizer))
    assert words in message and str(path) in message
    assert bytes_of(model, optimizer) == before


def test_export_round_trip_and_replacement(acc, run):
    model, _ = build()
    path = save_export(
        acc, run, model=model, config={"width": 6, "shape": (1, 2), "best": math.inf}, card="# A model\n"
    )
    assert path == run.path / "export" and (path / "README.md").read_text() == "# A model\n"
    for given in (path, run.path, str(path)):
        weights, config = load_export(given)
        assert (config["width"], config["shape"], config["best"]) == (6, [1, 2], "Infinity")
        assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
        assert weights["low"].dtype == torch.bfloat16
    other, _ = build(width=4)
    save_export(acc, run, model=other, config={"width": 4}, card="# Another\n")
    assert load_export(path)[1]["width"] == 4
    assert sorted(entry.name for entry in run.path.iterdir() if "export" in entry.name) == ["export"]


def test_further_tensor_files_of_an_export(acc, run):
    model, _ = build()
    extra = {"tables.safetensors": {"counts": torch.arange(6).reshape(2, 3)}}
    path = save_export(acc, run, model=model, config={}, card="", extra=extra)
    assert load_export_tensors(path, "tables.safetensors")["counts"].tolist() == [[0, 1, 2], [3, 4, 5]]
    damage(path, "tables.safetensors", "flip")
    assert "tables.safetensors" in refused(lambda: load_export_tensors(path, "tables.safetensors"))
    assert load_export(path)[1]["format"] == "quartet-export-1"
    assert "missing" in refused(lambda: load_export_tensors(path, "absent.safetensors"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("how", ["truncate", "empty", "flip", "delete"])
def test_a_damaged_export_is_refused(acc, run, name, how):
    model, _ = build()
    path = save_export(acc, run, model=model, config={"width": 6}, card="")
    damage(path, name, how)
    assert name in refused(lambda: load_export(path))


def test_what_is_not_an_export(acc, saved, tmp_path):
    assert "it has no config.json" in refused(lambda: load_export(tmp_path))
    message = refused(lambda: load_export(saved.checkpoints / "step-00000001"))
    assert "training checkpoint" in message and str(saved.path / "export") in message
    file = tmp_path / "best.pt"
    file.touch()
    assert "pickled files can run code" in refused(lambda: load_export(file))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What both ranks of checkpoint_worker.py said: {(rank, name): value}."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = Path(__file__).with_name("checkpoint_worker.py")
    workers = []
    for rank in (0, 1):
        environment = {
            **os.environ,
            **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"},
        }
        command = [sys.executable, "-X", "faulthandler", str(script), str(folder)]
        pipe = subprocess.PIPE
        workers.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe, text=True))
    try:
        outputs = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for rank, (worker, (out, errors)) in enumerate(zip(workers, outputs, strict=True)):
        assert worker.returncode == 0, f"rank {rank} after {out.splitlines()[-1:]}: {errors[-3000:]}"
    said = [json.loads(line) for out, _ in outputs for line in out.splitlines() if line.startswith("{")]
    return {(entry["rank"], entry["name"]): entry["value"] for entry in said} | {"folder": folder}


@pytest.mark.parametrize("kind", ["plain", "sharded", "mixed", "back"])
def test_ddp_and_fsdp2_resume_bit_equal_also_into_each_other(two_ranks, kind):
    for rank in (0, 1):
        assert two_ranks[rank, f"{kind} state"] == [3, True]
        assert two_ranks[rank, f"{kind} loaded"] is True
        assert two_ranks[rank, f"{kind} betas"] is True
        assert two_ranks[rank, f"{kind} apart"] == (0.0 if kind in ("plain", "sharded") else pytest.approx(0, abs=1e-6))
        assert "0.weight as 5x3 float32, the model as 4x3" in two_ranks[rank, f"{kind} other"]
        assert two_ranks[rank, f"{kind} untouched"] is True


def test_ranks_agree_on_run_export_failure_and_stop(two_ranks):
    for rank in (0, 1):
        assert two_ranks[rank, "path"] == str(two_ranks["folder"] / "run")
        assert two_ranks[rank, "export"] == [["0.bias", "0.weight", "2.weight"], [5, 3], 5]
        assert "a part of the path is a file" in two_ranks[rank, "blocked"]
        assert (two_ranks[rank, "calm"], two_ranks[rank, "agreed"]) == (False, True)
