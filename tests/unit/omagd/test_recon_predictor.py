"""The predictor: what it may know, what is asked of it, and that it learns."""

import pytest
import torch
from thread_ranks import Ranks

from lib.omagd.recon.episodes import TEST, TRAIN
from lib.omagd.recon.nodes import ENEMY
from lib.omagd.recon.predictor import (
    MEAN_WEIGHT,
    MEMORIES,
    NEAR,
    STATISTICS,
    Predictor,
    PredictorConfig,
    last_seen,
    times_of,
)
from lib.omagd.recon.predictor_task import Frames, hide

LIMIT = 120


@pytest.fixture(scope="module")
def frames(played, tokenizer):
    return Frames(played, tokenizer, Ranks())


def predictor(played, tokenizer, memory="belief", seed=0, **sizes) -> Predictor:
    torch.manual_seed(seed)
    layout = played.layout
    config = PredictorConfig(layout.n_agents, layout.n_actions, layout.n_nodes, layout.node_width, LIMIT,
                             tokenizer.config.codes, memory=memory, **sizes)  # fmt: skip
    module = Predictor(config)
    module.follow(tokenizer)
    return module


def drawn(views, share=0.15, seed=0):
    draws = torch.rand(views.visible.shape, generator=torch.Generator().manual_seed(seed))
    return views._replace(masked=hide(views, share, draws))


def test_last_seen_is_the_newest_row_of_the_same_episode():
    visible = torch.rand(7, 2, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    sizes = (3, 2, 1, 1)  # rows 0, 3, 5, 6 are one episode, 1 and 4 another, 2 a third
    found = last_seen(visible, sizes)
    for episode in ((0, 3, 5, 6), (1, 4), (2,)):
        for at, row in enumerate(episode):
            for agent in range(2):
                for node in range(3):
                    seen = [before for before in episode[: at + 1] if visible[before, agent, node]]
                    assert found[row, agent, node] == (seen[-1] if seen else -1)
    assert times_of(sizes).tolist() == [0, 0, 0, 1, 1, 2, 3]


def test_what_is_hidden_was_seen_of_others_by_the_living(played, frames):
    views = frames.views(torch.arange(20))
    for share in (0.0, 0.15, 0.5, 1.0):
        masked = drawn(views, share).masked
        seen = (views.visible != 0) & (views.alive[..., :1] != 0)
        seen[..., 0] = False
        count = seen.sum(-1)
        wanted = torch.clamp((share * count).round(), min=1) if share else 0 * count
        assert torch.equal(masked.sum(-1), torch.minimum(wanted, count).long()) and not (masked & ~seen).any()
    some, other = drawn(views, 0.5).masked, drawn(views, 0.5, seed=1).masked
    assert (some != other).any() and 0.2 < some[seen].float().mean() < 0.8


@pytest.mark.parametrize("memory", MEMORIES)
@torch.no_grad()
def test_a_guess_rests_on_what_was_visible_so_far(played, tokenizer, frames, memory):
    """Rows out of sight, hidden ones, those of dead units and the future change nothing; what was seen does."""
    module = predictor(played, tokenizer, memory)
    views = drawn(frames.views(torch.arange(12)))
    told = module.believe(views)
    seen = (views.visible != 0) & ~views.masked
    blind = views._replace(
        rows=torch.where(seen.unsqueeze(-1), views.rows, torch.randn_like(views.rows)), tokens=0 * views.tokens
    )
    for mine, other in zip(told, module.believe(blind), strict=True):
        assert torch.equal(mine, other)
    later = times_of(views.batch_sizes) >= 5
    future = views._replace(rows=views.rows + later.view(-1, 1, 1, 1).float(),
                            last_actions=torch.where(later[:, None], 1, views.last_actions))  # fmt: skip
    changed = (module.believe(future).mean != told.mean).flatten(1).any(1)
    assert not changed[~later].any() and changed[later].all()
    past = views._replace(rows=views.rows + (times_of(views.batch_sizes) == 3).view(-1, 1, 1, 1).float())
    changed = (module.believe(past).mean != told.mean).flatten(1).any(1)
    assert changed[later].any() == (memory == "belief") and not changed[times_of(views.batch_sizes) < 3].any()


def test_agents_do_not_tell_each_other(played, tokenizer, frames):
    module, views = predictor(played, tokenizer), frames.views(torch.arange(8))
    rows = views.rows.clone()
    rows[:, 2] += 1.0
    with torch.no_grad():
        told, other = module.believe(views), module.believe(views._replace(rows=rows))
    changed = (told.mean != other.mean).flatten(2).any(2)
    assert changed[:, 2].all() and not changed[:, [0, 1, 3, 4]].any()


def test_what_is_asked(played, tokenizer, frames):
    module, views = predictor(played, tokenizer), drawn(frames.views(torch.arange(30)))
    asked, living = module.asked(views)
    for step, agent, node in asked.nonzero()[::97].tolist():
        assert node > 0 and views.alive[step, agent, 0]
        assert not views.visible[step, agent, node] or views.masked[step, agent, node]
    assert (asked & (views.alive == 0)).any() and torch.equal(living, asked & (views.alive != 0))
    hidden = played.nodes.hidden(views.visible, played.alive[played.steps_of(torch.arange(30))[0]])
    assert torch.equal(module.asked(views._replace(masked=0 * views.masked != 0))[1], hidden)


def test_the_loss_is_that_of_its_parts(played, tokenizer, frames):
    """Written out slot by slot; label smoothing, and masked slots that are not asked whether they live."""
    module, views = predictor(played, tokenizer, label_smoothing=0.2), drawn(frames.views(torch.arange(3)))
    lots = torch.rand(views.visible.shape, generator=torch.Generator().manual_seed(1))
    views = views._replace(weights=4.0 * (lots < 0.25))  # tokens are learnt of some slots only
    _, sums = module(*views)
    found = dict(zip(STATISTICS, sums.tolist(), strict=True))
    with torch.no_grad():
        guess = module.believe(views)
        asked, _ = module.asked(views)
        expected = dict.fromkeys(STATISTICS, 0.0)
        for step, agent, node in asked.nonzero().tolist():
            at, kind = (step, agent, node), int(module.types[node])
            expected["slots"] += 1
            chance, lives = torch.sigmoid(guess.lives[at].double()), bool(views.alive[at])
            if not views.masked[at]:
                expected["existence"] -= float((chance if lives else 1 - chance).log())
            if not lives:
                continue
            for name, logits, token in zip(("place", "condition"), module.logits(guess.slots[at]), views.tokens[at],
                                           strict=True):  # fmt: skip
                logs = logits.double().log_softmax(-1)
                expected[name] -= float(views.weights[at] * (0.8 * logs[token] + 0.2 * logs.mean()))
            columns = tokenizer.columns[:, kind].sum(0) > 0
            off = (guess.mean[at] - views.rows[at]).double()
            scaled = off[columns] / tokenizer.deviation[kind][columns]
            expected["error"] += float(scaled.square().mean())
            expected["distance"] += float((off[2:4].square().sum() + NEAR**2).sqrt())
            spread = guess.spread[at].double()
            expected["spread"] += float(0.5 * off[2:4].square().sum() / spread.exp() + spread)
    parts = ("existence", "place", "condition", "spread")
    expected["loss"] = sum(expected[name] for name in parts)
    expected["loss"] += MEAN_WEIGHT * (expected["error"] + expected["distance"])
    assert found == pytest.approx(expected, rel=1e-4)


def test_which_of_the_missed_units_is_which_matters_by_slots_alone(played, tokenizer, frames):
    """Two enemies that an agent misses change places in the truth: with the matching the loss stays what it was."""
    views = drawn(frames.views(torch.arange(20)))
    by_slot = predictor(played, tokenizer)
    exchanged = predictor(played, tokenizer, matching="hungarian")
    enemies = by_slot.types == ENEMY
    hidden = by_slot.asked(views)[1] & enemies & (views.visible == 0)
    pairs = [(at, *hidden[tuple(at)].nonzero().squeeze(1)[:2].tolist()) for at in (hidden.sum(-1) >= 2).nonzero()]
    (step, agent), one, other = next(
        pair for pair in pairs if (views.tokens[tuple(pair[0])][pair[1]] != views.tokens[tuple(pair[0])][pair[2]]).all()
    )
    rows, tokens = views.rows.clone(), views.tokens.clone()
    rows[step, agent, [one, other]] = views.rows[step, agent, [other, one]]
    tokens[step, agent, [one, other]] = views.tokens[step, agent, [other, one]]
    swapped = views._replace(rows=rows, tokens=tokens)
    assert torch.allclose(exchanged(*views)[1], exchanged(*swapped)[1], rtol=1e-5)
    assert (by_slot(*views)[1] != by_slot(*swapped)[1]).any()
    found = [dict(zip(STATISTICS, module(*views)[1].tolist(), strict=True)) for module in (by_slot, exchanged)]
    assert found[0]["existence"] == found[1]["existence"]
    # Each target at the cost that is least in sum; label smoothing is the same whatever the target.
    aligned, matched = (each["place"] + each["condition"] for each in found)
    assert matched < aligned


def test_losses_of_episodes_add_up(played, tokenizer, frames):
    module = predictor(played, tokenizer)
    whole = module(*frames.views(torch.arange(8)))[1]
    parts = sum(module(*frames.views(one))[1] for one in torch.arange(8).split(3))
    assert torch.allclose(whole, parts, rtol=1e-4)


def test_the_tables_are_those_of_the_tokenizer(played, tokenizer):
    module = predictor(played, tokenizer)
    for mine, theirs in zip(module.tables, tokenizer.tables(), strict=True):
        assert torch.equal(mine, theirs)
    kept = module.state_dict()
    assert {"place_table", "condition_table", "normal", "deviation", "columns"} <= set(kept)


@pytest.mark.parametrize("memory", MEMORIES)
def test_it_learns(played, tokenizer, frames, memory):
    """On episodes that it has not seen, too, in sixty updates of a small one."""
    module = predictor(played, tokenizer, memory, hidden=32)
    optimiser = torch.optim.Adam(module.parameters(), lr=5e-3)
    held = frames.views(played.of_part(TEST))

    def loss():
        with torch.no_grad():
            sums = module(*held)[1]
        return dict(zip(STATISTICS, (sums / sums[-1]).tolist(), strict=True))

    before, train = loss(), played.of_part(TRAIN)
    for update in range(60):
        value, sums = module(*drawn(frames.views(train[update % 6 :: 6]), seed=update))
        (value / sums[-1]).backward()
        optimiser.step()
        optimiser.zero_grad()
    after = loss()
    # One frame tells little of how far off its guess is, in so few updates.
    names = ("existence", "place", "condition", "error", "distance", "spread")[: 6 if memory == "belief" else 5]
    for name in names:
        assert after[name] < 0.95 * before[name], (name, before, after)
