"""The tokenizer: what its parts tell, how codebooks move, and that it learns."""

import pytest
import torch

from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.recon.episodes import TEST, TRAIN
from lib.omagd.recon.nodes import TYPES, Nodes, feature_names
from lib.omagd.recon.tokenizer import BEGINS, CPU_ROWS, Codebook, Tokenizer, TokenizerConfig, part_columns


def living_rows(played, places):
    """(rows (M, F), types (M,)) of all living nodes of living agents in some steps."""
    nodes = played.nodes
    alive = nodes.alive_of_nodes(played.alive[places]) != 0
    lives = alive & alive[..., :1]
    return nodes.build(played.full_obs[places].float())[lives], nodes.types.expand(lives.shape)[lives]


def small(layout: Layout, codes=(64, 32)) -> Tokenizer:
    torch.manual_seed(0)
    return Tokenizer(layout, TokenizerConfig(layout.node_width, codes, code_dim=8, hidden=32))


@pytest.mark.parametrize("name", ["3m", "2s3z", "MMM2", "3s_vs_5z"])
def test_every_number_that_is_told_is_in_one_part(name):
    layout = Layout.of(MAPS[name])
    columns = part_columns(layout)
    for node_type in range(len(TYPES)):
        told = torch.tensor([bool(text) for text in feature_names(layout, node_type)])
        assert torch.equal(columns[:, node_type].sum(0) == 1, told) and not (columns[:, node_type].sum(0) > 1).any()
        assert "health" in feature_names(layout, node_type)[int(columns[1, node_type].int().argmax())]


def test_rows_of_living_nodes_of_living_agents(played):
    places = torch.arange(len(played.full_obs))
    rows, types = living_rows(played, places)
    alive = played.alive[places] != 0
    agents = alive[:, : played.layout.n_agents].sum(1)
    assert len(rows) == len(types) == int((agents * alive.sum(1)).sum())
    assert (rows.abs().sum(1) > 0).all() and int((types == 0).sum()) == int(agents.sum())


def test_numbers_are_normalised_by_kind_of_node(played):
    tokenizer = small(played.layout)
    rows, types = living_rows(played, torch.arange(len(played.full_obs)))
    tokenizer.measure(zip(rows.split(700), types.split(700), strict=True))
    normalised = tokenizer.normalised(rows, types)
    for node_type in range(len(TYPES)):
        mine = normalised[types == node_type]
        varies = rows[types == node_type].std(0) > 1e-3
        assert mine.mean(0).abs().max() < 1e-3 and varies.sum() > 4
        assert torch.allclose(mine[:, varies].std(0), torch.ones(int(varies.sum())), atol=1e-3)


def never():
    raise AssertionError("no code is poor")


def test_codes_are_means_of_what_is_assigned_to_them():
    torch.manual_seed(1)
    book, encoded = Codebook(4, 3, decay=0.5), torch.randn(400, 3)
    book.begin(encoded, torch.Generator().manual_seed(0))
    tokens = book.nearest(encoded)
    distances = (encoded[:, None] - book.codes).square().sum(-1)
    assert torch.equal(tokens, distances.argmin(-1))
    counts, sums = book.counts.clone(), book.sums.clone()
    statistics = book.statistics(encoded, tokens)
    # The shares of several processes add up to those of one.
    parts = sum(book.statistics(encoded[k::3], tokens[k::3]) for k in range(3))
    assert torch.allclose(statistics, parts, atol=1e-4)
    assert book.absorb(statistics, never) == 0
    for code in range(4):
        mine = encoded[tokens == code]
        wanted = (0.5 * sums[code] + 0.5 * mine.sum(0)) / (0.5 * counts[code] + 0.5 * len(mine))
        assert torch.allclose(book.codes[code], wanted, atol=1e-5)


def test_the_nearest_codes_are_those_of_all_distances():
    """More rows than are looked at together, and in float32 where the training is in bfloat16."""
    generator = torch.Generator().manual_seed(2)
    book = Codebook(64, 8, 0.9)
    book.codes.copy_(torch.randn(64, 8, generator=generator))
    encoded = torch.randn(3 * CPU_ROWS + 5, 8, generator=generator)
    wanted = torch.cdist(encoded.double(), book.codes.double()).argmin(-1)
    assert torch.equal(book.nearest(encoded), wanted) and len(book.nearest(encoded[:0])) == 0
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(book.nearest(encoded), wanted)


def test_a_code_that_is_not_used_is_set_anew_with_its_sums():
    """And only when it has been poor for as long as the running mean remembers."""
    book, encoded = Codebook(3, 2, decay=0.9), torch.tensor([[1.0, 0.0]] * 50 + [[0.0, 1.0]] * 50)
    book.codes.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]))
    book.counts.copy_(torch.tensor([50.0, 50.0, 4.0]))
    book.sums.copy_(book.codes * book.counts.unsqueeze(-1))
    spare = torch.tensor([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])
    given_up = [book.absorb(book.statistics(encoded, book.nearest(encoded)), lambda: spare) for _ in range(30)]
    assert given_up[:14] == [0] * 13 + [1]  # 4 x 0.9 ^ 14 < 1
    assert given_up.index(1, 14) in (23, 24) and sum(given_up) == 2  # it had ten batches to be of use
    assert torch.allclose(book.codes, torch.tensor([[1.0, 0.0], [0.0, 1.0], [7.0, 7.0]]))
    assert torch.allclose(book.sums[2] / book.counts[2], book.codes[2]) and 1 < float(book.counts[2]) < 3


def test_more_codes_than_there_is_to_encode():
    book, encoded = Codebook(8, 2, decay=0.9), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    book.begin(encoded, torch.Generator().manual_seed(0))
    assert {tuple(code) for code in book.codes.tolist()} == {tuple(row) for row in encoded.tolist()}
    for _ in range(40):
        book.absorb(book.statistics(encoded, book.nearest(encoded)), lambda: encoded)
    told = book.codes[book.nearest(encoded)]
    assert torch.allclose(told, encoded, atol=1e-5)


def test_gradients_pass_the_codes_and_do_not_move_them(played):
    tokenizer = small(played.layout)
    rows, types = living_rows(played, torch.arange(200))
    tokenizer.measure([(rows, types)])
    loss, sums, encoded, tokens = tokenizer(rows, types)
    loss.backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in tokenizer.parameters())
    assert not any("codebook" in name for name, _ in tokenizer.named_parameters())
    assert float(sums[3]) == len(rows) and len(encoded) == 2 and tokens[0].shape == (len(rows),)
    # A mean over all nodes is the same whatever the batch is divided into.
    halves = [tokenizer(rows[k::2], types[k::2])[1] for k in range(2)]
    assert torch.allclose(halves[0] + halves[1], sums, rtol=1e-4)


def test_what_codes_mean_is_a_table(played):
    tokenizer = small(played.layout)
    rows, types = living_rows(played, torch.arange(100))
    tokenizer.measure([(rows, types)])
    tokens = tokenizer.tokens(rows, types)
    decoded = tokenizer.decode(tokens, types)
    told = Nodes(played.layout).told
    for node_type, row in ((0, told[0]), (1, told[1]), (2, told[-1])):
        assert not decoded[types == node_type][:, ~row].any()
    one = int((types == 2).nonzero()[0])
    part = tokenizer.parts[0]
    kind = torch.tensor([[0.0, 0.0, 1.0]])
    place = part.decode(part.codebook.codes[tokens[one, 0]][None], kind) * tokenizer.deviation[2] + tokenizer.mean[2]
    assert torch.allclose(decoded[one, :4], place[0, :4], atol=1e-5)
    part, code = tokenizer.parts[1], tokens[one, 1]
    condition = part.decode(part.codebook.codes[code][None], kind) * tokenizer.deviation[2] + tokenizer.mean[2]
    width = int(told[-1].sum())
    assert torch.allclose(decoded[one, 4:width], condition[0, 4:width], atol=1e-5)


def test_it_learns_to_tell_rows(played):
    """A minute's training in small: held-out rows are told to within a map unit, and most codes are used."""
    tokenizer = small(played.layout, (128, 32))
    rows, types = living_rows(played, played.steps_of(played.of_part(TRAIN))[0])
    held, held_types = living_rows(played, played.steps_of(played.of_part(TEST))[0])
    tokenizer.measure([(rows, types)])
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(tokenizer.parameters(), lr=3e-3)
    for step in range(150):
        chosen = torch.randint(len(rows), (2048,), generator=generator)
        batch, kinds = rows[chosen], types[chosen]
        if step in BEGINS:
            for part, encoded in zip(tokenizer.parts, tokenizer.encode(batch, kinds), strict=True):
                part.codebook.begin(encoded.detach(), generator)
        loss, sums, encoded, tokens = tokenizer(batch, kinds)
        optimiser.zero_grad()
        (loss / sums[3]).backward()
        optimiser.step()
        for part, code, token in zip(tokenizer.parts, encoded, tokens, strict=True):
            spare = code[torch.randperm(len(code), generator=generator)[: len(part.codebook.codes)]]
            part.codebook.absorb(part.codebook.statistics(code, token), lambda spare=spare: spare)
    told = tokenizer.decode(tokenizer.tokens(held, held_types), held_types)
    enemies = held_types == 2
    far = (5.0 * (told - held)[enemies][:, 2:4]).norm(dim=-1).mean()
    spread = (5.0 * (held[enemies][:, 2:4] - held[enemies][:, 2:4].mean(0))).norm(dim=-1).mean()
    assert far < 1.3 and far < spread / 4, (far, spread)
    assert (told - held)[enemies][:, 4].abs().mean() < 0.05
    assert len(tokenizer.tokens(rows, types)[:, 0].unique()) > 60
