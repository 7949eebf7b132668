"""The results of a run: keys, the five groups, table, page and model card."""

from dataclasses import dataclass

import pytest

from lib.files import to_json
from lib.grpo.continual.evaluations import Evaluation
from lib.grpo.training_report import (
    curves,
    final_scores,
    learning_efficiency,
    matrix_table,
    metric_groups,
    model_card,
    result_table,
    tables,
    write_matrix,
    write_run_report,
)

MATRIX = [[0.25, 0.125], [0.75, 0.25], [0.5, 0.625]]
NAMES = ["warm start", "stage_1_airline", "stage_2_retail"]


@dataclass
class Config:
    model: str = "tiny"
    loss: str = "dapo"
    group_size: int = 8
    beta: float = 0.0
    learning_rate: float = 1e-4
    cl: str = "replay"


def evaluation(domain: str, successes: list[int], **more) -> Evaluation:
    counts = {str(task): (4, success) for task, success in enumerate(successes)}
    return Evaluation(domain, counts, 0.5, 3.5, 80.0, 0.9, 2, 1, **more)


def evaluations() -> dict[str, Evaluation]:
    tools = {"cancel": [10, 5, 4], "refund": [3, 0, 0]}
    return {
        "airline": evaluation("airline", [4, 0, 2], tools=tools, by_level={"1": [12, 6]}, by_template={"add": [12, 6]}),
        "retail": evaluation("retail", [4, 4, 2]),
    }


def results(**more) -> dict:
    found = final_scores(
        MATRIX, evaluations(), (1, 2), NAMES, held_out={"airline": evaluation("airline", [1, 1])},
        do_nothing={"airline": 0.0, "retail": 0.125}, joint=[0.75, 0.75],
    )  # fmt: skip
    speed = {"rollout_tokens_per_s": 2100.0, "train_tokens_per_s": 1500.0, "seconds_per_step": 1.5, "processes": 2}
    return {**found, **speed, "wall_s": 240.0, **more}


ROWS = [
    {"step": 1, "stage": 1, "reward": 0.2, "loss": 0.1, "entropy": 0.5, "zero_std_fraction": 0.5, "episodes": 128},
    {"step": 2, "stage": 1, "reward": 0.3, "loss": 0.1, "entropy": 0.5, "zero_std_fraction": 0.4, "episodes": 256},
    {"step": 2, "stage": 1, "eval/success_airline": 0.4, "eval/success_retail": 0.2, "episodes": 256},
    {"step": 4, "stage": 1, "eval/success_airline": 0.6, "eval/success_retail": 0.2, "episodes": 512},
    {"step": 6, "stage": 2, "eval/success_airline": 0.5, "eval/success_retail": 0.85, "episodes": 768},
]


def test_results_hold_the_promised_keys():
    found = results()
    promised = "matrix domains acc fwt bwt forgetting pass_hat_k success_before success_after"
    assert set(promised.split()) <= found.keys()
    assert (found["acc"], found["bwt"], found["fwt"], found["forgetting"]) == (0.5625, -0.25, 0.125, 0.25)
    assert found["pass_hat_k"] == pytest.approx([16 / 24, (3 + 2 / 6) / 6, 3 / 6, 3 / 6])
    assert found["pass_at_k"][0] == found["pass_hat_k"][0] and found["pass_at_k"][3] == pytest.approx(5 / 6)
    for k in range(4):
        assert found["pass_hat_k_low"][k] < found["pass_hat_k"][k] < found["pass_hat_k_high"][k]
    assert found["success_airline"] == 0.5 and found["success_held_out_airline"] == 0.25
    assert found["success_do_nothing_retail"] == 0.125 and found["intransigence_airline"] == 0.0
    to_json(found)


def test_metrics_have_the_originals_groups():
    groups = metric_groups(results(), evaluations(), {"airline": evaluation("airline", [1, 1])}, ROWS)
    assert list(groups) == ["basic", "continual_learning", "learning_efficiency", "generalization", "fine_grained"]
    assert groups["basic"]["airline"]["success"] == 0.5 and groups["basic"]["retail"]["success_do_nothing"] == 0.125
    assert groups["continual_learning"]["forgetting_airline"] == 0.25 and groups["continual_learning"]["bwt"] == -0.25
    assert groups["generalization"] == {
        "airline": {
            "success_held_out": 0.25, "success_held_out_low": 0.25, "success_held_out_high": 0.25, "gap": 0.25,
        }
    }  # fmt: skip
    tools = groups["fine_grained"]["airline"]["tools"]
    assert tools["cancel"] == {"gold": 10, "selection": 0.5, "arguments": 0.8}
    assert tools["refund"] == {"gold": 3, "selection": 0.0, "arguments": None}
    assert groups["fine_grained"]["airline"]["success_by_level"] == {"1": 0.5}
    to_json(groups)


def test_learning_efficiency_from_the_rows_of_a_run():
    found = learning_efficiency(ROWS)
    assert found["aulc"] == {"1": {"airline": 0.5, "retail": 0.2}, "2": {"airline": 0.5, "retail": 0.85}}
    assert found["samples_to"] == {"airline": {"0.5": 512, "0.8": None}, "retail": {"0.5": 768, "0.8": 768}}
    assert learning_efficiency([]) == {"aulc": {}, "samples_to": {}}


def test_table_shows_every_row_and_measure():
    text = result_table(results())
    assert "stage_1_airline       0.750     0.250     0.500" in text
    assert "ACC +0.562  BWT -0.250  FWT +0.125" in text and "pass^4 0.500" in text
    assert "does nothing" in text and "rollout 2,100 tokens/s" in text
    joint = result_table(final_scores([MATRIX[0], MATRIX[2]], evaluations(), (1, 1), ["before", "stage_1_joint"]))
    assert "BWT" not in joint and "does nothing" not in joint


def test_curves_of_what_was_logged():
    found = {curve.title: curve for curve in curves(ROWS)}
    assert list(found) == [
        "Success", "Reward of the training episodes", "Loss", "Entropy of the policy", "Groups without contrast",
    ]  # fmt: skip
    assert [(series.label, series.x, series.y) for series in found["Success"].series] == [
        ("airline", [2, 4, 6], [0.4, 0.6, 0.5]),
        ("retail", [2, 4, 6], [0.2, 0.2, 0.85]),
    ]
    assert [series.label for series in found["Groups without contrast"].series] == ["all equal"]
    assert curves([]) == []


def test_curves_show_where_stages_begin_and_the_warm_start_apart():
    warm = [{"step": step, "stage": "stage_0_warm_start", "loss": 9.0} for step in (1, 2, 3)]
    names = {4: "stage_1_airline", 5: "stage_1_airline", 6: "stage_2_retail"}
    steps = [{"step": step, "stage": name, "loss": 1.0, "reward": 0.5, "success": 0.5} for step, name in names.items()]
    test = {"step": 3, "stage": "stage_0_warm_start", "eval/success_airline": 0.1}
    found = {curve.title: curve for curve in curves([*warm, test, *steps])}
    assert found["Loss"].marks == found["Success"].marks == [("airline", 3), ("retail", 5)]
    assert found["Loss"].series[0].x == [4, 5, 6] and found["Success"].series[0].x == [3]
    assert found["Loss of the warm start"].series[0].x == [1, 2, 3] and not found["Loss of the warm start"].marks
    # One line where the reward is the success, two where it is more than that.
    assert [series.label for series in found["Reward of the training episodes"].series] == ["success"]
    shaped = [row | {"reward": 0.75} for row in steps]
    found = {curve.title: curve for curve in curves(shaped[:2])}
    assert [series.label for series in found["Reward of the training episodes"].series] == ["reward", "success"]
    assert found["Loss"].marks == []


def test_tables():
    found = tables(results(), evaluations(), {"airline": evaluation("airline", [1, 1])})
    assert [table.title for table in found] == ["Evaluation after the last stage", "Repeated trials", "Tools"]
    assert [row[0] for row in found[0].rows] == ["airline", "retail", "airline, held-out templates"]
    assert [row[0] for row in found[1].rows] == [1, 2, 3, 4]
    assert found[2].rows[0] == ["airline", "cancel", 10, 0.5, 0.8]


def test_page_and_pictures(tmp_path):
    sample = {
        "step": 4, "domain": "airline", "task_id": "t", "sample": 0, "reward": 1.0, "success": 1.0, "breakdown": {},
        "turns": 1, "tokens": 9, "sampled_tokens": 4, "end": "user_stop", "truncated": False, "error": None,
        "messages": [{"role": "assistant", "content": "Good <b>day</b>"}],
        "pieces": [["Hi", 0], ["Good <b>day</b>", 1]],
    }  # fmt: skip
    page = write_run_report(tmp_path, Config(), results(), evaluations(), ROWS, [sample]).read_text()
    assert (tmp_path / "plots" / "matrix.png").read_bytes().startswith(b"\x89PNG")
    assert "Dialogues of the last steps" in page and "<mark>Good &lt;b&gt;day&lt;/b&gt;</mark>" in page
    assert "pass^k" in page and "backward transfer" in page and "<b>day" not in page


def test_matrix_of_a_run_that_ended_early(tmp_path):
    early = final_scores(MATRIX[:1], evaluations(), (1, 2), NAMES[:1])
    assert write_matrix(tmp_path / "matrix.png", early).stat().st_size > 1000


def test_model_card_names_model_method_and_numbers():
    card = model_card(Config(), results())
    assert card.startswith("---\nlibrary_name: transformers")
    assert "| airline | 0.250 | 0.500 |" in card and "`replay`" in card and "`dapo`" in card
    assert "Backward transfer -0.250" in card
    assert "not defined" in model_card(Config(), {**results(), "bwt": None})


def test_the_success_matrix_is_a_table_of_stages_and_domains():
    results = {"stages": ["start", "one"], "domains": ["airline", "retail"], "matrix": [[0, 0.5], [1, 0.25]]}
    table = matrix_table(results)
    assert table.columns == ["stage", "airline", "retail"]
    assert table.rows == [["start", 0, 0.5], ["one", 1, 0.25]]
