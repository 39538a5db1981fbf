# Set-up, demo, tests and checks; all of it lives in .venv and results/. After `make setup`: source .venv/bin/activate
# `make setup DEVICE=gpu` installs the CUDA build of JAX; the environment stays that way until `make setup DEVICE=cpu`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
CORES ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell echo $$(($(CORES) < 8 ? $(CORES) : 8)))
SCRIPTS := .ci/run $(wildcard envs/*.sh tests/slurm/*.sh)

DEVICE ?= $(or $(shell cat $(VENV)/device 2>/dev/null),cpu)
LOCK := requirements$(if $(filter gpu,$(DEVICE)),-gpu).lock

# An environment is good for one lock file and one place, since its programs know their path.
KEY := $(shell (echo "$(CURDIR)"; cat $(LOCK) envs/uv.txt envs/setup.sh) | sha256sum | cut -c1-16)
STAMP := $(VENV)/set-up-$(KEY)

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup demo test lint lock schema clean

setup: $(STAMP)

$(STAMP):
	envs/setup.sh $(VENV) $(DEVICE)
	touch $@

demo: setup
	snakemake --cores $(CORES) --config scale=demo

test: setup
	pytest --numprocesses=$(WORKERS) --dist=loadfile $(ARGS)

lint: setup
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	mypy
	snakemake --lint
	for script in $(SCRIPTS); do bash -n $$script; done
	if command -v shellcheck; then shellcheck --external-sources $(SCRIPTS); fi

# Both locks; the one for GPUs has the same versions and the CUDA packages. Newer versions: make lock ARGS=--upgrade
COMPILE := uv pip compile pyproject.toml --group dev --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --no-annotate --quiet $(ARGS)
lock: setup
	$(COMPILE) --output-file requirements.lock
	$(COMPILE) --extra gpu --constraint requirements.lock --output-file requirements-gpu.lock
	! grep -nE '://|^-| @ ' requirements.lock requirements-gpu.lock

schema: setup
	python -m bnn_atlas.config.schema

# Everything but results/.
clean:
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis
