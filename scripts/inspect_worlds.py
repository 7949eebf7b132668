"""Look at a service world: a task, its expert dialogue, the change of the database, the reward with each of its checks.

A generated task:  python scripts/inspect_worlds.py --domain retail --level 3 --seed 7
Be the agent:      python scripts/inspect_worlds.py --domain airline --level 2 --seed 1 --play
As a page:         python scripts/inspect_worlds.py --domain telecom --level 4 --seed 3 --html dialogue.html
What there is:     python scripts/inspect_worlds.py --list
Real data:         python scripts/inspect_worlds.py --tau2-data DIR --domain retail --task 0
Check real data:   python scripts/inspect_worlds.py --tau2-data DIR --replay --report_json FILE
"""

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lib import launch
from lib.args import option
from lib.checkpoint import atomic_write_json
from lib.errors import UserError
from lib.grpo.demonstrations import expert
from lib.grpo.domains import DOMAINS
from lib.grpo.environment import Environment
from lib.grpo.generation.generate import HELD_OUT_MARK, make_task, task_of_seed, templates
from lib.grpo.page import write_dialogue
from lib.grpo.replay import report_row
from lib.grpo.show import brief_lines, difference_lines, message_lines, reward_lines, writable
from lib.grpo.task import Task
from lib.grpo.tau2_io import load_tau2
from lib.grpo.terminal import play
from lib.grpo.users.choose import user_factory
from lib.grpo.users.endpoint import Endpoint, EndpointError
from lib.grpo.worlds.records import DataError


@dataclass
class Config:
    """Which task, and what to do with it."""

    domain: str | None = option(
        None, "the domain; --tau2_data without it: all that are there", "task", choices=tuple(DOMAINS)
    )
    level: int = option(1, "difficulty of the generated task, 0 to 4", "task", minimum=0, maximum=4)
    seed: int = option(0, "the generated task is a function of domain, template, seed and level", "task", minimum=0)
    template: str | None = option(None, "template of the generated task; default: drawn from the seed", "task")
    tau2_data: str | None = option(None, "a tau2-bench data directory: its tasks instead of generated ones", "task")
    task: str | None = option(None, "id of the task in --tau2_data; default: the first of the domain", "task")
    list: bool = option(False, "list the templates, or the tasks of --tau2_data", "output")
    play: bool = option(False, "be the agent in the terminal", "output")
    replay: bool = option(False, "replay the gold actions of every task of --tau2_data", "output")
    report_json: str | None = option(None, "write the result here", "output")
    html: str | None = option(None, "write the dialogue as a page", "output")
    user: str = option("scripted", "who talks to the agent", "user", choices=("scripted", "none", "openai"))
    openai_api_base: str | None = option(None, "address of the endpoint of --user openai, with /v1", "user")
    openai_api_key: str | None = option(None, "its key, when OPENAI_API_KEY is not set; never written anywhere", "user")
    openai_model: str | None = option(None, "its model", "user")
    cache_dir: str | None = option(None, "folder that keeps the endpoint's answers", "user")


def main(config: Config) -> None:
    check_options(config)
    try:
        if config.replay:
            replay_all(config)
        elif config.list:
            list_tasks(config)
        elif config.play:
            task = choose_task(config)
            environment = Environment(user=make_user(config))
            play(environment, task, read_line, show)
            finish(config, environment)
        else:
            inspect(config)
    except (DataError, EndpointError) as error:
        raise UserError(str(error)) from error


def check_options(config: Config) -> None:
    """Refuse flags that contradict each other."""
    for name in ("task", "replay"):
        if getattr(config, name) and config.tau2_data is None:
            raise UserError(f"--{name} is about real data: give --tau2_data DIR too")
    asked = [name for name in ("list", "play", "replay") if getattr(config, name)]
    if len(asked) > 1:
        raise UserError(f"--{asked[0]} and --{asked[1]} together: give one of them")
    for name in ("html", "report_json") if config.list else ("html",) if config.replay else ():
        if getattr(config, name):
            raise UserError(f"--{name} is about one dialogue: drop it, or drop --{asked[0]}")


def inspect(config: Config) -> None:
    """Show a task with the expert's dialogue."""
    task = choose_task(config)
    environment = Environment(user=make_user(config))
    environment.reset(task)
    show(f"# policy\n{task.setting.policy}\n\n# user")
    show("\n".join(brief_lines(task)))
    for message in expert(task, solo=config.user == "none"):
        if environment.end is not None:
            break
        environment.step(message)
    show("\n# dialogue")
    for message in environment.messages[1:]:
        show("\n".join(message_lines(message)))
    show("\n# changes of the database")
    show("\n".join(difference_lines(environment)))
    show("\n# reward")
    show("\n".join(reward_lines(environment.reward())))
    finish(config, environment)


def finish(config: Config, environment: Environment) -> None:
    """Write the files that were asked for."""
    if config.html:
        show(f"wrote {write_dialogue(environment, config.html)}")
    if config.report_json:
        task, reward = environment.task, environment.reward()
        row = {"id": task.id, "domain": task.domain, "reward": reward.total, "checks": reward.breakdown}
        messages = writable(environment.messages)
        atomic_write_json(Path(config.report_json), {**row, "end": environment.end, "messages": messages})
        show(f"wrote {config.report_json}")


def choose_task(config: Config) -> Task:
    """The generated task, or the one of the data directory."""
    if config.tau2_data is None:
        domain = config.domain or "airline"
        if config.template:
            return make_task(domain, config.template, config.seed, config.level)
        return task_of_seed(domain, config.seed, config.level)
    tasks = load_tau2(config.tau2_data, (config.domain,) if config.domain else None).tasks
    if config.task is None:
        return tasks[0]
    found = [task for task in tasks if task.id == config.task]
    if not found:
        ids = ", ".join(task.id for task in tasks[:10])
        raise UserError(f"--task {config.task!r} is not there; the first of {len(tasks)} tasks: {ids}")
    if len(found) > 1:
        names = " and ".join(task.domain for task in found)
        raise UserError(f"--task {config.task!r} is a task of {names}: give --domain too")
    return found[0]


def replay_all(config: Config) -> None:
    """Replay every task's gold actions; the report's `tasks` are id, domain, reward, checks, tool_errors."""
    data = load_tau2(config.tau2_data, (config.domain,) if config.domain else None)
    rows = [report_row(task) for task in data.tasks]
    for domain in data.settings:
        own = [row for row in rows if row["domain"] == domain]
        right = sum(row["reward"] == 1 for row in own)
        errors = [row for row in own if row["tool_errors"]]
        show(f"{domain}: {len(own)} tasks, reward 1 in {right}, a gold action refused in {len(errors)}")
        for row in [row for row in own if row["reward"] != 1 or row["tool_errors"]]:
            show(f"  {row['id']}: reward {row['reward']:g} {row['checks']} {'; '.join(row['tool_errors'])}")
    dropped = Counter(part for row in rows for part in row["dropped"])
    for part, count in dropped.items():
        show(f"{part} needs a judge: left out in {count} tasks")
    if config.report_json:
        atomic_write_json(Path(config.report_json), {"tasks": rows, "dropped": dict(dropped)})
        show(f"wrote {config.report_json}")


def list_tasks(config: Config) -> None:
    if config.tau2_data is not None:
        for task in load_tau2(config.tau2_data, (config.domain,) if config.domain else None).tasks:
            show(f"{task.domain} {task.id}" + (f"  ({task.split})" if task.split else ""))
        return
    for domain in (config.domain,) if config.domain else DOMAINS:
        held_out = templates(domain, held_out=True)
        for name in templates(domain):
            show(f"{domain} {name}{HELD_OUT_MARK if name in held_out else ''}")


def make_user(config: Config):
    if config.user != "openai":
        return user_factory(config.user)
    if not config.openai_api_base or not config.openai_model:
        raise UserError("--user openai needs --openai_api_base and --openai_model")
    endpoint = Endpoint(config.openai_api_base, config.openai_model, config.openai_api_key, config.cache_dir)
    return user_factory("openai", endpoint.complete)


def read_line() -> str | None:
    try:
        return input("> ")
    except EOFError:
        return None


def show(text: str) -> None:
    """Print what may hold characters that the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


if __name__ == "__main__":
    sys.exit(launch.run(main, Config))
