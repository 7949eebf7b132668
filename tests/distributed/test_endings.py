"""How runs end: one rank's error ends all with its message, a hung rank is given up, signals leave no orphan."""

import os
import re
import signal
import time

import pytest
from launching import (
    ACCELERATE,
    CONFIGS,
    PROBES,
    PYTHON,
    begin,
    environment,
    finish,
    free_port,
    launch,
    wait_until_gone,
)

ENDING = PROBES / "ending.py"
TWO_RANKS = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", ENDING]
# The simple launcher's form, which lib.launch turns into two ranks.
TWO_RELAUNCHED = [*ACCELERATE, "--cpu", "--num_processes", "2", ENDING]


@pytest.fixture
def environ(tmp_path):
    return environment(tmp_path)


def root_cause(stderr: str) -> str:
    """The part of torchelastic's summary that names the first failure."""
    return stderr.split("Root Cause", 1)[1]


def test_single_process_exit_codes(environ):
    cases = {
        "normal": (0, ""),
        "user": (2, "error: found nothing in the folder; expected structures\n"),
        "bug": (1, "\nKeyError: 'a real bug'\nerror: KeyError: 'a real bug'\n"),
    }
    running = {ending: begin([*PYTHON, ENDING, "--ending", ending], environ) for ending in cases}
    for ending, (code, words) in cases.items():
        ended = finish(running[ending])
        assert ended.code == code, ended.stderr
        assert words in ended.stderr
        # One line for the user's mistakes, the stack for our own.
        assert ("Traceback" in ended.stderr) == (ending == "bug")
        if ending == "user":
            assert ended.stderr == words


def test_the_same_mistake_on_all_ranks_is_told_once(environ):
    ended = launch([*TWO_RANKS, "--ending", "user"], environ)
    # Accelerate's launcher knows no other code for a failed rank; what the ranks left with is in its summary.
    assert ended.code == 1
    assert ended.errors == ["error: found nothing in the folder; expected structures"]
    summary = ended.stderr.split("FAILED", 1)[1]
    assert re.findall(r"exitcode\s*: (-?\d+)", summary) == ["2", "2"]
    assert "error: found nothing in the folder; expected structures" in root_cause(ended.stderr)


def test_a_rank_that_comes_late_to_the_same_mistake_says_nothing(environ):
    """Without a launcher above them: the store through which they agree lives in rank 0."""
    world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        begin([*PYTHON, ENDING, "--ending", "late"], environ | world | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]
    ended = [finish(rank) for rank in ranks]
    assert [rank.code for rank in ended] == [2, 2]
    assert [rank.stderr for rank in ended] == ["error: found nothing in the folder; expected structures\n", ""]


def test_the_relauncher_passes_the_exit_code_on(environ):
    """Quietly: no torchelastic stack after what the rank has said."""
    rank = [*PYTHON, "-c", "import sys; print('error: said once', file=sys.stderr); sys.exit(2)"]
    ended = launch([*PYTHON, "-m", "lib.relaunch", "--standalone", "--nproc_per_node=1", "--no_python", *rank], environ)
    assert ended.code == 2
    assert ended.stderr == "error: said once\n"


@pytest.mark.parametrize(("ending", "code"), [("early", "2"), ("bug", "1")])
def test_an_error_on_one_rank_ends_the_other(environ, ending, code):
    """`early` is before the ranks have met: the other one waits in the rendezvous."""
    ended = launch([*TWO_RANKS, "--ending", ending, "--who", "1"], environ)
    message = {"early": "found nothing in the folder; expected structures", "bug": "KeyError: 'a real bug'"}[ending]
    assert ended.code == 1
    assert ended.errors == [f"error (rank 1): {message}"]
    assert ended.stderr.count("KeyError: 'a real bug'\nerror (rank 1)") == (1 if ending == "bug" else 0)
    assert f"rank      : 1 (local_rank: 1)\n  exitcode  : {code}" in root_cause(ended.stderr)
    assert " done" not in ended.stdout
    # About 10 s from the error, launch included.
    assert ended.seconds < 40


def test_a_killed_rank_ends_the_other(environ):
    ended = launch([*TWO_RELAUNCHED, "--ending", "kill", "--who", "1"], environ)
    assert ended.code == 1 and " done" not in ended.stdout
    assert "error: rank 1 was killed by SIGKILL from outside this program" in ended.stderr
    assert f"returned non-zero exit status {128 + signal.SIGKILL}" in ended.stderr
    assert "Traceback" not in ended.stderr.split("error: rank 1 was killed")[0]


def test_a_hung_rank_is_given_up(environ):
    """The hung rank ignores SIGTERM, as one does that waits for its step to end."""
    ended = launch([*TWO_RANKS, "--ending", "hang", "--who", "1", "--dist_timeout", "3"], environ)
    assert ended.code == 1
    (line,) = ended.errors
    assert line.startswith("error: waited longer than --dist_timeout 3 s for another rank")
    # Where it waited is in the stack.
    assert "any_rank" in ended.stderr
    # torchelastic alone would wait 30 s more before it kills the rank.
    assert ended.seconds < 30


def started(process) -> list[int]:
    """The process ids of the two ranks and of what started them, once both sleep."""
    pids = set()
    for _ in range(2):
        line = process.stdout.readline()
        match = re.fullmatch(r"rank \d pid (\d+) parent (\d+)\n", line)
        if match is None:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(line + process.stderr.read())
        pids |= {int(match[1]), int(match[2])}
    assert len(pids) == 3
    return sorted(pids)


@pytest.mark.parametrize(
    ("command", "sent"),
    [(TWO_RANKS, signal.SIGUSR1), (TWO_RELAUNCHED, signal.SIGTERM)],
    ids=["torchelastic-USR1", "relaunched-TERM"],
)
def test_a_signal_to_the_launcher_reaches_every_rank(environ, command, sent):
    """SIGUSR1 kills torchelastic outright; Accelerate's simple launcher passes nothing on: neither leaves an orphan.

    SIGTERM to torchelastic is what the SLURM template sends (test_slurm_templates.py).
    """
    process = begin([*command, "--ending", "sleep"], environ)
    pids = started(process)
    os.kill(process.pid, sent)
    begun = time.monotonic()
    wait_until_gone(pids, 15)
    ended = finish(process)
    assert time.monotonic() - begun < 20
    assert ended.code != 0
    assert "rank 0 was told to stop" in ended.stderr and "rank 1 was told to stop" in ended.stderr
