"""Sessions of the promise suite: data, warm process and undisturbed runs are made once for each trainer."""

import contextlib
import os
from pathlib import Path

import launching
import pytest
from cases import TRAINERS
from runs import Outcome, Stage
from warm import Warm

HERE = Path(__file__).resolve().parent
# As `pythonpath` in pyproject.toml.
SHARED = [str(HERE), str(HERE.parent / "distributed"), str(HERE.parent / "unit" / "protein")]


@pytest.fixture(scope="session")
def stages(tmp_path_factory):
    """name of a trainer -> its Stage, made when it is first asked for."""
    made = {}
    with contextlib.ExitStack() as stack:

        def get(case) -> Stage:
            if case.name not in made:
                made[case.name] = None
                made[case.name] = make_stage(case, tmp_path_factory.mktemp(case.name), stack)
            return made[case.name] or pytest.fail(f"{case.name}: the warm process or the data could not be made")

        yield get


def make_stage(case, folder: Path, stack: contextlib.ExitStack) -> Stage:
    for name in ("data", "scratch", "work"):
        (folder / name).mkdir()
    places = [*SHARED, *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = launching.environment(folder / "home", PYTHONPATH=os.pathsep.join(places))
    flags = case.make_data(folder / "data")
    warm = stack.enter_context(Warm(case.script, environ, folder / "scratch"))
    return Stage(case, folder / "work", folder / "data", flags, warm, environ)


# Not of session scope: pytest would set it up anew for every row of a table that names the trainer.
@pytest.fixture(params=TRAINERS, ids=lambda case: case.name)
def stage(request, stages) -> Stage:
    """The trainer, its data and its warm process."""
    return stages(request.param)


@pytest.fixture
def alone(stage) -> Outcome:
    """The undisturbed run of one process."""
    return stage.once("alone", lambda run: stage.alone(run).finish())


@pytest.fixture
def pair(stage) -> Outcome:
    """The undisturbed run of two processes."""
    return stage.once("pair", lambda run: stage.pair(run).finish())
