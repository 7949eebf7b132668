"""Stand-ins for the games of others, and episodes with tokens of their units, where a test asks for them."""

import pytest
import torch
from fake_failures import made
from fake_games import install
from foreign_samples import forget

from lib.omagd.recon.episodes import MIXTURE, EpisodeSet, collect, read_mixture
from lib.omagd.recon.tokenizer import Tokenizer, TokenizerConfig


@pytest.fixture(scope="session")
def played() -> EpisodeSet:
    return collect("2s3z", read_mixture(MIXTURE), 60, seed=1, sight=5.0)


@pytest.fixture(scope="session")
def tokenizer(played) -> Tokenizer:
    """Of random weights."""
    torch.manual_seed(0)
    made = Tokenizer(played.layout, TokenizerConfig(played.layout.node_width, (32, 16), code_dim=8, hidden=16))
    rows = played.nodes.build(played.full_obs[:500].float()).flatten(0, 2)
    made.measure([(rows, played.nodes.types.repeat(len(rows) // played.layout.n_nodes))])
    return made


@pytest.fixture(scope="session")
def games_folder(tmp_path_factory):
    return install(tmp_path_factory.mktemp("games"))


@pytest.fixture
def games(games_folder, monkeypatch):
    """The stand-ins can be imported, and begin to be counted."""
    monkeypatch.syspath_prepend(str(games_folder))
    monkeypatch.setenv("SC2PATH", str(games_folder / "starcraft"))
    made[0] = 0
    yield monkeypatch
    forget()
