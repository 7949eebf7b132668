"""Episodes of the worlds as conversations of an engine, and trajectories from what was sampled or shown.

An environment that raises, which none should, costs its own episode alone: reward 0, the error kept and counted.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from lib.errors import UserError, in_words
from lib.grpo.chat.format import ChatFormat
from lib.grpo.continual.scores import count_calls
from lib.grpo.engine.conversation import Conversation
from lib.grpo.environment import Environment
from lib.grpo.task import Task
from lib.grpo.trajectory import Trajectory
from lib.seeds import derive

CUT = "outgrew_context"


@dataclass(frozen=True)
class Job:
    """A (task, sample) pair to be played: `group` is the task's place in the step."""

    group: int
    sample: int
    task: Task


@dataclass(frozen=True)
class Threads:
    """Where users and judges are asked who take their time; None: here, one after the other."""

    users: Executor | None = None
    judges: Executor | None = None


def guarded(call: Callable, *arguments):
    """(what an environment's `call` returns, None), or (None, its error and where it came from).

    Only environments are guarded: worlds, users, endpoints. A UserError is meant for the user and passes.
    """
    try:
        return call(*arguments), None
    except UserError:
        raise
    except Exception as error:
        return None, in_words(error)


def unless(should_stop: Callable[[], bool], call: Callable, *arguments):
    """As `guarded`; nothing is called any more when `should_stop` says so by then: (None, None)."""
    return (None, None) if should_stop() else guarded(call, *arguments)


class Episode(Conversation):
    """A conversation between the policy and an environment.

    `noise_key` are the numbers that, with task and sample, decide what is drawn: a step of training, an evaluation.
    `begun`: what `guarded(environment.reset, task)` gave, where that was done before; (None, None) is an episode that
    is over before it began.
    """

    def __init__(
        self, job: Job, environment: Environment, chat: ChatFormat, seed: int, noise_key: tuple,
        should_stop: Callable[[], bool] = lambda: False, begun: tuple | None = None,
    ):  # fmt: skip
        self.job, self.environment, self.chat, self.should_stop = job, environment, chat, should_stop
        task = job.task
        # With the group: a task that comes twice in a step is not to be played alike.
        self.noise = derive(seed, "sampling", *noise_key, task.domain, task.id, job.group, job.sample)
        self.truncated = False
        self.spans: list[tuple[int, int]] = []
        self.log_probs: list[float] = []
        self.judged: tuple | None = None
        self.shared: tuple[int, ...] = ()
        self.opening: tuple[int, ...] = (chat.stop_ids[0],)
        start, self.error = begun or guarded(environment.reset, task)
        self.began = start is not None
        if self.began:
            self.shared, self.opening = chat.prompt(*start)
        self.ids = [*self.shared, *self.opening]

    def hear(self, ids: list[int], log_probs: list[float], stopped: bool) -> list[int] | None:
        """A turn: the environment answers it; when it raises, the episode is over."""
        answer = self.take(ids, log_probs, stopped)
        return None if answer is None else self.told(answer())

    def take(self, ids: list[int], log_probs: list[float], stopped: bool) -> Callable[[], tuple] | None:
        """The turn as it was sampled; returns what lets the environment answer it: of this episode alone, so that it
        may be done in another thread."""
        if self.should_stop():
            return None
        self.spans.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids += ids
        self.log_probs += log_probs
        self.truncated |= not stopped
        self.stopped = stopped
        return partial(unless, self.should_stop, self.environment.step, self.chat.text_of(ids))

    def told(self, answer: tuple) -> list[int] | None:
        """The environment's answer in tokens."""
        reply, self.error = answer
        if reply is None or reply[1]:
            return None
        after = self.chat.answer(reply[0], self.stopped)
        self.ids += after
        return after

    def cut(self) -> None:
        """The context is full: the episode ends without success."""
        self.truncated = True
        if self.environment.end is None:
            self.environment.end = CUT

    def trajectory(self) -> Trajectory:
        """What became of it."""
        task, environment = self.job.task, self.environment
        found = Trajectory(
            domain=task.domain,
            task_id=task.id,
            group=self.job.group,
            sample=self.job.sample,
            ids=self.ids,
            shared_tokens=len(self.shared),
            prompt_tokens=len(self.shared) + len(self.opening),
            spans=self.spans,
            log_probs=self.log_probs,
            error=self.error,
            truncated=self.truncated,
        )
        if self.began and self.error is None:
            self._reward(found, environment, task)
        return found

    def judge(self) -> None:
        """Work out the reward ahead of `trajectory`, which may be done in another thread."""
        if self.began and self.error is None:
            self.judged = unless(self.should_stop, self.environment.reward)

    def _reward(self, found: Trajectory, environment: Environment, task: Task) -> None:
        reward, found.error = self.judged or guarded(environment.reward)
        if reward is None:
            return
        found.reward, found.success, found.breakdown = reward.total, reward.success, dict(reward.breakdown)
        found.end, found.turns, found.messages = environment.end, environment.turns, environment.messages
        found.error = "; ".join(reward.faults) or None
        calls = count_calls(task.actions, environment.world.calls, solo=environment.solo)
        found.facts = {"level": task.level, "template": task.template, "note": reward.note, "tools": calls}


def play(
    engine, jobs: list[Job], make_environment: Callable[[], Environment], chat: ChatFormat, seed: int, noise_key: tuple,
    should_stop: Callable[[], bool] = lambda: False, threads: Threads = Threads(),
) -> tuple[list[Trajectory], dict]:  # fmt: skip
    """The trajectories of `jobs`, in their order, and the engine's counts.

    When `should_stop` says so the episodes end with the turn they are in: what comes back then is worth nothing.
    """
    environments = [make_environment() for _ in jobs]
    tasks = [job.task for job in jobs]
    begin = threads.users.map if threads.users else map
    starts = begin(lambda environment, task: unless(should_stop, environment.reset, task), environments, tasks)
    episodes = [
        Episode(job, environment, chat, seed, noise_key, should_stop, start)
        for job, environment, start in zip(jobs, environments, starts, strict=True)
    ]
    counts = engine.play([episode for episode in episodes if episode.began], threads.users)
    if threads.judges:
        list(threads.judges.map(Episode.judge, episodes))
    return [episode.trajectory() for episode in episodes], counts


def demonstration(task: Task, messages: list[dict], environment: Environment, chat: ChatFormat) -> Trajectory:
    """What an expert's `messages` look like to the model, as if it had sampled them."""
    opening, tools = environment.reset(task)
    shared, rest = chat.prompt(opening, tools)
    ids, spans = [*shared, *rest], []
    for message in messages:
        turn = chat.turn_ids(message)
        spans.append((len(ids), len(ids) + len(turn)))
        ids += turn
        answers, done = environment.step(message)
        if done:
            break
        ids += chat.answer(answers, stopped=True)
    reward = environment.reward()
    return Trajectory(
        domain=task.domain,
        task_id=task.id,
        group=0,
        sample=0,
        ids=ids,
        shared_tokens=len(shared),
        prompt_tokens=len(shared) + len(rest),
        spans=spans,
        reward=reward.total,
        success=reward.success,
        breakdown=dict(reward.breakdown),
        end=environment.end,
        turns=environment.turns,
        messages=environment.messages,
    )
