"""The flags of OMAGD training. Names of the originals are kept where they have one; contradictions are refused."""

from dataclasses import dataclass
from typing import ClassVar

from lib.args import RunArgs, option
from lib.errors import UserError
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS, find_map
from lib.omagd.battle.rules import JITTER_MOST, REWARDS, SIGHT_MOST, TICK_RATES
from lib.omagd.learning.mixers import MIXERS
from lib.omagd.learning.networks import AgentConfig
from lib.omagd.learning.qmix import QmixConfig

ALIASES = {"map_name": "map", "learning_rate": "lr", "batch_size": "per_device_batch_size"}
OBSERVE = ("obs", "full_obs")


@dataclass
class BattleOptions(RunArgs):
    """What is fought."""

    seed: int = option(1, "every random draw derives from it", "battle", minimum=0)
    map: str = option("3m", "one of the maps of SMAC", "battle")
    sight: float = option(9.0, "how far agents see, in map units", "battle", above=0)
    observe: str = option("obs", "full_obs: agents are told of what they do not see, too", "battle", choices=OBSERVE)
    leaky_mask: bool = option(
        False, "attacks are available up to 6 even where the sight is less, which tells of the unseen", "battle"
    )
    tick_rate: float = option(16.0, "ticks a second, 16 or 22.4; a step is 8 of them", "battle")
    reward: str = option("signed", "see lib/omagd/battle/rules.py", "battle", choices=REWARDS)
    spawn_jitter: float = option(0.3, "units start up to so far from their place", "battle", minimum=0)
    smac_type_bits: str = option("aligned", "raw: enemies' types as SMAC counts", "battle", choices=("aligned", "raw"))

    def battle_options(self) -> dict:
        """Keywords of BattleVec."""
        names = ("sight", "leaky_mask", "tick_rate", "reward", "spawn_jitter", "smac_type_bits")
        return {name: getattr(self, name) for name in names}


@dataclass
class OmagdOptions(BattleOptions):
    """Network, learning, run."""

    stage: str = option("qmix", "what is trained", "learning", choices=("qmix",))
    mixer: str = option("qmix", "vdn: the sum; iql: each agent by itself", "learning", choices=MIXERS)
    rnn_hidden_dim: int = option(64, "width of the agents' memory", "learning", minimum=1)
    batch_size_run: int = option(64, "battles played at once by each process", "learning", minimum=1)
    per_device_batch_size: int = option(32, "episodes of an update, per process", "learning", minimum=1)
    buffer_size: int = option(5000, "episodes kept by each process", "learning", minimum=1)
    buffer_steps: int = option(
        200_000, "steps kept by each process; fewer episodes where they fill it", "learning", minimum=1
    )
    lr: float = option(1e-3, "learning rate of Adam, before --lr_scale", "learning", above=0)
    max_grad_norm: float = option(10.0, "clip the gradient to this norm; 0 = no clipping", "learning", minimum=0)
    gamma: float = option(0.99, "discount of a step", "learning", minimum=0, maximum=1)
    td_lambda: float = option(0.6, "share of later returns in the target", "learning", minimum=0, maximum=1)
    steps_per_update: int = option(256, "steps of a process's battles for each update", "learning", minimum=1)
    target_update_interval: int = option(200, "episodes of all processes between target copies", "learning", minimum=1)
    epsilon_start: float = option(1.0, "share of random actions at the start", "learning", minimum=0, maximum=1)
    epsilon_finish: float = option(0.05, "and at the end", "learning", minimum=0, maximum=1)
    epsilon_anneal_time: int = option(50_000, "steps of all processes from one to the other", "learning", minimum=1)
    t_max: int = option(2_000_000, "steps of all processes' battles", "learning", minimum=1)

    test_nepisode: int = option(128, "greedy test battles of an evaluation while training", "run", minimum=1)
    final_nepisode: int = option(512, "and at the end", "run", minimum=1)
    log_every: int = option(20, "updates between rows of metrics.jsonl", "run", minimum=1)
    report_json: str | None = option(None, "also write results.json here", "run")
    visualize: bool = option(True, "report.html and plots at the end", "run")
    device: str | None = option(None, "cpu forces CPU; devices are placed by the launcher", "run")
    memory_remedies: ClassVar[tuple[str, ...]] = ("buffer_steps", "batch_size_run", "per_device_batch_size")

    def qmix_config(self) -> QmixConfig:
        """What the update is made of."""
        layout = Layout.of(MAPS[self.map])
        agent = AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents, self.rnn_hidden_dim)
        return QmixConfig(agent, layout.state_size, self.mixer, self.gamma, self.td_lambda)


def check_options(config: OmagdOptions) -> list[str]:
    """Raise UserError for what cannot be; return the log lines of what was decided."""
    battle_map = find_map(config.map)
    if config.sight > SIGHT_MOST:
        raise UserError(f"--sight {config.sight:g}: expected a length of at most {SIGHT_MOST}")
    if config.tick_rate not in TICK_RATES:
        raise UserError(f"--tick_rate {config.tick_rate:g}: expected 16 or 22.4")
    if config.spawn_jitter > JITTER_MOST:
        raise UserError(f"--spawn_jitter {config.spawn_jitter:g}: expected a length of at most {JITTER_MOST}")
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
    episodes = max(config.per_device_batch_size, config.batch_size_run)
    if config.buffer_steps < episodes * battle_map.limit:
        raise UserError(
            f"--buffer_steps {config.buffer_steps} cannot hold {episodes} episodes of {config.map}, which last up to"
            f" {battle_map.limit} steps: give {episodes * battle_map.limit} or more"
        )
    if config.epsilon_finish > config.epsilon_start:
        raise UserError(
            f"--epsilon_finish {config.epsilon_finish} is above --epsilon_start {config.epsilon_start}: give less"
        )
    if config.leaky_mask and config.sight >= 6:
        raise UserError(f"--leaky_mask has no effect with --sight {config.sight:g}: attacks reach 6; drop it")
    if config.smac_type_bits == "raw" and battle_map.type_names != ("stalker", "zealot"):
        return [f"--smac_type_bits raw: on {config.map} SMAC's numbers are the aligned ones"]
    return []
