"""The service worlds: experts, agents that must not succeed, exploits, speed, determinism, fuzzing, real data.

    OMP_NUM_THREADS=1 python benchmarks/grpo_worlds.py [--tasks 1000] [--distinct 10000] [--fuzz 100000]
        [--tau2_data DIR] [--parts experts,distinct,agents,exploits,speed,equal,fuzz,real]

Experts: every domain and level, with the scripted user and alone from the ticket. Agents and exploits: see
`lib/grpo/agents.py`; level 2 for agents, all levels for exploits. Speed: making a task, a reset and a whole expert
episode with its reward, one core. Real: gold replay of a tau2-bench directory, writes left out or changed, resets.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time

from record import REPOSITORY, interleaved, write_result

from lib.grpo.agents import BASELINES, EXPLOITS, run_agent
from lib.grpo.demonstrations import expert
from lib.grpo.domains import DOMAINS
from lib.grpo.environment import Environment
from lib.grpo.fuzz import fuzz_calls, fuzz_messages
from lib.grpo.generation.generate import LEVELS, TRAINING_SEEDS, task_of_seed, templates
from lib.grpo.replay import replay, report_row
from lib.grpo.tau2_io import load_tau2
from lib.grpo.users.ticket import nobody
from lib.grpo.worlds.store import canonical

PARTS = ("experts", "distinct", "agents", "exploits", "speed", "equal", "fuzz", "real")
BARS = {"do_nothing": 0.35, "random_tool": 0.02, "always_act": 0.40, "always_refuse": 0.40}
EXPLOIT_BAR, EPISODES_BAR, RESET_BAR_US = 0.10, 20_000, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000, help="tasks of every domain and level, and of every agent")
    parser.add_argument("--distinct", type=int, default=10_000, help="seeds of every domain and level that must differ")
    parser.add_argument("--fuzz", type=int, default=100_000, help="calls, and as many messages, over all domains")
    parser.add_argument("--tau2_data", help="a tau2-bench data directory, for the part real")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma list")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if arguments.tau2_data is None and "real" in parts:
        print("real: left out, it needs --tau2_data DIR")
        parts.remove("real")
    figures, misses = {"templates": {domain: len(templates(domain)) for domain in DOMAINS}}, []
    for part in parts:
        start = time.perf_counter()
        figures[part], wrong = globals()[f"measure_{part}"](arguments)
        misses += wrong
        print(f"{part}: {json.dumps(figures[part])} ({time.perf_counter() - start:.0f} s)", flush=True)
    settings = {name: getattr(arguments, name) for name in ("tasks", "distinct", "fuzz", "parts")}
    print(f"written: {write_result('grpo_worlds', figures, settings=settings).name}")
    if misses:
        raise SystemExit("below the bars: " + "; ".join(misses))


def each_task(count: int, level: int, held_out: bool | None = None):
    """`count` tasks of every domain at a level, with seeds of the evaluation."""
    for domain in DOMAINS:
        for seed in range(TRAINING_SEEDS, TRAINING_SEEDS + count):
            yield task_of_seed(domain, seed, level, held_out)


def play(task, solo: bool = False) -> Environment:
    environment = Environment(nobody) if solo else Environment()
    environment.reset(task)
    for message in expert(task, solo=solo):
        environment.step(message)
    return environment


def measure_experts(arguments) -> tuple[dict, list[str]]:
    """Row 2: share of expert episodes with reward 1, by domain and level; the worse of with a user and alone."""
    rates: dict[str, dict[str, float]] = {domain: {} for domain in DOMAINS}
    for level in LEVELS:
        won = dict.fromkeys(DOMAINS, 0)
        for task in each_task(arguments.tasks, level):
            runs = [play(task), play(task, solo=True)]
            won[task.domain] += all(run.reward().total == 1 and run.errors == 0 for run in runs)
        for domain in DOMAINS:
            rates[domain][f"level {level}"] = won[domain] / arguments.tasks
    return rates, [f"expert {rates}"] if any(rate < 1 for row in rates.values() for rate in row.values()) else []


def measure_distinct(arguments) -> tuple[dict, list[str]]:
    """Row 1: different tasks among as many seeds: what the user knows and wants, and what is gold."""
    counts = {}
    for level in LEVELS:
        seen: dict[str, set] = {domain: set() for domain in DOMAINS}
        for task in each_task(arguments.distinct, level):
            content = [task.brief, task.data["evaluation_criteria"]]
            seen[task.domain].add(hashlib.blake2b(canonical(content).encode(), digest_size=12).digest())
        for domain in DOMAINS:
            counts[f"{domain} level {level}"] = len(seen[domain])
    return counts, [f"distinct {counts}"] if min(counts.values()) < 0.99 * arguments.distinct else []


def success(agents: dict, count: int, level: int) -> dict[str, dict[str, float]]:
    """agent -> domain -> share of tasks with reward 1."""
    won = {name: dict.fromkeys(DOMAINS, 0.0) for name in agents}
    for task in each_task(count, level):
        for name, agent in agents.items():
            won[name][task.domain] += run_agent(agent, task).total / count
    return {name: {domain: round(rate, 4) for domain, rate in row.items()} for name, row in won.items()}


def measure_agents(arguments) -> tuple[dict, list[str]]:
    """Row 3, at level 2."""
    rates = success(BASELINES, arguments.tasks, 2)
    return rates, [f"{name} {rates[name]}" for name, bar in BARS.items() if max(rates[name].values()) > bar]


def measure_exploits(arguments) -> tuple[dict, list[str]]:
    """Row 4: the worst over the levels."""
    worst = {name: dict.fromkeys(DOMAINS, 0.0) for name in EXPLOITS}
    for level in LEVELS:
        for name, row in success(EXPLOITS, max(1, arguments.tasks // 5), level).items():
            worst[name] = {domain: max(worst[name][domain], rate) for domain, rate in row.items()}
    return worst, [f"{name} {row}" for name, row in worst.items() if max(row.values()) > EXPLOIT_BAR]


def measure_speed(arguments) -> tuple[dict, list[str]]:
    """Row 7: whole episodes a minute, by domain; the tasks are of all levels in turn."""
    count, figures = 300, {}

    def episodes(domain: str) -> None:
        for number in range(count):
            assert play(task_of_seed(domain, number, number % 5)).reward().total == 1

    seconds = interleaved({domain: lambda domain=domain: episodes(domain) for domain in DOMAINS}, repeats=5)
    for domain, rounds in seconds.items():
        figures[f"{domain} episodes a minute, tasks made anew"] = round(60 * count / statistics.median(rounds))
    together = 60 * count * len(DOMAINS) / sum(statistics.median(rounds) for rounds in seconds.values())
    figures["all domains, episodes a minute"] = round(together)
    slowest = min(figures.values())
    return figures, [f"{slowest} episodes a minute"] if slowest < EPISODES_BAR else []


FINGERPRINT = """
import hashlib, json
from lib.grpo import Environment, task_of_seed
from lib.grpo.demonstrations import expert
for domain in ("airline", "retail", "telecom"):
    for level in range(5):
        for seed in range(40):
            task = task_of_seed(domain, seed, level)
            environment = Environment()
            environment.reset(task)
            for message in expert(task):
                environment.step(message)
            parts = [task.data, task.brief, environment.messages, environment.world.state_hash()]
            print(hashlib.sha256(json.dumps(parts).encode()).hexdigest())
"""


def measure_equal(arguments) -> tuple[dict, list[str]]:
    """Row 8: 600 tasks with dialogue and state hash in three processes with different hash seeds."""
    printed = []
    for hash_seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-c", FINGERPRINT]
        printed.append(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    figures = {"tasks": len(printed[0].split()), "processes": len(printed), "different": len(set(printed)) - 1}
    return figures, ["tasks differ between processes"] if figures["different"] else []


def measure_fuzz(arguments) -> tuple[dict, list[str]]:
    """Row 9."""
    figures, wrong = {}, []
    for name, fuzz in (("calls", fuzz_calls), ("messages", fuzz_messages)):
        reports = [fuzz(domain, arguments.fuzz // len(DOMAINS) + 1, seed=1) for domain in DOMAINS]
        figures[name] = sum(report.calls for report in reports)
        figures[f"{name}, refused"] = sum(report.errors for report in reports)
        bad = [line for report in reports for line in (*report.faults, *report.changed_by_errors)]
        figures[f"{name}, faults"] = len(bad) + sum(report.base_changed for report in reports)
        wrong += bad[:3]
    return figures, wrong


def measure_real(arguments) -> tuple[dict, list[str]]:
    """Rows 5, 6 and the reset of row 7."""
    data = load_tau2(arguments.tau2_data)
    rows = [report_row(task) for task in data.tasks]
    figures: dict = {"tasks": len(rows), "reward 1": sum(row["reward"] == 1 for row in rows)}
    figures["a gold action refused"] = sorted(f"{r['domain']} {r['id']}" for r in rows if r["tool_errors"])
    figures["gold changes nothing"] = {
        domain: sum(replay(task, ())[0].breakdown.get("DB") == 1 for task in data.tasks if task.domain == domain)
        for domain in data.settings
    }
    for name, mutate in (("left out", left_out), ("one argument changed", changed)):
        tried, passed = 0, []
        for task in data.tasks:
            for action, actions in mutate(task):
                tried += 1
                if replay(task, actions)[0].total:
                    passed.append(f"{task.domain} {task.id}: {action.name}")
        figures[f"gold write {name}"] = {"tried": tried, "still reward 1": sorted(passed)}
    for domain in data.settings:
        task = next(task for task in data.tasks if task.domain == domain)
        task.world()
        seconds = interleaved({"reset": lambda task=task: [task.world() for _ in range(2000)]}, repeats=5)["reset"]
        figures[f"reset {domain}, us"] = round(statistics.median(seconds) / 2000 * 1e6, 2)
    slow = [name for name, value in figures.items() if name.startswith("reset") and value > RESET_BAR_US]
    return figures, slow + ([] if figures["reward 1"] == len(rows) else ["gold replays without reward"])


def gold_writes(task):
    world = task.world()
    for place, action in enumerate(task.actions):
        if world.find_tool(action.requestor, action.name)[0].kind == "write":
            yield place, action


def left_out(task):
    for place, action in gold_writes(task):
        yield action, task.actions[:place] + task.actions[place + 1 :]


def changed(task):
    for place, action in gold_writes(task):
        for name, value in action.arguments.items():
            wrong = dataclasses.replace(action, arguments={**action.arguments, name: another(value)})
            yield action, (*task.actions[:place], wrong, *task.actions[place + 1 :])


def another(value):
    if isinstance(value, list):
        return value[:-1]
    return value + 1 if isinstance(value, int | float) else f"{value}x"


if __name__ == "__main__":
    main()
