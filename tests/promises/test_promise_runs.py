"""The same command on one process, two processes and a GPU: the same file, equal ranks, the same curve."""

import hashlib
import json
import math

import launching
import pytest
import torch
from runs import Stage


def finish_launch(process):
    """A launch that must end well and quietly."""
    ended = launching.finish(process)
    assert ended.code == 0, ended.stderr
    return ended


def plain_python(stage: Stage, run):
    return launching.launch([*launching.PYTHON, stage.case.script, *stage.argv(run)], stage.environ, cwd=stage.folder)


def test_one_process_on_a_cpu(stage, alone):
    """Started by plain python; the forked runs of this suite compute the same bits."""
    plain = stage.once("plain", lambda run: plain_python(stage, run))
    plain.assert_equal(alone)
    check_results(stage, plain, processes=1)
    assert len(plain.losses) == stage.case.steps


def test_two_processes_on_a_cpu(stage, pair):
    """Started by accelerate launch; the forked ranks of this suite compute the same bits."""
    launched = stage.once("launched", lambda run: launching.finish(stage.launched(run)))
    launched.assert_equal(pair)
    check_results(stage, launched, processes=2)
    environment = json.loads((launched.run / "environment.json").read_text(encoding="utf-8"))
    assert environment["processes"] == 2 and len(environment["ranks"]) == 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_one_gpu(stage, alone):
    environ = {name: value for name, value in stage.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    run = stage.folder / "gpu"
    launched = stage.once(
        "gpu", lambda run: launching.finish(stage.launched(run, config="gpu_1.yaml", environ=environ))
    )
    check_results(stage, launched, processes=1)
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    assert not environment["ranks"][0]["device"].startswith("cpu")
    # Another order of summation, the same draws.
    assert max(abs(a - b) for a, b in zip(launched.losses[:3], alone.losses[:3])) < 1e-2


def check_results(stage: Stage, outcome, processes: int) -> None:
    results = outcome.results
    assert sorted(stage.case.result_keys - results.keys()) == []
    assert (results["steps"], results["processes"]) == (stage.case.steps, processes)
    for name in ("config.json", "environment.json", "metrics.jsonl", "export/config.json", "export/README.md"):
        assert (outcome.run / name).stat().st_size > 0
    # Nothing is left of what was written on the way.
    assert [path for path in outcome.run.rglob(".*") if path.is_file()] == []
    weights = hashlib.sha256((outcome.run / "export" / "model.safetensors").read_bytes()).hexdigest()
    described = json.loads((outcome.run / "export" / "config.json").read_text(encoding="utf-8"))
    assert described["sha256"]["model.safetensors"] == weights


@pytest.fixture
def still_alone(stage):
    return stage.once("still_alone", lambda run: stage.alone(run, stage.case.still, stage.case.whole).finish())


@pytest.fixture
def still_pair(stage):
    """Two ranks that write down what every forward pass was given."""
    folder = stage.folder / "forwards"
    folder.mkdir(exist_ok=True)
    probe = ("probes_ranks:record_forwards", str(folder))
    flags = (stage.case.still, stage.case.halved)
    return stage.once("still_pair", lambda run: stage.pair(run, *flags, probe=probe).finish())


def test_equal_weights_and_different_data_on_every_rank(stage, still_pair):
    """Seen from outside the trainer, at every forward pass."""
    first, second = (
        [json.loads(line) for line in (stage.folder / "forwards" / f"{rank}.jsonl").read_text().splitlines()]
        for rank in range(2)
    )
    assert len(first) == len(second) >= stage.case.steps
    assert [row["weights"] for row in first] == [row["weights"] for row in second]
    assert len({row["weights"] for row in first}) >= stage.case.steps  # every step changes them
    data = [row["data"] for row in first + second]
    assert len(set(data)) == len(data)


def test_the_curve_does_not_depend_on_the_number_of_processes(stage, still_alone, still_pair, alone):
    """1 process with the whole batch against 2 with half of it: also where ranks do not share gradients, or where each
    divides by its own count, the losses part at the second step."""
    case = stage.case
    apart = [abs(a - b) for a, b in zip(still_alone.losses, still_pair.losses)]
    assert max(apart) < case.loss_tolerance
    start = stage.once("start", lambda run: stage.alone(run, case.still, case.whole, "--max_steps 0").finish())
    way = distance(start, still_alone)
    assert distance(still_alone, still_pair) < case.weight_tolerance * way
    # The comparison can fail: another batch is far away.
    control = case.control or case.halved
    half = stage.once("still_half", lambda run: stage.alone(run, case.still, control).finish())
    assert max(abs(a - b) for a, b in zip(still_alone.losses, half.losses)) > 100 * case.loss_tolerance
    assert distance(still_alone, half) > 5 * case.weight_tolerance * way


def distance(one, other) -> float:
    """Euclidean distance of the weights. A single weight whose gradient is nothing but rounding may go anywhere."""
    first, second = one.weights, other.weights
    assert first.keys() == second.keys()
    return math.sqrt(sum(float((first[name].double() - second[name].double()).square().sum()) for name in first))
