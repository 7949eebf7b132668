"""The SLURM templates as shell scripts: stand-ins for srun and scontrol, real launchers, USR1 to the batch shell."""

import os
import re
import signal
import time

import pytest
from launching import BIN, CONFIGS, PROBES, ROOT, begin, environment, finish, free_port, wait_until_gone

# Runs the step's command once per node, with the variables that srun sets, and passes TERM on.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
pids=()
trap 'told=yes; kill -TERM "${pids[@]}"' TERM
for ((node = 0; node < SLURM_NNODES; node++)); do
    SLURM_NODEID=$node SLURM_PROCID=$node SLURM_STEP_NUM_TASKS=$SLURM_NNODES "$@" &
    pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
    while told=; wait "$pid"; code=$?; [ -n "$told" ]; do :; done
done
exit $code
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo 127.0.0.1; else echo "$@" >> "$SCONTROL_LOG"; fi
"""


@pytest.fixture
def environ(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tools / name).write_text(text, encoding="utf-8")
        (tools / name).chmod(0o755)
    path = os.pathsep.join([str(tools), str(BIN), os.environ["PATH"]])
    log = tmp_path / "scontrol.log"
    return environment(tmp_path, PATH=path, SCONTROL_LOG=str(log), SLURM_JOB_ID="77", SCRIPT=str(PROBES / "ending.py"))


def test_one_node_saves_and_requeues_on_usr1(environ):
    template = ROOT / "slurm" / "one_node.sbatch"
    cpu = environ | {"CONFIG": str(CONFIGS / "cpu_2.yaml")}
    process = begin(["bash", template, "--ending", "sleep"], cpu)
    pids = []
    for _ in range(2):
        pids += map(int, re.findall(r"pid (\d+) parent (\d+)", process.stdout.readline())[0])
    os.kill(process.pid, signal.SIGUSR1)
    begun = time.monotonic()
    wait_until_gone(pids, 15)
    ended = finish(process)
    assert time.monotonic() - begun < 20
    assert ended.code == 0
    assert "told to stop: sending TERM" in ended.stdout
    assert ended.stderr.count("was told to stop") == 2
    with open(environ["SCONTROL_LOG"], encoding="utf-8") as log:
        assert log.read() == "requeue 77\n"


def test_many_nodes_form_one_world_and_pass_arguments_on(environ, tmp_path):
    """Two nodes on loopback; nothing is requeued."""
    template = ROOT / "slurm" / "many_nodes.sbatch"
    config = tmp_path / "cpu_node.yaml"
    text = (CONFIGS / "cpu_2.yaml").read_text(encoding="utf-8")
    config.write_text(text.replace("main_process_port: 0\n", "same_network: true\n"), encoding="utf-8")
    nodes = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "here", "GPUS_PER_NODE": "1", "PORT": str(free_port())}
    cpu = environ | nodes | {"CONFIG": str(config), "SCRIPT": str(PROBES / "world.py")}
    ended = finish(begin(["bash", template, "--word", "two words"], cpu))
    assert ended.code == 0, ended.stderr
    assert [(line["rank"], line["counted"], line["word"]) for line in ended.ranks] == [
        (0, 2.0, "two words"),
        (1, 2.0, "two words"),
    ]
    assert all("auto" in line["argv"] for line in ended.ranks)
    assert not os.path.exists(environ["SCONTROL_LOG"])


@pytest.fixture(params=["one_node", "many_nodes"])
def template(request):
    return ROOT / "slurm" / f"{request.param}.sbatch"


def with_launcher(environ: dict, tmp_path, body: str) -> dict:
    """A stand-in for the launcher too."""
    tool = tmp_path / "tools" / "accelerate"
    tool.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    tool.chmod(0o755)
    return environ | {"SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here"}


def test_the_launchers_exit_code_is_the_jobs_however_soon_it_ends(environ, tmp_path, template):
    # By the time of the first `wait` such a launcher has gone.
    environ = with_launcher(environ, tmp_path, "exit 7")
    for _ in range(5):
        ended = finish(begin(["bash", template], environ), 20)
        assert (ended.code, ended.stderr) == (7, "")
    assert not os.path.exists(environ["SCONTROL_LOG"])


SAVES = "trap 'echo saved; exit 5' TERM\necho ready\nfor _ in {1..100}; do sleep 0.1; done"


@pytest.mark.parametrize(("sent", "code", "requeued"), [(signal.SIGTERM, 5, False), (signal.SIGUSR1, 0, True)])
def test_term_ends_the_job_and_usr1_requeues_it(environ, tmp_path, template, sent, code, requeued):
    environ = with_launcher(environ, tmp_path, SAVES)
    process = begin(["bash", template], environ)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, sent)
    ended = finish(process, 20)
    assert ended.code == code, ended.stderr
    assert "told to stop: sending TERM" in ended.stdout and ended.stdout.endswith("saved\n")
    assert os.path.exists(environ["SCONTROL_LOG"]) == requeued


def test_a_signal_that_comes_with_the_launchers_first_word_reaches_it(environ, tmp_path, template):
    """The shell may not have run the line after the start by then; here it is held there for a second."""
    lines = template.read_text(encoding="utf-8").splitlines()
    (named,) = [number for number, line in enumerate(lines) if line.endswith("=$!")]
    slow = tmp_path / template.name
    slow.write_text("\n".join([*lines[:named], "sleep 1", *lines[named:]]), encoding="utf-8")
    environ = with_launcher(environ, tmp_path, SAVES)
    process = begin(["bash", slow], environ)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGTERM)
    ended = finish(process, 20)
    assert (ended.code, ended.stderr) == (5, "")
    assert ended.stdout.endswith("saved\n")
