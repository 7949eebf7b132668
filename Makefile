# Thin targets; `make help` lists them. Every launch names its configuration, so that no cached default of the user decides.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
CONFIG ?= cpu_2
NPROC ?=
ARGS ?=
PDB ?=
VAL_FILES ?=
PEER_DIR ?=
CHECKPOINT ?=
SCRIPT ?= scripts/train_protein.py

VENV := .venv
BIN := $(VENV)/bin
# Installed once per content of these files: a second run of any target does nothing here.
STAMP := $(VENV)/installed-$(shell cat requirements.txt pyproject.toml | cksum | cut -d ' ' -f 1)
CORES := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# A name in accelerate_configs, or the path of a YAML file.
CONFIG_FILE = $(if $(wildcard accelerate_configs/$(CONFIG).yaml),accelerate_configs/$(CONFIG).yaml,$(CONFIG))
LAUNCH = $(BIN)/accelerate launch --config_file "$(CONFIG_FILE)" $(if $(NPROC),--num_processes $(NPROC))

# Two CPU processes, 2.5 minutes of training and then the evaluation; see docs/train_protein.md, "The recipe".
RECIPE = --hidden_dim 128 --k_neighbors 32 --max_tokens 700 --learning_rate 1e-2 --objective any_order \
	--one_shot_share 0.25 --max_minutes 2.5 --epochs 200

# Two CPU processes, five minutes; see docs/train_snakes.md, "The recipe".
SNAKES_RECIPE = --opponent_difficulty_strategy league --league greedy=0.2,hunter=0.6,latest=0.1,past=0.1 \
	--num_envs 256 --updates_per_step 0.8 --batch_size 128 --buffer_size 200000 --critics 1 --n_step 1 --gamma 0.97 --tau 0.03 \
	--a_lr 1e-3 --c_lr 1e-3 --lr_schedule linear --entropy_bonus 0.03 --shaping 0.1 --epsilon 0.1 --epsilon_min 0.01 \
	--max_episodes 200000 --eval_every 4000 --eval_games 400 --log_interval 2000 --save_interval 10000 --max_minutes 5

# Two CPU processes, about ten minutes; see docs/train_grpo.md, "The recipe".
GRPO_RECIPE = --model tiny --level 1 \
	--templates "airline=cancel_plans,cancel_sick,cancel_after_airline;retail=cancel_order,return_items,change_order_payment;telecom=change_roaming,suspend,pay_bill" \
	--warmstart sft:800 --warmstart_dialogues 8 --warmstart_noise 0.3 --warmstart_lr 3e-3 --copying_steps 80 \
	--tasks_per_domain 1000 --prompts_per_step 16 --group_size 8 --steps_per_domain 16 --learning_rate 1e-4 --minibatches 2 --beta 0 --loss dapo \
	--cl replay --replay_ratio 0.25 --max_new_tokens 80 --max_length 1500 --eval_tasks 24 --eval_trials 4 --save_every 200

# Two CPU processes, two million steps, three minutes at most; see docs/train_omagd.md, "The recipe".
OMAGD_RECIPE = --map 3m --max_minutes 3

TRAINERS := train-protein
.PHONY: help setup train test lint bench config numbers train-snakes train-grpo train-omagd $(TRAINERS) train-8gpu evaluate-protein

help:  ## this list
	@sed -n 's/^\([a-z0-9][a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv and install what is missing; PYTHON=python3.11 chooses the interpreter

$(STAMP):
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"error: $(PYTHON) is Python {v[0]}.{v[1]}, expected 3.11 to 3.13: give PYTHON=python3.11")'
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing requirements.txt into $(VENV), once"
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.txt \
		| { grep -E "^ *Downloading|^Installing|^Successfully" || true; }
	@rm -f $(VENV)/installed-*
	@touch $@

train: CONFIG = cpu_2
train: $(STAMP)  ## about 3 minutes on two CPU processes: the synthetic set, or PDB=folder; ARGS= adds flags
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-$(shell expr \( $(CORES) + 1 \) / 2)}; \
	$(LAUNCH) scripts/train_protein.py $(RECIPE) $(if $(PDB),--pdb_path "$(PDB)") $(ARGS)

train-snakes: CONFIG = cpu_2
train-snakes: $(STAMP)  ## five minutes on two CPU processes, from random weights; CONFIG= NPROC= ARGS= as below
	@test -f "$(CONFIG_FILE)" || { echo "error: CONFIG=$(CONFIG) found neither in accelerate_configs nor as a file" >&2; exit 2; }
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}; $(LAUNCH) scripts/train_snakes.py $(SNAKES_RECIPE) $(ARGS)

train-grpo: CONFIG = cpu_2
train-grpo: $(STAMP)  ## about ten minutes on two CPU processes, a tiny model built on the spot; CONFIG= NPROC= ARGS= as below
	@test -f "$(CONFIG_FILE)" || { echo "error: CONFIG=$(CONFIG) found neither in accelerate_configs nor as a file" >&2; exit 2; }
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}; $(LAUNCH) scripts/train_grpo.py $(GRPO_RECIPE) $(ARGS)

train-omagd: CONFIG = cpu_2
train-omagd: $(STAMP)  ## at most three minutes on two CPU processes, QMIX on map 3m; CONFIG= NPROC= ARGS= as below
	@test -f "$(CONFIG_FILE)" || { echo "error: CONFIG=$(CONFIG) found neither in accelerate_configs nor as a file" >&2; exit 2; }
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}; $(LAUNCH) scripts/train_omagd.py $(OMAGD_RECIPE) $(ARGS)

# Half of the suite's time processes wait for one another: files of tests run side by side, each in one worker.
test: $(STAMP)  ## the whole test suite; ARGS= goes to pytest, as ARGS="-n 0 -x" for one test after the other
	@$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(STAMP)  ## ruff, rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

config: $(STAMP)  ## the `accelerate config` wizard; writes accelerate.yaml for CONFIG=accelerate.yaml
	@$(BIN)/accelerate config --config_file accelerate.yaml

train-protein: SCRIPT = scripts/train_protein.py
train-protein:  ## CONFIG= (a name in accelerate_configs, or a YAML file) NPROC= ARGS="flags of the script"
$(TRAINERS):
	@test -f $(SCRIPT) || { echo "error: $(SCRIPT) does not exist yet; make train-protein does" >&2; exit 2; }
	@test -f "$(CONFIG_FILE)" || { echo "error: CONFIG=$(CONFIG) found neither in accelerate_configs nor as a file" >&2; exit 2; }
	@$(MAKE) --no-print-directory setup
	@$(LAUNCH) $(SCRIPT) $(ARGS)

train-8gpu: CONFIG = gpu_8
train-8gpu: $(STAMP)  ## SCRIPT= (default the protein trainer) ARGS= on eight GPUs of this machine
	@test -f "$(SCRIPT)" || { echo "error: SCRIPT=$(SCRIPT) does not exist" >&2; exit 2; }
	@count=$$($(BIN)/python -c 'import torch; print(torch.cuda.device_count())'); \
	if [ "$$count" -lt 8 ]; then \
		echo "error: train-8gpu needs 8 GPUs and $$count are visible;" \
			"make train-protein CONFIG=gpu_8 NPROC=N uses N, make train-protein CONFIG=cpu_2 none" >&2; exit 2; fi
	@$(LAUNCH) "$(SCRIPT)" $(ARGS)

evaluate-protein:  ## CHECKPOINT=RUN/export PDB=folder ARGS=: the table of a trained model on a folder of structures
	@test -n "$(CHECKPOINT)" || { echo "error: CHECKPOINT= is missing: the export folder of a run, as runs/protein/run1/export" >&2; exit 2; }
	@$(MAKE) --no-print-directory setup
	@$(LAUNCH) scripts/evaluate_protein.py --checkpoint "$(CHECKPOINT)" $(if $(PDB),--pdb_path "$(PDB)") $(ARGS)

bench: export PATH := $(CURDIR)/$(BIN):$(PATH)
bench: export OMP_NUM_THREADS := 1
bench: $(STAMP)  ## benchmarks; PDB=folder VAL_FILES=names PEER_DIR=ProteinMPNN checkout add what needs them
	$(if $(PDB),python benchmarks/protein_reading.py --structures "$(PDB)")
	python benchmarks/protein_cache.py $(if $(PDB),--pdb_path "$(PDB)")
	python benchmarks/protein_throughput.py $(if $(PDB),--pdb_path "$(PDB)") $(if $(PEER_DIR),--peer_dir "$(PEER_DIR)")
	python benchmarks/protein_scaling.py $(if $(PDB),--pdb_path "$(PDB)")
	python benchmarks/protein_quality.py synthetic
	$(if $(VAL_FILES),python benchmarks/protein_quality.py short --pdb_path "$(PDB)" --val_files "$(VAL_FILES)")
	$(if $(VAL_FILES),python benchmarks/protein_quality.py long --pdb_path "$(PDB)" --val_files "$(VAL_FILES)")
	python docs/fill_numbers.py

numbers: $(STAMP)  ## write the figures of benchmarks/results into README.md and the docs
	@$(BIN)/python docs/fill_numbers.py
