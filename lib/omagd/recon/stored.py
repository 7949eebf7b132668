"""Episodes kept in a folder: played once, learnt from by any number of stages and runs.

`episodes.json` says what was fought, by whom and how often, and the SHA-256 of each file; `episodes-00000.safetensors`
and so on hold SHARD episodes each: the arrays of `EpisodeSet` with `lengths`, `won` and `policies`, numbers of names.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file

from lib.errors import UserError
from lib.files import atomic_directory, atomic_write_json, read_json, sha256_file
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.recon.episodes import EpisodeSet, check_episodes
from lib.omagd.recon.stages import SEEN
from lib.tensor_files import read_tensors

HEADER, FORMAT = "episodes.json", 1
SHARD = 1000
FLAG = "--pretrain_buffer_path"
PLAYED = ("policies", "graph_pretrain_episodes")  # what the folder decides where no flag does
OF_EPISODES = ("lengths", "won", "policies")


def header_of(config) -> dict:
    """By flag, what the episodes of a run follow from."""
    names = ("map", *config.battle_options(), "seed", *PLAYED)
    return {"format": FORMAT} | {name: getattr(config, name) for name in names}


def are_kept(config) -> bool:
    """Whether episodes are in the folder of `--pretrain_buffer_path`."""
    return config.pretrain_buffer_path is not None and (Path(config.pretrain_buffer_path) / HEADER).exists()


def settle_stored(config) -> list[str]:
    """Take over who plays and how often from the folder of `--pretrain_buffer_path`, where there are episodes.

    UserError when they are not of this run's battles, or not what the flags ask for; both values are named. Lines for
    the log.
    """
    path, saves = config.pretrain_buffer_path, config.save_pretrain_buffer
    if path is None:
        if saves:
            raise UserError(f"--save_pretrain_buffer: give {FLAG}, the folder that episodes are to be kept in")
        return []
    folder = Path(path)
    if not are_kept(config):
        if not saves:
            raise UserError(
                f"{FLAG} {path}: no {HEADER} is there; add --save_pretrain_buffer to play and keep episodes"
            )
        if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
            raise UserError(f"{FLAG} {path}: something else is there; give a folder that does not exist yet")
        return []
    mine, theirs = header_of(config), read_header(folder)
    # Where they are to be kept all has to agree; else what decides what is seen, and what was given in words.
    names = list(mine) if saves else [*SEEN, *(name for name in PLAYED if name in config.explicit)]
    for name in names:
        if theirs[name] != mine[name]:
            raise UserError(
                f"{FLAG} {path}: its episodes are of --{name} {theirs[name]}, this run has --{name} {mine[name]}; give"
                " another folder, or the same flag"
            )
    for name in PLAYED:
        setattr(config, name, theirs[name])
    episodes, policies = theirs["graph_pretrain_episodes"], theirs["policies"]
    return [f"{FLAG} {path}: {episodes:,} episodes by {policies} with --seed {theirs['seed']} are taken from there"]


def read_header(folder: Path) -> dict:
    """`episodes.json`. UserError when it is something else."""
    found = read_json(folder / HEADER)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{FLAG} {folder}: {HEADER} is not of episodes in format {FORMAT}: play them anew")
    lacking = sorted({*SEEN, *PLAYED, "reward", "seed", "names", "sha256"} - set(found))
    if lacking:
        raise UserError(f"{FLAG} {folder}: {HEADER} lacks {', '.join(lacking)}: play the episodes anew")
    return found


def keep(played: EpisodeSet, config) -> None:
    """Write the episodes whole or not at all. UserError when the disk does not take them."""
    arrays = {name: getattr(played, name) for name in EpisodeSet.ARRAYS}
    names = sorted(set(played.policies))
    numbers = torch.tensor([names.index(name) for name in played.policies], dtype=torch.int64)
    of_episodes = dict(zip(OF_EPISODES, (played.lengths, played.won, numbers), strict=True))
    needed = sum(array.nbytes for array in (*arrays.values(), *of_episodes.values()))
    with atomic_directory(Path(config.pretrain_buffer_path), needed) as folder:
        digests = {}
        for first in range(0, len(played), SHARD):
            end = min(first + SHARD, len(played))
            steps = slice(int(played.firsts[first]), int(played.firsts[end - 1] + played.lengths[end - 1]))
            shard = {name: array[steps].contiguous() for name, array in arrays.items()}
            shard |= {name: array[first:end].contiguous() for name, array in of_episodes.items()}
            file = folder / f"episodes-{first // SHARD:05d}.safetensors"
            save_file(shard, file)
            digests[file.name] = sha256_file(file)
        atomic_write_json(folder / HEADER, header_of(config) | {"names": names, "sha256": digests})


def read_episodes(path: str, *, neighbours: int = 1) -> EpisodeSet:
    """The episodes of a folder. UserError when a file is missing or damaged, or when they do not fit into memory."""
    folder = Path(path)
    header = read_header(folder)
    battle_map = find_map(header["map"])
    check_episodes(battle_map, header["graph_pretrain_episodes"], neighbours)
    shards = []
    for name, digest in sorted(header["sha256"].items()):
        file = folder / name
        if not file.is_file() or sha256_file(file) != digest:
            raise UserError(f"{file} is missing or not the one that {HEADER} speaks of: play the episodes anew")
        shards.append(read_tensors(file))
    together = {name: torch.cat([shard[name] for shard in shards]) for name in (*EpisodeSet.ARRAYS, *OF_EPISODES)}
    lengths, won, numbers = (together.pop(name) for name in OF_EPISODES)
    policies = [header["names"][number] for number in numbers.tolist()]
    return EpisodeSet(Layout.of(battle_map), together, lengths, won, policies)
