"""Fixtures of the checkpoint and run tests."""

import pytest
from accelerate import Accelerator
from checkpoint_samples import Config, build, train

from lib.checkpoint import (
    RunDirectory,
    save_checkpoint,
)


@pytest.fixture(scope="module")
def acc():
    return Accelerator(cpu=True)


@pytest.fixture
def run(acc, tmp_path):
    run = RunDirectory.create(acc, Config(output_dir=str(tmp_path / "run")), "tester")
    yield run
    run.close()


@pytest.fixture
def saved(acc, run):
    """Two checkpoints: step 1 and step 2."""
    model, optimizer = build()
    for step in (1, 2):
        train(model, optimizer, range(step, step + 1))
        save_checkpoint(acc, run, step, model=model, optimizer=optimizer, state={"note": f"step {step}"}, keep=5)
    return run
