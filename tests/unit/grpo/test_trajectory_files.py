"""Trajectories written, read, dropped after a resume, and shown with their loss mask."""

import json

import pytest
from episode_samples import run

from lib.errors import UserError
from lib.grpo.demonstrations import expert
from lib.grpo.generation.generate import make_task
from lib.grpo.trajectory import Trajectory
from lib.grpo.trajectory_files import (
    choose_samples,
    drop_after,
    pieces_of,
    read_trajectories,
    row_of,
    samples_fragment,
    write_samples,
    write_trajectories,
)

TEXT = "POLICYhello<call>result<bye>"


def decode(ids: list[int]) -> str:
    return "".join(map(chr, ids))


def trajectory(**more) -> Trajectory:
    """Tokens are characters: a policy of 6, an opening of 5, two sampled turns with a result between."""
    values = {
        "domain": "airline", "task_id": "t1", "group": 0, "sample": 0, "ids": [ord(sign) for sign in TEXT],
        "shared_tokens": 6, "prompt_tokens": 11, "spans": [(11, 17), (23, 28)], "log_probs": [-0.5] * 11,
        "reward": 1.0, "success": 1.0, "breakdown": {"DB": 1.0}, "end": "user_stop", "turns": 2,
        "messages": [{"role": "system", "content": "POLICY"}, {"role": "user", "content": "hello"},
                     {"role": "assistant", "content": "bye & <b>good</b> luck"}],
    }  # fmt: skip
    return Trajectory(**{**values, **more})


def test_row_holds_what_was_said_counted_and_rewarded():
    row = row_of(trajectory(), step=7)
    assert (row["step"], row["domain"], row["task_id"], row["reward"]) == (7, "airline", "t1", 1.0)
    assert (row["tokens"], row["sampled_tokens"], row["prompt_tokens"]) == (28, 11, 11)
    assert row["spans"] == [[11, 17], [23, 28]] and row["breakdown"] == {"DB": 1.0}
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"] and "pieces" not in row


def test_pieces_are_the_tokens_after_the_shared_ones_with_the_mask():
    pieces = pieces_of(trajectory(), decode)
    assert pieces == [["hello", 0], ["<call>", 1], ["result", 0], ["<bye>", 1]]
    mask = trajectory().mask()[6:]
    assert [sampled for text, sampled in pieces for _ in text] == mask
    # Two turns without anything between stay two; an unfinished answer is shown.
    assert pieces_of(trajectory(spans=[(11, 14), (14, 17)]), decode) == [
        ["hello", 0], ["<ca", 1], ["ll>", 1], ["result<bye>", 0],
    ]  # fmt: skip
    assert pieces_of(trajectory(spans=[]), decode) == [["hello<call>result<bye>", 0]]
    with pytest.raises(AssertionError, match="spans"):
        pieces_of(trajectory(spans=[(23, 28), (11, 17)]), decode)


def test_files_are_read_back_in_order_of_group_and_sample(tmp_path):
    rows = [row_of(trajectory(group=group, sample=sample), 3) for group, sample in ((1, 0), (0, 1), (0, 0))]
    path = write_trajectories(tmp_path, 3, rows)
    assert path.relative_to(tmp_path).as_posix() == "trajectories/step_00000003.jsonl"
    write_trajectories(tmp_path, 20, [row_of(trajectory(), 20)])
    found = list(read_trajectories(tmp_path))
    assert [(row["step"], row["group"], row["sample"]) for row in found] == [
        (3, 0, 0),
        (3, 0, 1),
        (3, 1, 0),
        (20, 0, 0),
    ]
    assert [row["step"] for row in read_trajectories(tmp_path, 20)] == [20]


def test_what_a_model_wrote_can_always_be_written(tmp_path):
    said = [{"role": "assistant", "content": "half a smile \ud83d\u2028 and \x00"}]
    write_trajectories(tmp_path, 1, [row_of(trajectory(messages=said), 1)])
    (row,) = read_trajectories(tmp_path)
    assert row["messages"][0]["content"] == "half a smile ?\u2028 and \x00"


def test_damaged_line_is_named(tmp_path):
    path = write_trajectories(tmp_path, 1, [row_of(trajectory(), 1)])
    path.write_text(path.read_text() + '{"step"\n')
    with pytest.raises(UserError, match="line 2 is damaged"):
        list(read_trajectories(tmp_path))


def test_resume_drops_what_lies_beyond_its_step(tmp_path):
    for step in (1, 2, 3, 4):
        write_trajectories(tmp_path, step, [row_of(trajectory(), step)])
    kept = tmp_path / "trajectories" / "step_notes.txt"
    kept.write_text("mine")
    # What a killed write leaves is no file of a step.
    (tmp_path / "trajectories" / ".quartet-tmp-step_00000009.jsonl-1").write_text("{")
    assert drop_after(tmp_path, 2) == 2
    assert [row["step"] for row in read_trajectories(tmp_path)] == [1, 2] and kept.exists()
    assert drop_after(tmp_path / "nowhere", 0) == 0
    write_trajectories(tmp_path, 1, [])
    assert [row["step"] for row in read_trajectories(tmp_path)] == [2]


def test_samples_show_every_domain_with_success_and_failure():
    rows = [
        row_of(trajectory(domain=domain, task_id=f"{domain}{step}", success=success), step)
        for step in (1, 2)
        for domain in ("airline", "retail")
        for success in (1.0, 0.0)
    ]
    chosen = [(row["domain"], row["success"], row["step"]) for row in choose_samples(rows, 5)]
    assert chosen == [
        ("airline", 1.0, 2), ("retail", 1.0, 2), ("airline", 0.0, 2), ("retail", 0.0, 2), ("airline", 1.0, 1),
    ]  # fmt: skip
    assert len(choose_samples(rows, 100)) == len(rows) and choose_samples([], 3) == []


def test_dialogue_is_shaded_where_it_was_sampled_and_cannot_run(tmp_path):
    row = row_of(trajectory(error="boom <script>"), 7, decode)
    fragment = samples_fragment([row])
    assert "<mark>&lt;call&gt;</mark>result<mark>&lt;bye&gt;</mark>" in fragment
    assert "hello<mark>" in fragment and "POLICY" not in fragment
    assert "reward <b>1</b> (DB 1)" in fragment and "boom &lt;script&gt;" in fragment
    assert "<b>good" not in fragment and "bye &amp; &lt;b&gt;good" in fragment
    page = write_samples(tmp_path / "samples.html", [row], "Dialogues of <run>").read_text()
    assert page.startswith("<!doctype html>") and "Dialogues of &lt;run&gt;" in page and fragment in page
    assert "<details>" not in samples_fragment([row_of(trajectory(), 7)])


def test_a_whole_episode_survives():
    task = make_task("retail", "cancel_order", 3, 2)
    environment = run(task, expert(task))
    row = row_of(trajectory(domain="retail", messages=environment.messages), 1)
    assert json.loads(json.dumps(row)) == row
    calls = [call["function"]["name"] for message in row["messages"] for call in message.get("tool_calls", [])]
    assert calls and all(f"{name}(" in samples_fragment([row]) for name in calls)
