"""No trainer trains in a world other than the one that was asked for. The launch forms are in tests/distributed."""

import json

import launching
import yaml


def test_gpus_asked_for_on_a_machine_that_shows_none(stage, pair, tmp_path):
    """A MULTI_GPU file: in Accelerate two processes that each believe they are alone, both save, exit code 0."""
    file = tmp_path / "gpus.yaml"
    asked = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "use_cpu": False}
    file.write_text(yaml.safe_dump(asked | {"num_machines": 1, "num_processes": 2, "main_process_port": 0}))
    outcome = stage.once("gpus", lambda run: launching.finish(stage.launched(run, config=file)))
    # One run of two ranks, not two runs of one.
    assert outcome.results["processes"] == 2
    notes = [row["note"] for row in map(json.loads, (outcome.run / "metrics.jsonl").open()) if "note" in row]
    assert any("asks for GPUs and none is visible: 2 processes run on CPU (gloo)" in note for note in notes)
    outcome.assert_equal(pair)


def test_half_a_launch_is_refused(stage):
    """Variables of a launch of which the others are missing."""
    ended = stage.warm.run(stage.argv(None), stage.folder, environ={"WORLD_SIZE": "2", "RANK": "0"})
    assert ended.code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: WORLD_SIZE=2 is set but LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not")
