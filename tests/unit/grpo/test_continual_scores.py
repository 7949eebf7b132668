"""The measures against matrices and trials small enough to be worked out by hand."""

import math
from itertools import combinations

import pytest

from lib.grpo.continual import scores
from lib.grpo.reward import Action
from lib.grpo.worlds.world import ASSISTANT, USER, Call

# Rows: before, after airline, after retail, after telecom. All values are multiples of 1/16, exact in binary.
MATRIX = [
    [0.25, 0.125, 0.5],
    [0.75, 0.25, 0.5],
    [0.5, 0.625, 0.375],
    [0.125, 0.75, 0.875],
]
DOMAINS, LEARNT = ("airline", "retail", "telecom"), (1, 2, 3)


def test_matrix_by_hand():
    found = scores.continual_scores(MATRIX, DOMAINS, LEARNT, joint=[0.75, 0.75, 0.75])
    assert found["acc"] == (0.125 + 0.75 + 0.875) / 3
    assert found["bwt"] == ((0.125 - 0.75) + (0.75 - 0.625)) / 2
    assert found["fwt"] == ((0.25 - 0.125) + (0.375 - 0.5)) / 2
    assert found["forgetting_airline"] == 0.75 - 0.125
    assert found["forgetting_retail"] == 0.625 - 0.75
    assert found["forgetting_telecom"] == 0.5 - 0.875
    assert found["forgetting"] == (0.625 - 0.125) / 2
    assert [found[f"intransigence_{name}"] for name in DOMAINS] == [0.0, 0.125, -0.125]
    assert found["intransigence"] == 0.0
    assert (found["success_before"], found["success_after"]) == (0.875 / 3, 1.75 / 3)


def test_forward_transfer_is_against_the_measured_start_not_one_half():
    """The original took 0.5 as the baseline and gave the first stage a transfer of 0."""
    raised = [[value + 0.125 for value in MATRIX[0]], *MATRIX[1:]]
    assert scores.forward_transfer(raised, LEARNT) == scores.forward_transfer(MATRIX, LEARNT) - 0.125
    # The first domain counts neither as 0 nor at all.
    other = [[0.0, *MATRIX[0][1:]], *MATRIX[1:]]
    assert scores.forward_transfer(other, LEARNT) == scores.forward_transfer(MATRIX, LEARNT)


def test_backward_transfer_compares_each_domain_with_its_own_stage():
    """The original compared every domain with the evaluation of stage 1, the second one took the mean old reward."""
    other = [MATRIX[0], [MATRIX[1][0], 0.0, 0.0], *MATRIX[2:]]
    assert scores.backward_transfer(other, LEARNT) == scores.backward_transfer(MATRIX, LEARNT)
    mean_old_reward = (MATRIX[3][0] + MATRIX[3][1]) / 2
    assert scores.backward_transfer(MATRIX, LEARNT) != mean_old_reward
    flat = [[0.5] * 3] * 4
    assert scores.backward_transfer(flat, LEARNT) == 0.0


def test_joint_stage_has_nothing_to_transfer():
    joint = [MATRIX[0], MATRIX[3]]
    found = scores.continual_scores(joint, DOMAINS, (1, 1, 1))
    assert (found["bwt"], found["fwt"], found["forgetting"]) == (None, None, None)
    assert found["forgetting_airline"] == 0.125 and found["acc"] == 1.75 / 3


def test_run_that_ended_early_leaves_out_what_it_did_not_reach():
    found = scores.continual_scores(MATRIX[:2], DOMAINS, LEARNT, joint=[0.75] * 3)
    # Row 1 is measured before retail is learnt: its forward transfer is known, telecom's is not.
    assert found["fwt"] == 0.125 and found["bwt"] is None and found["forgetting"] is None
    assert [found[f"intransigence_{name}"] for name in DOMAINS] == [0.0, None, None]
    assert found["intransigence"] == 0.0
    only_start = scores.continual_scores(MATRIX[:1], DOMAINS, LEARNT)
    assert only_start["acc"] == only_start["success_before"] and only_start["forgetting_retail"] == 0.0


def test_other_order_of_domains():
    """Learnt telecom first: the numbers follow the stage, not the column."""
    learnt = (3, 2, 1)
    assert scores.backward_transfer(MATRIX, learnt) == ((0.75 - 0.625) + (0.875 - 0.5)) / 2
    assert scores.forward_transfer(MATRIX, learnt) == ((0.5 - 0.25) + (0.25 - 0.125)) / 2


@pytest.mark.parametrize(("trials", "successes"), [(4, 0), (4, 1), (4, 3), (4, 4), (6, 2)])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_passes_are_shares_of_all_draws_of_k_trials(trials, successes, k):
    draws = list(combinations([True] * successes + [False] * (trials - successes), k))
    assert math.isclose(scores.pass_hat_k(trials, successes, k), sum(map(all, draws)) / len(draws))
    assert math.isclose(scores.pass_at_k(trials, successes, k), sum(map(any, draws)) / len(draws))


def test_pass_4_is_not_pass_1():
    """The original copied pass^4 from pass^1."""
    counts = [(4, 4), (4, 2), (4, 2), (4, 0)]
    table = scores.pass_table(counts)
    assert [k for k, _, _ in table] == [1, 2, 3, 4]
    assert [hat.value for _, hat, _ in table] == pytest.approx([0.5, (1 + 2 / 6) / 4, 0.25, 0.25])
    assert [at.value for _, _, at in table] == pytest.approx([0.5, (1 + 5 / 6 * 2) / 4, 0.75, 0.75])


def test_more_draws_than_trials_are_refused():
    with pytest.raises(AssertionError):
        scores.pass_hat_k(3, 1, 4)
    assert len(scores.pass_table([(4, 1), (2, 1)])) == 2 and scores.pass_table([]) == []


def test_bootstrap_is_over_tasks_and_repeatable():
    values = [1.0] * 30 + [0.0] * 70
    first, again, other = scores.bootstrap(values), scores.bootstrap(values), scores.bootstrap(values, seed=1)
    assert first == again and first.value == 0.3
    assert (first.low, first.high) != (other.low, other.high)
    # The normal approximation: 0.3 +- 1.96 x sqrt(0.3 x 0.7 / 100).
    assert first.low == pytest.approx(0.21, abs=0.02) and first.high == pytest.approx(0.39, abs=0.02)
    # Four trials of one task are no four tasks: the interval comes from the tasks.
    few = scores.success_of([(4, 4)] * 3 + [(4, 0)] * 7)
    assert few.value == 0.3 and few.high - few.low > 2 * (first.high - first.low)
    assert math.isnan(scores.bootstrap([]).value)


def test_wilson_interval():
    # Known values: 10 of 100, and none of 10, whose upper end is z^2 / (n + z^2).
    found = scores.wilson(100, 10)
    assert (found.value, found.low, found.high) == (
        0.1,
        pytest.approx(0.05523, abs=1e-5),
        pytest.approx(0.17437, abs=1e-5),
    )
    assert scores.wilson(10, 0).low == 0.0 and scores.wilson(10, 0).high == pytest.approx(0.27753, abs=1e-5)
    assert (scores.wilson(0, 0).low, scores.wilson(0, 0).high) == (0.0, 1.0)


def test_learning_efficiency():
    assert scores.area_under_curve([0.25, 0.5, 0.75]) == 0.5 and scores.area_under_curve([]) is None
    curve = [(128, 0.2), (256, 0.55), (384, 0.5), (512, 0.8)]
    assert scores.samples_to_threshold(curve, 0.5) == 256
    assert scores.samples_to_threshold(curve, 0.9) is None


def call(name: str, requestor: str = ASSISTANT, **arguments) -> Call:
    return Call(requestor, name, arguments, "done", error=False)


def test_tools_are_chosen_and_filled_in():
    gold = (Action("cancel", {"id": "A"}), Action("cancel", {"id": "B"}), Action("refund", {"id": "A"}),
            Action("reboot", {}, requestor=USER))  # fmt: skip
    # The same right call twice stands for one gold action; the wrong id is the right tool.
    first = scores.count_calls(gold, [call("cancel", id="A"), call("cancel", id="A"), call("read", id="A")])
    assert first == {"cancel": [2, 2, 1], "refund": [1, 0, 0]}
    second = scores.count_calls(gold, [call("refund", id="A"), call("cancel", USER, id="A"), call("reboot", USER)])
    assert second == {"cancel": [2, 0, 0], "refund": [1, 1, 1]}
    sums = scores.add_counts([first, second])
    assert sums == {"cancel": [4, 2, 1], "refund": [2, 1, 1]}
    assert scores.tool_accuracy(sums) == {
        "cancel": scores.ToolAccuracy(4, 0.5, 0.5),
        "refund": scores.ToolAccuracy(2, 0.5, 1.0),
    }
    assert scores.tool_accuracy({"cancel": [2, 0, 0]})["cancel"].arguments is None
    # Alone, the agent does the user's part too.
    assert scores.count_calls(gold, [call("reboot")], solo=True)["reboot"] == [1, 1, 1]
