"""Three stages in turn on two processes, whose episodes are kept once and learnt from again."""

import json

from launching import ACCELERATE, CONFIGS, PYTHON, ROOT, environment, launch

SCRIPT = ROOT / "scripts" / "train_omagd.py"
BATTLES = "--map 3m --sight 5 --report_to none --no_visualize --save_every 0 --device cpu".split()
TOKENS = "--n_codes 24 --n_condition_codes 8 --code_dim 8 --max_steps 6 --graph_pretrain_episodes 30".split()
AGENTS = "--batch_size_run 4 --per_device_batch_size 4 --rnn_hidden_dim 8 --test_nepisode 4 --final_nepisode 4".split()


def results(folder) -> dict:
    return json.loads((folder / "results.json").read_text())


def test_kept_episodes_are_learnt_from(tmp_path):
    """Those of another seed than the later run's, so that a run that plays would be seen."""
    environ, kept = environment(tmp_path / "cache"), tmp_path / "kept"
    keeping = ["--pretrain_buffer_path", kept, "--save_pretrain_buffer", "--seed", "2"]
    pair = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", SCRIPT, "--stage", "all", *BATTLES, *TOKENS, *AGENTS]
    ended = launch([*pair, *keeping, "--output_dir", tmp_path / "all"], environ, 240)
    assert ended.code == 0 and ended.stdout.count("are kept in") == 1, ended.stderr
    assert all((tmp_path / "all" / stage / "export").is_dir() for stage in ("tokenizer", "predictor", "qmix"))
    assert results(tmp_path / "all" / "qmix")["observe"] == "reconstructed"
    assert sorted(path.name for path in kept.iterdir()) == ["episodes-00000.safetensors", "episodes.json"]

    alone = [*PYTHON, SCRIPT, "--stage", "tokenizer", *BATTLES, *TOKENS]
    found = {}
    for name, words in (("own", []), ("read", ["--pretrain_buffer_path", kept, "--save_every", "3"])):
        ended = launch([*alone, *words, "--output_dir", tmp_path / name], environ, 120)
        assert ended.code == 0 and ("--seed 2 are taken" in ended.stdout) == (name == "read"), ended.stderr
        found[name] = results(tmp_path / name)["weights_sha256"]
    assert found["own"] != found["read"]

    # The same weights from the same episodes, resumed from where half of the updates were done.
    read = [*alone, "--pretrain_buffer_path", kept, "--save_every", "3", "--output_dir", tmp_path / "halves"]
    assert launch([*read, "--max_steps", "3"], environ, 120).code == 0
    ended = launch([*read, "--resume", "auto"], environ, 120)
    assert ended.code == 0 and results(tmp_path / "halves")["weights_sha256"] == found["read"], ended.stderr
    # Others in their place are refused by name.
    assert launch([*alone, *keeping[2:3], "--pretrain_buffer_path", tmp_path / "more", "--dry_run"], environ).code == 0
    assert not (tmp_path / "more").exists()
    ended = launch([*alone, "--save_every", "3", "--output_dir", tmp_path / "halves", "--resume", "auto"], environ, 120)
    assert ended.code == 2 and "digest of the episodes" in ended.stderr, ended.stderr
