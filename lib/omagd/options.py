"""The flags of OMAGD training. Names of the originals are kept where they have one; contradictions are refused."""

import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from lib.args import RunArgs, option
from lib.errors import UserError
from lib.omagd.battle.maps import find_map
from lib.omagd.battle.rules import JITTER_MOST, REWARDS, SIGHT_MOST, TICK_RATES
from lib.omagd.battles import layout_and_limit
from lib.omagd.foreign.choose import DEFAULTS, EMBEDDED, ENVIRONMENTS, OTHER_NAMES, check_own_options, read_arguments
from lib.omagd.former import AGENTS, ALL, FormerNames
from lib.omagd.learning.mixers import MIXERS
from lib.omagd.learning.networks import AgentConfig
from lib.omagd.learning.qmix import QmixConfig
from lib.omagd.recon.options import ReconOptions, check_recon
from lib.omagd.recon.predictor import HUNGARIAN
from lib.omagd.recon.stages import PREDICTOR, TOKENIZER
from lib.omagd.senses import EXPECTED, GUESSED, OBS, OBSERVE, RECONSTRUCTED, told_size

# Names of PyMARL and EPyMARL for what is the same here.
ALIASES = {
    "map_name": "map",
    "learning_rate": "lr",
    "batch_size": "per_device_batch_size",
    "grad_norm_clip": "max_grad_norm",
    "hidden_dim": "rnn_hidden_dim",
    # Of the system whose idea this is; see former.py for those that say something else here.
    "reconstructer_stage": "recontructer_stage",
    "pretrained_tokenizer_path": "tokenizer",
    "pretrained_mask_predictor_path": "predictor",
    "mask_ratio": "mask_share",
    "checkpoint_path": "resume",
}
STAGES = (TOKENIZER, PREDICTOR, AGENTS, ALL)
# Of the embedded battles to choose; games of others decide them by themselves.
DECIDED = ("sight", "leaky_mask", "tick_rate", "reward", "spawn_jitter", "smac_type_bits")


@dataclass
class BattleOptions(RunArgs):
    """What is fought."""

    seed: int = option(1, "every random draw derives from it", "battle", minimum=0)
    env: str = option(
        EMBEDDED, "the game: sc2 is smac, sc2_v2 smacv2; all but embedded must be installed", "battle",
        choices=ENVIRONMENTS,
    )  # fmt: skip
    map: str = option("3m", "one of the maps of SMAC, or of the game of --env", "battle")
    env_args: str | None = option(None, "comma list of name=value of the game of --env: difficulty=7", "battle")
    sight: float = option(9.0, "how far agents see, in map units", "battle", above=0)
    observe: str = option(
        OBS,
        "reconstructed: with guesses of what agents do not see; full_obs: with the truth",
        "battle",
        choices=OBSERVE,
    )
    leaky_mask: bool = option(
        False, "attacks are available up to 6 even where the sight is less, which tells of the unseen", "battle"
    )
    tick_rate: float = option(16.0, "ticks a second, 16 or 22.4; a step is 8 of them", "battle")
    reward: str = option("signed", "see lib/omagd/battle/rules.py", "battle", choices=REWARDS)
    spawn_jitter: float = option(0.3, "units start up to so far from their place", "battle", minimum=0)
    smac_type_bits: str = option("aligned", "raw: enemies' types as SMAC counts", "battle", choices=("aligned", "raw"))

    def __post_init__(self):
        self.env = OTHER_NAMES.get(self.env, self.env)

    def battle_options(self) -> dict:
        """Keywords of the battles of `env`."""
        if self.env != EMBEDDED:
            return {"env_args": self.game_arguments()}
        return {name: getattr(self, name) for name in DECIDED}

    def game_arguments(self) -> dict:
        """`env_args` as keywords."""
        return read_arguments(self.env, self.env_args or "")


@dataclass
class OmagdOptions(FormerNames, ReconOptions, BattleOptions):
    """Network, learning, run."""

    stage: str = option(
        AGENTS,
        "what is trained: tokens of units, guesses of unseen ones, the agents, or all in turn",
        "learning",
        choices=STAGES,
    )
    predictor: str | None = option(None, "export or run of --stage predictor, for --observe reconstructed", "learning")
    recon: str = option(EXPECTED, "a guess is the mean of all, or the likeliest tokens", "learning", choices=GUESSED)
    mixer: str = option("qmix", "vdn: the sum; iql: each agent by itself", "learning", choices=MIXERS)
    rnn_hidden_dim: int = option(64, "width of the agents' memory", "learning", minimum=1)
    batch_size_run: int = option(64, "battles played at once by each process", "learning", minimum=1)
    per_device_batch_size: int = option(32, "episodes of an update, per process", "learning", minimum=1)
    buffer_size: int = option(5000, "episodes kept by each process", "learning", minimum=1)
    buffer_steps: int = option(
        200_000, "steps kept by each process; fewer episodes where they fill it", "learning", minimum=1
    )
    lr: float = option(1e-3, "learning rate of Adam, before --lr_scale", "learning", above=0)
    lr_schedule: str = option(
        "constant", "linear: to a tenth at --t_max, or at --max_minutes where that is nearer", "learning",
        choices=("constant", "linear"),
    )  # fmt: skip
    max_grad_norm: float = option(10.0, "clip the gradient to this norm; 0 = no clipping", "learning", minimum=0)
    gamma: float = option(0.99, "discount of a step", "learning", minimum=0, maximum=1)
    td_lambda: float = option(0.6, "share of later returns in the target", "learning", minimum=0, maximum=1)
    steps_per_update: int = option(256, "steps of a process's battles for each update", "learning", minimum=1)
    target_update_interval: int = option(200, "episodes of all processes between target copies", "learning", minimum=1)
    epsilon_start: float = option(1.0, "share of random actions at the start", "learning", minimum=0, maximum=1)
    epsilon_finish: float = option(0.05, "and at the end", "learning", minimum=0, maximum=1)
    epsilon_anneal_time: int = option(500_000, "steps of all processes from one to the other", "learning", minimum=1)
    t_max: int = option(2_000_000, "steps of all processes' battles", "learning", minimum=1)

    test_interval: int | None = option(
        None, "steps of all battles between tests, in place of --eval_every; a test follows an update", "run", minimum=1
    )
    test_nepisode: int = option(128, "greedy test battles of an evaluation while training", "run", minimum=1)
    final_nepisode: int = option(512, "and at the end", "run", minimum=1)
    log_every: int = option(20, "updates between rows of metrics.jsonl", "run", minimum=1)
    report_json: str | None = option(None, "also write results.json here", "run")
    visualize: bool = option(True, "report.html and plots at the end", "run")
    compare: str | None = option(
        None, "folders of finished runs, separated by commas: their win rates stand beside this one's in report.html",
        "run",
    )  # fmt: skip
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    memory_remedies: ClassVar[tuple[str, ...]] = ("buffer_steps", "batch_size_run", "per_device_batch_size")

    def qmix_config(self) -> QmixConfig:
        """What the update is made of."""
        layout, _ = layout_and_limit(self.env, self.map, self.game_arguments())
        told = told_size(layout, self.observe)
        agent = AgentConfig(told, layout.n_actions, layout.n_agents, self.rnn_hidden_dim)
        return QmixConfig(agent, layout.state_size, self.mixer, self.gamma, self.td_lambda)


def check_stage(config: OmagdOptions) -> None:
    """UserError for a flag that the stage does not use."""
    if config.stage != AGENTS:
        check_recon(config)
    words, learnt = f"--stage {config.stage}", (config.stage,)
    if config.stage == ALL:
        check_all(config)
        if not config.pretrain_only:
            return
        words, learnt = "--pretrain_only", (TOKENIZER, PREDICTOR)
    uses = {"learning"} if config.stage == AGENTS else {"reconstruction", *learnt}
    own = {"learning", "reconstruction", TOKENIZER, PREDICTOR}
    unused = {field.name for field in fields(config) if field.metadata.get("group") in own - uses} - {"stage"}
    if config.stage != AGENTS:
        unused |= {"observe", "test_interval", "test_nepisode", "final_nepisode", "compare"}
        unused -= {"max_grad_norm"}
    for name in sorted(unused & config.explicit):
        raise UserError(f"--{name}: {words} does not use it; drop it")


def check_all(config: OmagdOptions) -> None:
    """UserError for what several stages in turn cannot take."""
    words = "--pretrain_only" if config.pretrain_only else "--stage all"
    if not config.output_dir:
        raise UserError(f"{words} makes a run of each stage: give --output_dir, the folder that is to hold them")
    if config.resume not in (None, "auto"):
        raise UserError(f"{words} --resume {config.resume}: give auto: the stage that has not ended goes on")
    for name in ("tokenizer", "predictor"):
        if name in config.explicit:
            raise UserError(f"{words} makes its {name} itself: drop --{name}, or give --stage for the later ones")
    if config.report_json:
        raise UserError(f"{words}: --report_json would be written by each stage; results.json is in each folder")
    if config.pretrain_only:
        return
    if "observe" in config.explicit and config.observe != RECONSTRUCTED:
        raise UserError(f"--stage all is for --observe reconstructed, not {config.observe}: give --stage qmix")
    if config.matching == HUNGARIAN:
        raise UserError(f"--stage all: agents cannot be told guesses of --matching {HUNGARIAN}; drop it")


def stages_of(config: OmagdOptions) -> list[OmagdOptions]:
    """The configurations of the stages to be run, each in a folder of its own where they are several."""
    if config.stage != ALL:
        return [config]
    base = Path(config.output_dir)
    found = []
    for stage in (TOKENIZER, PREDICTOR) if config.pretrain_only else (TOKENIZER, PREDICTOR, AGENTS):
        each = copy.copy(config)
        each.stage, each.output_dir = stage, str(base / stage)
        each.tokenizer = str(base / TOKENIZER) if stage == PREDICTOR else None
        if stage == AGENTS:
            each.predictor, each.observe = str(base / PREDICTOR), RECONSTRUCTED
        found.append(each)
    return found


def check_options(config: OmagdOptions) -> list[str]:
    """Raise UserError for what cannot be; return the log lines of what was decided."""
    check_stage(config)
    notes = check_embedded(config) if config.env == EMBEDDED else check_game(config)
    if config.observe == RECONSTRUCTED and config.env != EMBEDDED:
        raise UserError(f"--observe reconstructed: there are no guesses for --env {config.env}; drop --env")
    for name in ("predictor", "recon"):
        if config.stage == AGENTS and config.observe != RECONSTRUCTED and name in config.explicit:
            raise UserError(f"--{name} has no effect with --observe {config.observe}: give --observe reconstructed")
    if config.test_interval is not None and config.eval_every is not None:
        raise UserError("--test_interval counts steps, --eval_every updates between the same tests: give one")
    if config.compare and not config.visualize:
        raise UserError("--compare has no effect with --no_visualize: there is no report for other runs to stand in")
    if config.gradient_accumulation_steps != 1:
        raise UserError(
            f"--gradient_accumulation_steps {config.gradient_accumulation_steps}: an update of this size gains nothing"
            " by being divided; give a larger --per_device_batch_size"
        )
    if config.per_device_batch_size > config.buffer_size:
        raise UserError(
            f"--per_device_batch_size {config.per_device_batch_size}: --buffer_size {config.buffer_size} never holds"
            " so many episodes; give less or more of the other"
        )
    if config.batch_size_run > config.buffer_size:
        raise UserError(
            f"--batch_size_run {config.batch_size_run}: --buffer_size {config.buffer_size} cannot hold an episode of"
            " each battle; give less or more of the other"
        )
    if config.env == EMBEDDED:
        check_buffers(config)
    if config.epsilon_finish > config.epsilon_start:
        raise UserError(
            f"--epsilon_finish {config.epsilon_finish} is above --epsilon_start {config.epsilon_start}: give less"
        )
    return notes


def check_buffers(config: OmagdOptions) -> None:
    """UserError where the game or its map is not there, or the replay cannot hold enough of its episodes.

    Apart from `check_options`, which needs no game of others to be installed; for the embedded battles it is a part.
    """
    _, limit = layout_and_limit(config.env, config.map, config.game_arguments())
    episodes = max(config.per_device_batch_size, config.batch_size_run)
    if config.buffer_steps < episodes * limit:
        raise UserError(
            f"--buffer_steps {config.buffer_steps} cannot hold {episodes} episodes of {config.map}, which last up to"
            f" {limit} steps: give {episodes * limit} or more"
        )


def check_embedded(config: BattleOptions) -> list[str]:
    """`check_options` of what is fought in the embedded battles."""
    battle_map = find_map(config.map)
    config.game_arguments()
    if config.sight > SIGHT_MOST:
        raise UserError(f"--sight {config.sight:g}: expected a length of at most {SIGHT_MOST}")
    if config.tick_rate not in TICK_RATES:
        raise UserError(f"--tick_rate {config.tick_rate:g}: expected 16 or 22.4")
    if config.spawn_jitter > JITTER_MOST:
        raise UserError(f"--spawn_jitter {config.spawn_jitter:g}: expected a length of at most {JITTER_MOST}")
    if config.leaky_mask and config.sight >= 6:
        raise UserError(f"--leaky_mask has no effect with --sight {config.sight:g}: attacks reach 6; drop it")
    if config.smac_type_bits == "raw" and battle_map.type_names != ("stalker", "zealot"):
        return [f"--smac_type_bits raw: on {config.map} SMAC's numbers are the aligned ones"]
    return []


def check_game(config: BattleOptions) -> list[str]:
    """`check_options` of what is fought in a game of others; the options that it decides itself become what they are.

    Defaults that are made for thousands of battles at once become those of DEFAULTS.
    """
    config.game_arguments()
    own = check_own_options(config.env, {name: getattr(config, name) for name in DECIDED}, config.explicit)
    for name in DECIDED:
        setattr(config, name, own.get(name))
    changed = [name for name in DEFAULTS if hasattr(config, name) and name not in config.explicit]
    for name in changed:
        setattr(config, name, DEFAULTS[name])
    words = ", ".join(f"--{name} {DEFAULTS[name]}" for name in changed)
    return [f"--env {config.env}: {words} unless given"] if words else []
