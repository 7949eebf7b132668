"""scripts/evaluate_grpo.py: which tasks are measured, equal numbers from any number of processes, files, refusals."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import script_modules
import torch
from episode_samples import airline_task, write_airline
from policy_samples import write_export

from lib.args import parse
from lib.errors import UserError
from lib.grpo.continual.evaluations import Evaluation, evaluations_of, outcome
from lib.grpo.continual.tasks import TaskRow, write_rows
from lib.grpo.engine import make_engine
from lib.grpo.episodes import Job, play
from lib.grpo.evaluating import choose_pools, results_of, table_text, write_page
from lib.grpo.generation.generate import TRAINING_SEEDS, templates
from lib.grpo.trajectory_files import row_of

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = script_modules.load("evaluate_grpo")
SPEED = {"sampled_tokens": 100.0, "seconds": 2.0, "wall_s": 3.0, "processes": 1}


def options(*flags, model="M"):
    return parse(SCRIPT.Config, ["--model", str(model), *map(str, flags)], SCRIPT.ALIASES)


def pools(*flags):
    return choose_pools(options(*flags))[0]


def test_names_of_the_trainer():
    assert options("--eval-temperature", 0.3).temperature == options("--temp", 0.3).temperature == 0.3
    config = options("--tau2-data", "DIR", "--airline-tasks", "FILE", "--level", "1,2")
    assert (config.tau2_data, config.airline_tasks, config.level) == ("DIR", "FILE", "1,2")
    with pytest.raises(UserError, match="missing option --model"):
        parse(SCRIPT.Config, [], SCRIPT.ALIASES)


def test_the_splits_of_generated_tasks():
    held_out = set(templates("retail", held_out=True))
    found = {name: pools("--domains", "retail", "--split", name, "--eval_tasks", 9)["retail"]
             for name in ("evaluation", "train", "held_out")}  # fmt: skip
    assert {name: len(rows) for name, rows in found.items()} == {"evaluation": 9, "train": 9, "held_out": 9}
    assert all(row.template in held_out for row in found["held_out"])
    assert not any(row.template in held_out for row in (*found["evaluation"], *found["train"]))
    assert all((row.seed < TRAINING_SEEDS) == (name == "train") for name, rows in found.items() for row in rows)
    chosen = pools("--domains", "airline", "--templates", "airline=cancel_sick", "--level", "0,3", "--eval_tasks", 4)
    assert {row.template for row in chosen["airline"]} == {"cancel_sick"}
    assert sorted(row.level for row in chosen["airline"]) == [0, 0, 3, 3]


def test_the_splits_of_data(tmp_path):
    data = write_airline(tmp_path, [airline_task(str(number)) for number in range(6)])
    (data / "airline" / "split_tasks.json").write_text(json.dumps({"train": ["0", "1", "2"], "test": ["3", "4"]}))

    def ids(split: str, count: int = 50) -> list[str]:
        flags = ["--domains", "airline", "--tau2-data", data, "--split", split, "--eval_tasks", count]
        return [row.id for row in pools(*flags)["airline"]]

    assert ids("test") == ids("evaluation") == ["3", "4"] and ids("train") == ["0", "1", "2"]
    assert ids("all") == list("012345") and ids("all", 2) == ["0", "1"]
    with pytest.raises(UserError, match="--split dev: airline has no task of it; expected one of all, evaluation, te"):
        ids("dev")


def test_the_task_file_of_a_run(tmp_path):
    rows = {name: [TaskRow("airline", f"{name}{seed}", "cancel_sick", first + seed, 1) for seed in range(3)]
            for name, first in (("train", 0), ("evaluation", TRAINING_SEEDS))}  # fmt: skip
    write_rows(tmp_path / "tasks_airline.jsonl", rows)
    for split in rows:
        flags = ["--domains", "airline", "--airline-tasks", tmp_path / "tasks_airline.jsonl", "--split", split]
        assert list(pools(*flags)["airline"]) == rows[split]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--domains", "hotel"], "--domains hotel"),
        (["--split", "nowhere"], "--split nowhere: airline has no task of it; expected one of evaluation, held_out"),
        (["--split", "held_out", "--templates", "airline=upgrade"], "--templates with --split held_out"),
        (["--level", "7"], "level 7"),
        (["--templates", "airline=no_such"], "airline has no template 'no_such'"),
    ],
)
def test_refusals(flags, expected):
    with pytest.raises(UserError, match=expected):
        pools(*flags)


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return write_export(tmp_path_factory.mktemp("model"))


FLAGS = "--domains airline --eval_tasks 5 --eval_trials 2 --max_turns 3 --max_new_tokens 12 --seed 3".split()


def test_two_processes_report_what_one_does(export, tmp_path):
    report, page = tmp_path / "report.json", tmp_path / "pages" / "page.html"
    command = [Path(sys.executable).parent / "accelerate", "launch", "--config_file", "accelerate_configs/cpu_2.yaml"]
    command += ["--main_process_port", "0", "scripts/evaluate_grpo.py", "--model", export, *FLAGS]
    command += ["--report_json", report, "--page", page, "--openai_api_key", "sk-hidden", "--slots", 2]
    kept = {name: value for name, value in os.environ.items() if name not in ("WORLD_SIZE", "RANK", "LOCAL_RANK")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**kept, "OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    config = options(*FLAGS, model=export)
    setup = SCRIPT.prepare(config, torch.device("cpu"))
    own, sets = choose_pools(config)
    jobs = [Job(at, sample, sets.make(row)) for at, row in enumerate(own["airline"]) for sample in range(2)]
    engine = make_engine("static", setup.model, setup.evaluation_sampling, slots=3)
    engine.refresh()
    trajectories, _ = play(engine, jobs, setup.environment, setup.chat, 3, ("evaluation", "tasks"))
    alone = results_of(config, evaluations_of(map(outcome, trajectories), own), {"airline": 0.0}, SPEED)
    for name in ("trials", "basic", "pass_hat_k", "pass_hat_k_high", "fine_grained", "success"):
        if name == "basic":
            alone[name]["airline"]["success_do_nothing"] = found[name]["airline"]["success_do_nothing"]
        assert found[name] == alone[name], name
    assert found["processes"] == 2 and len(found["trials"]["airline"]) == 5 and len(found["pass_hat_k"]) == 2
    assert 0 < found["basic"]["airline"]["sampled_tokens"] <= 36
    text = page.read_text()
    assert text.count("quartet-episode") > 5 and "Evaluation on split evaluation" in text and "<script" not in text
    assert "sk-hidden" not in text + report.read_text() + done.stdout
    assert "does nothing" in done.stdout and "on 2 process(es)" in done.stdout
    assert not (page.parent / "plots").exists()


class Alone:
    """An Accelerator of one process, as far as the script asks."""

    process_index, num_processes, is_main_process, device = 0, 1, True, torch.device("cpu")
    distributed_type = "NO"

    def print(self, text):
        print(text)


def test_prompts_that_do_not_fit_are_told(export, capsys, monkeypatch):
    monkeypatch.setattr(SCRIPT.launch, "start", lambda *_, **__: Alone())
    SCRIPT.main(options("--domains", "airline", "--eval_tasks", 2, "--eval_trials", 1, "--max-length", 9, model=export))
    text = capsys.readouterr().out
    assert "2 episodes were lost: their prompts are longer than the 9 tokens of context" in text
    assert "2       2    0.000" in text


class Customers:
    """An endpoint whose customers greet, say one thing more, and leave; the first `together` answer at once."""

    def __init__(self, together: int):
        self.meeting, self.asked, outer = threading.Barrier(together), [], self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
                said = sum(row["role"] == "assistant" for row in messages)
                outer.asked.append(said)
                if said == 0 and outer.asked.count(0) <= together:
                    outer.meeting.wait(30)
                text = ["Hello.", "Please cancel my flight.", "###STOP###"][min(said, 2)]
                body = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}/v1"


def test_customers_behind_an_endpoint_are_asked_together(export, monkeypatch, tmp_path):
    monkeypatch.setattr(SCRIPT.launch, "start", lambda *_, **__: Alone())
    customers, results = Customers(together=4), []
    flags = ["--user", "openai", "--openai-model", "m", "--openai-api-base", customers.base, "--domains", "airline",
             "--eval_tasks", 4, "--eval_trials", 2, "--max-turns", 3, "--max_new_tokens", 5]  # fmt: skip
    for threads in (4, 1):
        report = tmp_path / f"{threads}.json"
        SCRIPT.main(options(*flags, "--openai_threads", threads, "--report_json", report, model=export))
        results.append(json.loads(report.read_text()))
    customers.server.shutdown()
    customers.server.server_close()
    assert not customers.meeting.broken and customers.asked.count(0) == 16, "four openings were under way at once"
    for name in ("trials", "basic", "fine_grained"):
        assert results[0][name] == results[1][name], name
    assert results[0]["basic"]["airline"]["errors"] == 0 and results[0]["user"] == "openai"


def test_an_endpoint_that_nobody_answers_costs_the_episodes(export, monkeypatch, capsys):
    monkeypatch.setattr(SCRIPT.launch, "start", lambda *_, **__: Alone())
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    SCRIPT.main(options("--user", "openai", "--openai-model", "m", "--openai-api-base", "http://127.0.0.1:9/v1",
                        "--domains", "airline", "--eval_tasks", 2, "--eval_trials", 1, model=export))  # fmt: skip
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith("airline"))
    assert line.split()[1:4] == ["2", "2", "0.000"] and line.split()[-1] == "2", line


def test_a_model_gets_what_the_flags_say(export):
    setup = SCRIPT.prepare(options(*FLAGS, "--temperature", 0, model=export), torch.device("cpu"))
    sampling = setup.evaluation_sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.max_new_tokens) == (0, 0, 1.0, 12)
    assert sampling.max_length == 4096, "what the model reads"
    assert setup.environment().limits.max_turns == 3 and not setup.model.training
    with pytest.raises(UserError, match="--max-length 9000: the model reads at most 4096"):
        SCRIPT.prepare(options("--max-length", 9000, model=export), torch.device("cpu"))


def example(domain: str, *counts: tuple[int, int]) -> Evaluation:
    return Evaluation(
        domain, {f"t{at}": pair for at, pair in enumerate(counts)}, 0.5, 3.0, 20.0, 1.0, truncated=1, errors=2,
        tools={"look": [4, 3, 2]}, by_level={"2": [4, 1]}, by_template={"cancel": [4, 1]},
    )  # fmt: skip


def test_the_table_the_results_and_the_page(tmp_path):
    found = {"airline": example("airline", (2, 2), (2, 1)), "retail": example("retail", (2, 0), (2, 0))}
    config = options("--openai_api_key", "sk-hidden", model="<b>evil</b>")
    results = results_of(config, found, {"airline": 0.1, "retail": 0.2}, SPEED)
    assert results["success"] == (0.75 + 0) / 2 and results["rollout_tokens_per_s"] == 50
    assert results["success_airline_low"] <= results["success_airline"] == 0.75 <= results["success_airline_high"]
    # Over all four tasks: both trials of one succeed; at least one of two.
    assert results["pass_hat_k"] == [0.375, 0.25] and results["pass_at_k"] == [0.375, 0.5]
    assert results["success_do_nothing_retail"] == 0.2
    tools = results["fine_grained"]["airline"]["tools"]["look"]
    assert tools == {"gold": 4, "selection": 0.75, "arguments": pytest.approx(2 / 3)}
    json.dumps(results)
    lines = table_text(results, found).splitlines()
    assert lines[2].split()[:4] == ["airline", "2", "4", "0.750"] and lines[4].split() == ["mean", "0.375"]
    assert lines[5].startswith("pass^1 0.375 (") and "pass^2 0.250 (" in lines[5]
    page = write_page(tmp_path / "p.html", config, results, found, [])
    text = page.read_text()
    assert "<b>evil" not in text and "&lt;b&gt;evil" in text and "By level and template" in text
    assert "sk-hidden" not in text and not list(tmp_path.glob("plots"))


def test_rows_of_the_page_hold_no_policy():
    from lib.grpo.trajectory import Trajectory

    row = row_of(Trajectory("airline", "1", 0, 0, [1, 2], 1, 2, messages=[{"role": "system", "content": "policy"}]), 0)
    assert row["messages"] == []
