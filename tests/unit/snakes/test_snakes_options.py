"""The originals' flags, what they mean here, and which contradict each other."""

import pytest

from lib.args import parse
from lib.errors import UserError
from lib.snakes.opponents import opponent
from lib.snakes.options import ALIASES, SnakesOptions, check_options, league_shares


def options(text: str = "") -> SnakesOptions:
    config = parse(SnakesOptions, text.split(), ALIASES)
    check_options(config)
    return config


def test_the_original_commands_are_understood():
    config = options("--max_episodes 100000 --epsilon 0.8 --opponent_difficulty_strategy curriculum")
    assert (config.max_episodes, config.epsilon, config.batch_size) == (100_000, 0.8, 128)
    config = options("--enable_opponent_evasion --opponent_evasion_start_episode 40000")
    assert config.enable_opponent_evasion and config.opponent_evasion_start_episode == 40_000
    config = options("--load_model --load_model_run 1 --load_model_run_episode 50000 --max_episodes 100000")
    assert (config.load_model, config.load_model_run, config.load_model_run_episode) == (True, 1, 50_000)
    assert options("--algo bicnet").learner_config().actor.comm == "lstm"
    assert options("--output_activation tanh").learner_config().actor.output == "tanh"
    defaults = options()
    assert (defaults.a_lr, defaults.c_lr, defaults.gamma, defaults.tau) == (3e-4, 3e-4, 0.99, 0.01)
    assert (defaults.epsilon, defaults.epsilon_speed, defaults.seed, defaults.save_interval) == (0.5, 0.9995, 1, 1000)


@pytest.mark.parametrize(
    ("strategy", "levels"),
    [
        ("curriculum", [(0, "random"), (999, "random"), (1000, "level1"), (3000, "greedy"), (6000, "level3"),
                        (8500, "level4"), (20_000, "level4")]),
        ("linear", [(0, "random"), (2499, "random"), (2500, "level1"), (5000, "greedy"), (7500, "level3"),
                    (10_000, "level4")]),
        ("exponential", [(0, "random"), (3900, "random"), (4000, "level1"), (6300, "greedy"), (8300, "level3"),
                         (10_000, "level4")]),
        ("fixed", [(0, "hunter"), (9000, "hunter")]),
    ],
)  # fmt: skip
def test_schedules_of_the_opponent(strategy, levels):
    config = options(f"--max_episodes 10000 --opponent_difficulty_strategy {strategy}")
    config.opponent = "hunter"
    assert [(episode, opponent(config, episode)) for episode, _ in levels] == levels


def test_evasion_replaces_the_level_from_its_episode_on():
    config = options("--max_episodes 100 --enable_opponent_evasion --opponent_evasion_start_episode 50")
    assert [opponent(config, episode) for episode in (0, 49, 50, 99)] == ["random", "greedy", "evasion", "evasion"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--algo bicnet --comm none", ("--algo bicnet", "--comm lstm")),
        ("--algo bicnet --hidden 64 128", ("--hidden", "equal")),
        ("--mask --features jidi26", ("--mask has no effect", "--features team")),
        ("--opponent greedy", ("--opponent has no effect", "--opponent_difficulty_strategy fixed")),
        ("--league greedy=1", ("--league has no effect", "--opponent_difficulty_strategy league")),
        ("--opponent_difficulty_strategy hard", ("--opponent_difficulty_strategy", "curriculum")),
        ("--load_model_run 3", ("--load_model_run has no effect", "--load_model")),
        ("--load_model --resume auto", ("--load_model with --resume",)),
        ("--tau 2", ("--tau 2", "0 to 1")),
        ("--epsilon 0.1 --epsilon_min 0.2", ("--epsilon 0.1", "--epsilon_min 0.2")),
        ("--gradient_accumulation_steps 2", ("--gradient_accumulation_steps", "--batch_size")),
        ("--opponent_difficulty_strategy league --league greedy=0.5,frog=0.5", ("'frog'", "hunter")),
        ("--opponent_difficulty_strategy league --league greedy=0.5,past=0.4", ("sum to 0.9",)),
        ("--opponent_difficulty_strategy league --league greedy", ("no share", "greedy=0.3")),
        ("--opponent_difficulty_strategy league --enable_opponent_evasion", ("evasion=0.2",)),
        ("--episode_length 3 --n_step 3", ("--episode_length 3", "a length above 3")),
        ("--game_name snake_1v1", ("--game_name", "snakes_3v3")),
    ],
)  # fmt: skip
def test_contradictions_are_refused_in_one_line(text, words):
    with pytest.raises(UserError) as error:
        options(text)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_a_low_epsilon_is_not_raised_to_the_floor():
    config = options("--epsilon 0")
    assert config.epsilon_min == 0


def test_league_shares():
    assert league_shares("greedy=0.4, latest=0.3,past=0.3") == {"greedy": 0.4, "latest": 0.3, "past": 0.3}
