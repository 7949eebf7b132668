"""The learning rate of a run of agents, as its updates have it."""

import json

import pytest
from launching import PYTHON, ROOT, environment, launch

FLAGS = (
    "--map 3m --batch_size_run 8 --per_device_batch_size 4 --steps_per_update 64 --rnn_hidden_dim 8 --lr 2e-3 "
    "--lr_schedule linear --t_max 4000 --log_every 1 --eval_every 0 --final_nepisode 2 --report_to none "
    "--no_visualize --device cpu --output_dir run"
).split()


def test_it_falls_with_the_steps_played(tmp_path):
    script, environ = ROOT / "scripts" / "train_omagd.py", environment(tmp_path / "cache")
    for words in (["--max_steps", "6"], ["--max_steps", "9", "--resume", "auto", "--lr", "1e-3"]):
        ended = launch([*PYTHON, script, *FLAGS, *words], environ, cwd=tmp_path)
        assert ended.code == 0 and "learning rate linear" in ended.stdout, ended.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if "lr" in row]
    assert [row["step"] for row in rows] == list(range(1, 10))
    first = rows[0]["env_steps"] - 64  # what an update's row counts is played up to the next one
    for row in rows:
        played = first + 64 * (row["step"] - 1)
        rate = 2e-3 if row["step"] <= 6 else 1e-3
        assert row["env_steps"] == played + 64 and row["lr"] == pytest.approx(rate * (1 - 0.9 * played / 4000))
