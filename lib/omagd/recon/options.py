"""The flags of what is learnt before the agents: episodes, tokens, guesses; names of the original where known."""

from dataclasses import dataclass

from lib.args import option
from lib.errors import UserError
from lib.omagd.foreign.choose import EMBEDDED
from lib.omagd.recon.episodes import MIXTURE, TEST, TRAIN, VALIDATION, part_of, read_mixture
from lib.omagd.recon.predictor import MATCHINGS, MEMORIES, SLOTWISE

RATES = {"tokenizer": 1e-3, "predictor": 5e-3}
SIZES = {"small": (64, 16), "large": (256, 64)}  # of a predictor: its belief, a slot


@dataclass
class ReconOptions:
    """Where episodes come from, sizes of tokenizer and predictor, and how they are trained."""

    graph_pretrain_episodes: int = option(
        2000, "episodes that tokens and guesses are learnt from", "reconstruction", minimum=1
    )
    policies: str = option(
        MIXTURE, "who plays them: player@epsilon:part,...; a player is a script or a team's folder", "reconstruction"
    )
    pretrain_buffer_path: str | None = option(
        None, "folder of kept episodes, which are taken instead of being played", "reconstruction"
    )
    save_pretrain_buffer: bool = option(False, "play them and keep them there, where there are none", "reconstruction")
    graph_lr: float | None = option(
        None, "learning rate of Adam, before --lr_scale; default 1e-3 for tokens, 5e-3 for guesses", "reconstruction",
        above=0,
    )  # fmt: skip
    graph_pretrain_epochs: int = option(10, "passes over the training episodes", "reconstruction", minimum=1)

    n_codes: int = option(1024, "codes of places", "tokenizer", minimum=2)
    n_condition_codes: int = option(128, "codes of health, shield and type", "tokenizer", minimum=2)
    code_dim: int = option(32, "width of a code", "tokenizer", minimum=1)
    graph_batch_size: int = option(1024, "agents' views of an update, per process", "tokenizer", minimum=1)

    tokenizer: str | None = option(None, "export or run of --stage tokenizer", "predictor")
    predictor_size: str = option("small", "large: four times as wide", "predictor", choices=tuple(SIZES))
    memory: str = option(
        "belief", "what a guess is made from: all steps so far, or none but the present one", "predictor",
        choices=MEMORIES,
    )  # fmt: skip
    mask_share: float = option(
        0.15, "of the units in sight that are hidden while learning; 0 = none", "predictor", minimum=0, maximum=1
    )
    matching: str = option(
        SLOTWISE, "slots: a guess is of the unit of its slot; hungarian: of any unit of its kind that is missed, each"
        " once, for slots that may be exchanged", "predictor", choices=MATCHINGS,
    )  # fmt: skip
    label_smoothing: float = option(0.1, "of the tokens", "predictor", minimum=0, maximum=0.9)
    predictor_batch_size: int = option(32, "episodes of an update, per process", "predictor", minimum=1)

    def graph_rate(self) -> float:
        """The learning rate of --stage."""
        return RATES[self.stage] if self.graph_lr is None else self.graph_lr

    def predictor_sizes(self) -> tuple[int, int]:
        """Widths of belief and slots."""
        return SIZES[self.predictor_size]


def check_recon(config, kept: bool = False) -> None:
    """UserError for what a stage before the agents cannot be trained with. kept: its episodes have been played."""
    if config.env != EMBEDDED:
        raise UserError(f"--stage {config.stage}: --env {config.env} cannot be played often enough; drop --env")
    read_mixture(config.policies, kept)
    found = {part_of(number) for number in range(config.graph_pretrain_episodes)}
    missing = [part for part in (TRAIN, VALIDATION, TEST) if part not in found]
    if missing:
        enough = next(n for n in range(1, 10_000) if len({part_of(number) for number in range(n)}) == 3)
        raise UserError(
            f"--graph_pretrain_episodes {config.graph_pretrain_episodes}: none of them is for {missing[0]}; give"
            f" {enough} or more"
        )
