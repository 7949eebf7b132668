"""Runs a script many times without paying for its imports each time: a process that has imported everything forks.

    with Warm(ROOT / "scripts/train_protein.py", environ) as warm:
        child = warm.begin(["--seed", "1"], folder)
        ended = child.finish()

Each child is a process group of its own, with its own folder, arguments, environment and output files, and ends by the
interpreter's ordinary way out. That it computes what `python script` computes is itself a test of the suite. Several
ranks are children with the variables that a launcher sets. Run as a program, this file is the process that forks.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Ended:
    """A finished process: exit code (-signal when it was killed), output, seconds."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def errors(self) -> list[str]:
        """The lines in which the program speaks of its end; launchers indent or prefix theirs."""
        return [line for line in self.stderr.splitlines() if line.startswith(("error", "rank ", "interrupted"))]


class Child:
    """A running child. `pid` is also its process group."""

    def __init__(self, warm: "Warm", pid: int, out: Path):
        self.warm, self.pid, self.out, self.begun = warm, pid, out, time.monotonic()
        self.ended: Ended | None = None

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        os.killpg(self.pid, number)

    def finish(self, limit_s: float = 120.0) -> Ended:
        """Wait for the end; AssertionError with the output when it takes longer than `limit_s`."""
        if self.ended is None:
            answer = self.warm.ask({"wait": self.pid, "limit_s": limit_s})
            stdout, stderr = (Path(f"{self.out}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
            assert answer["in_time"], f"the process did not end in {limit_s} s\n{stdout}\n{stderr}"
            self.ended = Ended(answer["code"], stdout, stderr, time.monotonic() - self.begun)
        return self.ended

    def running(self) -> bool:
        """Whether it has not ended yet."""
        state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
        return state != "Z"


class Warm:
    """The client of the forking process."""

    def __init__(self, script: Path, environ: dict[str, str], scratch: Path):
        self.scratch, self.count = scratch, 0
        command = [sys.executable, str(HERE / "warm.py"), str(script)]
        self.process = subprocess.Popen(
            command, env=environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1
        )
        self.ask({"ready": True})

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def ask(self, request: dict) -> dict:
        """One request, one answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the forking process has gone"
        return json.loads(line)

    def begin(
        self, argv: list, folder: Path, *, environ: dict[str, str] | None = None, probe: tuple[str, ...] = ()
    ) -> Child:
        """Start the script. probe: ("module:function", *texts), called with the texts before the script runs."""
        self.count += 1
        out = self.scratch / f"{self.count:04d}"
        request = {"argv": [str(word) for word in argv], "folder": str(folder), "out": str(out)}
        answer = self.ask(request | {"environ": environ or {}, "probe": [str(word) for word in probe]})
        return Child(self, answer["pid"], out)

    def run(self, argv: list, folder: Path, limit_s: float = 120.0, **options) -> Ended:
        """`begin` and `finish`."""
        return self.begin(argv, folder, **options).finish(limit_s)


def serve(script: str) -> dict | None:
    """Answers requests until the input ends (None); in a child, returns the request to carry out."""
    sys.path.insert(0, str(Path(script).resolve().parent))
    # The script's own imports and definitions; its `__main__` part waits for the child.
    runpy.run_path(script, run_name="warm")
    # A child's collector that walks over all that was imported would copy it, a second for each child.
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "wait" in request:
            answer = wait(request["wait"], request["limit_s"])
        elif "argv" in request:
            pid = fork()
            if pid == 0:
                return request
            answer = {"pid": pid}
        else:
            answer = {}
        print(json.dumps(answer), flush=True)
    return None


def fork() -> int:
    """os.fork that returns in the parent once the child leads its own session."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setsid()
        os.close(writing)
        return 0
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


def wait(pid: int, limit_s: float) -> dict:
    """Exit code of a child; its group is killed after `limit_s`."""
    descriptor = os.pidfd_open(pid)
    in_time = bool(select.select([descriptor], [], [], limit_s)[0])
    os.close(descriptor)
    if not in_time:
        os.killpg(pid, signal.SIGKILL)
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), "in_time": in_time}


def become(script: str, request: dict) -> None:
    """Turns this child into `python script argv...` with its own folder and output."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{request['out']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.close(nothing)
    os.chdir(request["folder"])
    os.environ.update(request["environ"])
    sys.argv = [script, *request["argv"]]
    if request["probe"]:
        name, *texts = request["probe"]
        module, function = name.split(":")
        getattr(importlib.import_module(module), function)(*texts)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    program = sys.argv[1]
    todo = serve(program)
    if todo is not None:
        become(program, todo)
