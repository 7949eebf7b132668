"""Writes the measured figures of README.md from benchmarks/results/*.json; nothing is typed by hand.

    python docs/fill_numbers.py

A row whose result file is missing, or was measured without what the row compares with, says so.
"""

import json
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- numbers of benchmarks/results: begin -->", "<!-- numbers of benchmarks/results: end -->"
OPEN = "not measured"
SUBMISSION_KEYS = (
    ("greedy", "win_rate_original_game"),
    ("greedy", "win_rate_our_kernel"),
    ("shipped", "win_rate_original_game"),
)


def load(name: str) -> dict | None:
    """One result file, None where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def pick(result: dict | None, *keys: str):
    """A value inside `figures`, None where any of the keys is missing."""
    value = None if result is None else result["figures"]
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def words(template: str, *values) -> str:
    """`template` filled with the values, or OPEN when one of them was not measured."""
    return OPEN if any(value is None for value in values) else template.format(*values)


def reading(kind: str) -> str:
    return words(
        "{:,.0f} residues/s", pick(load("protein_reading"), kind, "rows", "quartet, text in memory", "residues_per_s")
    )


def cached() -> str:
    result = load("protein_cache")
    rate = pick(result, "random_reads", "stored", "million_residues_per_s")
    size = pick(result, "random_reads", "stored", "bytes_per_residue")
    return words("{:.1f} million residues/s, {:.1f} bytes a residue", rate, size)


def streamed() -> str:
    found = pick(load("protein_cache"), "streamed_pass", "stream") or {}
    residues = found.get("residues")
    millions = None if residues is None else residues / 1e6
    return words("{:.0f} MiB over {:.1f} million residues", found.get("memory_growth_mib"), millions)


def against_peer(variant: str) -> str:
    return words("{:.2f} x", pick(load("protein_throughput"), "ratio_to_peer_fp32", variant))


def peak_memory() -> str:
    found = pick(load("protein_throughput"), "peak_memory_mib_2000_residues", "quartet fp32")
    return words("{:.2f} GB", None if found is None else found * 2**20 / 1e9)


def quality_short() -> str:
    found = pick(load("protein_quality_short"), "mean")
    if not found:
        return OPEN
    return (
        f"perplexity {found['val_ppl_one_shot']:.2f} one shot, {found['baseline_table_ppl']:.2f} table, "
        f"{found['baseline_unigram_ppl']:.2f} unigram; recovery {100 * found['val_recovery_one_shot']:.1f} %, "
        f"table {100 * found['baseline_table_recovery']:.1f} %"
    )


def quality_long() -> str:
    found = pick(load("protein_quality_long"), "mean")
    keys = ("val_ppl_masked", "val_ppl_one_shot", "baseline_table_ppl")
    return words(
        "perplexity {:.2f} masked, {:.2f} one shot, {:.2f} table", *(found[key] if found else None for key in keys)
    )


def scaling() -> str:
    return words("{:.2f} x", pick(load("protein_scaling"), "ratio"))


def synthetic() -> str:
    found = pick(load("protein_quality_synthetic"), "mean") or {}
    if "bayes_gap_closed" not in found:
        return OPEN
    share = f"{100 * found['bayes_gap_closed']:.1f} % of the gap closed"
    return f"{share}; perplexity {found['val_ppl_one_shot']:.2f}, Bayes {found['bayes_ppl_one_shot']:.2f}"


def snakes_game(kind: str) -> str:
    found = [pick(load("snakes_game"), f"{kind}_{games}", "ratio") for games in (64, 1024)]
    return words("{:,.0f} x with 64 games, {:,.0f} x with 1,024", *found)


def snakes_rules() -> str:
    both = [
        pick(load("snakes_rules"), part, key) for part in ("together", "original") for key in ("steps", "differences")
    ]
    return words("{:,} steps, {} differences; {:,} steps, {} differences", *both)


def snakes_hunter() -> str:
    found = pick(load("snakes_bots"), "hunter_against_greedy") or {}
    rate, interval = found.get("win_rate"), found.get("interval") or (None, None)
    return words("{:.1%} won ({:.1%} to {:.1%})", rate, *interval)


def snakes_seconds() -> str:
    found = pick(load("snakes_learning_seconds"), "median") or {}
    return words("{:.1f} s to 50 %, {:.1f} s to 80 %", found.get("seconds_to_50"), found.get("seconds_to_80"))


def snakes_minutes() -> str:
    found = pick(load("snakes_learning_minutes"), "median") or {}
    return words(
        "{:.1%} against greedy, {:.1%} against hunter", found.get("win_rate_greedy"), found.get("win_rate_bot")
    )


def snakes_scaling(name: str) -> str:
    return words("{:.2f} x", pick(load(name), "ratio"))


def snakes_submission() -> str:
    rates = [pick(load("snakes_submission"), *keys) for keys in SUBMISSION_KEYS]
    return words("{:.1%} there, {:.1%} here; {:.1%} against the shipped model", *rates)


def worlds_experts() -> str:
    rates = pick(load("grpo_worlds"), "experts")
    least = min((rate for levels in rates.values() for rate in levels.values()), default=None) if rates else None
    return words("{:.1%} of the tasks of every domain and level", least)


def worlds_agents() -> str:
    worst = {name: max(row.values()) for name, row in (pick(load("grpo_worlds"), "agents") or {}).items()}
    names = ("do_nothing", "random_tool", "always_act", "always_refuse", "always_transfer")
    text = "nothing {:.1%}, random tools {:.1%}, always act {:.1%}, always refuse {:.1%}, always transfer {:.1%}"
    return words(text, *(worst.get(name) for name in names))


def worlds_exploits() -> str:
    found = pick(load("grpo_worlds"), "exploits")
    return words("at most {:.1%}", max(max(row.values()) for row in found.values()) if found else None)


def worlds_speed() -> str:
    rate = pick(load("grpo_worlds"), "speed", "all domains, episodes a minute")
    return words("{:,} expert episodes a minute, tasks made anew", rate)


def worlds_real() -> str:
    found = pick(load("grpo_worlds"), "real") or {}
    return words("{} of {} gold replays with reward 1", found.get("reward 1"), found.get("tasks"))


def worlds_reset() -> str:
    return words("{:.1f} us", pick(load("grpo_worlds"), "real", "reset retail, us"))


def grpo_rollout() -> str:
    found = pick(load("grpo_rollout"), "shapes") or {}
    ratios = [row["ratio"] for row in found.values()]
    return words("{:.1f} x, {:.1f} x, {:.1f} x", *(ratios if len(ratios) == 3 else [None] * 3))


def grpo_ragged() -> str:
    return words("{:.2f} x", pick(load("grpo_rollout"), "ragged", "ratio"))


def grpo_exact() -> str:
    found = pick(load("grpo_rollout"), "exact") or {}
    return words(
        "{} of {} prompts differ; log-probabilities by at most {:.1e}",
        found.get("different"), found.get("prompts"), found.get("largest_log_prob_difference"),
    )  # fmt: skip


def grpo_training() -> str:
    found = pick(load("grpo_training"), "speed") or {}
    ratios = [row["ratio"] for row in found.values()]
    return words("{:.2f} x, {:.2f} x", *(ratios if len(ratios) == 2 else [None] * 2))


def grpo_step() -> str:
    return words("{:.1f} x", pick(load("grpo_step"), "1 x 8", "ratio"))


def grpo_curves() -> str:
    result = load("grpo_curves")
    return words(
        "largest difference {:.1e}, control {:.1e}",
        pick(result, "largest_difference"), pick(result, "smallest_control_difference"),
    )  # fmt: skip


def grpo_learning() -> str:
    result = load("grpo_learning_joint")
    return words(
        "{:.1%} after the warm start, {:.1%} after joint GRPO, medians of {} seeds",
        pick(result, "median", "success_before"), pick(result, "median", "success_after"),
        len(pick(result, "runs") or []) or None,
    )  # fmt: skip


def grpo_forgetting() -> str:
    result = load("grpo_learning_forgetting")
    return words(
        "falls by {:.2f} without a method, by {:.2f} with a quarter of each step replayed, medians of {} seeds",
        pick(result, "median", "none_first_domain_fall"), pick(result, "median", "replay_first_domain_fall"),
        len(pick(result, "runs") or []) or None,
    )  # fmt: skip


def battles() -> str:
    result = load("omagd_battle")
    return words(
        "{:,} x, {:,} x, {:,} x", *(pick(result, name, "64", "ratio") for name in ("3m", "2s3z", "3s5z"))
    )  # fmt: skip


def grpo_scaling() -> str:
    result = load("grpo_scaling")
    seconds = pick(result, "seconds_per_step_ratio")  # of steps with twice as many tasks
    return words(
        "{:.2f} x rollout tokens/s, {:.2f} x training tokens/s, {:.2f} x tasks/s",
        pick(result, "rollout_tokens_per_s_ratio"), pick(result, "train_tokens_per_s_ratio"),
        None if seconds is None else 2 / seconds,
    )  # fmt: skip


def battle_learner(noise: str) -> str:
    found = pick(load("omagd_learner"), f"3m, {noise} random") or {}
    steps = found.get("episode_steps") or {}
    return words(
        "{:.2f} x, {:.2f} x; episodes of {:.0f} steps, the longest {}",
        found.get("ratio_epymarl"), found.get("ratio_pymarl2"), steps.get("mean"), steps.get("longest"),
    )  # fmt: skip


def battle_learning(name: str) -> str:
    result = load(f"omagd_learning_{name}")
    seeds, minutes = pick(result, "runs") or [], None
    if seeds:
        flags = result["settings"]["flags"]
        minutes = float(flags[flags.index("--max_minutes") + 1])
    rates = ", ".join(f"{run['win_rate_test']:.3f}" for run in seeds) or None
    reached = pick(result, "median", "seconds_to_95")
    text = "never" if reached is None else f"after {reached:.0f} s"
    return words("{} after {:g} minutes (one number a seed); 0.95 " + text, rates, minutes)


def battle_scaling() -> str:
    found = pick(load("omagd_scaling")) or {}
    return words("{:.2f} x on 3m, {:.2f} x on 2s3z", *(found.get(name, {}).get("ratio") for name in ("3m", "2s3z")))


def battle_sight(file: str) -> str:
    gaps = pick(load(file), "gaps") or {}
    seeds = sorted({found["seeds"] for found in gaps.values()})
    told = [f"{name} {found['obs']:.3f} -> {found['full_obs']:.3f}" for name, found in gaps.items()]
    return words("{}; medians, seeds: {}", "; ".join(told) or None, "-".join(map(str, seeds)))


def battle_arms(file: str) -> str:
    arms = pick(load(file), "arms") or {}
    gain, share = arms.get("reconstructed - obs") or {}, arms.get("share_of_gap")
    return words(
        "{:.3f}, {:.3f}, {:.3f}; guesses gain {:.3f} ({:.3f} to {:.3f}), {:.0f} % of what the truth does; {} seeds",
        arms.get("obs"), arms.get("reconstructed"), arms.get("full_obs"), gain.get("mean"), gain.get("low"),
        gain.get("high"), None if share is None else 100 * share, arms.get("seeds"),
    )  # fmt: skip


def of_maps(name: str, text: str, *keys: str) -> str:
    """Figures of a benchmark of several maps, map by map; a key may be `part/key`, `%` at its end asks for percent."""
    found, told = pick(load(name)) or {}, []
    for battle_map, figures in found.items():
        values = []
        for key in keys:
            value = figures
            for part in key.rstrip("%").split("/"):
                value = (value or {}).get(part)
            values.append(100 * value if key.endswith("%") and value is not None else value)
        told.append(words(f"{battle_map}: {text}", *values))
    return "; ".join(told) or OPEN


def battle_tokens() -> str:
    text = "R2 {:.3f}, position error {:.2f} map units, health error {:.3f}, {:.0f} % of codes in use"
    return of_maps("omagd_tokenizer", text, "r2", "position_error", "health_error", "codes_in_use%")


def battle_guesses() -> str:
    text = "{:.2f}, one frame {:.2f}, last seen {:.2f}; p(lives) off by {:.3f}"
    guessers = [f"{name}/position_error" for name in ("model", "one_frame", "last_seen")]
    return of_maps("omagd_predictor", text, *guessers, "existence_calibration_error")


def battle_guessing() -> str:
    text = "collecting {:.2f} x, inference {:.2f} x, an update {:.2f} x"
    return of_maps("omagd_reconstruction", text, "collecting/ratio", "inference/ratio", "update/ratio")


ROWS = [
    ("reading PDB text, one core", lambda: reading("pdb"), "protein_reading"),
    ("reading mmCIF text, one core", lambda: reading("cif"), "protein_reading"),
    ("random whole chains from the cache, one thread", cached, "protein_cache"),
    ("memory growth of a streamed pass", streamed, "protein_cache"),
    ("training step in fp32 / ProteinMPNN's code in fp32", lambda: against_peer("quartet fp32"), "protein_throughput"),
    ("training step in bf16 / ProteinMPNN's code in fp32", lambda: against_peer("quartet bf16"), "protein_throughput"),
    ("peak memory of a step of 2,000 residues, fp32", peak_memory, "protein_throughput"),
    ("residues/s of 2 processes / of 1, one thread each", scaling, "protein_scaling"),
    ("real structures, 120 CPU-seconds of one thread, mean of 3 seeds", quality_short, "protein_quality_short"),
    ("real structures, 30 CPU-minutes of one thread", quality_long, "protein_quality_long"),
    ("synthetic set, 120 CPU-seconds of one thread", synthetic, "protein_quality_synthetic"),
    ("game of snakes, random moves, one core / the original's game", lambda: snakes_game("random"), "snakes_game"),
    ("the same with a greedy team and all features / the original's game alone", lambda: snakes_game("greedy"),
     "snakes_game"),
    ("rules against plain Python, and against the original", snakes_rules, "snakes_rules"),
    ("hunter, our strongest bot, against greedy", snakes_hunter, "snakes_bots"),
    ("snakes from random weights, one core, wins against greedy, median of 3 seeds", snakes_seconds,
     "snakes_learning_seconds"),
    ("`make train-snakes`, wins after five minutes, one seed", snakes_minutes, "snakes_learning_minutes"),
    ("that team as a submission in the original's own game, wins against greedy", snakes_submission,
     "snakes_submission"),
    ("snakes, samples/s of 2 processes / of 1, batch 128", lambda: snakes_scaling("snakes_scaling"), "snakes_scaling"),
    ("service worlds, the expert's success", worlds_experts, "grpo_worlds"),
    ("the same for agents without a model, level 2, worst domain", worlds_agents, "grpo_worlds"),
    ("the same for exploits, worst domain and level", worlds_exploits, "grpo_worlds"),
    ("service worlds, one core", worlds_speed, "grpo_worlds"),
    ("tau2-bench data, airline, retail and telecom", worlds_real, "grpo_worlds"),
    ("a fresh world on tau2-bench's retail database", worlds_reset, "grpo_worlds"),
    ("rollouts, 8 rows, one thread / transformers' generate: 259 + 128; 700 + 8 x (24 + 32); 2,000 + 6 x (24 + 40)",
     grpo_rollout, "grpo_rollout"),
    ("64 ragged conversations, with refill / in lockstep", grpo_ragged, "grpo_rollout"),
    ("greedy tokens against transformers' generate", grpo_exact, "grpo_rollout"),
    ("forward and backward, packed / plain rows, group 8: 259 + 128; 1,500 + 200", grpo_training, "grpo_training"),
    ("a whole step, 2,000 tokens and 6 turns, group 8 / TRL's GRPOTrainer", grpo_step, "grpo_step"),
    ("GRPO loss curves of 1, 2 and 3 processes, 20 steps, 8 settings", grpo_curves, "grpo_curves"),
    ("tiny model, ten minutes on two processes, success on three domains", grpo_learning, "grpo_learning_joint"),
    ("the same in turn at a higher rate, 20 steps each: first domain, from its own stage to the end", grpo_forgetting,
     "grpo_learning_forgetting"),
    ("GRPO after a warm start, 2 processes with twice as many tasks / 1, one thread each, medians of 3", grpo_scaling,
     "grpo_scaling"),
    ("unit battles, 64 at once, all that is told at every step, one core / SMAClite: 3m; 2s3z; 3s5z", battles,
     "omagd_battle"),
    ("an update of QMIX, 128 episodes of the script with 30 % random actions on 3m, one thread / EPyMARL, PyMARL2",
     lambda: battle_learner("0.3"), "omagd_learner"),
    ("the same, episodes of random play", lambda: battle_learner("1"), "omagd_learner"),
    *((f"QMIX on {name}, two processes, share of 512 greedy battles won by the weights that were best in tests",
       partial(battle_learning, name), f"omagd_learning_{name}") for name in ("3m", "2s3z", "8m", "3s5z", "5m_vs_6m")),
    ("QMIX, steps of battles a second while learning, 2 processes with twice as many battles and episodes / 1",
     battle_scaling, "omagd_scaling"),
    ("win rates of QMIX told what it sees -> told the truth about what it does not, equal steps",
     lambda: battle_sight("omagd_sight"), "omagd_sight"),
    ("the same, units within 6 can be attacked unseen (`--leaky_mask`, SMAC's rule)",
     lambda: battle_sight("omagd_sight_leaky"), "omagd_sight_leaky"),
    ("the same with guesses between them: 5m_vs_6m, sight 2, `--leaky_mask`",
     lambda: battle_arms("omagd_three_arms_5m_vs_6m_2"), "omagd_three_arms_5m_vs_6m_2"),
    ("two tokens for a unit, sight 5, episodes not learnt from, medians of the seeds", battle_tokens,
     "omagd_tokenizer"),
    ("guesses of living units out of sight, sight 5, position error in map units, medians of the seeds", battle_guesses,
     "omagd_predictor"),
    ("agents that are told guesses / what they see, 64 battles, one thread", battle_guessing, "omagd_reconstruction"),
]  # fmt: skip


def table() -> str:
    """The Markdown table, one row per figure, with the machine and the day it was measured."""
    lines = ["| what | measured | where, when | file |", "| --- | --- | --- | --- |"]
    for what, figure, name in ROWS:
        result, text = load(name), figure()
        where = ""
        if result is not None and text != OPEN:
            facts = result["environment"]
            where = f"{facts['cpu_model']}, {facts['date'][:10]}"
        link = f"[{name}](benchmarks/results/{name}.json)" if result is not None else f"{name}, none yet"
        lines.append(f"| {what} | {text} | {where} | {link} |")
    return "\n".join(lines)


def filled(text: str) -> str:
    """README.md with the table of today's results between the markers."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


def main() -> None:
    path = ROOT / "README.md"
    path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    print(table())


if __name__ == "__main__":
    main()
