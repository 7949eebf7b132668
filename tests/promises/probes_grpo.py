"""Makes trouble inside runs of the GRPO trainer, and writes down what was played.

Trouble is tied to the episode, (step, group, sample), never to the process: the same happens on any number of them.
"""

import hashlib
import itertools
import json
import os
import signal
from pathlib import Path

# With 5 tasks x 3 samples, in every other step, only this group has a contrast: most ranks have nothing to learn from.
LIVE_GROUP = 1
RAISING_GROUP = 3


def troubled_worlds(folder: str) -> None:
    """Constant groups, worlds that raise at once or in the middle, and a line for each episode in folder/<rank>.jsonl:
    who it was, a digest of its tokens, its reward."""
    from lib.grpo import episodes, rollouts

    file = Path(folder, f"{os.environ.get('RANK', '0')}.jsonl").open("a", encoding="utf-8")
    make, judge, play = episodes.Episode.__init__, episodes.Episode.trajectory, rollouts.play
    rounds = itertools.count()

    def troubled(self, job, environment, chat, seed, noise_key, *rest):
        make(self, job, environment, chat, seed, noise_key, *rest)
        self.key = noise_key
        if noise_key[0] == "train" and job.group == RAISING_GROUP and job.sample < 2:
            environment.step = raising(environment.step, 1 + job.sample)

    def constant(self):
        found = judge(self)
        if self.key[0] == "train" and self.key[2] % 2 and self.job.group != LIVE_GROUP:
            found.reward = 0.25
        return found

    def noted(engine, jobs, make_environment, chat, seed, noise_key, *rest):
        number = str(next(rounds))
        found, counts = play(engine, jobs, make_environment, chat, seed, noise_key, *rest)
        for each in found:
            ids = hashlib.sha256(json.dumps([each.ids, each.spans]).encode()).hexdigest()
            row = [number, *map(str, noise_key), each.domain, each.task_id, each.group, each.sample]
            file.write(json.dumps([row, ids, each.reward, each.error]) + "\n")
        file.flush()
        return found, counts

    episodes.Episode.__init__, episodes.Episode.trajectory, rollouts.play = troubled, constant, noted


def raising(step, turns: int):
    """The world fails at the given turn."""
    left = [turns]

    def failing(message):
        left[0] -= 1
        if left[0] == 0:
            raise KeyError("a table of the world is gone")
        return step(message)

    return failing


def killed_at(steps: str, moment: str) -> None:
    """SIGKILL, at the first of the comma-separated steps that is reached: `moment` is before or after its row in
    metrics.jsonl is written, or "evaluated": after the evaluation that follows it. The Fisher matrix is that of few
    episodes."""
    from lib.grpo.continual import penalties
    from lib.runlog import RunLog

    few_fisher_samples("6")
    log, wanted = RunLog.log, {int(step) for step in steps.split(",")}
    assert penalties.Ewc().fisher_samples == 6

    def deadly(self, step, values, **options):
        hit = step in wanted and ("eval/success" in values) == (moment == "evaluated")
        if hit and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        log(self, step, values, **options)
        if hit:
            os.kill(os.getpid(), signal.SIGKILL)

    RunLog.log = deadly


def few_fisher_samples(count: str) -> None:
    """--cl ewc plays so many episodes at the end of a stage."""
    from lib.grpo.continual.penalties import Ewc

    strength, gamma, _ = Ewc.__init__.__defaults__
    Ewc.__init__.__defaults__ = strength, gamma, int(count)


def divided_weights(stage: str = "3") -> None:
    """FSDP2 between the ranks, through Accelerate, which on the CPU would run plain data parallel without a word.

    stage: of ZeRO, whose variables the launch is given.
    """
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    from lib import launch
    from lib.grpo import rollouts
    from lib.zero import fsdp2_variables

    start, copy = launch.start, rollouts.copy_whole

    def checked(model, into):
        assert all(hasattr(value, "full_tensor") for value in model.parameters())
        assert not any(hasattr(value, "full_tensor") for value in into.parameters())
        copy(model, into)

    rollouts.copy_whole = checked

    def divided(*arguments, **options):
        assert options["sharding"] is True
        acc = start(*arguments, **options)
        asked = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": stage}
        os.environ.update(fsdp2_variables(asked)[0])
        acc.state.fsdp_plugin = FullyShardedDataParallelPlugin()
        assert acc.state.fsdp_plugin.reshard_after_forward == (stage == "3")
        acc.state.distributed_type = DistributedType.FSDP
        return acc

    launch.start = divided
