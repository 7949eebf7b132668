"""One update of QMIX against the learners of EPyMARL and PyMARL2, on the same episodes: updates a second and ratios.

    OMP_NUM_THREADS=1 python benchmarks/omagd_learner.py --peer_dir EPYMARL --peer_dir PYMARL2

The peers are checkouts of github.com/uoe-agents/epymarl and github.com/hijkzzz/pymarl2, with their own settings for
QMIX but for the width of the networks (GRU of 64, mixer of 32, hypernetworks of 64: equal everywhere) and, at EPyMARL,
its recurrent agent and the last action as an input, which the others have. EPyMARL learns from one-step returns,
PyMARL2 and we from TD(lambda). An update is: draw 128 of the episodes that are kept, loss, gradients, clipping, Adam;
each side does it in its own way, PyMARL's by cutting the padding off after the longest episode of the batch.

Episodes are of battles on --maps, played by the scripted team with a share of random actions, as they come in the midst
of training (--noise 0.3), or by random actions, as at its beginning (--noise 1). Before anything is timed PyMARL2's
learner and ours get the same weights and the same batch: losses and gradients must agree. All processes keep the
memory that they have freed, as lib.launch has it for every trainer: the peers would be slower without.

Every learner is a process of its own with one thread; they take turns, --seconds each in every round. Each ratio is the
median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
import types
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
from record import write_result

from lib.allocator import keep_freed_memory
from lib.omagd.battle.battle import BattleVec
from lib.omagd.battle.layout import Layout
from lib.omagd.battle.maps import MAPS
from lib.omagd.learning.networks import AgentConfig
from lib.omagd.learning.qmix import Learner, QmixConfig, Targets
from lib.omagd.learning.replay import EpisodeReplay, step_arrays
from lib.omagd.options import OmagdOptions

EPISODES = 512  # kept, of which every update draws a batch
PEERS = {"pymarl2": "learners/nq_learner.py", "epymarl": "components/standarize_stream.py"}  # a file of each
BARS = {"epymarl": 2.0, "pymarl2": 1.5}  # of 128 episodes of which the longest have 60 steps
TOLERANCE = 1e-5  # relative
# Our names of what PyMARL2's learner holds, for the comparison.
GRU = {"weight_ih": "weight_ih_l0", "weight_hh": "weight_hh_l0", "bias_ih": "bias_ih_l0", "bias_hh": "bias_hh_l0"}
MIXER = {"hyper_w1": "first", "hyper_b1.0": "first_bias", "hyper_w2": "second", "hyper_b2": "value"}


def play(map_name: str, noise: float) -> tuple[dict, list[int]]:
    """(what was seen and done in EPISODES battles (EPISODES, limit, ...), their lengths)."""
    battles = BattleVec(map_name, EPISODES, seed=1, autoreset=False)
    kept = step_arrays(battles.layout, EPISODES, battles.limit)
    generator = torch.Generator().manual_seed(1)
    lengths = torch.zeros(EPISODES, dtype=torch.int64)
    for step in range(battles.limit):
        running = battles.done == 0
        battles.script("nearest")
        chosen = battles.actions.clone()
        drawn = torch.multinomial(battles.avail.float().view(-1, battles.layout.n_actions), 1, generator=generator)
        other = torch.rand(chosen.shape, generator=generator) < noise
        battles.actions.copy_(torch.where(other, drawn.view_as(chosen).to(chosen.dtype), chosen))
        for name, array in (("obs", battles.obs), ("state", battles.state), ("avail", battles.avail)):
            kept[name][:, step] = array
        kept["actions"][:, step] = battles.actions.to(torch.uint8)
        battles.step(check=False)
        kept["rewards"][running, step] = battles.rewards[running]
        kept["ends"][running, step] = battles.done[running].float()
        lengths += running
        if bool(battles.done.all()):
            break
    return {name: array[:, : int(lengths.max())] for name, array in kept.items()}, lengths.tolist()


class Ours:
    """The update of scripts/train_omagd.py, of one process."""

    def __init__(self, map_name: str, kept: dict, lengths: list[int], batch: int):
        layout = Layout.of(MAPS[map_name])
        torch.manual_seed(1)
        agent = AgentConfig(layout.obs_size, layout.n_actions, layout.n_agents)
        self.learner = Learner(QmixConfig(agent, layout.state_size))
        with torch.no_grad():
            self.learner.agent.last_action.weight[-1] = 0.0  # the peers' input before the first action
        self.targets = Targets(self.learner)
        self.optimiser = torch.optim.Adam(self.learner.parameters(), lr=OmagdOptions().lr, fused=True)
        self.replay = EpisodeReplay(layout, EPISODES, sum(lengths) + max(lengths), EPISODES)
        for slot, length in enumerate(lengths):
            self.replay.add(kept, slot, length)
        self.batch, self.updates = batch, 0

    def gradients(self, episodes) -> float:
        """Loss of a batch; its gradients are left in the parameters."""
        self.optimiser.zero_grad()
        loss, _ = self.learner(episodes, self.targets)
        loss = loss / len(episodes.rewards)
        loss.backward()
        return float(loss.detach())

    def update(self) -> None:
        self.gradients(self.replay.sample(self.batch, 1, self.updates))
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), 10.0)
        self.optimiser.step()
        self.updates += 1

    def compare(self) -> tuple[dict, dict, float]:
        """(weights, gradients, loss) of the first `batch` episodes."""
        some = EpisodeReplay(self.replay.layout, self.batch, self.replay.capacity, self.batch)
        for slot, spans in enumerate(self.replay.of_slot[: self.batch]):
            (first, length) = spans[0]
            one = {name: array[first : first + length].unsqueeze(0) for name, array in self.replay.arrays.items()}
            some.add({name: array.expand(self.batch, *array.shape[1:]) for name, array in one.items()}, slot, length)
        loss = self.gradients(some.sample(self.batch, 1, 0))
        named = dict(self.learner.named_parameters())
        return ({name: value.detach() for name, value in named.items()},
                {name: value.grad for name, value in named.items()}, loss)  # fmt: skip


class Peer:
    """A learner of the PyMARL family from its checkout, with a replay of the same episodes."""

    def __init__(self, name: str, checkout: str, map_name: str, kept: dict, lengths: list[int], batch: int):
        self.name, self.layout, self.batch = name, Layout.of(MAPS[map_name]), batch
        sys.path.insert(0, str(Path(checkout) / "src"))
        stand_in("matplotlib.pyplot", xcorr=None)
        stand_in("envs.matrix_game", print_matrix_status=None)
        from components.episode_buffer import ReplayBuffer
        from components.transforms import OneHot

        layout = self.layout
        scheme = {
            "state": {"vshape": layout.state_size},
            "obs": {"vshape": layout.obs_size, "group": "agents"},
            "actions": {"vshape": (1,), "group": "agents", "dtype": torch.long},
            "avail_actions": {"vshape": (layout.n_actions,), "group": "agents", "dtype": torch.int},
            "reward": {"vshape": (1,)},
            "terminated": {"vshape": (1,), "dtype": torch.uint8},
        }
        groups, longest = {"agents": layout.n_agents}, kept["rewards"].shape[1]
        preprocess = {"actions": ("actions_onehot", [OneHot(out_dim=layout.n_actions)])}
        self.buffer = ReplayBuffer(scheme, groups, EPISODES, longest + 1, preprocess=preprocess)
        for slot, length in enumerate(lengths):
            # One more step than was played: what is seen at the end, of which nothing is learnt.
            rows = {"state": kept["state"], "obs": kept["obs"], "avail_actions": kept["avail"].int()}
            rows = {key: array[slot : slot + 1, :length] for key, array in rows.items()}
            rows |= {"actions": kept["actions"][slot : slot + 1, :length].long().unsqueeze(-1)}
            rows |= {"reward": kept["rewards"][slot : slot + 1, :length].unsqueeze(-1)}
            rows |= {"terminated": kept["ends"][slot : slot + 1, :length].to(torch.uint8).unsqueeze(-1)}
            self.buffer.update(rows, slice(slot, slot + 1), slice(0, length))
            end = {key: array[:, -1:] for key, array in rows.items() if key in ("state", "obs", "avail_actions")}
            self.buffer.update(end, slice(slot, slot + 1), slice(length, length + 1))
        self.buffer.episodes_in_buffer = EPISODES
        args = SimpleNamespace(**(self.epymarl() if name == "epymarl" else self.pymarl2()))
        torch.manual_seed(1)
        self.mac = self.mac_class(self.buffer.scheme, groups, args)
        self.learner = self.learner_class(self.mac, self.buffer.scheme, None, args)
        self.learner.log_stats_t = 0  # nothing is logged

    def common(self) -> dict:
        layout = self.layout
        return {
            "n_agents": layout.n_agents, "n_actions": layout.n_actions, "state_shape": layout.state_size,
            "agent_output_type": "q", "action_selector": "epsilon_greedy", "epsilon_start": 1.0, "epsilon_finish": 0.05,
            "epsilon_anneal_time": 50000, "evaluation_epsilon": 0.0, "mixer": "qmix", "mixing_embed_dim": 32,
            "hypernet_embed": 64, "hypernet_layers": 2, "gamma": 0.99, "grad_norm_clip": 10, "use_cuda": False,
            "learner_log_interval": 10**12, "obs_agent_id": True, "obs_last_action": True, "double_q": True,
            "env": "sc2", "test_greedy": True,
        }  # fmt: skip

    def epymarl(self) -> dict:
        from controllers.basic_controller import BasicMAC
        from learners.q_learner import QLearner

        self.mac_class, self.learner_class = BasicMAC, QLearner
        return self.common() | {
            "agent": "rnn", "use_rnn": True, "hidden_dim": 64, "lr": 5e-4, "target_update_interval_or_tau": 200,
            "standardise_returns": False, "standardise_rewards": True, "common_reward": True,
            "obs_individual_obs": False,
        }  # fmt: skip

    def pymarl2(self) -> dict:
        from controllers.n_controller import NMAC
        from learners.nq_learner import NQLearner

        self.mac_class, self.learner_class = NMAC, NQLearner
        return self.common() | {
            "agent": "n_rnn", "rnn_hidden_dim": 64, "lr": 1e-3, "target_update_interval": 10**9, "optimizer": "adam",
            "td_lambda": 0.6, "q_lambda": False, "use_layer_norm": False, "use_orthogonal": False, "gain": 0.01,
        }  # fmt: skip

    def update(self) -> None:
        batch = self.buffer.sample(self.batch)
        batch = batch[:, : batch.max_t_filled()]
        self.learner.train(batch, 0, 0)

    def compare(self, weights: dict, gradients: dict) -> tuple[float, float]:
        """(loss, largest difference of a gradient relative to the largest) with our weights on the first episodes."""
        mine = dict(self.mac.agent.named_parameters()) | dict(self.learner.mixer.named_parameters())
        self.load(weights)
        batch = self.buffer[: self.batch]
        batch = batch[:, : batch.max_t_filled()]
        kept = {}
        clip, step = torch.nn.utils.clip_grad_norm_, self.learner.optimiser.step
        torch.nn.utils.clip_grad_norm_ = lambda *_, **__: torch.zeros(())
        self.learner.optimiser.step = lambda *_: kept.update({name: value.grad.clone() for name, value in mine.items()})
        self.learner.log_stats_t, logged = -(10**13), {}
        self.learner.logger = SimpleNamespace(log_stat=lambda name, value, _: logged.update({name: value}))
        self.learner.train(batch, 0, 0)
        torch.nn.utils.clip_grad_norm_, self.learner.optimiser.step = clip, step
        self.learner.log_stats_t = 0
        ours = self.arranged(gradients)
        largest = max(float(value.abs().max()) for value in kept.values())
        apart = max(float((kept[name] - ours[name]).abs().max()) for name in kept)
        return float(logged["loss_td"]), apart / largest

    def arranged(self, ours: dict) -> dict:
        """Our tensors under the names that they have here: one matrix for observation, last action and number."""
        columns = [ours["agent.observe.weight"], ours["agent.last_action.weight"][:-1].T, ours["agent.number.weight"].T]
        found = {"fc1.weight": torch.cat(columns, 1), "fc1.bias": ours["agent.observe.bias"]}
        found |= {"fc2.weight": ours["agent.values.weight"], "fc2.bias": ours["agent.values.bias"]}
        found |= {f"rnn.{theirs}": ours[f"agent.memory.{mine}"] for theirs, mine in GRU.items()}
        for theirs, mine in MIXER.items():
            for name, value in ours.items():
                if name.startswith(f"mixer.{mine}."):
                    found[theirs + name.removeprefix(f"mixer.{mine}")] = value
        return found

    def load(self, weights: dict) -> None:
        arranged = self.arranged(weights)
        for mac, mixer in (
            (self.mac, self.learner.mixer),
            (self.learner.target_mac, self.learner.target_mixer),
        ):
            for module in (mac.agent, mixer):
                module.load_state_dict({name: arranged[name] for name in module.state_dict()})


def stand_in(name: str, **members) -> None:
    """A module that a learner imports and does not need for learning."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        sys.modules[".".join(parts[:end])] = types.ModuleType(".".join(parts[:end]))
    vars(sys.modules[name]).update(members)


def serve(pipe, name: str, checkout: str, *rest) -> None:
    """A process with one learner: answers ("time", seconds) with updates a second, and the comparison."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the peers index in ways that torch has come to dislike
    keep_freed_memory()
    learner = Ours(*rest) if name == "ours" else Peer(name, checkout, *rest)
    pipe.send("ready")
    while True:
        word, *arguments = pipe.recv()
        if word == "end":
            return
        if word == "compare":
            pipe.send(learner.compare(*arguments))
            continue
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < arguments[0]:
            learner.update()
            count += 1
        pipe.send(count / (time.perf_counter() - start))


def ask(pipe, *words):
    pipe.send(words)
    return pipe.recv()


def measure(checkouts: dict[str, str], map_name: str, noise: float, args) -> dict:
    """Updates a second of all learners on one set of episodes."""
    kept, lengths = play(map_name, noise)
    context, pipes = multiprocessing.get_context("spawn"), {}
    for name, checkout in {"ours": "", **checkouts}.items():
        pipes[name], theirs = context.Pipe()
        context.Process(
            target=serve, args=(theirs, name, checkout, map_name, kept, lengths, args.batch), daemon=True
        ).start()  # fmt: skip
        assert pipes[name].recv() == "ready"
    figures: dict = {"episode_steps": {"mean": statistics.mean(lengths), "longest": max(lengths)}}
    if "pymarl2" in pipes:
        weights, gradients, loss = ask(pipes["ours"], "compare")
        their_loss, apart = ask(pipes["pymarl2"], "compare", weights, gradients)
        figures["pymarl2_loss_relative_difference"] = abs(loss - their_loss) / abs(their_loss)
        figures["pymarl2_gradient_relative_difference"] = apart
        largest = max(figures["pymarl2_loss_relative_difference"], apart)
        assert largest < TOLERANCE, f"another loss or gradient than PyMARL2's, by {largest:.1e}"
    rates: dict[str, list[float]] = {name: [] for name in pipes}
    for pipe in pipes.values():
        ask(pipe, "time", args.seconds / 2)
    for _ in range(args.rounds):
        for name, pipe in pipes.items():
            rates[name].append(ask(pipe, "time", args.seconds))
    for pipe in pipes.values():
        pipe.send(("end",))
    figures["updates_per_s"] = {name: statistics.median(values) for name, values in rates.items()}
    for name in checkouts:
        ratio = statistics.median(mine / other for mine, other in zip(rates["ours"], rates[name], strict=True))
        figures[f"ratio_{name}"] = ratio
        print(f"{map_name}, noise {noise:g}: {figures['updates_per_s']['ours']:.2f} updates/s, {name} "
              f"{figures['updates_per_s'][name]:.2f}, ratio {ratio:.2f} (bar {BARS[name]:g})", flush=True)  # fmt: skip
    return figures


def commit_of(checkout: str) -> str:
    command = ["git", "-C", checkout, "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_dir", action="append", required=True, help="checkout of EPyMARL, of PyMARL2; repeated")
    parser.add_argument("--maps", default="3m")
    parser.add_argument("--noise", default="0.3,1", help="shares of random actions in the episodes")
    parser.add_argument("--batch", type=int, default=128, help="episodes of an update")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each learner in a round")
    parser.add_argument("--name", default="omagd_learner", help="of the result file")
    args = parser.parse_args()
    checkouts = {}
    for folder in args.peer_dir:
        (name,) = [name for name, file in PEERS.items() if (Path(folder) / "src" / file).is_file()]
        checkouts[name] = folder
    figures = {
        f"{name}, {float(noise):g} random": measure(checkouts, name, float(noise), args)
        for name in args.maps.split(",")
        for noise in args.noise.split(",")
    }
    settings = {"batch": args.batch, "rounds": args.rounds, "seconds": args.seconds, "episodes": EPISODES}
    settings |= {"maps": args.maps, "noise": args.noise, "bars": BARS}
    settings["peers"] = {name: commit_of(checkout) for name, checkout in checkouts.items()}
    path = write_result(args.name, figures, settings=settings)
    print(json.dumps(figures, indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
