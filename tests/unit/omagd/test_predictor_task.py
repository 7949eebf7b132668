"""Stage 2 as a task: shares of processes, references counted by hand, figures by hand; artifacts tied to each other."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from thread_ranks import Ranks
from torch import nn

from lib.errors import UserError
from lib.omagd.options import OmagdOptions
from lib.omagd.recon.episodes import MIXTURE, TEST, TRAIN, collect, read_mixture
from lib.omagd.recon.predictor import PLACE_AT, Predictor, PredictorConfig
from lib.omagd.recon.predictor_task import BINS, GUESSERS, KINDS, SUMS, TOKEN_SHARE, PredictorTask, judged
from lib.omagd.recon.references import REFERENCES, Common
from lib.omagd.recon.stages import exported, predictor_of, predictor_stage, read_stage
from lib.omagd.recon.tokenizer import Tokenizer, TokenizerConfig


def task_of(played, tokenizer, ranks, episodes=8, **more):
    torch.manual_seed(1)
    layout = played.layout
    config = PredictorConfig(layout.n_agents, layout.n_actions, layout.n_nodes, layout.node_width, 120,
                             tokenizer.config.codes, hidden=16, slot=8, **more)  # fmt: skip
    module = Predictor(config)
    module.follow(tokenizer)
    return PredictorTask(module, tokenizer, played, {"sight": 5.0}, episodes=episodes, mask_share=0.15, seed=5,
                         ranks=ranks)  # fmt: skip


@pytest.fixture(scope="module")
def task(played, tokenizer):
    return task_of(played, tokenizer, Ranks())


def test_tokens_are_those_of_the_rows(played, tokenizer, task):
    views = task.frames.views(played.of_part(TEST))
    told = (views.alive != 0) & (views.alive[..., :1] != 0)
    types = played.nodes.types.expand(told.shape)[told]
    assert torch.equal(views.tokens[told], tokenizer.tokens(views.rows[told], types))
    places, _ = played.steps_of(played.of_part(TEST))
    seen = views.rows * views.visible.unsqueeze(-1)
    assert torch.equal(played.nodes.flatten(seen), played.seen(places))


def test_an_epoch_is_every_episode_once_and_processes_divide_its_batches(played, tokenizer, task):
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda ranks: task_of(played, tokenizer, ranks, 4), Ranks.several(2)))
    assert all(torch.equal(one.frames.tokens, task.frames.tokens) for one in both)
    pair, counted = both[0], 0
    assert pair.epoch_updates == task.epoch_updates > 4
    for update in range(task.epoch_updates):
        whole, shares = task.batch(update, 0, 1), [pair.batch(update, rank, 2) for rank in range(2)]
        for name in ("rows", "masked", "tokens", "last_actions", "weights"):
            total = getattr(whole, name).double().sum()
            assert total == pytest.approx(float(sum(getattr(share, name).double().sum() for share in shares)))
        losses = [task.module(*one)[1] for one in (whole, *shares)]
        assert torch.allclose(losses[0], losses[1] + losses[2], rtol=1e-4)
        counted += whole.batch_sizes[0]
    assert counted == task.epoch_updates * 8 and counted > 0.8 * len(task.parts[TRAIN])
    assert not torch.equal(task.batch(0, 0, 1).masked, task.batch(task.epoch_updates, 0, 1).masked)


def test_tokens_are_learnt_of_a_lot_that_stands_for_all(played, tokenizer, task):
    views = task.batch(0, 0, 1)
    weights, unseen = views.weights, (views.visible == 0) | views.masked
    assert set(weights.unique().tolist()) == {0.0, 1.0 / TOKEN_SHARE}
    for some in (unseen, views.masked):  # what is hidden follows from the same draws
        few = weights[some]
        assert float(few.mean()) == pytest.approx(1.0, abs=4 * (3.0 / len(few)) ** 0.5)
    assert not torch.equal(weights, task.batch(task.epoch_updates, 0, 1).weights)
    assert bool((next(task.frames.all_of(TEST)).weights == 1).all()), "all are measured"
    exchanged = task_of(played, tokenizer, Ranks(), matching="hungarian")
    assert bool((exchanged.batch(0, 0, 1).weights == 1).all()), "of a lot none could be matched"


def test_last_actions_are_those_of_the_step_before(played, task):
    chosen = torch.tensor([3, 17, 25])
    views = task.frames.views(chosen)
    places, sizes = played.steps_of(chosen)
    assert (views.last_actions[: sizes[0]] == played.layout.n_actions).all()
    for row in range(sizes[0], len(places)):
        assert torch.equal(views.last_actions[row], played.actions[places[row] - 1].long())


def test_references_are_what_was_common(played, task):
    """Counted by hand over the training episodes: of the kinds, and of some slots at some steps."""
    module, views = task.module, task.frames.views(task.parts[TRAIN])
    asked, _ = module.asked(views)
    told = task.references.told(views)
    assert tuple(told) == REFERENCES
    spots = asked.nonzero()
    kinds = module.types[spots[:, 2]]
    lives = views.alive[asked] != 0
    rows, tokens = views.rows[asked], views.tokens[asked]
    for kind in KINDS:
        mine = (kinds == kind) & lives
        common = torch.bincount(tokens[mine][:, 0], minlength=32)
        at = told["marginal"].tokens[kinds == kind][0, 0]
        assert common[at] == common.max()
        assert torch.allclose(told["marginal"].rows[kinds == kind][0], rows[mine].mean(0), atol=1e-4)
        share = (float(mine.sum()) + 0.5) / (float((kinds == kind).sum()) + 1)
        assert told["marginal"].lives[kinds == kind][0] == pytest.approx(share, rel=1e-5)
    times = torch.repeat_interleave(torch.arange(len(views.batch_sizes)), torch.tensor(views.batch_sizes))[spots[:, 0]]
    checked = 0
    for step, agent, node in ((0, 1, 7), (4, 0, 3), (10, 4, 9)):
        mine = (times == step) & (spots[:, 1] == agent) & (spots[:, 2] == node)
        alive = mine & lives
        if not alive.any():
            continue
        checked += 1
        assert torch.allclose(told["prior"].rows[mine][0], rows[alive].mean(0), atol=1e-4)
        common = torch.bincount(tokens[alive][:, 0], minlength=32)
        assert common[told["prior"].tokens[mine][0, 0]] == common.max()
    assert checked
    never = 0
    for at, (step, agent, node) in list(enumerate(spots.tolist()))[::211]:
        row, seen = step, None
        while row is not None:
            if views.visible[row, agent, node]:
                seen = row
                break
            row = before(row, views.batch_sizes)
        if seen is None:
            never += 1
            assert torch.equal(told["last_seen"].rows[at], told["prior"].rows[at])
        else:
            assert torch.equal(told["last_seen"].rows[at], views.rows[seen, agent, node])
            assert torch.equal(told["last_seen"].tokens[at], views.tokens[seen, agent, node])
    assert 0 < never < len(spots[::211])


def test_the_most_common_token_is_so_however_many_threads_write():
    """Against a count of every key by itself; some hundred thousand pairs."""
    generator = torch.Generator().manual_seed(0)
    keys = torch.randint(0, 4000, (400_000,), generator=generator)
    tokens = torch.randint(0, 24, (400_000, 2), generator=generator)
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        common = Common(4000, (24, 24), 1)
        for some, told in zip(keys.split(150_000), tokens.split(150_000), strict=True):
            common.add(some, torch.ones(len(some), dtype=torch.bool), torch.zeros(len(some), 1), told)
        common.close()
    finally:
        torch.set_num_threads(threads)
    for k in range(2):
        counts = torch.zeros(4000, 24).index_put_((keys, tokens[:, k]), torch.ones(()), accumulate=True)
        chosen = counts.gather(1, common.tokens[:, k : k + 1]).squeeze(1)
        assert torch.equal(chosen, counts.amax(1))


def test_what_cannot_be_learnt_is_said_before(played, tokenizer):
    wide = collect("2s3z", read_mixture(MIXTURE), 30, seed=1, sight=40.0)
    with pytest.raises(UserError, match=r"--sight 5: no living unit is out of sight in the episodes for validation"):
        task_of(wide, tokenizer, Ranks())
    many = SimpleNamespace(index=0, count=70, device=torch.device("cpu"))
    with pytest.raises(UserError, match=r"--graph_pretrain_episodes: \d+ for training and 70 processes; give 140"):
        task_of(played, tokenizer, many)


def test_few_codes_are_measured_too(played):
    few = Tokenizer(played.layout, TokenizerConfig(played.layout.node_width, (3, 2), code_dim=8, hidden=16))
    figures = (task := task_of(played, few, Ranks())).judge(task.measure(TEST, 0, 1))
    assert figures["model_top5"] == 1.0 >= figures["model_place"]


def before(row, sizes):
    """The row of the same episode's step before."""
    first = 0
    for step, size in enumerate(sizes):
        if row < first + size:
            return row - sizes[step - 1] if step else None
        first += size
    raise AssertionError(row)


@torch.no_grad()
def test_figures_are_those_of_the_guesses(played, task):
    sums = task.measure(TEST, 0, 1)
    shares = task.measure(TEST, 0, 2) + task.measure(TEST, 1, 2)
    figures = task.judge(sums)
    assert task.judge(shares) == pytest.approx(figures, rel=1e-6)
    module, views = task.module, task.frames.views(played.of_part(TEST))
    guess = module.believe(views)
    asked, living = module.asked(views)
    off = 5.0 * (guess.mean - views.rows)[living][:, PLACE_AT].norm(dim=-1)
    assert figures["model_position_error"] == pytest.approx(float(off.mean()), rel=1e-4)
    enemies = module.types[living.nonzero()[:, 2]] == 2
    assert figures["model_enemy_position_error"] == pytest.approx(float(off[enemies].mean()), rel=1e-4)
    places = module.logits(guess.slots[living])[0]
    hits = (places.argmax(-1) == views.tokens[living][:, 0]).float()
    assert figures["model_place"] == pytest.approx(float(hits.mean()), rel=1e-5)
    five = (places.topk(5).indices == views.tokens[living][:, :1]).any(-1).float()
    assert figures["model_top5"] == pytest.approx(float(five.mean()), rel=1e-5)
    entropy = nn.functional.binary_cross_entropy_with_logits(guess.lives[asked], (views.alive[asked] != 0).float())
    assert figures["model_existence_loss"] == pytest.approx(float(entropy), rel=1e-4)
    assert figures["hidden_slots"] == int(living.sum()) and figures["slots"] == int(asked.sum())
    told = task.references.told(views)["last_seen"]
    off = 5.0 * (told.rows - views.rows[asked])[views.alive[asked] != 0][:, PLACE_AT].norm(dim=-1)
    assert figures["last_seen_position_error"] == pytest.approx(float(off.mean()), rel=1e-4)
    assert set(task.logged) <= set(figures)


def test_calibration_is_the_gap_in_each_bin():
    """Ten slots at p = 0.9 of which eight live, thirty at 0.1 of which six do: (1 + 3) / 40."""
    size = len(GUESSERS) * len(KINDS) * len(SUMS)
    bins = torch.zeros(3, BINS, dtype=torch.float64)
    bins[:, 18] = torch.tensor([10.0, 9.0, 8.0])
    bins[:, 2] = torch.tensor([30.0, 3.0, 6.0])
    more = torch.tensor([0.0, 40.0] + [0.0] * (4 + len(REFERENCES)))
    figures = judged(torch.cat([torch.zeros(size), bins.flatten(), more]))
    assert figures["existence_calibration_error"] == pytest.approx(4 / 40)
    assert figures["lives_share"] == pytest.approx(14 / 40)


def options(**given) -> OmagdOptions:
    return OmagdOptions(stage="predictor", map="2s3z", sight=5.0, graph_pretrain_episodes=60, **given)


def artifact(tokenizer, **changed):
    """What reads an export of this tokenizer."""
    made = exported(OmagdOptions(stage="tokenizer", map="2s3z", sight=5.0), "tokenizer", tokenizer.config.to_dict())
    described = made | {"sha256_of_codes": "c0de" * 16} | changed
    return lambda path: (dict(tokenizer.state_dict()), described)


def read(tokenizer, **changed):
    return read_stage(options(tokenizer="there"), "tokenizer", artifact(tokenizer, **changed))


def test_a_stage_takes_the_export_of_the_one_before(played, tokenizer):
    stage = predictor_stage(options(tokenizer="there"), played, Ranks(), read(tokenizer))
    for mine, theirs in zip(stage.task.module.tables, tokenizer.tables(), strict=True):
        assert torch.equal(mine, theirs)
    assert stage.config["sha256_of_codes"] == stage.task.described()["sha256_of_codes"] == "c0de" * 16
    assert stage.updates == 10 * stage.task.epoch_updates and stage.config["battle"]["sight"] == 5.0


def test_what_is_no_export_of_the_stage_before_is_refused_by_name(tokenizer):
    def refused(config, reader):
        with pytest.raises(UserError) as error:
            read_stage(config, "tokenizer", reader)
        return str(error.value)

    command = "scripts/train_omagd.py --stage tokenizer --map 2s3z --sight 5 makes"
    said = refused(options(), artifact(tokenizer))
    assert "--stage predictor needs --tokenizer" in said and command in said
    said = refused(options(tokenizer="there"), artifact(tokenizer, stage="predictor"))
    assert "--tokenizer there: an export of --stage predictor, no tokenizer" in said and command in said
    said = refused(options(tokenizer="there"), lambda path: ({}, {"obs_size": 80}))
    assert "an export of agents, no tokenizer" in said
    for name, other in (("map", "3m"), ("sight", 9.0), ("leaky_mask", True)):
        battle = artifact(tokenizer)("")[1]["battle"] | {name: other}
        said = refused(options(tokenizer="there"), artifact(tokenizer, battle=battle))
        assert f"--tokenizer there: made with --{name} {other}, this run has --{name}" in said and command in said
    said = refused(options(leaky_mask=True, tick_rate=22.4), artifact(tokenizer))
    assert "--map 2s3z --sight 5 --leaky_mask --tick_rate 22.4 makes one" in said
    # What does not decide what is seen may differ.
    battle = artifact(tokenizer)("")[1]["battle"] | {"reward": "smac_abs"}
    read_stage(options(tokenizer="there"), "tokenizer", artifact(tokenizer, battle=battle))


def test_weights_of_other_sizes_are_refused(played, tokenizer):
    with pytest.raises(UserError, match=r"--tokenizer there: its weights are not those of its config\.json"):
        predictor_stage(options(tokenizer="there"), played, Ranks(), read(tokenizer, codes=[32, 8]))


def test_guesses_without_what_came_later_are_read(played, tokenizer):
    """An export made before `--matching` was there; one of other sizes is refused all the same."""
    stage = predictor_stage(options(tokenizer="there"), played, Ranks(), read(tokenizer))
    module = stage.task.module
    older = {name: value for name, value in stage.config.items() if name != "matching"}
    assert predictor_of(older, dict(module.state_dict()), "there").config == module.config
    del older["nodes"]
    with pytest.raises(UserError, match=r"there: its config\.json has no sizes of a predictor"):
        predictor_of(older, dict(module.state_dict()), "there")


def test_guesses_of_exchanged_slots_are_not_for_agents(played, tokenizer):
    made = predictor_stage(options(tokenizer="there", matching="hungarian"), played, Ranks(), read(tokenizer)).config
    agents = OmagdOptions(stage="qmix", map="2s3z", sight=5.0, observe="reconstructed", predictor="there")
    with pytest.raises(UserError, match=r"learnt with --matching hungarian.*--stage predictor.*makes"):
        read_stage(agents, "predictor", lambda path: ({}, made))
    read_stage(agents, "predictor", lambda path: ({}, made | {"matching": "slots"}))
