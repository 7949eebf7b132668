"""Service domains for agents with tools: worlds, tasks, users and rewards. The names are loaded on first use.

environment = Environment()
messages, tools = environment.reset(make_task("retail", "return_items", seed=7, level=3))
messages, done = environment.step("What is your email address?")
environment.reward().breakdown
"""

import importlib

WHERE = {
    "Environment": "lib.grpo.environment",
    "Limits": "lib.grpo.environment",
    "Reward": "lib.grpo.reward",
    "Shaping": "lib.grpo.shaping",
    "Task": "lib.grpo.task",
    "expert": "lib.grpo.demonstrations",
    "load_tau2": "lib.grpo.tau2_io",
    "make_task": "lib.grpo.generation.generate",
    "task_of_seed": "lib.grpo.generation.generate",
    "templates": "lib.grpo.generation.generate",
    "user_factory": "lib.grpo.users.choose",
}
__all__ = list(WHERE)


def __getattr__(name: str):
    if name in WHERE:
        return getattr(importlib.import_module(WHERE[name]), name)
    raise AttributeError(f"module 'lib.grpo' has no attribute {name!r}")
