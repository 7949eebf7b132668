"""Three stages in turn on two processes, whose episodes are kept once and learnt from again."""

import json

from launching import ACCELERATE, CONFIGS, PYTHON, ROOT, environment, launch

SCRIPT = ROOT / "scripts" / "train_omagd.py"
BATTLES = "--map 3m --sight 5 --report_to none --no_visualize --save_every 0 --device cpu".split()
TOKENS = "--n_codes 24 --n_condition_codes 8 --code_dim 8 --max_steps 6 --graph_pretrain_episodes 30".split()
AGENTS = "--batch_size_run 4 --per_device_batch_size 4 --rnn_hidden_dim 8 --test_nepisode 4 --final_nepisode 4".split()


def results(folder) -> dict:
    return json.loads((folder / "results.json").read_text())


def test_kept_episodes_teach_what_played_ones_do(tmp_path):
    environ, kept = environment(tmp_path / "cache"), tmp_path / "kept"
    keeping = ["--pretrain_buffer_path", kept, "--save_pretrain_buffer"]
    pair = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", SCRIPT, "--stage", "all", *BATTLES, *TOKENS, *AGENTS]
    ended = launch([*pair, *keeping, "--output_dir", tmp_path / "all"], environ, 240)
    assert ended.code == 0, ended.stderr
    assert [(tmp_path / "all" / stage / "export").is_dir() for stage in ("tokenizer", "predictor", "qmix")] == [
        True
    ] * 3
    assert results(tmp_path / "all" / "qmix")["observe"] == "reconstructed"
    assert sorted(path.name for path in kept.iterdir()) == ["episodes-00000.safetensors", "episodes.json"]

    alone = [*PYTHON, SCRIPT, "--stage", "tokenizer", *BATTLES, *TOKENS]
    ended = launch([*alone, "--output_dir", tmp_path / "played"], environ, 120)
    assert ended.code == 0, ended.stderr
    at = alone.index("--graph_pretrain_episodes")
    again = [*alone[:at], *alone[at + 2 :], "--pretrain_buffer_path", kept]
    ended = launch([*again, "--output_dir", tmp_path / "read"], environ, 120)
    assert ended.code == 0 and "30 episodes by random:1" in ended.stdout, ended.stderr
    assert results(tmp_path / "played")["weights_sha256"] == results(tmp_path / "read")["weights_sha256"]
    assert json.loads((tmp_path / "read" / "export" / "config.json").read_text())["policies"].startswith("random:1")
