"""Every command that README, docs and scripts print: its flags are known, its files and targets are there.

Flags are parsed by the class that the script itself parses, and checked for contradictions as the script does. Really
run, with --dry_run and a small synthetic set, is the first bash-block command of each form: plain python, accelerate
launch, cpu_2.yaml (two processes), torchrun (two processes), and make_synthetic and evaluate_protein in full. `make`
commands run under `make -n`. Commands in text blocks need GPUs, a cluster or your own files: they are checked only.
"""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import script_modules
from accelerate.commands.launch import launch_command_parser
from doc_commands import LANGUAGES, PAGES, PROGRAMS, ROOT, Command, all_commands, blocks
from torch.distributed.run import get_args_parser

from lib.args import ConfigParser, RunArgs, parse
from lib.errors import UserError
from lib.protein.structure import REASONS

COMMANDS = all_commands()
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*(/[\w./-]+)?")
LAUNCH_FIELDS = {"local_rank", "world_size", "master_addr", "master_port", "gpu_ids"}
BIN = Path(sys.executable).parent


def entry(script: Path) -> tuple[type, dict, object]:
    """(configuration class, aliases, check_options or None) from the script's own call of launch.run."""
    module, tree = script_modules.load(script.stem), ast.parse(script.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "launch.run"]
    assert len(calls) == 1, f"{script.name} calls launch.run {len(calls)} times"
    aliases = [word.value for word in calls[0].keywords if word.arg == "aliases"]
    return (
        getattr(module, ast.unparse(calls[0].args[1])),
        getattr(module, ast.unparse(aliases[0])) if aliases else {},
        getattr(module, "check_options", None),
    )


ENTRIES = {path.name: entry(path) for path in sorted((ROOT / "scripts").glob("*.py"))}


def check_file(word: str, folder: str = ""):
    """A file that a command names is in the repository, or is a word in capitals for the reader to replace."""
    assert PLACEHOLDER.fullmatch(word) or (ROOT / folder / word).is_file(), f"{word} is not in the repository"


def check_script(words: list[str]):
    """`scripts/x.py --flags` or `benchmarks/x.py --flags`."""
    assert words, "no script"
    check_file(words[0])
    path = ROOT / words[0]
    if path.name in ENTRIES:
        config_class, aliases, check_options = ENTRIES[path.name]
        config = parse(config_class, words[1:], aliases)
        if check_options:
            check_options(config)
    elif path.parent.name == "benchmarks":
        check_argparse(path, words[1:])
    else:
        assert len(words) == 1 or not words[1].startswith("-"), f"{words[0]} takes no flags"


def check_argparse(path: Path, words: list[str]):
    """Flags and choices of a benchmark, from its add_argument calls."""
    known, positional = set(), []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_argument"):
            names = [argument.value for argument in node.args]
            known |= {name for name in names if name.startswith("-")}
            positional += [name for name in names if not name.startswith("-")]
    words = [
        word for at, word in enumerate(words) if not (at and words[at - 1] in known and " " in word)
    ]  # quoted flags
    for word in words:
        assert not word.startswith("--") or word.split("=")[0] in known, f"{path.name} has no {word}; it has {known}"
    bare = [word for at, word in enumerate(words) if not word.startswith("--") and not (at and words[at - 1] in known)]
    assert len(bare) == len(positional), f"{path.name} takes {positional}, found {bare}"
    text = path.read_text(encoding="utf-8")
    assert all(f'"{word}"' in text for word in bare), f"{path.name} does not know {bare}"


def outside_make() -> dict[str, str]:
    """The environment without what a surrounding make leaves in it: `make test ARGS=...` runs this very file."""
    given = re.findall(r"^([A-Z_]+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert "ARGS" in given
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("MAKE", "MFLAGS")) and name not in given}  # fmt: skip


def check_launcher(parser, words: list[str]) -> list[str]:
    """Parses the launcher's own flags; returns script and flags."""
    if not any(word.endswith(".py") for word in words):
        words = [*words, "scripts/train_protein.py"]  # `accelerate launch --main_process_port 0 ...`
    try:
        arguments = parser.parse_args(words)
    except SystemExit:
        raise AssertionError(f"the launcher does not understand {shlex.join(words)}") from None
    if getattr(arguments, "config_file", None):
        check_file(arguments.config_file)
    return [arguments.training_script, *arguments.training_script_args]


def check_make(words: list[str]):
    """Known variables, known targets, and a recipe that make can lay out."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name = word.split("=")[0]
        if "=" in word:
            assert f"$({name})" in makefile, f"the Makefile knows no {name}"
        else:
            assert re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), f"the Makefile has no target {word}"
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, env=outside_make())
    assert done.returncode == 0, done.stderr
    for line in done.stdout.replace("\\\n", " ").splitlines():
        found = re.search(r"accelerate launch (.*)", line)
        if found:
            check_script(check_launcher(launch_command_parser(), shlex.split(found[1])))


def check(command: Command):
    words = command.words
    assert command.program in PROGRAMS, f"{command.program} is no program this test knows: {command.text}"
    if words[:2] == ["accelerate", "launch"]:
        check_script(check_launcher(launch_command_parser(), words[2:]))
    elif words[0] == "torchrun":
        check_script(check_launcher(get_args_parser(), words[1:]))
    elif words[0] == "sbatch":
        flags = [word for word in words[1:] if not word.startswith("--") or word.endswith(".sbatch")]
        at = words.index(flags[0])
        check_file(words[at])
        check_script(["scripts/train_protein.py", *words[at + 1 :]])
    elif words[0] == "make":
        check_make(words[1:])
    elif words[0] == "python" and words[1] not in ("-m", "-c"):
        check_script(words[1:])
    else:
        assert words[0] in ("pip", "python") or words[1] in ("config", "env"), command.text


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_flags_files_and_targets(command):
    try:
        check(command)
    except UserError as error:
        shortened = "..." in command.text and str(error).startswith(
            "missing option"
        )  # `...`: the flags of another line
        if not shortened:
            raise AssertionError(f"{command.where}: {command.text}\n{error}") from None


def test_commands_are_found():
    found = {(command.where.split(":")[0], command.program) for command in COMMANDS}
    expected = [("README.md", "make"), ("README.md", "accelerate"), ("docs/train_protein.md", "torchrun")]
    expected += [("docs/train_protein.md", "python"), ("scripts/train_protein.py", "accelerate")]
    assert not [one for one in expected if one not in found]
    original = next(c for c in COMMANDS if c.where.startswith("README") and "--mask_ratio" in c.text)
    assert original.words[-2:] == ["--save_dir", "checkpoints"], "continuation lines are joined"


@pytest.mark.parametrize(
    "text",
    [
        "accelerate launch scripts/train_protein.py --epoch 5",
        "accelerate launch scripts/train_protein.py --mask_ratio 0.3 --mask_schedule uniform",
        "accelerate launch --num_process_count 2 scripts/train_protein.py",
        "accelerate launch --config_file accelerate_configs/cpu_3.yaml scripts/train_protein.py",
        "python scripts/train_proteins.py",
        "python benchmarks/protein_quality.py medium --pdb_path FOLDER",
        "python benchmarks/protein_scaling.py --pdb_paths FOLDER",
        "make trian",
        "make train FOLDER=x",
        "sbatch slurm/three_nodes.sbatch",
        "conda activate quartet",
    ],
)
def test_a_wrong_command_is_noticed(text):
    with pytest.raises((AssertionError, UserError)):
        check(Command("here:1", text, True))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_say_what_they_are_and_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for language, number, _ in blocks(text):
        assert language in LANGUAGES, f"{page.name}:{number - 1}: a fenced block of language {language!r}"
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_every_flag_named_in_the_protein_page_exists():
    text = (ROOT / "docs" / "train_protein.md").read_text(encoding="utf-8")
    known = {"config", "help"}
    for config_class, aliases, _ in ENTRIES.values():
        known |= set(ConfigParser(config_class, aliases).kinds) | set(aliases)
    for parser in (launch_command_parser(), get_args_parser()):
        known |= {name.lstrip("-").replace("-", "_") for action in parser._actions for name in action.option_strings}
    inline = " ".join(re.findall(r"`([^`\n]+)`", text))
    named = {name.replace("-", "_") for name in re.findall(r"--([a-zA-Z][\w-]*)", inline)}
    assert not {name for name in named if name not in known and name.removeprefix("no_") not in known}


def test_the_protein_page_names_every_flag_of_the_trainer():
    text = (ROOT / "docs" / "train_protein.md").read_text(encoding="utf-8")
    config_class, aliases, _ = ENTRIES["train_protein.py"]
    fields = ConfigParser(config_class, aliases).kinds
    names = {name: [name, *(alias for alias in aliases if aliases[alias] == name)] for name in fields}
    shared = set(RunArgs.__dataclass_fields__) | LAUNCH_FIELDS
    missing = [
        name
        for name, spellings in names.items()
        if name not in shared and not any(re.search(rf"--(no_)?{word}\b", text) for word in spellings)
    ]
    assert not missing


def test_the_table_of_rejections_is_the_code():
    text = (ROOT / "docs" / "train_protein.md").read_text(encoding="utf-8")
    table = text.split("| reason | meaning |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(REASONS)


@pytest.mark.parametrize(
    ("target", "trainer", "ends_with"),
    [
        ("train", "protein", "--epochs 200"),
        ("train-snakes", "snakes", ""),
        ("train-grpo", "grpo", ""),
        ("train-omagd", "omagd", ""),
    ],
)
def test_the_recipe_of_the_page_is_the_one_of_make(target, trainer, ends_with):
    """All of it but the limits of time and games, and how often something is looked at or saved."""
    text = (ROOT / "docs" / f"train_{trainer}.md").read_text(encoding="utf-8")
    section = text.split("## The recipe")[1]
    recipe = next(lines for language, _, lines in blocks(section) if language == "text")
    done = subprocess.run(
        ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True, env=outside_make()
    )
    run = done.stdout.replace("\\\n", " ").replace('"', "").split(f"scripts/train_{trainer}.py")[1].split()
    limits = {"--max_minutes", "--max_episodes", "--eval_every", "--eval_games", "--log_interval", "--save_interval"}
    kept = [word for at, word in enumerate(run) if word not in limits and (at == 0 or run[at - 1] not in limits)]
    assert kept == " ".join(recipe).split() and " ".join(recipe).endswith(ends_with)


def test_the_snakes_page_names_every_flag_of_the_originals():
    text = (ROOT / "docs" / "train_snakes.md").read_text(encoding="utf-8")
    config_class, _, _ = ENTRIES["train_snakes.py"]
    fields = set(ConfigParser(config_class, {}).kinds)
    originals = (
        "max_episodes episode_length output_activation buffer_size batch_size a_lr c_lr gamma tau epsilon epsilon_speed"
        " seed save_interval model_episode load_model load_model_run load_model_run_episode algo update_interval"
        " opponent_difficulty_strategy enable_opponent_evasion opponent_evasion_start_episode"
    ).split()
    assert not [name for name in originals if name not in fields]
    assert not [name for name in originals if not re.search(rf"--{name}\b", text)]


def test_figures_of_the_readme_are_those_of_the_result_files():
    filling, readme = (
        script_modules.load("fill_numbers", ROOT / "docs"),
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    assert filling.filled(readme) == readme, "benchmarks/results changed: run `make numbers`"


def shape(command: Command) -> str:
    """What makes one command another form than the next: launcher, number of processes, script."""
    words = command.words
    script = next((Path(word).stem for word in words if word.startswith("scripts/")), "")
    launcher = "cpu_2" if any("cpu_2.yaml" in word for word in words) else words[0]
    return f"{launcher} {script}"


def first_of_each_shape() -> dict[str, Command]:
    found: dict[str, Command] = {}
    for command in COMMANDS:
        if command.runnable and any(word.startswith("scripts/") for word in command.words):
            found.setdefault(shape(command), command)
    return found


TO_RUN = first_of_each_shape()


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A folder in which the repository's files lie as in a fresh clone, and outputs stay apart from it."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("scripts", "lib", "accelerate_configs", "slurm"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="module")
def trained(clone) -> Path:
    """A run of one step, made by the first `python scripts/train_protein.py` command of the pages."""
    flags = [
        "--synthetic_chains",
        "24",
        "--max_steps",
        "1",
        "--hidden_dim",
        "16",
        "--save_dir",
        "RUN",
        "--report_to",
        "none",
    ]
    done = run(clone, TO_RUN["python train_protein"], [*flags, "--no_visualize"])
    assert "results.json, report.html and export/ are in RUN" in done.stdout
    return clone / "RUN"


def run(folder: Path, command: Command, extra: list[str]) -> subprocess.CompletedProcess:
    """Runs a command as printed, `extra` flags added, capital words replaced by files of the folder."""
    replaced = {"FOLDER": "structures", "FILE": "report.json"}
    words = [replaced.get(word, word) for word in command.words]
    words[0] = str(BIN / words[0])
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ACCELERATE_", "TORCHELASTIC"))}
    environ = {**kept, "HF_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    environ |= {**command.variables, "PYTHONPATH": str(folder), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([*words, *extra], cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command.where}: {command.text}\n{done.stdout}\n{done.stderr}"
    return done


def test_the_forms_that_are_run():
    assert set(TO_RUN) == {
        "accelerate train_protein",
        "cpu_2 train_protein",
        "python train_protein",
        "torchrun train_protein",
        "accelerate evaluate_protein",
        "python make_synthetic",
        "cpu_2 train_snakes",
        "python train_snakes",
        "cpu_2 train_omagd",
        "python train_omagd",
        "python evaluate_snakes",
        "python watch_snakes",
        "python watch_omagd",
        "python evaluate_omagd",
    }


@pytest.mark.parametrize("form", ["accelerate", "cpu_2", "torchrun"])
def test_training_commands_run(clone, trained, form):
    done = run(clone, TO_RUN[f"{form} train_protein"], ["--dry_run", "--synthetic_chains", "24"])
    processes = 1 if form == "accelerate" else 2
    assert f"processes      {processes} on 1 machine" in done.stdout
    assert "SYNTHETIC set" in done.stdout and done.stdout.count("dry run: nothing was trained") == 1


def test_the_evaluation_command_runs_on_what_training_exported(clone, trained):
    shutil.copytree(next(clone.glob("data/*/syn_0000*")).parent, clone / "structures", dirs_exist_ok=True)
    done = run(clone, TO_RUN["accelerate evaluate_protein"], [])
    results = json.loads((clone / "report.json").read_text(encoding="utf-8"))
    trained_on = json.loads((trained / "data_report.json").read_text(encoding="utf-8"))
    assert results["val_chains"] == trained_on["chains_kept"]
    assert results["val_ppl_one_shot"] > 1 and f"{results['val_ppl_one_shot']:.3f}" in done.stdout


def test_the_snakes_commands_run(clone):
    """Training for a moment on one process, a dry run on two, bots that play, and the text block's commands on it."""
    short = "--max_minutes 10 --max_steps 3 --eval_every 0 --final_games 2 --output_dir team --report_to none".split()
    done = run(clone, TO_RUN["python train_snakes"], [*short, "--no_visualize"])
    assert "results.json, report.html and export/ are in team" in done.stdout
    done = run(clone, TO_RUN["cpu_2 train_snakes"], ["--dry_run"])
    assert "processes      2 on 1 machine" in done.stdout and done.stdout.count("nothing was trained") == 1
    run(clone, TO_RUN["python evaluate_snakes"], ["--games", "4"])
    run(clone, TO_RUN["python watch_snakes"], [])
    assert (clone / "game.html").stat().st_size > 10_000
    for command in COMMANDS:
        if command.where.startswith("README") and "RUN/export" in command.text and "snakes" in command.text:
            text = command.text.replace("RUN/export", "team/export").replace("--games 1000", "--games 4")
            run(clone, Command(command.where, text, True), [])
    assert json.loads((clone / "report.json").read_text(encoding="utf-8"))["games"] == 4
    assert (clone / "play.html").is_file() and (clone / "submission" / "submission.py").is_file()


def test_the_battle_commands_run(clone):
    """Training for a moment on one process, battles of its team and of a script to watch, and a dry run on two."""
    short = "--max_steps 2 --eval_every 0 --final_nepisode 4 --output_dir squad --report_to none --no_visualize".split()
    small = "--batch_size_run 4 --per_device_batch_size 4 --max_minutes 10".split()
    done = run(clone, TO_RUN["python train_omagd"], [*small, *short])
    assert "results.json, report.html and export/ are in squad" in done.stdout
    assert json.loads((clone / "squad" / "results.json").read_text(encoding="utf-8"))["observe"] == "full_obs"
    run(clone, TO_RUN["python watch_omagd"], [])
    assert (clone / "battle.html").stat().st_size > 10_000
    watching = [
        command for command in COMMANDS if command.where.startswith("docs/train_omagd") and "watch_" in command.text
    ]
    assert len(watching) == 4
    for command in watching:
        run(clone, Command(command.where, command.text.replace("RUN/export", "squad/export"), True), [])
    assert (clone / "battle.json").is_file()
    done = run(clone, TO_RUN["cpu_2 train_omagd"], ["--dry_run"])
    assert "processes      2 on 1 machine" in done.stdout and done.stdout.count("nothing was trained") == 1


def test_a_scripted_player_is_measured(clone):
    done = run(clone, TO_RUN["python evaluate_omagd"], ["--episodes", "8"])
    assert "kite" in done.stdout and "battles/s" in done.stdout, done.stdout


def test_the_synthetic_command_runs(clone):
    command = TO_RUN["python make_synthetic"]
    run(clone, command, ["--output_path", "made", "--chains", "8"])
    assert (clone / "made" / "synthetic.json").is_file() and len(list((clone / "made").glob("syn_*"))) >= 6
