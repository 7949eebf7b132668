"""lib/grpo/episodes.py: conversations between engine and environment, and the trajectories they leave."""

import pytest
from policy_samples import chat_format

from lib.errors import UserError
from lib.grpo.demonstrations import expert
from lib.grpo.environment import Environment, Limits
from lib.grpo.episodes import CUT, Episode, Job, demonstration, play
from lib.grpo.generation.generate import task_of_seed
from lib.grpo.messages import text_message

TASK = task_of_seed("airline", 5, 2)


class TurnsEngine:
    """Says given turns instead of sampling; `limit` ids cut a conversation, `stop` leaves the stop token of a turn."""

    def __init__(self, turns: list[dict], limit: int = 100_000, stopped: bool = True):
        self.turns, self.limit, self.stopped = turns, limit, stopped

    def play(self, conversations, threads=None) -> dict:
        sampled = 0
        for conversation in conversations:
            length = len(conversation.shared) + len(conversation.opening)
            for message in self.turns:
                ids = chat_format().turn_ids(message)
                ids = ids if self.stopped else ids[:-1]
                if length + len(ids) > self.limit:
                    conversation.cut()
                    break
                sampled += len(ids)
                after = conversation.hear(ids, [-float(at) for at in range(len(ids))], self.stopped)
                if after is None:
                    break
                length += len(ids) + len(after)
        return {"sampled_tokens": sampled}


def played(engine, make_environment=Environment, **changes):
    job = Job(3, 1, changes.pop("task", TASK))
    found, counts = play(engine, [job], make_environment, chat_format(), 0, ("train", 0), **changes)
    return found[0], counts


def test_the_expert_played_is_a_trajectory_with_its_reward():
    found, counts = played(TurnsEngine(expert(TASK)))
    assert (found.success, found.reward, found.error, found.end) == (1.0, 1.0, None, "user_stop")
    assert (found.domain, found.task_id, found.group, found.sample) == ("airline", TASK.id, 3, 1)
    assert counts["sampled_tokens"] == found.sampled_tokens == sum(found.mask()) == len(found.log_probs)
    assert 0 < found.shared_tokens < found.prompt_tokens == found.spans[0][0]
    assert found.turns == len(found.spans) and not found.truncated
    ends = [found.ids[end - 1] for _, end in found.spans]
    assert set(ends) <= set(chat_format().stop_ids), "every sampled turn ends with its stop token"
    assert all(low < high <= nxt for (low, high), (nxt, _) in zip(found.spans, [*found.spans[1:], (10**9, 0)]))
    assert found.facts["level"] == 2 and found.facts["template"] == TASK.template and found.facts["tools"]


def test_a_demonstration_is_what_playing_the_same_turns_gives():
    shown = demonstration(TASK, expert(TASK), Environment(), chat_format())
    found, _ = played(TurnsEngine(expert(TASK)))
    for name in ("ids", "spans", "shared_tokens", "prompt_tokens", "reward", "success", "end", "turns", "messages"):
        assert getattr(shown, name) == getattr(found, name), name


class Raises(Environment):
    """Fails in one of its methods."""

    def __init__(self, where: str, error: Exception):
        super().__init__()
        self.where, self.error = where, error

    def _fail(self, where):
        if self.where == where:
            raise self.error

    def reset(self, task):
        self._fail("reset")
        return super().reset(task)

    def step(self, message):
        self._fail("step")
        return super().step(message)

    def reward(self):
        self._fail("reward")
        return super().reward()


@pytest.mark.parametrize("where", ["reset", "step", "reward"])
def test_an_environment_that_raises_costs_its_own_episode(where):
    environments = [Raises(where, KeyError("gone")), Environment()]
    jobs = [Job(0, 0, TASK), Job(1, 0, TASK)]
    found, _ = play(TurnsEngine(expert(TASK)), jobs, lambda: environments.pop(0), chat_format(), 0, ("train", 0))
    bad, good = found
    assert bad.error.startswith("KeyError: 'gone' (test_episodes_of_policy.py:") and (bad.reward, bad.success) == (
        0.0,
        0.0,
    )
    assert (bad.group, bad.task_id) == (0, TASK.id) and len(bad.ids) >= bad.prompt_tokens > 0
    assert len(bad.log_probs) == bad.sampled_tokens == (0 if where == "reset" else bad.sampled_tokens)
    assert len(bad.spans) == {"reset": 0, "step": 1}.get(where, good.turns)
    assert good.error is None and good.success == 1.0


def test_what_the_user_did_wrong_is_not_an_episode_that_failed():
    with pytest.raises(UserError, match="no such key"):
        played(TurnsEngine([]), lambda: Raises("reset", UserError("no such key")))


def test_a_turn_cut_by_its_limit_goes_on_with_the_end_that_it_lacks():
    found, _ = played(TurnsEngine([text_message("Okay.")] * 3, stopped=False), lambda: Environment(limits=Limits(3)))
    assert found.truncated and found.success == 0.0 and found.end == "max_turns"
    (_, first_end), (second, _) = found.spans[:2]
    assert found.ids[first_end] in chat_format().stop_ids, "the stop token is there, but nobody sampled it"
    assert second > first_end + 1


def test_an_episode_that_outgrows_the_context():
    short, _ = played(TurnsEngine(expert(TASK), limit=80))
    assert short.truncated and short.end == CUT and short.reward == 0.0 and short.error is None
    assert "outgrew" in short.facts["note"]


def test_a_signal_ends_the_episode_with_its_turn():
    class Told(Environment):
        def step(self, message):
            told.append(message)
            return super().step(message)

    told = []
    found, _ = played(TurnsEngine(expert(TASK)), Told, should_stop=lambda: len(told) == 1)
    assert len(found.spans) == len(told) == 1, "the turn that was under way is not taken"


def test_noise_differs_between_samples_groups_and_steps_alone():
    def noise(group=0, sample=0, seed=0, key=("train", 0), task=TASK):
        return Episode(Job(group, sample, task), Environment(), chat_format(), seed, key).noise

    same = noise()
    others = [noise(group=1), noise(sample=1), noise(seed=1), noise(key=("train", 1)),
              noise(task=task_of_seed("airline", 6, 2))]  # fmt: skip
    assert noise() == same and len({same, *others}) == 6 and all(0 <= each < 2**63 for each in (same, *others))
