"""What the GRPO trainer says before a model is divided over the processes."""

import pytest
from learning_samples import tiny_model

from lib.errors import UserError
from lib.grpo.learning.policy import layer_classes
from lib.grpo.models import add_lora
from lib.grpo.options import GrpoOptions
from lib.grpo.run_setup import check_divided


@pytest.mark.parametrize(
    "flags, word", [({"cl": "ewc"}, "--cl ewc"), ({"cl": "l2"}, "--cl l2"), ({"user": "hf"}, "--user hf")]
)
def test_what_needs_the_whole_model_is_refused(flags, word):
    with pytest.raises(UserError, match=word):
        check_divided(GrpoOptions(**flags))


def test_what_works_divided_is_not_refused():
    for method in ("none", "replay", "kl-anchor", "distill"):
        check_divided(GrpoOptions(cl=method))


def test_layers_are_those_that_the_model_has():
    model = tiny_model()
    assert layer_classes(model) == ["Qwen3DecoderLayer"]
    model._no_split_modules = ["Qwen3DecoderLayer", "AudioEncoderLayer"]
    assert layer_classes(add_lora(model, "r=2")) == ["Qwen3DecoderLayer"]


def test_a_model_without_layers_is_refused():
    model = tiny_model()
    model._no_split_modules = None
    with pytest.raises(UserError, match="FSDP"):
        layer_classes(model)
