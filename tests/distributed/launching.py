"""Starts probe scripts with real launchers and reads what they print."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROBES = Path(__file__).resolve().parent / "probes"
CONFIGS = ROOT / "accelerate_configs"
BIN = Path(sys.executable).parent
ACCELERATE = [str(BIN / "accelerate"), "launch"]
TORCHRUN = [str(BIN / "torchrun")]
PYTHON = [sys.executable]
LAUNCH_VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass
class Ended:
    """A finished launch: exit code, output, seconds."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ranks(self) -> list[dict]:
        """The JSON lines of the ranks, by rank."""
        lines = [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]
        return sorted(lines, key=lambda line: line["rank"])

    @property
    def errors(self) -> list[str]:
        """The lines in which the program itself speaks of its end; launchers indent or prefix theirs."""
        return [line for line in self.stderr.splitlines() if line.startswith(("error", "rank ", "interrupted"))]


def environment(cache: Path, **variables: str) -> dict[str, str]:
    """The environment of a user without a launch in progress, whose cached Accelerate default lies in `cache`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCH_VARIABLES and not name.startswith(("ACCELERATE_", "TORCHELASTIC", "FSDP_", "SLURM_"))
    }
    return {**kept, "HF_HOME": str(cache), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", **variables}


def begin(command: list, environ: dict[str, str], cwd: Path = ROOT) -> subprocess.Popen:
    """Starts a launch in a session of its own."""
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, limit_s: float = 120.0) -> Ended:
    """Waits for a launch, kills its whole session when it takes longer than `limit_s`."""
    begun = time.monotonic()
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise AssertionError(f"the launch did not end in {limit_s} s\n{stdout}\n{stderr}") from None
    return Ended(process.returncode, stdout, stderr, time.monotonic() - begun)


def launch(command: list, environ: dict[str, str], limit_s: float = 120.0, cwd: Path = ROOT) -> Ended:
    """Runs a launch to its end."""
    return finish(begin(command, environ, cwd), limit_s)


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(pids: list[int], limit_s: float) -> float:
    """Seconds until none of the processes runs; fails after `limit_s`."""
    begun = time.monotonic()
    while any(alive(pid) for pid in pids):
        assert time.monotonic() - begun < limit_s, f"still running after {limit_s} s: {[p for p in pids if alive(p)]}"
        time.sleep(0.1)
    return time.monotonic() - begun
