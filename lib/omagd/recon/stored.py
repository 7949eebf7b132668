"""Episodes kept in a folder: played once, learnt from by any number of stages and runs.

`episodes.json` says what was fought, by whom and how often, and the SHA-256 of each file; `episodes-00000.safetensors`
and so on hold SHARD episodes each: the arrays of `EpisodeSet` with `lengths`, `won` and `policies`, numbers of names.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save

from lib import room
from lib.errors import UserError
from lib.files import atomic_directory, atomic_write_json, read_json, sha256_file
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import find_map
from lib.omagd.recon.episodes import EpisodeSet
from lib.omagd.recon.options import check_recon
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
    return {name: getattr(config, name) for name in names}


def folder_of(config) -> Path:
    """The folder of `--pretrain_buffer_path` itself, whatever leads to it."""
    return Path(config.pretrain_buffer_path).expanduser().resolve()


def are_kept(config) -> bool:
    """Whether episodes are in the folder of `--pretrain_buffer_path`."""
    return config.pretrain_buffer_path is not None and os.path.exists(folder_of(config) / HEADER)


def settle_stored(config, runs: Iterable[str]) -> list[str]:
    """Take over who plays and how often from the folder of `--pretrain_buffer_path`, where there are episodes.

    runs: the run directories of this command, or the folder that they will be made in. UserError when the episodes are
    not of this run's battles, or not what the flags ask for (both values are named), or when none can be kept there.
    Lines for the log.
    """
    path, saves = config.pretrain_buffer_path, config.save_pretrain_buffer
    if path is None:
        if saves:
            raise UserError(f"--save_pretrain_buffer: give {FLAG}, the folder that episodes are to be kept in")
        return []
    if not are_kept(config):
        if not saves:
            raise UserError(
                f"{FLAG} {path}: no {HEADER} is there, or not on this machine; add --save_pretrain_buffer to play and"
                " keep episodes"
            )
        check_place(config, [Path(run).resolve() for run in runs])
        return []
    theirs = read_header(folder_of(config))
    # Where they are to be kept all has to agree; else what decides what is seen, and what was given in words.
    given = [name for name in PLAYED if name in config.explicit]
    compare(config, theirs, header_of(config) if saves else (*SEEN, *given))
    for name in PLAYED:
        setattr(config, name, theirs[name])
    check_recon(config, kept=True)
    episodes, policies = theirs["graph_pretrain_episodes"], theirs["policies"]
    return [f"{FLAG} {path}: {episodes:,} episodes by {policies} with --seed {theirs['seed']} are taken from there"]


def check_place(config, runs: list[Path]) -> None:
    """UserError where episodes cannot be kept: before they are played."""
    path, folder = config.pretrain_buffer_path, folder_of(config)
    if any(folder == run or folder in run.parents or run in folder.parents for run in runs):
        raise UserError(f"{FLAG} {path}: give a folder that neither is nor holds a run's, nor lies in one")
    try:
        free = not folder.exists() or not any(folder.iterdir())
    except OSError as error:
        raise UserError(f"{FLAG} {path}: {error.strerror or error}; give a folder that does not exist yet") from None
    if not free:
        raise UserError(f"{FLAG} {path}: something else is there; give a folder that does not exist yet")
    above = next(parent for parent in folder.parents if parent.exists())
    if os.path.ismount(folder):  # nothing can take its place
        raise UserError(f"{FLAG} {path}: give a folder inside it")
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"{FLAG} {path}: no folder can be made in {above}; give another")


def compare(config, theirs: dict, names: Iterable[str]) -> None:
    """UserError where kept episodes are not this run's in one of the names: both values are named."""
    mine, saves = header_of(config), config.save_pretrain_buffer
    for name in names:
        if theirs[name] != mine[name]:
            other = ", or drop --save_pretrain_buffer" if saves and name not in SEEN else ""
            raise UserError(
                f"{FLAG} {config.pretrain_buffer_path}: its episodes are of --{name} {theirs[name]}, this run has"
                f" --{name} {mine[name]}; give the same, or another folder{other}"
            )


def read_header(folder: Path) -> dict:
    """`episodes.json`. UserError when it is something else."""
    found = read_json(folder / HEADER)
    if not isinstance(found, dict) or found.get("format") != FORMAT or isinstance(found["format"], bool):
        raise UserError(f"{FLAG} {folder}: {HEADER} is not of episodes in format {FORMAT}: play them anew")
    kinds = dict.fromkeys((*SEEN, "reward"), object) | {"graph_pretrain_episodes": int, "policies": str, "seed": int}
    kinds |= {"names": list, "sha256": dict}
    odd = [name for name, kind in kinds.items() if name not in found or not isinstance(found[name], kind)]
    odd += [
        name for name in ("names", "sha256") if name not in odd and not all(type(each) is str for each in found[name])
    ]
    if odd:
        raise UserError(f"{FLAG} {folder}: {HEADER} lacks {', '.join(odd)}, or in it is something else: play them anew")
    return found


def keep(played: EpisodeSet, config) -> str:
    """Write the episodes whole or not at all; a line for the log.

    UserError when the disk does not take them, or when something was put there meanwhile.
    """
    arrays = {name: getattr(played, name) for name in EpisodeSet.ARRAYS}
    names = sorted(set(played.policies))
    numbers = torch.tensor([names.index(name) for name in played.policies], dtype=torch.int64)
    of_episodes = dict(zip(OF_EPISODES, (played.lengths, played.won, numbers), strict=True))
    needed = sum(array.nbytes for array in (*arrays.values(), *of_episodes.values()))
    remedy = f"give another {FLAG}, then start again"
    with atomic_directory(folder_of(config), needed, replaces=False, remedy=remedy) as folder:
        digests = {}
        for first in range(0, len(played), SHARD):
            end = min(first + SHARD, len(played))
            steps = slice(int(played.firsts[first]), int(played.firsts[end - 1] + played.lengths[end - 1]))
            shard = {name: array[steps].contiguous() for name, array in arrays.items()}
            shard |= {name: array[first:end].contiguous() for name, array in of_episodes.items()}
            file = folder / f"episodes-{first // SHARD:05d}.safetensors"
            file.write_bytes(save(shard))  # with the rights of any new file, which `save_file` does not give
            digests[file.name] = sha256_file(file)
        header = {"format": FORMAT, **header_of(config), "names": names, "sha256": digests}
        atomic_write_json(folder / HEADER, header)
    return f"{len(played):,} episodes, {needed / 2**20:,.1f} MiB, are kept in {config.pretrain_buffer_path}"


def read_episodes(config, *, neighbours: int = 1) -> EpisodeSet:
    """The kept episodes, of a configuration that is settled.

    UserError when they are of other battles or played by others than it says, when a file is missing or damaged, or
    when they do not fit into this process's share of the memory.
    """
    folder = folder_of(config)
    if not are_kept(config):
        raise UserError(f"{FLAG} {folder}: no {HEADER} is there any more, or not on this machine: all have to see it")
    header = read_header(folder)
    compare(config, header, (*SEEN, *PLAYED))
    try:
        files = {folder / name: digest for name, digest in sorted(header["sha256"].items())}
        check_room(folder, 2 * sum(file.stat().st_size for file in files), neighbours)  # the files, and all in one
        for file, digest in files.items():
            if sha256_file(file) != digest:
                raise UserError(f"{file} is not the one that {HEADER} speaks of: play the episodes anew")
        shards = [read_tensors(file) for file in files]
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror or error}: play the episodes of {folder} anew") from None
    try:
        return assembled(header, shards)
    except (KeyError, IndexError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{FLAG} {folder}: {HEADER} and the other files do not agree ({error!r}): play them anew"
        ) from None


def check_room(folder: Path, needed: int, neighbours: int) -> None:
    """UserError when a process's share of the memory cannot hold the episodes."""
    free = room.free_memory() / neighbours
    if needed > free:
        raise UserError(
            f"{FLAG} {folder}: its episodes need {needed / 2**30:,.1f} GiB in each process while they are read, and"
            f" {free / 2**30:,.1f} GiB are free for it: keep fewer"
        )


def assembled(header: dict, shards: list[dict[str, torch.Tensor]]) -> EpisodeSet:
    """The episodes of all files. KeyError, IndexError, RuntimeError or ValueError where they do not fit together."""
    together = {name: torch.cat([shard[name] for shard in shards]) for name in (*EpisodeSet.ARRAYS, *OF_EPISODES)}
    lengths, won, numbers = (together.pop(name) for name in OF_EPISODES)
    layout = Layout.of(find_map(header["map"]))
    sizes = [len(each) for each in together.values()] + [int(lengths.sum())] + [len(lengths), len(won), len(numbers)]
    if sizes != [sizes[0]] * 6 + [header["graph_pretrain_episodes"]] * 3:
        raise ValueError(f"{sizes} steps and episodes")
    if together["full_obs"].shape[1:] != (layout.n_agents, layout.obs_size) or int(numbers.min()) < 0:
        raise ValueError("of another layout")
    return EpisodeSet(layout, together, lengths, won, [header["names"][number] for number in numbers.tolist()])
