"""Networks, mixers, TD(lambda) and the update: against plain loops over single episodes."""

import pytest
import torch

from lib.omagd.learning.mixers import MIXERS, QMixer, make_mixer
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.learning.qmix import FORBIDDEN, Episodes, Learner, QmixConfig, Targets, td_lambda

AGENTS, ACTIONS, OBS, STATE = 3, 5, 7, 11
LENGTHS = (6, 4, 4, 1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def single_episodes(seed: int = 0) -> list[dict]:
    """Episodes of LENGTHS, every step by itself."""
    random, found = generator(seed), []
    for length in LENGTHS:
        avail = torch.rand(length, AGENTS, ACTIONS, generator=random) < 0.6
        actions = torch.randint(0, ACTIONS, (length, AGENTS), generator=random)
        avail.scatter_(-1, actions.unsqueeze(-1), True)
        ends = torch.zeros(length)
        ends[-1] = 1.0
        found.append({
            "obs": torch.randn(length, AGENTS, OBS, generator=random),
            "state": torch.randn(length, STATE, generator=random),
            "avail": avail.to(torch.uint8),
            "actions": actions,
            "last_actions": torch.cat((torch.full((1, AGENTS), ACTIONS), actions[:-1])),
            "rewards": torch.randn(length, generator=random),
            "ends": ends,
        })  # fmt: skip
    return found


def packed(episodes: list[dict]) -> Episodes:
    """The same as one batch, the longest first."""
    longest = len(episodes[0]["rewards"])
    steps = [(t, episode) for t in range(longest) for episode in episodes if t < len(episode["rewards"])]
    sizes = tuple(sum(t < len(episode["rewards"]) for episode in episodes) for t in range(longest))
    return Episodes(*(torch.stack([episode[name][t] for t, episode in steps]) for name in Episodes._fields[:-1]), sizes)


def config(mixer: str = "qmix", **options) -> QmixConfig:
    return QmixConfig(AgentConfig(OBS, ACTIONS, AGENTS, hidden=16), STATE, mixer, **options)


def test_whole_episodes_and_single_steps_give_the_same_values():
    torch.manual_seed(1)
    agent = Agent(AgentConfig(OBS, ACTIONS, AGENTS, hidden=16))
    episodes = single_episodes()
    batch = packed(episodes)
    values = agent(batch.obs, batch.last_actions, batch.batch_sizes)
    starts = [sum(batch.batch_sizes[:t]) for t in range(len(batch.batch_sizes))]
    for number, episode in enumerate(episodes):
        hidden = agent.no_memory(1, torch.device("cpu"))
        for t in range(len(episode["rewards"])):
            one, hidden = agent.step(episode["obs"][t : t + 1], episode["last_actions"][t : t + 1], hidden)
            assert torch.allclose(one[0], values[starts[t] + number], atol=1e-6)
    # Agents with the same observation differ by their number, and by what they did last.
    same = torch.ones(1, AGENTS, OBS)
    none = torch.full((1, AGENTS), ACTIONS)
    first, _ = agent.step(same, none, agent.no_memory(1, torch.device("cpu")))
    other, _ = agent.step(same, torch.zeros_like(none), agent.no_memory(1, torch.device("cpu")))
    assert not torch.allclose(first[0, 0], first[0, 1]) and not torch.allclose(first, other)


def test_the_mixer_grows_with_the_value_of_every_agent():
    torch.manual_seed(2)
    mixer = QMixer(STATE, AGENTS)
    values = torch.randn(64, AGENTS, generator=generator(), requires_grad=True)
    state = torch.randn(64, STATE, generator=generator(1))
    (slopes,) = torch.autograd.grad(mixer(values, state).sum(), values)
    assert (slopes >= 0).all() and (slopes > 0).float().mean() > 0.95
    other = mixer(values, torch.randn(64, STATE, generator=generator(2)))
    assert not torch.allclose(mixer(values, state), other)


def test_other_mixers():
    values, state = torch.tensor([[1.0, 2.0, -4.0]]), torch.zeros(1, STATE)
    assert make_mixer("vdn", STATE, AGENTS)(values, state).tolist() == [[-1.0]]
    assert make_mixer("iql", STATE, AGENTS)(values, state).tolist() == [[1.0, 2.0, -4.0]]
    assert set(MIXERS) == {"qmix", "vdn", "iql"}


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_returns_are_those_of_the_definition(share):
    episodes = single_episodes(3)
    episodes[1]["ends"][-1] = 0.0  # cut off: there is no step to take a value from
    batch, gamma = packed(episodes), 0.9
    values = torch.randn(sum(LENGTHS), 2, generator=generator(4))
    found = td_lambda(batch.rewards, batch.ends, values, batch.batch_sizes, gamma, share)
    starts = [sum(batch.batch_sizes[:t]) for t in range(len(batch.batch_sizes))]
    for number, episode in enumerate(episodes):
        length = len(episode["rewards"])
        rows = [starts[t] + number for t in range(length)]
        for column in range(2):
            expected = float(episode["rewards"][-1])
            assert found[rows[-1], column].item() == pytest.approx(expected)
            for t in range(length - 2, -1, -1):
                after = (1 - share) * values[rows[t + 1], column].item() + share * expected
                expected = episode["rewards"][t].item() + gamma * after
                assert found[rows[t], column].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_loss_is_that_of_every_episode_by_itself(mixer):
    """Sums over steps: how episodes are put together does not matter."""
    torch.manual_seed(5)
    learner = Learner(config(mixer))
    targets = Targets(learner)
    with torch.no_grad():
        for parameter in targets.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator(6)))
    episodes = single_episodes(7)
    loss, sums = learner(packed(episodes), targets)
    alone = [learner(packed([episode]), targets) for episode in episodes]
    assert loss.item() == pytest.approx(sum(one.item() for one, _ in alone), rel=1e-5)
    assert torch.allclose(sums, sum(each for _, each in alone), rtol=1e-4)
    assert sums[-1].item() == sum(LENGTHS)
    loss.backward()
    assert all(parameter.grad is not None for parameter in learner.parameters())
    assert all(parameter.grad is None for parameter in targets.parameters())


def test_the_goal_is_the_target_nets_value_of_the_online_nets_choice():
    torch.manual_seed(8)
    learner = Learner(config("vdn", gamma=1.0, td_lambda=0.0))
    targets = Targets(learner)
    with torch.no_grad():
        targets.agent.values.bias.add_(torch.tensor([0.0, 3.0, -2.0, 1.0, 5.0]))
    batch = packed(single_episodes(9)[:1])
    online = learner.agent(batch.obs, batch.last_actions, batch.batch_sizes)
    best = online.masked_fill(batch.avail == 0, FORBIDDEN).argmax(-1)
    assert batch.avail.gather(-1, best.unsqueeze(-1)).all()
    slow = targets.agent(batch.obs, batch.last_actions, batch.batch_sizes)
    value = slow.gather(-1, best.unsqueeze(-1)).squeeze(-1).sum(-1)
    goal = torch.cat((batch.rewards[:-1] + value[1:], batch.rewards[-1:]))
    team = online.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1).sum(-1)
    loss, _ = learner(batch, targets)
    assert loss.item() == pytest.approx(0.5 * (team - goal).square().sum().item(), rel=1e-5)
    targets.follow(learner)
    assert torch.equal(targets.agent.values.bias, learner.agent.values.bias)
    with torch.no_grad():
        learner.agent.values.bias.add_(1.0)
    assert not torch.equal(targets.agent.values.bias, learner.agent.values.bias)
