"""Stage 1 as a task: shares of processes, codebooks that stay the same on them, figures by hand."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from thread_ranks import Ranks

from lib.omagd.recon.episodes import MIXTURE, TEST, TRAIN, collect, read_mixture
from lib.omagd.recon.tokenizer import Tokenizer, TokenizerConfig
from lib.omagd.recon.tokenizer_task import Graphs, TokenizerTask


@pytest.fixture(scope="module")
def played():
    return collect("2s3z", read_mixture(MIXTURE), 40, seed=1, sight=5.0)


def task_of(played, ranks, graphs=64, seed=5, codes=(32, 16)):
    torch.manual_seed(0)
    width = played.layout.node_width
    tokenizer = Tokenizer(played.layout, TokenizerConfig(width, codes, code_dim=8, hidden=16, decay=0.6))
    return TokenizerTask(tokenizer, played, {"sight": 5.0}, graphs=graphs, seed=seed, ranks=ranks)


def test_graphs_are_the_living_agents_of_the_steps(played):
    graphs = Graphs.of(played, TEST)
    places, _ = played.steps_of(played.of_part(TEST))
    rows, types = graphs.rows(torch.arange(len(graphs)), torch.device("cpu"))
    alive = played.nodes.alive_of_nodes(played.alive[places]) != 0
    lives = alive & alive[..., :1]
    assert torch.equal(rows, played.nodes.build(played.full_obs[places].float())[lives])
    assert torch.equal(types, played.nodes.types.expand(lives.shape)[lives])


def test_an_epoch_is_every_graph_once_and_processes_divide_its_batches(played):
    one, two = task_of(played, Ranks(), 64), task_of(played, Ranks.several(2)[0], 32)
    assert one.epoch_updates == two.epoch_updates > 20
    seen = []
    for update in range(one.epoch_updates):
        rows, _ = one.batch(update, 0, 1)
        shares = [two.batch(update, rank, 2) for rank in range(2)]
        assert len(rows) == len(shares[0][0]) + len(shares[1][0])
        assert torch.allclose(rows.double().sum(0), sum(share[0].double().sum(0) for share in shares))
        seen.append(rows)
    whole = one.epoch_updates * 64
    assert sum((rows[:, 0] == 1).sum() for rows in seen) >= whole  # of each graph its agent, at least
    order = one._order[1]
    assert sorted(order.tolist()) == list(range(len(one.parts[TRAIN])))
    assert not torch.equal(one.batch(0, 0, 1)[0], one.batch(one.epoch_updates, 0, 1)[0])  # drawn anew


def test_codebooks_of_two_processes_are_one(played):
    """Bit for bit on both, and those that one process gets from the whole batch."""

    def learn(task, ranks):
        for update in range(6):
            task.begin(update, ranks)
            *_, encoded, tokens = task.module(*task.batch(update, ranks.index, ranks.count))
            noted.append(task.learnt(update, (encoded, tokens), ranks))

    noted = []
    ranks = Ranks.several(2)
    # Of so many codes for few rows some are set anew.
    codes = (256, 16)
    alone = task_of(played, Ranks(), 64, codes=codes)
    pair = [task_of(played, each, 32, codes=codes) for each in ranks]
    learn(alone, Ranks())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(learn, pair, ranks))
    books = [[part.codebook for part in task.module.parts] for task in (alone, *pair)]
    for single, first, second in zip(*books, strict=True):
        assert torch.equal(first.codes, second.codes) and torch.equal(first.counts, second.counts)
        assert torch.allclose(single.codes, first.codes, atol=1e-5) and single.codes.std() > 0.1
    assert len(noted) == 18 and sum(row["place codes set anew"] for row in noted) > 0


def test_figures_are_those_of_the_rows(played):
    task = task_of(played, Ranks())
    task.begin(0, Ranks())
    figures = task.judge(task.measure(TEST, 0, 1))
    halves = task.measure(TEST, 0, 2) + task.measure(TEST, 1, 2)
    assert task.judge(halves) == pytest.approx(figures)
    graphs, tokenizer = task.parts[TEST], task.module
    rows, types = graphs.rows(torch.arange(len(graphs)), torch.device("cpu"))
    tokens = tokenizer.tokens(rows, types)
    told = tokenizer.decode(tokens, types)
    enemies = types == 2
    off = (told - rows)[enemies].double()
    assert figures["enemy_position_error"] == pytest.approx(float((5 * off[:, 2:4]).norm(dim=-1).mean()), rel=1e-4)
    assert figures["enemy_health_error"] == pytest.approx(float(off[:, 4].abs().mean()), rel=1e-4)
    columns = tokenizer.columns.sum(0)[2] > 0
    variance = rows[enemies].double().var(0, correction=0)
    worst = 1 - (off.square().mean(0) / variance)[columns & (variance > 1e-6)].max()
    assert figures["enemy_worst_r2"] == pytest.approx(float(worst), rel=1e-4)
    assert figures["place_codes_in_use"] == len(tokens[:, 0].unique()) / 32
    assert figures["self_health_error"] == pytest.approx(float((told - rows)[types == 0][:, 8].abs().mean()), rel=1e-4)
    assert "self_position_error" not in figures and figures["loss"] == pytest.approx(1 - figures["r2"])
