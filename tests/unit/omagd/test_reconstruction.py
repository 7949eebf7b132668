"""What agents are told where what they do not see is guessed: true where they see, a guess elsewhere, step by step."""

import pytest
import torch

from lib.omagd.battle.battle import BattleVec
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.learning.replay import EpisodeReplay
from lib.omagd.players import greedy
from lib.omagd.recon.episodes import MIXTURE, collect, read_mixture
from lib.omagd.recon.predictor import FADING, MEMORIES, Predictor, PredictorConfig, Views
from lib.omagd.recon.reconstruction import SIGNS, Reconstruction
from lib.omagd.recon.tokenizer import Tokenizer, TokenizerConfig
from lib.omagd.senses import RECONSTRUCTED, Completed, Eyes, told_size


@pytest.fixture(scope="module")
def played():
    return collect("2s3z", read_mixture(MIXTURE), 12, seed=1, sight=5.0)


def predictor(layout, memory="belief") -> Predictor:
    torch.manual_seed(0)
    tokenizer = Tokenizer(layout, TokenizerConfig(layout.node_width, (32, 16), code_dim=8, hidden=16))
    config = PredictorConfig(layout.n_agents, layout.n_actions, layout.n_nodes, layout.node_width, 120, (32, 16),
                             hidden=16, slot=8, memory=memory)  # fmt: skip
    module = Predictor(config)
    module.follow(tokenizer)
    return module.eval()


def steps_of(played, module, episodes, likeliest=False):
    """What `Reconstruction.step` tells of episodes, played side by side; (told, steps) by their places."""
    told = torch.zeros(len(played.actions), played.layout.n_agents, Reconstruction.size(played.layout))
    for number in episodes.tolist():
        eyes = Reconstruction(module, played.layout, 1, likeliest)
        last = torch.full((1, played.layout.n_agents), played.layout.n_actions)
        first, length = int(played.firsts[number]), int(played.lengths[number])
        for place in range(first, first + length):
            at = torch.tensor([place])
            told[place] = eyes.step(played.seen(at), played.visible[at], last)[0]
            last = played.actions[at].long()
    return told


@pytest.mark.parametrize("memory", MEMORIES)
@torch.no_grad()
def test_steps_are_the_guesses_of_whole_episodes(played, memory):
    """What was learnt on episodes is what agents are told while they play."""
    module, episodes = predictor(played.layout, memory), torch.arange(6)
    places, sizes = played.steps_of(episodes)
    nodes = played.nodes
    actions = played.actions.long()
    last = actions[places - 1]
    last[: sizes[0]] = played.layout.n_actions
    rows, visible = nodes.build(played.full_obs[places].float()), played.visible[places]
    alive = nodes.alive_of_nodes(played.alive[places])
    tokens = torch.zeros(*visible.shape, 2, dtype=torch.int64)
    weights = torch.ones(visible.shape)
    guess = module.believe(Views(rows, visible, visible != visible, alive, last, tokens, weights, sizes))
    told = steps_of(played, module, episodes)[places]
    obs, signs = told.split([played.layout.obs_size, SIGNS * (nodes.count - 1)], -1)
    lives, spread, lately, guessed = signs.unflatten(-1, (nodes.count - 1, SIGNS)).unbind(-1)
    mine = alive[..., 0] != 0
    unseen = (visible[..., 1:] == 0) & mine.unsqueeze(-1)
    assert torch.allclose(lives[unseen], torch.sigmoid(guess.lives[..., 1:])[unseen], atol=1e-5)
    assert torch.allclose(spread[unseen], torch.exp(0.5 * guess.spread[..., 1:])[unseen], atol=1e-5)
    wanted = guess.mean * torch.sigmoid(guess.lives).unsqueeze(-1)
    wanted[..., 0] = 0.0
    found = nodes.build(obs)[:, :, 1:]
    assert torch.allclose(found[unseen], wanted[:, :, 1:][unseen], atol=1e-5) and found[unseen].abs().sum() > 1
    # What is seen is as it is, for actions as for learners; what is dead is told nothing.
    seen = (visible != 0).unsqueeze(-1)
    assert torch.equal((nodes.build(obs) * seen)[..., 1:], (nodes.build(played.seen(places)) * seen)[..., 1:])
    assert (found[unseen][:, 0] == 0).all() and (told[~mine] == 0).all() and not mine.all()
    assert torch.equal(guessed != 0, unseen) and (lives[(visible[..., 1:] != 0)] == 1).all()
    assert (spread[visible[..., 1:] != 0] == 0).all()
    if memory == "none":
        assert torch.equal(lately, (visible[..., 1:] != 0).float())
        return
    age = torch.full(visible.shape[1:], float("inf"))
    first = int(played.firsts[0])
    whole = steps_of(played, module, torch.arange(1))
    for place in range(first, first + int(played.lengths[0])):
        age = torch.where(played.visible[place] != 0, 0.0, age + 1)
        own = played.alive[place][: played.layout.n_agents] != 0
        expected = torch.exp(-age / FADING)[:, 1:] * own.unsqueeze(-1)
        assert torch.allclose(whole[place][:, played.layout.obs_size :].unflatten(-1, (-1, SIGNS))[..., 2], expected,
                              atol=1e-5)  # fmt: skip


@torch.no_grad()
def test_the_likeliest_tokens_stand_for_those_that_rather_live(played):
    module, episodes = predictor(played.layout), torch.arange(4)
    told = steps_of(played, module, episodes, likeliest=True)
    places, _ = played.steps_of(episodes)
    obs, signs = told[places].split([played.layout.obs_size, SIGNS * (played.layout.n_nodes - 1)], -1)
    lives, *_, guessed = signs.unflatten(-1, (-1, SIGNS)).unbind(-1)
    rows = played.nodes.build(obs)[:, :, 1:]
    unseen, dead = guessed != 0, (guessed != 0) & (lives <= 0.5)
    assert unseen.any() and (rows[dead] == 0).all()
    place, condition = module.tables
    kinds = module.types[1:].expand(unseen.shape)
    for row, kind in list(zip(rows[unseen & ~dead], kinds[unseen & ~dead], strict=True))[::37]:
        options = place[kind].unsqueeze(1) + condition[kind].unsqueeze(0)
        options[..., 0] = 0.0
        assert (options - row).abs().amax(-1).min() < 1e-6


def test_senses_are_obs_full_or_completed():
    battles = BattleVec("2s3z", 3, seed=2, sight=5.0)
    none = torch.full((3, 5), battles.layout.n_actions)
    assert torch.equal(Eyes().of(battles).tell(none), battles.obs)
    assert torch.equal(Eyes("full_obs").of(battles).tell(none), battles.full_obs)
    eyes = Eyes(RECONSTRUCTED, predictor(battles.layout)).of(battles)
    told = eyes.tell(none)
    assert isinstance(eyes, Completed) and told.shape == (3, 5, told_size(battles.layout, RECONSTRUCTED))
    assert told.shape[-1] == 80 + 4 * 9 and told_size(battles.layout, "obs") == 80


def collector_of(battles, module, capacity=4000):
    told = told_size(battles.layout, RECONSTRUCTED)
    replay = EpisodeReplay(battles.layout, 50, capacity, slots=battles.num_battles, told=told)
    return Collector(battles, replay, Completed(battles, module))


def team(battles, told):
    torch.manual_seed(3)
    return Agent(AgentConfig(told, battles.layout.n_actions, battles.layout.n_agents, hidden=8))


def test_the_replay_holds_what_was_told_and_a_battle_begins_without_memory():
    """Each kept episode is told anew from its own observations by a fresh reconstruction."""
    battles = BattleVec("2s3z", 3, seed=4, sight=5.0)
    module = predictor(battles.layout)
    collector = collector_of(battles, module)
    agent = team(battles, collector.replay.told)
    raw = {slot: [] for slot in range(3)}
    episodes = []
    while len(episodes) < 6:
        for slot in range(3):
            raw[slot].append((battles.obs[slot].clone(), battles.visible[slot].clone(),
                              collector.last_actions[slot].clone()))  # fmt: skip
        collector.step(agent, 0.5)
        for slot in battles.done.nonzero().squeeze(1).tolist():
            episodes.append(raw[slot])
            raw[slot] = []
    kept = sorted(collector.replay.kept)
    assert len(kept) == len(episodes)
    for (first, length, _), steps in zip(kept, episodes, strict=True):
        eyes = Reconstruction(module, battles.layout, 1)
        assert length == len(steps)
        for at, (obs, visible, last) in enumerate(steps):
            told = eyes.step(obs[None], visible[None], last[None])[0]
            assert torch.allclose(told, collector.replay.arrays["obs"][first + at], atol=1e-5)


def test_collecting_goes_on_where_it_was_saved():
    def begun():
        battles = BattleVec("2s3z", 3, seed=4, sight=5.0)
        return collector_of(battles, predictor(battles.layout))

    one = begun()
    agent = team(one.battles, one.replay.told)
    for _ in range(20):
        one.step(agent, 0.3)
    state, other = {name: tensor.clone() for name, tensor in one.get_state().items()}, begun()
    other.set_state(state)
    for _ in range(60):
        one.step(agent, 0.3)
        other.step(agent, 0.3)
    assert one.replay.added == other.replay.added > 0
    for name, array in one.replay.arrays.items():
        assert torch.equal(array, other.replay.arrays[name]), name
    assert {"senses.slots", "senses.hidden", "senses.times"} <= set(state)


def test_greedy_play_forgets_a_battle_with_its_end():
    """Two battles one after the other in a slot are told as each of them alone."""
    battles = BattleVec("2s3z", 2, seed=7, sight=5.0)
    module = predictor(battles.layout)
    senses = Completed(battles, module)
    agent = team(battles, told_size(battles.layout, RECONSTRUCTED))
    told = []
    usual = senses.tell

    def tell(last):
        told.append(usual(last).clone())
        return told[-1]

    senses.tell = tell
    act = greedy(agent, battles, senses)
    begun, checked = [0, 0], 0
    obs, visible, lasts = [], [], []
    last = torch.full((2, 5), battles.layout.n_actions)
    for step in range(150):
        new = battles.step_count == 0
        last = torch.where(new[:, None], battles.layout.n_actions, last)
        for slot in new.nonzero().squeeze(1).tolist():
            begun[slot] = step
        obs.append(battles.obs.clone())
        visible.append(battles.visible.clone())
        lasts.append(last.clone())
        act()
        last = battles.actions.long().clone()
        if step in (60, 149):
            for slot in range(2):
                eyes = Reconstruction(module, battles.layout, 1)
                for at in range(begun[slot], step + 1):
                    expected = eyes.step(obs[at][slot : slot + 1], visible[at][slot : slot + 1],
                                         lasts[at][slot : slot + 1])  # fmt: skip
                assert torch.allclose(expected[0], told[step][slot], atol=1e-5)
                checked += begun[slot] > 0
        battles.step(check=False)
    assert checked > 0
