"""What it costs to tell agents guesses of what they do not see: 64 battles a step, and an update of 32 episodes.

    OMP_NUM_THREADS=1 python benchmarks/omagd_reconstruction.py [--maps 5m_vs_6m,2s3z,3s5z]

With agents of random weights, which act at random, and a small predictor of random weights: the work is the same. Three
figures, each with guesses / without, in one run and taking turns: a step of collecting (what agents are told, their
values, actions, battles, what is kept), the inference in it (what agents are told, and their values), and an update of
QMIX. The bars: 2 x and 1.1 x.
"""

import argparse
import statistics
from functools import partial

import torch
from record import interleaved, write_result

from lib.allocator import keep_freed_memory
from lib.omagd.battle.battle import BattleVec
from lib.omagd.learning.collector import Collector
from lib.omagd.learning.networks import Agent, AgentConfig
from lib.omagd.learning.qmix import Learner, QmixConfig, Targets
from lib.omagd.learning.replay import EpisodeReplay
from lib.omagd.recon.options import SIZES
from lib.omagd.recon.predictor import Predictor, PredictorConfig
from lib.omagd.senses import OBS, RECONSTRUCTED, Eyes, told_size

BATTLES, EPISODES, STEPS = 64, 32, 40
CODES = (512, 128)


class Side:
    """Battles, agents and learner of one value of --observe."""

    def __init__(self, map_name: str, observe: str, size: str, sight: float):
        torch.manual_seed(0)
        battles = BattleVec(map_name, BATTLES, seed=1, sight=sight)
        layout, told = battles.layout, told_size(battles.layout, observe)
        predictor = None
        if observe == RECONSTRUCTED:
            hidden, slot = SIZES[size]
            predictor = Predictor(PredictorConfig(
                layout.n_agents, layout.n_actions, layout.n_nodes, layout.node_width, battles.limit, CODES, hidden, slot
            ))  # fmt: skip
        agent = AgentConfig(told, layout.n_actions, layout.n_agents)
        self.learner = Learner(QmixConfig(agent, layout.state_size))
        self.targets = Targets(self.learner)
        self.optimiser = torch.optim.Adam(self.learner.parameters(), lr=1e-3, fused=True)
        replay = EpisodeReplay(layout, 1000, 60_000, BATTLES, told=told)
        self.collector = Collector(battles, replay, Eyes(observe, predictor).of(battles))
        self.agent: Agent = self.learner.agent
        self.hidden = self.agent.no_memory(BATTLES, torch.device("cpu"))
        self.updates = 0
        self.collect(200)  # some episodes of each battle

    def collect(self, steps: int = STEPS) -> None:
        for _ in range(steps):
            self.collector.step(self.agent, 1.0)

    @torch.no_grad()
    def infer(self) -> None:
        collector = self.collector
        # The battles stand still: what was seen lately would fade to numbers that processors are slow with.
        collector.senses.forget(torch.ones(BATTLES, dtype=torch.bool))
        for _ in range(STEPS):
            told = collector.senses.tell(collector.last_actions)
            _, self.hidden = self.agent.step(told, collector.last_actions, self.hidden)

    def update(self) -> None:
        # The same draws on both sides; random play is the same, and so are the episodes.
        batch = self.collector.replay.sample(EPISODES, 1, self.updates % 4)
        self.updates += 1
        loss, sums = self.learner(batch, self.targets)
        (loss / sums[-1]).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()


def ratios(map_name: str, size: str, sight: float, repeats: int) -> dict:
    sides = {observe: Side(map_name, observe, size, sight) for observe in (OBS, RECONSTRUCTED)}
    found = {"agents": sides[OBS].collector.battles.layout.n_agents}
    for name, parts in (("update", 1), ("inference", STEPS), ("collecting", STEPS)):
        work = {"update": Side.update, "inference": Side.infer, "collecting": Side.collect}[name]
        seconds = interleaved({key: partial(work, side) for key, side in sides.items()}, repeats)
        medians = {key: statistics.median(values) / parts for key, values in seconds.items()}
        each = [with_ / without for with_, without in zip(seconds[RECONSTRUCTED], seconds[OBS], strict=True)]
        found[name] = {
            "ratio": round(statistics.median(each), 3),
            "least": round(min(each), 3),
            "most": round(max(each), 3),
            "ms": {key: round(1e3 * value, 4) for key, value in medians.items()},
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", default="5m_vs_6m,2s3z,3s5z")
    parser.add_argument("--sight", type=float, default=5.0)
    parser.add_argument("--predictor_size", choices=tuple(SIZES), default="small")
    parser.add_argument("--repeats", type=int, default=21)
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as the trainer does
    found = {}
    for name in args.maps.split(","):
        found[name] = ratios(name, args.predictor_size, args.sight, args.repeats)
        print(f"{name}: {found[name]}", flush=True)
    settings = {name: getattr(args, name) for name in ("sight", "predictor_size", "repeats")}
    path = write_result("omagd_reconstruction", found, settings=settings | {"battles": BATTLES, "episodes": EPISODES})
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
