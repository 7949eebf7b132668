"""Turns that are answered in threads while others are sampled: the same dialogues, whenever the answers come."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
import torch
from engine_samples import ScriptedConversation, dialogues, largest_difference, played, said, tiny_model
from policy_samples import DOMAIN, chat_format
from test_episodes_of_policy import Raises

from lib.grpo.chat.tiny import TinySize, build_tiny
from lib.grpo.engine import Sampling
from lib.grpo.engine.reference import ReferenceEngine
from lib.grpo.engine.rounds import answered, begun
from lib.grpo.engine.static import StaticEngine
from lib.grpo.environment import Environment
from lib.grpo.episodes import Job, Threads, play
from lib.grpo.generation.generate import task_of_seed
from lib.grpo.options import GrpoOptions
from lib.grpo.run_setup import Setup

SAMPLING = Sampling(temperature=0.8, max_new_tokens=14, max_length=150, stop_ids=(3, 7, 11))


def tiny_of_the_airline():
    torch.manual_seed(0)
    return build_tiny(TinySize(64, 1), (DOMAIN,))[0]


class Slow(ScriptedConversation):
    """Answers after up to 30 ms."""

    def hear(self, ids, log_probs, stopped):
        time.sleep(random.Random(self.noise + len(self.sampled)).choice([0, 0, 0.005, 0.03]))
        return super().hear(ids, log_probs, stopped)


def slow_dialogues(count: int) -> list[Slow]:
    return [Slow(seed, turns=1 + seed * 7 % 5) for seed in range(count)]


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def expected(model):
    return played(lambda: ReferenceEngine(model, SAMPLING, 16), dialogues(16))


@pytest.mark.parametrize("slots", [1, 3, 16])
def test_dialogues_without_room_are_cut_while_others_wait(model, slots):
    """And turns that no stop token ends."""
    narrow = Sampling(temperature=0.8, max_new_tokens=14, max_length=50)
    expected, found = dialogues(16), slow_dialogues(16)
    ReferenceEngine(model, narrow, 16).play(expected)
    with ThreadPoolExecutor(4) as pool:
        StaticEngine(model, narrow, slots).play(found, pool)
    assert 0 < sum(talk.was_cut for talk in expected) < 16
    assert said(found) == said(expected)


@pytest.mark.parametrize(
    "settings",
    [{"slots": 1}, {"slots": 3}, {"slots": 64}, {"slots": 7, "check_every": 4}, {"slots": 5, "share_prefix": False}],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 8])
def test_dialogues_do_not_depend_on_when_answers_come(model, expected, settings, threads):
    found = slow_dialogues(16)
    with ThreadPoolExecutor(threads) as pool:
        counts = StaticEngine(model, SAMPLING, **settings).play(found, pool)
    assert said(found) == said(expected)
    assert largest_difference(found, expected) < 1e-5
    assert counts["sampled_tokens"] == sum(len(turn) for talk in expected for turn in talk.sampled)


def test_the_engine_that_is_obviously_right_has_threads_too(model, expected):
    found = slow_dialogues(16)
    with ThreadPoolExecutor(8) as pool:
        ReferenceEngine(model, SAMPLING, 16).play(found, pool)
    assert said(found) == said(expected) and largest_difference(found, expected) < 1e-5


class Waits(ScriptedConversation):
    """Its first answer waits for `moment`."""

    moment: threading.Event | threading.Barrier

    def hear(self, ids, log_probs, stopped):
        if not self.sampled:
            arrived = self.moment.wait(20)
            assert arrived is not False, "nobody else went on meanwhile"
        return super().hear(ids, log_probs, stopped)


class Ends(ScriptedConversation):
    """Tells `moment` when it is over."""

    moment: threading.Event

    def hear(self, ids, log_probs, stopped):
        answer = super().hear(ids, log_probs, stopped)
        if answer is None:
            self.moment.set()
        return answer


def test_others_are_sampled_while_one_waits(model):
    waiting, ending = Waits(0, turns=2), Ends(1, turns=5)
    waiting.moment = ending.moment = threading.Event()
    with ThreadPoolExecutor(1 + 1) as pool:
        StaticEngine(model, SAMPLING, 2).play([waiting, ending], pool)
    assert (len(waiting.sampled), len(ending.sampled)) == (2, 5)


def test_answers_are_made_at_the_same_time(model):
    talks, moment = [Waits(seed, turns=2) for seed in range(4)], threading.Barrier(4)
    for talk in talks:
        talk.moment = moment
    with ThreadPoolExecutor(4) as pool:
        StaticEngine(model, SAMPLING, 4).play(talks, pool)
    assert all(len(talk.sampled) == 2 for talk in talks) and not moment.broken


def test_what_a_thread_raises_comes_through(model):
    class Broken(ScriptedConversation):
        def hear(self, *_):
            raise KeyError("no such tool")

    engine = StaticEngine(model, SAMPLING, 4)
    with ThreadPoolExecutor(2) as pool, pytest.raises(KeyError, match="no such tool"):
        engine.play([*dialogues(5), Broken(9)], pool)


class Leaves(ScriptedConversation):
    """Is over after its first turn, which nobody needs to answer."""

    def take(self, ids, log_probs, stopped):
        self.sampled.append(ids)


def test_slots_of_dialogues_that_are_over_are_not_kept(model):
    """The one slot is free again at once, though no answer comes that could wake anybody."""
    talks = [Leaves(seed, turns=2) for seed in range(5)]
    with ThreadPoolExecutor(1) as pool:
        StaticEngine(model, SAMPLING, 1).play(talks, pool)
    assert all(len(talk.sampled) == 1 for talk in talks)


def test_conversations_that_grow_keep_what_was_known(model):
    sampling = Sampling(temperature=0.9, max_new_tokens=70, max_length=900, stop_ids=(3,))
    long, slow = (
        [kind(seed, turns=3 + 3 * seed, most_answer=60) for seed in range(4)] for kind in (ScriptedConversation, Slow)
    )
    StaticEngine(model, sampling, slots=4).play(long)
    with ThreadPoolExecutor(3) as pool:
        StaticEngine(model, sampling, slots=4).play(slow, pool)
    assert max(len(talk.ids) for talk in long) > 200
    assert said(slow) == said(long) and largest_difference(slow, long) < 1e-5


def test_episodes_begin_and_are_answered_in_threads():
    """The opening of a user who takes time is asked for in a thread as well; one that fails costs its own episode."""
    together, openings, answers = threading.Barrier(3), set(), set()

    class Remote(Environment):
        def reset(self, task):
            together.wait(20)
            openings.add(threading.current_thread().name)
            return super().reset(task)

        def step(self, message):
            together.wait(20)
            answers.add(threading.current_thread().name)
            return super().step(message)

    class Says:
        """One turn of each, answered as an engine of rounds does."""

        def play(self, conversations, threads):
            turn = chat_format().tokenizer("Okay.")["input_ids"]
            answered(begun(conversations), [(turn, [0.0] * len(turn), True)] * len(conversations), threads)
            return {}

    tasks = [task_of_seed("airline", seed, 2) for seed in range(4)]
    environments = [Remote(), Remote(), Remote(), Raises("reset", OSError("no line"))]
    with ThreadPoolExecutor(4) as pool:
        found, _ = play(Says(), [Job(at, 0, task) for at, task in enumerate(tasks)], lambda: environments.pop(0),
                        chat_format(), 0, ("train", 0), threads=Threads(users=pool))  # fmt: skip
    assert len(openings) == len(answers) == 3 and threading.current_thread().name not in openings | answers
    assert [each.task_id for each in found] == [task.id for task in tasks]
    assert [each.error is None for each in found] == [True, True, True, False] and "no line" in found[3].error
    assert all(len(each.spans) == 1 for each in found[:3])


@pytest.mark.parametrize("threads", [None, 2])
def test_nobody_is_asked_any_more_after_a_signal(threads):
    """It comes while the first turn is being answered: of the others nothing but what is under way."""
    asked, model, stop = [], tiny_of_the_airline(), threading.Event()

    class Told(Environment):
        def step(self, message):
            asked.append(message)
            stop.set()
            time.sleep(0.05)
            return super().step(message)

    sampling = Sampling(max_new_tokens=4, max_length=3000, stop_ids=chat_format().stop_ids)
    jobs = [Job(at, 0, task_of_seed("airline", at, 2)) for at in range(12)]
    with ThreadPoolExecutor(threads) if threads else nullcontext() as pool:
        for engine in (ReferenceEngine(model, sampling, 12), StaticEngine(model, sampling, 12)):
            stop.clear()
            asked.clear()
            play(engine, jobs, Told, chat_format(), 0, ("train", 0), stop.is_set, Threads(users=pool))
            assert 1 <= len(asked) <= (threads or 1)


def test_openings_are_not_asked_for_after_a_signal():
    class Never(Environment):
        def reset(self, task):
            raise AssertionError("asked for an opening")

    jobs = [Job(at, 0, task_of_seed("airline", at, 2)) for at in range(3)]
    engine = StaticEngine(tiny_of_the_airline(), Sampling(max_new_tokens=4, max_length=3000))
    found, _ = play(engine, jobs, Never, chat_format(), 0, ("train", 0), lambda: True)
    assert [(each.error, each.reward, each.spans) for each in found] == [(None, 0.0, [])] * 3


def test_an_error_does_not_wait_for_the_queue():
    config = GrpoOptions(user="openai", openai_threads=1)
    done = []
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Setup(config, None, None, None).threads() as found:
        pool = found.users
        for number in range(20):
            pool.submit(lambda number=number: (time.sleep(0.2), done.append(number)))
        raise KeyboardInterrupt
    assert time.monotonic() - began < 1 and len(done) <= 1
    with Setup(GrpoOptions(), None, None, None).threads() as found:
        assert found == Threads()
    with Setup(GrpoOptions(user="hf", judge="openai"), None, None, None).threads() as found:
        assert found.users is None and found.judges is not None
