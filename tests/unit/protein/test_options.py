"""Flags of the original keep their meaning; a flag that could have no effect is refused by name."""

import shlex

import pytest

from lib.args import parse
from lib.errors import UserError
from lib.protein.options import ALIASES, ProteinOptions, check_options


def read(text):
    return parse(ProteinOptions, shlex.split(text), ALIASES)


def test_the_original_command_is_understood():
    config = read(
        "--pdb_path data/cache --cache_dir data/cache --epochs 50 --batch_size 8 --learning_rate 1e-4 --hidden_dim 256 "
        "--num_encoder_layers 3 --num_decoder_layers 3 --mask_ratio 0.15 --save_dir checkpoints"
    )
    assert check_options(config) == []
    assert (config.output_dir, config.epochs, config.batch_size, config.learning_rate) == ("checkpoints", 50, 8, 1e-4)
    assert (config.mask_schedule, config.mask_ratio) == ("fixed", 0.15)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--mask_ratio 0.3 --mask_schedule uniform", "--mask_ratio"),
        ("--mask_ratio 0.3 --use_discrete_diffusion", "--mask_ratio"),
        ("--mask_ratio 0.3 --objective any_order", "--mask_ratio"),
        ("--mask_schedule span --objective one_shot", "--mask_schedule"),
        ("--mask_schedule span --masking_strategy block", "--masking_strategy"),
        ("--use_discrete_diffusion --mask_schedule fixed", "--use_discrete_diffusion"),
        ("--masking_strategy block --mask_schedule uniform --objective any_order", "no effect"),
        ("--num_heads 4", "--num_heads"),
        ("--num_diffusion_steps 500", "--num_diffusion_steps"),
        ("--val_split 0.2 --val_files names.txt", "--val_split"),
        ("--val_split 0.2 --split file", "--val_split"),
        ("--split file", "--split file"),
        ("--rcsb_ids ids.txt", "--pdb_path"),
        ("--one_shot_share 1.5", "--one_shot_share"),
        ("--one_shot_share 0.5 --objective one_shot", "--one_shot_share"),
        ("--split random --val_files names.txt", "--split random"),
        ("--use_predefined_split --val_files names.txt", "--use_predefined_split"),
        ("--early_stopping_patience 3 --eval_every 0", "--early_stopping_patience"),
    ],
)
def test_contradictions_are_refused_by_name(flags, named):
    with pytest.raises(UserError, match=named) as found:
        check_options(read(flags))
    assert "\n" not in str(found.value)


def test_decisions_are_told():
    config = read("--use_discrete_diffusion")
    assert check_options(config) == ["--use_discrete_diffusion: mask schedule cosine"]
    assert config.make_objective().mask_schedule == "cosine"
    assert "not used" in check_options(read("--max_tokens 2000 --batch_size 8"))[0]
    assert check_options(read("--no_discrete_diffusion --mask_ratio 0.2")) == []
