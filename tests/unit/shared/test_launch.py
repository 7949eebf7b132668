"""Precision, learning rate, the original's launch flags and the words for failures, without launching anything."""

import math
import os
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from accelerate.state import AcceleratorState, GradientState

from lib import launch, relaunch
from lib.args import RunArgs
from lib.errors import UserError
from lib.failure import describe
from lib.launch import check_flags, resolve_precision, scaled_learning_rate
from lib.world import LaunchRequest, World

ALONE, TWO = World(), World(processes=2, local_processes=2)


@pytest.mark.parametrize("native", [True, False])
def test_auto_precision_follows_the_hardware_unless_the_launcher_spoke(monkeypatch, native):
    monkeypatch.setattr(launch, "supports_bf16", lambda on_cpu: native)
    expected = "bf16" if native else "no"
    assert resolve_precision("auto", {}, None, True)[0] == expected
    # Accelerate exports "no" also when nobody asked.
    silent = {"ACCELERATE_MIXED_PRECISION": "no"}
    assert resolve_precision("auto", silent, LaunchRequest(processes=1), True)[0] == expected
    assert resolve_precision("auto", silent, LaunchRequest(mixed_precision="no"), True)[0] == "no"
    assert resolve_precision("auto", {"ACCELERATE_MIXED_PRECISION": "bf16"}, None, True)[0] == "bf16"
    assert resolve_precision(None, silent, None, True) == ("no", "default")


def test_contradicting_and_unknown_precision():
    said_no = LaunchRequest(mixed_precision="no")
    assert resolve_precision("bf16", {"ACCELERATE_MIXED_PRECISION": "no"}, None, True)[0] == "bf16"
    assert resolve_precision("fp32", {"ACCELERATE_MIXED_PRECISION": "no"}, said_no, True)[0] == "no"
    for precision, environ, request in (
        ("bf16", {"ACCELERATE_MIXED_PRECISION": "no"}, said_no),
        ("fp32", {"ACCELERATE_MIXED_PRECISION": "bf16"}, None),
    ):
        with pytest.raises(UserError, match="contradicts"):
            resolve_precision(precision, environ, request, True)
    with pytest.raises(UserError, match="fp16"):
        resolve_precision("auto", {"ACCELERATE_MIXED_PRECISION": "fp16"}, None, False)
    with pytest.raises(UserError, match="auto, fp32, bf16"):
        resolve_precision("half", {}, None, True)


def test_scaled_learning_rate_of_the_original_guide():
    assert scaled_learning_rate(1e-4, "none", 8, 1) == 1e-4
    assert scaled_learning_rate(1e-4, "linear", 8, 1) == pytest.approx(8e-4)
    assert scaled_learning_rate(1e-4, "sqrt", 8, 1) == pytest.approx(2.83e-4, rel=1e-3)
    assert scaled_learning_rate(1.0, "sqrt", 2, 3) == pytest.approx(math.sqrt(6))
    with pytest.raises(UserError, match="quadratic"):
        scaled_learning_rate(1.0, "quadratic", 1, 1)


def given(**values) -> SimpleNamespace:
    return SimpleNamespace(**values, explicit=frozenset(values))


def test_flags_of_the_original_that_agree_with_the_launcher():
    environ = {"WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_PORT": "12355", "MASTER_ADDR": "h"}
    agreeing = given(ddp=True, local_rank=1, world_size=2, master_port=12355, master_addr="h", device="cpu")
    assert check_flags(agreeing, environ, TWO) == ["--ddp has no effect: the launcher started 2 process(es)"]
    # Defaults that the user did not set are not looked at.
    assert check_flags(SimpleNamespace(ddp=True, gpu_ids="0", explicit=frozenset()), {}, ALONE) == []
    assert check_flags(given(ddp=False, local_rank=-1), {}, ALONE) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ddp": True}, "accelerate launch --num_processes 2"),
        ({"local_rank": 1}, "--local_rank 1"),
        ({"world_size": 8}, "--world_size 8"),
        ({"gpu_ids": "0,1"}, "accelerate launch --gpu_ids 0,1"),
        ({"master_port": 12356}, "--main_process_port 12356"),
        ({"master_addr": "node7"}, "--main_process_ip node7"),
        ({"device": "cuda:1"}, "--device cuda:1"),
    ],
)
def test_flags_that_would_be_ignored_are_refused(values, words):
    with pytest.raises(UserError) as caught:
        check_flags(given(**values), {}, ALONE)
    assert words in str(caught.value)


@pytest.fixture
def alone(monkeypatch):
    """An environment without any launch, restored afterwards, and no Accelerate state left behind."""
    for name in list(os.environ):
        if name.startswith(("ACCELERATE_", "SLURM_", "OMPI_", "PMI_")) or name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
            monkeypatch.delenv(name)
    # The setting is for the whole process: nothing else in this one should see it.
    kept = []
    monkeypatch.setattr(launch, "keep_freed_memory", lambda: kept.append(True))
    AcceleratorState._reset_state(True)
    yield kept
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


def test_start_on_the_cpu_keeps_freed_memory_before_the_accelerator_is_built(alone, monkeypatch):
    seen = []
    build = launch.Accelerator
    monkeypatch.setattr(launch, "Accelerator", lambda **given: seen.append(len(alone)) or build(**given))
    accelerator = launch.start(RunArgs(), precision="fp32", sharding=False)
    assert accelerator.num_processes == 1 and seen == [1] == [len(alone)]
    assert accelerator.gradient_accumulation_steps == 1


def test_the_launchers_accumulation_is_refused(alone, monkeypatch):
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    with pytest.raises(UserError, match=r"4 accumulation steps.*--gradient_accumulation_steps to the script"):
        launch.start(RunArgs(), precision="fp32")


@pytest.mark.parametrize("name", ["accelerate", "torch", "distributed type"])
def test_ranks_with_other_software_are_named(alone, monkeypatch, name):
    def two(accelerator, rows):
        (mine,) = rows
        return [mine, {**mine, "must_agree": {**mine["must_agree"], name: "0.1"}}]

    monkeypatch.setattr(launch, "gather_rows", two)
    with pytest.raises(UserError, match=f"rank 1 on .* has {name} = 0.1, rank 0"):
        launch.start(RunArgs(), precision="fp32")


def test_words_and_codes_of_failures():
    config = SimpleNamespace(dist_timeout=5.0, batch_size=4, precision="auto")
    user = describe(UserError("found x,\n  expected y"), config)
    assert (user.text, user.code, user.echo) == ("error: found x, expected y", 2, False)
    assert describe(KeyboardInterrupt()).code == 130
    late = describe(RuntimeError("[gloo/unbound_buffer.cc:78] Timed out waiting 5000ms for recv"), config)
    assert "--dist_timeout 5 s" in late.text and not late.echo
    gone = describe(RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1"), config)
    assert gone.echo and gone.code == 1 and "Traceback" not in gone.text
    assert describe(dist.DistBackendError("NCCL error: remote process exited or there was a network error")).echo
    for error in (torch.OutOfMemoryError("CUDA out of memory"), MemoryError()):
        text = describe(error, config).text
        assert text.endswith("In this order: smaller --batch_size, --precision bf16")
    # Only flags this trainer has, in the order it gives.
    own = SimpleNamespace(batch_size=4, gradient_accumulation_steps=1, k_neighbors=48)
    own.memory_remedies = ("batch_size", "max_tokens", "gradient_accumulation_steps", "k_neighbors")
    full = describe(RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: you tried 1 TB"), own)
    assert full.code == 1 and full.text.startswith("RuntimeError: [enforce fail")
    assert full.text.endswith(
        "smaller --batch_size, more --gradient_accumulation_steps with smaller batches, smaller --k_neighbors"
    )
    assert "--main_process_port 0` (any free port)" in describe(OSError(98, "Address already in use")).text
    taken = describe(dist.DistNetworkError("The server socket has failed to listen, EADDRINUSE"), config)
    assert "--main_process_port 0" in taken.text and "--master_port 12356" in taken.text
    # A program's own message about time or peers is a plain bug.
    plain = describe(ValueError("timed out waiting for a Connection closed by peer"), config)
    assert plain.text.endswith("error: ValueError: timed out waiting for a Connection closed by peer")


def test_a_taken_port_of_the_relauncher_is_one_line(monkeypatch, capsys):
    def taken(arguments):
        raise dist.DistNetworkError("The server socket has failed to listen\nEADDRINUSE")

    monkeypatch.setattr(relaunch, "run", taken)
    assert relaunch.main(["--no_python", "true"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: The server socket") and "--main_process_port 0" in line
