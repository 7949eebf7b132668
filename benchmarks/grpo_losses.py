"""Token losses against those of TRL's own trainer code, on the same log-probabilities: values and gradients.

    python benchmarks/grpo_losses.py                      compares live, needs `pip install trl==1.16.0`
    python benchmarks/grpo_losses.py --fixture FILE       writes TRL's numbers for the test that compares with them

TRL's `GRPOTrainer._compute_loss` runs on an object that holds its settings and hands it the log-probabilities; nothing
of it is kept here. What differs by design is set to agree: TRL's epsilon_high of cispo is our cispo_cap, its gspo is
importance_sampling_level "sequence" with loss_type "grpo", and its bnpo is compared on one micro-batch.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import torch
from record import write_result

from lib.grpo.learning.losses import Objective, loss_sum

BAR = 1e-6
LIMIT = 12
LENGTHS = (12, 7, 1, 9, 4, 12)
COLUMNS = ("log_probs", "old_log_probs", "rollout_log_probs", "reference_log_probs")


def made_inputs() -> dict[str, torch.Tensor]:
    """Six completions of up to 12 tokens (6, 12), observations masked out in between; ratios well out of the clip."""
    torch.manual_seed(0)
    log_probs = -3 * torch.rand(len(LENGTHS), LIMIT, dtype=torch.float64)
    inputs = {name: log_probs + 0.4 * torch.randn_like(log_probs) for name in COLUMNS[1:]}
    mask = torch.arange(LIMIT) < torch.tensor(LENGTHS)[:, None]
    mask[0, 3:6] = False
    mask[3, 1:2] = False
    advantages = torch.tensor([1.2, -0.7, 0.4, -1.1, 0.0, 0.9], dtype=torch.float64)
    return {"log_probs": log_probs, **inputs, "mask": mask, "advantages": advantages}


def objectives() -> dict[str, Objective]:
    made = {}
    for kind in ("grpo", "bnpo", "dapo", "dr_grpo", "gspo", "cispo"):
        for beta in (0.0, 0.1):
            made[f"{kind} beta {beta}"] = Objective(kind, beta=beta, cispo_cap=1.3, max_completion_tokens=LIMIT)
    for correction in ("tis", "mis"):
        made[f"dapo {correction}"] = Objective(beta=0.1, is_correction=correction, is_cap=1.2)
    return made


def trl_loss(objective: Objective, inputs: dict[str, torch.Tensor]) -> tuple[float, torch.Tensor]:
    """Loss and its gradient (completions, tokens) by TRL's code."""
    from trl import GRPOTrainer

    log_probs = inputs["log_probs"].clone().requires_grad_()
    mask, tokens = inputs["mask"].long(), torch.arange(LIMIT).expand(len(LENGTHS), -1)
    known = GRPOTrainer._compute_loss(
        trl_settings(objective, log_probs),
        None,
        {
            "prompt_ids": tokens[:, :1],
            "prompt_mask": torch.ones_like(tokens[:, :1]),
            "completion_ids": tokens,
            "completion_mask": (tokens < torch.tensor(LENGTHS)[:, None]).long(),
            "tool_mask": mask,
            "advantages": inputs["advantages"],
            "old_per_token_logps": inputs["old_log_probs"],
            "ref_per_token_logps": inputs["reference_log_probs"],
            "num_items_in_batch": mask.sum(),
            "importance_sampling_ratio": importance(objective, inputs),
        },
    )
    known.backward()
    return known.item(), log_probs.grad


def importance(objective: Objective, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """What TRL's modes "token_truncate" and "token_mask" hand to its loss."""
    weight = (inputs["old_log_probs"] - inputs["rollout_log_probs"]).exp()
    if objective.is_correction == "tis":
        return weight.clamp(max=objective.is_cap)
    return torch.where(weight > objective.is_cap, 0.0, weight)


def trl_settings(objective: Objective, log_probs: torch.Tensor) -> SimpleNamespace:
    """An object with all that `_compute_loss` reads of a trainer of one process and one micro-batch per step."""
    is_cispo, is_gspo = objective.kind == "cispo", objective.kind == "gspo"
    accelerator = SimpleNamespace(num_processes=1, reduce=lambda value, reduction: value, gather=lambda value: value)
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (log_probs, torch.zeros_like(log_probs), None),
        loss_type="grpo" if is_gspo else objective.kind,
        importance_sampling_level="sequence" if is_gspo else "token",
        epsilon_low=objective.clip_low,
        epsilon_high=objective.cispo_cap if is_cispo else objective.clip_high,
        beta=objective.beta,
        max_completion_length=LIMIT,
        use_vllm=objective.is_correction != "off",
        vllm_importance_sampling_correction=True,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        current_gradient_accumulation_steps=1,
        args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        model=SimpleNamespace(training=True),
        accelerator=accelerator,
        _entropy_bonus_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )


def our_loss(objective: Objective, inputs: dict[str, torch.Tensor]) -> tuple[float, torch.Tensor]:
    mask = inputs["mask"]
    log_probs = inputs["log_probs"].clone().requires_grad_()
    columns = {name: inputs[name][mask] for name in COLUMNS[1:]}
    counts = mask.sum(1)
    sequence = torch.repeat_interleave(counts)
    total, _ = loss_sum(
        objective,
        log_probs[mask],
        torch.zeros_like(log_probs)[mask],
        columns["old_log_probs"],
        inputs["advantages"][sequence],
        sequence,
        len(mask),
        columns["rollout_log_probs"],
        columns["reference_log_probs"],
    )
    loss = total / objective.divisor(counts.tolist())
    loss.backward()
    return loss.item(), log_probs.grad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixture", type=Path, help="write inputs and TRL's losses and gradients to this file")
    arguments = parser.parse_args()
    inputs, cases, figures = made_inputs(), [], {}
    for name, objective in objectives().items():
        loss, gradient = trl_loss(objective, inputs)
        own_loss, own_gradient = our_loss(objective, inputs)
        difference = max(abs(loss - own_loss), float((gradient - own_gradient).abs().max()))
        figures[name] = {"trl_loss": loss, "loss": own_loss, "largest_difference": difference}
        print(f"{name:18} TRL {loss:+.9f} ours {own_loss:+.9f} largest difference {difference:.1e}")
        cases.append({"name": name, "objective": asdict(objective), "loss": loss, "gradient": gradient.tolist()})
    if arguments.fixture:
        listed = {name: values.tolist() for name, values in inputs.items()}
        record = {"trl": importlib.metadata.version("trl"), "inputs": listed, "cases": cases}
        arguments.fixture.write_text(json.dumps(record) + "\n")
        return
    worst = max(figure["largest_difference"] for figure in figures.values())
    print(f"largest difference of all: {worst:.1e} (bar {BAR:.0e})")
    settings = {"trl": importlib.metadata.version("trl"), "bar": BAR, "dtype": "float64"}
    write_result("grpo_losses", figures | {"largest_difference": worst}, settings=settings)


if __name__ == "__main__":
    main()
