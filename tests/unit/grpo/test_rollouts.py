"""lib/grpo/rollouts.py and lib/grpo/learner.py on processes that are played one after the other."""

from operator import attrgetter
from types import SimpleNamespace

import pytest
import torch
from policy_samples import DOMAIN, write_export

from lib.errors import UserError
from lib.grpo import run_setup
from lib.grpo.continual.curriculum import GRPO, Stage, StepTasks, deal
from lib.grpo.continual.methods import KlAnchor, Method
from lib.grpo.engine import make_engine
from lib.grpo.learner import Learner, minibatches
from lib.grpo.learning.packing import Sample
from lib.grpo.learning.policy import Policy
from lib.grpo.options import GrpoOptions
from lib.grpo.progress import Progress
from lib.grpo.rollouts import Roller, error_text

STAGE = Stage(1, "stage_1_airline", GRPO, (DOMAIN,), 4)


class OneOf:
    """Process `index` of `count`, which hears nothing of the others; gathered rows are kept in `sent`."""

    divided, device = False, torch.device("cpu")

    def __init__(self, index: int = 0, count: int = 1):
        self.index, self.count, self.sent = index, count, []

    def gather(self, rows: list) -> list:
        self.sent.append(rows)
        return list(rows)

    def sums(self, values: dict) -> dict:
        return values

    def any(self, flag: bool) -> bool:
        return flag

    def unwrapped(self, module):
        return module

    def updating(self, module, last: bool):
        return torch.enable_grad()

    def backward(self, loss) -> None:
        loss.backward()

    def clip(self, parameters, largest: float):
        return torch.nn.utils.clip_grad_norm_(parameters, largest)


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    return write_export(tmp_path_factory.mktemp("model"))


def options(export, **changes) -> GrpoOptions:
    usual = {
        "domains": DOMAIN, "tasks_per_domain": 20, "eval_tasks": 4, "prompts_per_step": 3, "group_size": 2,
        "max_new_tokens": 6, "max_length": 2000, "max_turns": 2, "temperature": 2.0, "beta": 0.0,
        "is_correction": "off",
    }  # fmt: skip
    return GrpoOptions(model=str(export), **usual | changes)


def roller(config: GrpoOptions, ranks=None, requested=lambda: False) -> Roller:
    _, sets = run_setup.plan(config)
    setup = run_setup.prepare(config, torch.device("cpu"))
    engine = make_engine("static", setup.model, setup.sampling, 4)
    return Roller(ranks or OneOf(), engine, setup.model, setup.model, setup, sets, Progress(step=7), requested)


def tasks(found: Roller, old_count: int = 0) -> StepTasks:
    """Three a step; old ones are among the last four of the domain."""
    rows = found.sets.training[DOMAIN]
    return StepTasks(STAGE, found.setup.config.seed, 3, {DOMAIN: rows[:-4]}, {DOMAIN: rows[-4:]}, old_count)


def test_processes_share_the_episodes_of_one(export):
    config = options(export)
    whole = roller(config)
    alone = whole.step(tasks(whole), 0, ("train", 0))
    parts = []
    for index in range(2):
        part = roller(config, OneOf(index, 2))
        parts += part.step(tasks(part), 0, ("train", 0)).own
    assert len(alone.own) == len(parts) == 6
    key = attrgetter("group", "sample")
    assert [each.ids for each in sorted(parts, key=key)] == [each.ids for each in sorted(alone.own, key=key)]
    assert len({tuple(each.ids) for each in alone.own}) == 6, "all drawn differently"
    assert [(each["group"], each["sample"]) for each in alone.outcomes] == [(g, s) for g in range(3) for s in range(2)]
    assert alone.row["sampled_tokens"] == sum(each.sampled_tokens for each in alone.own) / 6
    assert alone.row["rollout_tokens_per_s"] == pytest.approx(alone.counts["sampled_tokens"] / alone.row["rollout_s"])


def test_groups_without_contrast_are_replaced_and_counted(export):
    found = roller(options(export, dynamic_sampling=2))
    # A model of random weights solves nothing: no group ever has a contrast.
    played = found.step(tasks(found), 0, ("train", 0))
    groups = {each["group"] for each in played.outcomes}
    assert len(played.outcomes) == len(played.own) == 3 * 3 * 2 and groups == set(range(9))
    assert played.advantages == {} and played.row["zero_std_fraction"] == 1.0
    names = {each["group"]: each["task_id"] for each in played.outcomes}
    assert len(set(names.values())) > 3, "replacements are other tasks"


def test_groups_of_earlier_domains_are_replaced_by_what_may_come_again(export):
    """As often as is said for them: two of three groups are old, and no group ever has a contrast."""
    found = roller(options(export, dynamic_sampling=0, replay_sampling=3, cl="replay"))
    old = {row.id for row in found.sets.training[DOMAIN][-4:]}
    played = found.step(tasks(found, old_count=2), 0, ("train", 0))
    groups = {each["group"]: each["task_id"] for each in played.outcomes}
    assert sorted(groups) == list(range(3 + 3 * 2))
    assert groups[0] not in old and {groups[group] for group in range(1, 9)} <= old
    usual = roller(options(export, dynamic_sampling=1, cl="replay"))
    played = usual.step(tasks(usual, old_count=2), 0, ("train", 0))
    assert {each["group"] for each in played.outcomes} == set(range(6))
    never = roller(options(export, dynamic_sampling=1, replay_sampling=0, cl="replay"))
    played = never.step(tasks(never, old_count=2), 0, ("train", 0))
    assert {each["group"] for each in played.outcomes} == set(range(4))


def test_evaluations_are_drawn_alike_and_leave_the_sampling_of_training(export):
    found = roller(options(export, eval_temperature=3.0))
    usual = found.engine.sampling
    first, second = (found.evaluate(found.sets.evaluation, 2, "tasks") for _ in range(2))
    assert [each.ids for each in first.own] == [each.ids for each in second.own] and len(first.own) == 8
    assert found.engine.sampling is usual and usual.temperature == 2.0
    other = found.evaluate(found.sets.evaluation, 2, "held out")
    assert [each.ids for each in other.own] != [each.ids for each in first.own]


def test_whoever_is_told_to_stop_gets_nothing(export):
    found = roller(options(export), requested=lambda: True)
    assert found.step(tasks(found), 0, ("train", 0)) is None
    assert found.evaluate(found.sets.evaluation, 1, "tasks") is None


def test_weights_that_are_no_numbers_are_not_played(export):
    found = roller(options(export))
    found.progress.saved_step = 5
    with torch.no_grad():
        next(found.trained.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match="not finite after step 7: nothing after step 5 was saved"):
        found.refresh()


def test_what_is_said_of_environments_that_raised():
    assert error_text([{"error": None}]) == ""
    assert (
        error_text([{"error": None}, {"error": "KeyError: x"}])
        == "1 of 2 episodes ended by an error, the first: KeyError: x"
    )


def learner(found: Roller, **changes) -> Learner:
    config = options(found.setup.config.model, **changes)
    policy = Policy(found.trained)
    optimiser = torch.optim.SGD(policy.parameters(), lr=0.0)
    return Learner(OneOf(), policy, optimiser, config, Progress(step=7, saved_step=5))


def advantages(played) -> dict:
    return {(each.group, each.sample): 1.0 if each.sample else -1.0 for each in played.own}


def test_a_step_moves_the_weights_towards_what_was_better(export):
    found = roller(options(export))
    played = found.step(tasks(found), 0, ("train", 0))
    learns = learner(found, minibatches=2)
    samples = [SimpleNamespace(trajectory=each) for each in played.own]
    before = log_probs_of(learns, samples)
    figures = learns.teach(played.own, advantages(played), (DOMAIN,), Method(), None, 0.05)
    after = log_probs_of(learns, samples)
    good = [at for at, each in enumerate(played.own) if each.sample]
    bad = [at for at, each in enumerate(played.own) if not each.sample]
    change = after - before
    assert change[good].mean() > 0 > change[bad].mean()
    assert figures["grad_norm"] > 0 and figures["train_s"] > 0 and figures["train_tokens_per_s"] > 0


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize(
    "sizes, count", [((16, 8), 2), ((16, 8), 1), ((4, 4), 4), ((8, 8), 8), ((8, 8), 4), ((24,), 3)]
)
def test_every_process_has_a_share_of_every_minibatch_and_each_has_one_of_every_domain(processes, sizes, count):
    domains = [name for name, size in zip(("airline", "retail"), sizes) for _ in range(size)]
    groups = [(domain, group) for group, domain in enumerate(domains)]
    found = minibatches(reversed(groups), count)
    assert set(found) == set(range(len(groups))) and set(found.values()) == set(range(count))
    rank_of = {group: rank for rank, dealt in enumerate(deal(len(groups), 1, processes)) for group, _ in dealt}
    for number in range(count):
        members = [group for group in found if found[group] == number]
        assert abs(len(members) - len(groups) / count) < 1
        for name, size in zip(("airline", "retail"), sizes):
            assert abs(sum(domains[group] == name for group in members) - size / count) < 1
        shares = [sum(rank_of[group] == rank for group in members) for rank in range(processes)]
        most = -(-len(members) // processes)
        assert max(shares) <= most + (processes > 2), (number, shares)


def test_one_group_with_contrast_is_what_the_figures_tell_of(export):
    found = roller(options(export))
    played = found.step(tasks(found), 0, ("train", 0))
    learns = learner(found, minibatches=2)
    only = played.own[0].group
    some = {key: value for key, value in advantages(played).items() if key[0] == only}
    figures = learns.teach(played.own, some, (DOMAIN,), Method(), None, 0.05)
    assert figures["grad_norm"] > 0 and figures["loss"] != 0


def test_few_groups_go_to_the_first_minibatches():
    assert minibatches([("airline", 7)], 2) == {7: 0} and minibatches([], 2) == {}
    assert minibatches([("airline", 7), ("airline", 9)], 2) == {7: 0, 9: 1}


def log_probs_of(learns: Learner, samples) -> torch.Tensor:
    """Mean log-probability of the sampled tokens of each trajectory, by `fill`."""
    filled = [Sample(each.trajectory, 0.0) for each in samples]
    learns.fill(filled, "old_log_probs")
    return torch.tensor([sum(each.old_log_probs) / max(len(each.old_log_probs), 1) for each in filled])


def test_episodes_without_an_advantage_teach_nothing(export):
    found = roller(options(export))
    played = found.step(tasks(found), 0, ("train", 0))
    learns = learner(found)
    before = [value.clone() for value in learns.parameters.values()]
    figures = learns.teach(played.own, {}, (DOMAIN,), Method(), None, 0.05)
    assert figures["grad_norm"] == 0.0 and "kl" not in figures  # nothing was compared with a reference
    assert all(torch.equal(old, new) for old, new in zip(before, learns.parameters.values(), strict=True))


def test_what_is_anchored_is_compared_with_the_snapshot_alone(export):
    """An old domain's episode: no policy gradient, and no KL gradient either while the weights are the snapshot's."""
    found = roller(options(export))
    played = found.step(tasks(found), 0, ("train", 0))
    learns, method = learner(found), KlAnchor(weight=0.5)
    method.begin(learns.parameters)
    figures = learns.teach(played.own, advantages(played), ("retail",), method, None, 0.05)
    assert figures["grad_norm"] == pytest.approx(0.0, abs=1e-5) and figures["kl"] == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        for value in learns.parameters.values():
            value.add_(0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
    figures = learns.teach(played.own, advantages(played), ("retail",), method, None, 0.05)
    assert figures["grad_norm"] > 1e-3 and figures["kl"] > 1e-4


def test_a_loss_that_is_no_number_names_its_records(export):
    found = roller(options(export))
    played = found.step(tasks(found), 0, ("train", 0))
    broken = {key: float("nan") if key == (1, 0) else 1.0 for key in advantages(played)}
    with pytest.raises(UserError, match=r"step 8, records airline/.*nothing after step 5 was saved") as raised:
        learner(found).teach(played.own, broken, (DOMAIN,), Method(), None, 0.05)
    task = next(each.task_id for each in played.own if each.group == 1)
    assert f"airline/{task}" in str(raised.value)
