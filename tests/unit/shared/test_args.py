"""Configuration from flags and YAML: values, precedence, spelling, and one line for every mistake."""

# ruff: noqa: RUF009 (`option` returns a dataclass field, as `dataclasses.field` does)
import enum
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from lib.args import RunArgs, config_dict, option, parse
from lib.errors import UserError


class Shade(enum.Enum):
    LIGHT = "light"
    DARK = "dark"


@dataclass
class Config(RunArgs):
    data_path: str = option("", "100% of the records", group="data")
    pin_memory: bool = option(True, "pinned", group="data")
    learning_rate: float = option(1e-4, "rate", group="optimisation", above=0)
    betas: tuple[float, float] = option((0.9, 0.99), "moments", group="optimisation")
    sizes: list[int] = option([1, 2], "widths", group="model")
    names: list[str] | None = option(None, "names", group="model")
    widths: tuple[int, ...] = option((4,), "any number", group="model")
    mode: Literal["a", "b"] = option("a", "mode", group="model")
    shade: Shade = option(Shade.LIGHT, "shade", group="model")
    schedule: str = field(default="fixed", metadata={"help": "plain field", "choices": ["fixed", "cosine"]})
    folder: Path | None = option(None, "folder", group="data")
    wanted: bool | None = option(None, "three states", group="data")


@dataclass
class Needy:
    path: str
    count: int = 3


def read(*argv, **options):
    return parse(Config, list(argv), aliases={"save_dir": "output_dir", "lr": "learning_rate"}, **options)


def refuse(*argv) -> str:
    with pytest.raises(UserError) as caught:
        read(*argv)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def yaml(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / f"config{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_defaults_and_nothing_explicit():
    config = read()
    assert config == Config()
    assert config.explicit == frozenset()
    assert (config.seed, config.keep_checkpoints, config.report_to, config.dist_timeout) == (0, 3, "tensorboard", 600.0)


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--learning_rate", "3e-4"], "learning_rate", 3e-4),
        (["--learning-rate", "3e-4"], "learning_rate", 3e-4),
        (["--learning_rate=3e-4"], "learning_rate", 3e-4),
        (["--learning-rate=3e-4"], "learning_rate", 3e-4),
        (["--lr", "3e-4"], "learning_rate", 3e-4),
        (["--save-dir=there"], "output_dir", "there"),
        (["--max_steps", "1e3"], "max_steps", 1000),
        (["--max_steps", "none"], "max_steps", None),
        (["--dry_run"], "dry_run", True),
        (["--dry-run", "true"], "dry_run", True),
        (["--dry_run=no"], "dry_run", False),
        (["--no_dry_run"], "dry_run", False),
        (["--no_pin_memory"], "pin_memory", False),
        (["--no-pin-memory"], "pin_memory", False),
        (["--pin_memory", "false"], "pin_memory", False),
        (["--wanted"], "wanted", True),
        (["--no_wanted"], "wanted", False),
        (["--betas", "-1e-4", "-.5"], "betas", (-1e-4, -0.5)),
        (["--betas", "0.8,0.9"], "betas", (0.8, 0.9)),
        (["--sizes", "3", "4", "5"], "sizes", [3, 4, 5]),
        (["--sizes", "3,4", "5"], "sizes", [3, 4, 5]),
        (["--sizes=7"], "sizes", [7]),
        (["--widths", "1", "2", "3"], "widths", (1, 2, 3)),
        (["--names", "a,b", "c"], "names", ["a,b", "c"]),
        (["--names", "none"], "names", None),
        (["--mode", "b"], "mode", "b"),
        (["--shade", "dark"], "shade", Shade.DARK),
        (["--schedule", "cosine"], "schedule", "cosine"),
        (["--folder", "x/y"], "folder", Path("x/y")),
        (["--data_path=--odd=name"], "data_path", "--odd=name"),
        (["--seed", "1", "--seed", "2"], "seed", 2),
        (["--dry_run", "--no_dry_run"], "dry_run", False),
    ],
)
def test_flag_forms(argv, name, value):
    config = read(*argv)
    assert getattr(config, name) == value
    assert type(getattr(config, name)) is type(value)
    assert config.explicit == {name}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("learning_rate: 1e-4", "learning_rate", 1e-4),
        ("learning-rate: 1E-3", "learning_rate", 1e-3),
        ("lr: 2.5e-4", "learning_rate", 2.5e-4),
        ("learning_rate: 1", "learning_rate", 1.0),
        ("seed: 1e3", "seed", 1000),
        ("max_steps: null", "max_steps", None),
        ("max_steps:", "max_steps", None),
        ("report_to: none", "report_to", "none"),
        ("dry_run: yes", "dry_run", True),
        ("pin_memory: off", "pin_memory", False),
        ("betas: [0.8, 1e-1]", "betas", (0.8, 0.1)),
        ("sizes: []", "sizes", []),
        ("sizes: 4", "sizes", [4]),
        ("names: [-x, '1']", "names", ["-x", "1"]),
        ("shade: dark", "shade", Shade.DARK),
        ("data_path: 2020", "data_path", "2020"),
    ],
)
def test_yaml_values(yaml, line, name, value):
    config = read("--config", yaml(line))
    assert getattr(config, name) == value
    assert type(getattr(config, name)) is type(value)
    assert config.explicit == {name}


def test_flags_override_yaml_and_later_files_earlier_ones(yaml):
    first, second = yaml("seed: 1\nlearning_rate: 1e-2\nmode: b"), yaml("seed: 2\nlearning_rate: 1e-3")
    config = read("--seed", "3", "--config", first, f"--config={second}")
    assert (config.seed, config.learning_rate, config.mode) == (3, 1e-3, "b")
    assert config.explicit == {"seed", "learning_rate", "mode"}


def test_a_default_that_was_set_explicitly_is_explicit():
    assert read("--seed", "0").explicit == {"seed"}


def test_alias_and_name():
    assert read("--save_dir", "x", "--output_dir", "x").output_dir == "x"
    assert read("--learning_rate", "1e-3", "--lr=0.001").learning_rate == 1e-3
    message = refuse("--save_dir", "x", "--output-dir=y")
    assert "--save_dir is x" in message and "--output_dir" in message and "is y" in message


def test_alias_and_name_in_yaml(yaml):
    assert read("--config", yaml("lr: 1e-3\nlearning_rate: 0.001")).learning_rate == 1e-3
    assert "another name of the same option" in refuse("--config", yaml("lr: 1e-3\nlearning_rate: 0.002"))
    # A flag overrides the file under either name.
    assert read("--config", yaml("save_dir: a"), "--output_dir", "b").output_dir == "b"


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--learning_rte", "3"], ["unknown option --learning_rte", "--learning_rate"]),
        (["--outputdir", "3"], ["--outputdir", "--output_dir"]),
        (["--no_seed"], ["unknown option --no_seed", "--seed"]),
        (["--learn", "3"], ["unknown option --learn:"]),  # abbreviations are not guessed
        (["--zzz"], ["unknown option --zzz", "nearest known one is --"]),
        (["--learning_rate", "abc"], ["--learning_rate is 'abc'", "a number > 0"]),
        (["--learning_rate", "-1e-4"], ["'-1e-4'", "a number > 0"]),
        (["--learning_rate", "nan"], ["'nan'", "a number"]),
        (["--learning_rate", "inf"], ["'inf'", "a number"]),
        (["--seed", "1.5"], ["'1.5'", "a whole number >= 0"]),
        (["--seed"], ["--seed has no value", "a whole number"]),
        (["--sizes"], ["--sizes has no value", "a list, each a whole number"]),
        (["--lr_scale", "cubic"], ["'cubic'", "one of none, sqrt, linear"]),
        (["--schedule", "never"], ["'never'", "one of fixed, cosine"]),
        (["--mode", "c"], ["'c'", "one of a, b"]),
        (["--shade", "grey"], ["'grey'", "one of light, dark"]),
        (["--dry_run", "perhaps"], ["'perhaps'", "true or false"]),
        (["--betas", "1"], ["1 values (1.0)", "2 values, each a number"]),
        (["--sizes", "1", "x"], ["'x'", "a whole number"]),
        (["stray"], ["unexpected argument 'stray'"]),
        (["-x"], ["unexpected argument '-x'"]),
        (["--seed", "1", "stray"], ["unexpected argument 'stray'"]),
        (["--keep_checkpoints", "0"], ["'0'", ">= 1"]),
        (["--config", "absent.yaml"], ["absent.yaml", "no such file"]),
        (["--config"], ["--config has no value"]),
    ],
)
def test_mistakes_on_the_command_line(argv, parts):
    message = refuse(*argv)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("learning_rte: 3", ["unknown key learning_rte", "learning_rate"]),
        ("seed: [1, 2]", ["seed is 1 2", "a whole number"]),
        ("seed: abc", ["seed is 'abc'", "a whole number"]),
        ("data:\n  data_path: x", ["unknown key data", "data_path"]),
        ("data_path:\n  x: 1", ["flat"]),
        ("seed: 1\nseed: 2", ["'seed' is given twice"]),
        ("learning_rate: 1\nlearning-rate: 2", ["is given twice"]),
        ("- seed", ["holds a list"]),
        ("seed: {", ["not readable as YAML"]),
        ("seed: true", ["'true'", "a whole number"]),
        ("betas: [1, 2, 3]", ["3 values", "2 values"]),
    ],
)
def test_mistakes_in_yaml_name_the_file(yaml, text, parts):
    path = yaml(text)
    message = refuse("--config", path)
    for part in [path, *parts]:
        assert part in message


def test_an_empty_yaml_file_changes_nothing(yaml):
    assert read("--config", yaml("# nothing\n")) == Config()


def test_required_fields():
    assert parse(Needy, ["--path", "x"]).path == "x"
    with pytest.raises(UserError, match="missing option --path"):
        parse(Needy, [])


def test_yaml_can_fill_a_required_field(yaml):
    assert parse(Needy, ["--config", yaml("path: there")]).path == "there"


def test_help_is_grouped_and_shows_defaults(capsys):
    with pytest.raises(SystemExit) as caught:
        read("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["options", "data", "optimisation", "model", "other", "run"]
    assert "100% of the records" in text and "(default: 0.0001)" in text
    assert "--output_dir, --save_dir TEXT" in text and "--output-dir" not in text
    assert "{none,sqrt,linear}" in text


def test_only_the_first_rank_prints_help(capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit):
        read("--help")
    assert capsys.readouterr().out == ""


def test_config_dict_is_json(tmp_path):
    import json

    config = read("--folder", "x", "--shade", "dark", "--names", "a")
    values = config_dict(config)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert (values["folder"], values["shade"], values["betas"], values["names"]) == ("x", "dark", [0.9, 0.99], ["a"])
    assert "explicit" not in values
    config.learning_rate = math.inf
    assert config_dict(config)["learning_rate"] == "inf"


def test_parsing_leaves_the_dataclass_as_it_was_and_lists_apart():
    first, second = read(), read()
    first.sizes.append(9)
    assert second.sizes == [1, 2] and Config().sizes == [1, 2]
    assert Config.__dataclass_fields__["betas"].type == tuple[float, float]


def test_an_args_file_beside_the_script_is_not_read(tmp_path, monkeypatch):
    # HfArgumentParser reads <script>.args silently unless told not to.
    script = tmp_path / "train.py"
    script.with_suffix(".args").write_text("--seed 9")
    monkeypatch.setattr("sys.argv", [str(script), "--max_steps", "4"])
    config = parse(Config)
    assert (config.seed, config.max_steps) == (0, 4)


def test_a_field_that_no_flag_can_carry_is_our_own_bug():
    @dataclass
    class Wrong:
        table: dict = field(default_factory=dict)

    with pytest.raises(TypeError, match="table"):
        parse(Wrong, [])
