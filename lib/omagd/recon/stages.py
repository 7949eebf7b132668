"""The stages before the agents, made ready to be learnt: what `--stage tokenizer` and `--stage predictor` train.

A later stage takes the export of the one before. What it was made for has to be what is played now, as far as it
decides what is seen (`SEEN`): else it is refused by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from lib.errors import UserError
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.foreign.choose import EMBEDDED
from lib.omagd.recon.episodes import EpisodeSet
from lib.omagd.recon.predictor import HUNGARIAN, Predictor, PredictorConfig
from lib.omagd.recon.predictor_task import PredictorTask
from lib.omagd.recon.tokenizer import Tokenizer, TokenizerConfig
from lib.omagd.recon.tokenizer_task import TokenizerTask
from lib.task import Task

TOKENIZER, PREDICTOR = "tokenizer", "predictor"
SEEN = ("map", "sight", "leaky_mask", "tick_rate", "spawn_jitter", "smac_type_bits")
ReadExport = Callable[[str | Path], tuple[dict[str, Tensor], dict]]


@dataclass(frozen=True)
class Stage:
    """A task to be learnt, and what its export says of itself."""

    task: Task
    updates: int
    unit: str  # what throughput counts
    config: dict


@dataclass(frozen=True)
class Artifact:
    """The export of a stage: as it was named, its weights, its config.json."""

    flag: str
    tensors: dict[str, Tensor]
    described: dict


def command_of(config, stage: str) -> str:
    """The command that makes what a stage is for, for this run's battles."""
    words = [f"--stage {stage}", f"--map {config.map}", f"--sight {config.sight:g}"]
    for name in SEEN[2:]:
        usual, value = type(config).__dataclass_fields__[name].default, getattr(config, name)
        if value != usual:
            words.append(f"--{name}" if value is True else f"--{name} {value}")
    if stage == PREDICTOR:
        words.append(f"--tokenizer {config.tokenizer or 'RUN'}")
    return "accelerate launch scripts/train_omagd.py " + " ".join(words)


def read_stage(config, stage: str, read_export: ReadExport) -> Artifact:
    """The export that `--{stage}` names.

    UserError with the command that makes one where none is given; by name where it is of something else.
    """
    path = getattr(config, stage)
    if not path:
        asks = f"--stage {config.stage}" if config.stage == PREDICTOR else f"--observe {config.observe}"
        raise UserError(
            f"{asks} needs --{stage}, the folder of an export or run; {command_of(config, stage)} makes one"
        )
    tensors, described = read_export(path)
    if described.get("stage") != stage:
        kind = f"of --stage {described['stage']}" if "stage" in described else "of agents"
        raise UserError(f"--{stage} {path}: an export {kind}, no {stage}; {command_of(config, stage)} makes one")
    mine, theirs = {"map": config.map, **config.battle_options()}, described.get("battle", {})
    if stage == PREDICTOR and described.get("matching") == HUNGARIAN:
        raise UserError(
            f"--{stage} {path}: learnt with --matching {HUNGARIAN}, where no slot is a certain unit, as actions are;"
            f" {command_of(config, stage)} makes one that agents can be told"
        )
    for name in SEEN:
        if theirs.get(name) != mine[name]:
            raise UserError(
                f"--{stage} {path}: made with --{name} {theirs.get(name)}, this run has --{name} {mine[name]};"
                f" {command_of(config, stage)} makes another"
            )
    return Artifact(f"--{stage} {path}", tensors, described)


def tokenizer_of(artifact: Artifact) -> Tokenizer:
    """The tokenizer of an export. UserError when weights and config.json disagree."""
    described = artifact.described
    try:
        layout = Layout.of(find_map(described["battle"]["map"]))
        sizes = {name: described[name] for name in TokenizerConfig.__dataclass_fields__}
        module = Tokenizer(layout, TokenizerConfig(**{**sizes, "codes": tuple(sizes["codes"])}))
    except (TypeError, KeyError, RuntimeError) as error:
        raise _no_sizes(artifact.flag, TOKENIZER, error) from None
    load_weights(module, artifact.tensors, artifact.flag)
    return module.eval().requires_grad_(False)


def _no_sizes(source: str, stage: str, error: Exception) -> UserError:
    return UserError(
        f"{source}: its config.json has no sizes of a {stage} ({error!r}): copy the export folder as a whole"
    )


def load_weights(module, tensors: dict[str, Tensor], source: str) -> None:
    """Weights of an export into their module. UserError when they are others."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise UserError(
            f"{source}: its weights are not those of its config.json ({str(error).splitlines()[-1].strip()}): copy the"
            " export folder as a whole"
        ) from None


def predictor_of(described, tensors: dict[str, Tensor], source: str) -> Predictor:
    """The predictor whose sizes are `described`, of its own export or that of agents. UserError when they disagree."""
    try:
        # An export of before may lack what came later; what has no default is missed by the class.
        sizes = {name: described[name] for name in PredictorConfig.__dataclass_fields__ if name in described}
        module = Predictor(PredictorConfig(**{**sizes, "codes": tuple(sizes["codes"])}))
    except (TypeError, KeyError, RuntimeError) as error:
        raise _no_sizes(source, PREDICTOR, error) from None
    load_weights(module, tensors, source)
    return module.eval().requires_grad_(False)


def about(config, stage: str, sizes: dict, played: EpisodeSet, **more) -> dict:
    """What a checkpoint of a stage is of."""
    return {"stage": stage, "map": config.map, "policies": config.policies, "episodes": config.graph_pretrain_episodes,
            **sizes, **config.battle_options(), "digest of the episodes": played.digest(), **more}  # fmt: skip


def exported(config, stage: str, sizes: dict) -> dict:
    """config.json of the export of a stage."""
    battle = {"env": EMBEDDED, "map": config.map, **config.battle_options()}
    return sizes | {"stage": stage, "battle": battle, "policies": config.policies}


def tokenizer_stage(config, played: EpisodeSet, ranks) -> Stage:
    """Stage 1: rows of nodes to tokens and back. `ranks`: as for `lib.task.Task`."""
    sizes = TokenizerConfig(played.layout.node_width, (config.n_codes, config.n_condition_codes), config.code_dim)
    module = Tokenizer(played.layout, sizes).to(ranks.device)
    described = about(config, TOKENIZER, sizes.to_dict(), played)
    task = TokenizerTask(module, played, described, graphs=config.graph_batch_size, seed=config.seed, ranks=ranks)
    updates = config.graph_pretrain_epochs * task.epoch_updates
    return Stage(task, updates, "nodes", exported(config, TOKENIZER, sizes.to_dict()))


def predictor_stage(config, played: EpisodeSet, ranks, made_before: Artifact) -> Stage:
    """Stage 2: from what was seen to what was not, in the tokens of `--tokenizer`."""
    tokenizer = tokenizer_of(made_before).to(ranks.device)
    layout = played.layout
    hidden, slot = config.predictor_sizes()
    sizes = PredictorConfig(
        layout.n_agents, layout.n_actions, layout.n_nodes, layout.node_width, find_map(config.map).limit,
        tokenizer.config.codes, hidden, slot, config.memory, config.label_smoothing, config.matching,
        made_before.described.get("sha256_of_codes", ""),
    )  # fmt: skip
    module = Predictor(sizes).to(ranks.device)
    module.follow(tokenizer)
    described = about(config, PREDICTOR, sizes.to_dict(), played, mask_share=config.mask_share)
    task = PredictorTask(
        module, tokenizer, played, described, episodes=config.predictor_batch_size, mask_share=config.mask_share,
        seed=config.seed, ranks=ranks,
    )  # fmt: skip
    updates = config.graph_pretrain_epochs * task.epoch_updates
    return Stage(task, updates, "slots", exported(config, PREDICTOR, sizes.to_dict()))
