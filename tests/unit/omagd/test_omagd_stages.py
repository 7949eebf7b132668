"""The stages as flags: which belong to which, all of them in turn, and the names of the original."""

import dataclasses
from pathlib import Path

import pytest

from lib.args import parse
from lib.errors import UserError
from lib.omagd.former import settle_former
from lib.omagd.options import ALIASES, OmagdOptions, check_options, stages_of


def given(words: str) -> OmagdOptions:
    return parse(OmagdOptions, words.split(), aliases=ALIASES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--n_codes 64", "--n_codes: --stage qmix does not use it"),
        ("--stage tokenizer --mask_share 0.5", "--mask_share: --stage tokenizer does not use it"),
        ("--stage tokenizer --tokenizer RUN", "--tokenizer: --stage tokenizer does not use it"),
        ("--stage predictor --graph_batch_size 8", "--graph_batch_size: --stage predictor does not use it"),
        ("--stage predictor --observe full_obs", "--observe: --stage predictor does not use it"),
        ("--predictor RUN", "--predictor has no effect with --observe obs: give --observe reconstructed"),
        ("--recon argmax --observe full_obs", "--recon has no effect with --observe full_obs"),
        ("--observe reconstructed --predictor RUN --env smaclite --map 2s3z", "no guesses for --env smaclite"),
        ("--stage all", "--stage all makes a run of each stage: give --output_dir"),
        ("--stage all --output_dir R --resume R/qmix", "--stage all --resume R/qmix: give auto"),
        ("--stage all --output_dir R --predictor P", "--stage all makes its predictor itself: drop --predictor"),
        ("--stage all --output_dir R --observe obs", "--stage all is for --observe reconstructed, not obs"),
        ("--stage all --output_dir R --report_json F", "--report_json would be written by each stage"),
        ("--stage all --output_dir R --env smac", "--stage all: --env smac cannot be played often enough"),
    ],
)
def test_flags_that_a_stage_cannot_use(words, said):
    with pytest.raises(UserError) as error:
        check_options(given(words))
    assert said in str(error.value)


def test_all_stages_in_turn_hand_on_what_they_made():
    config = given("--stage all --output_dir R --n_codes 64 --mask_share 0.5 --t_max 9000 --recon argmax")
    check_options(config)
    stages = stages_of(config)
    assert [(each.stage, each.output_dir) for each in stages] == [
        ("tokenizer", str(Path("R/tokenizer"))), ("predictor", str(Path("R/predictor"))), ("qmix", str(Path("R/qmix"))),
    ]  # fmt: skip
    assert [(each.tokenizer, each.predictor, each.observe) for each in stages] == [
        (None, None, "obs"), (str(Path("R/tokenizer")), None, "obs"), (None, str(Path("R/predictor")), "reconstructed"),
    ]  # fmt: skip
    named = {"stage", "output_dir", "tokenizer", "predictor", "observe"}
    for each in stages:
        for field in dataclasses.fields(config):
            if field.name not in named:
                assert getattr(each, field.name) == getattr(config, field.name)
    alone = given("--stage tokenizer --n_codes 64")
    assert stages_of(alone) == [alone]


def test_names_of_the_original_do_what_their_line_says():
    config = given("--recontructer_stage stage2 --learner nq_graph_learner_ddp --run ddp --use_ddp --world_size 4"
                   " --ddp_port 12355")  # fmt: skip
    notes = settle_former(config)
    assert config.stage == "predictor" and len(notes) == 6
    for note, words in zip(notes, ("--stage predictor", "--mixer", "--run ddp", "--use_ddp True", "--world_size 4",
                                   "--main_process_port"), strict=True):  # fmt: skip
        assert words in note
    assert settle_former(given("--recontructer_stage stage1 --stage tokenizer"))
    with pytest.raises(UserError, match="--recontructer_stage stage1 is --stage tokenizer, not qmix"):
        settle_former(given("--recontructer_stage stage1 --stage qmix"))
    with pytest.raises(UserError, match="stage4"):
        given("--recontructer_stage stage4")
    assert settle_former(given("--map 3m")) == []


def test_the_third_stage_of_the_original_is_told_guesses():
    config = given("--reconstructer_stage stage3 --pretrained_mask_predictor_path P")
    (note,) = settle_former(config)
    assert (config.stage, config.observe, config.predictor) == ("qmix", "reconstructed", "P")
    assert "--stage qmix --observe reconstructed" in note
    with pytest.raises(UserError, match="--recontructer_stage stage3 is --observe reconstructed, not obs"):
        settle_former(given("--recontructer_stage stage3 --observe obs"))


def test_what_comes_before_the_agents_alone():
    config = given("--pretrain_only --output_dir R --mask_ratio 0.2")
    assert "--stage all" in settle_former(config)[0] and config.mask_share == 0.2
    assert [each.stage for each in stages_of(config)] == ["tokenizer", "predictor"]
    alone = given("--pretrain_only --recontructer_stage stage2 --pretrained_tokenizer_path T")
    settle_former(alone)
    assert (alone.stage, alone.tokenizer) == ("predictor", "T")
    for words in ("--stage qmix", "--recontructer_stage stage3"):
        with pytest.raises(UserError, match="--pretrain_only: the stages before the agents are"):
            settle_former(given(f"--pretrain_only {words}"))
    for words, said in (
        ("", "--pretrain_only makes a run of each stage: give --output_dir"),
        ("--output_dir R --lr 1e-3", "--lr: --pretrain_only does not use it"),
        ("--output_dir R --observe reconstructed", "--observe: --pretrain_only does not use it"),
        ("--output_dir R --tokenizer T", "--pretrain_only makes its tokenizer itself"),
    ):
        refused = given(f"--pretrain_only {words}")
        settle_former(refused)
        with pytest.raises(UserError, match=said):
            check_options(refused)
    exchanged = given("--pretrain_only --output_dir R --matching hungarian --max_grad_norm 1")
    settle_former(exchanged)
    check_options(exchanged)
    with pytest.raises(UserError, match=r"--evaluation_only: scripts/evaluate_omagd\.py"):
        settle_former(given("--evaluation_only"))
