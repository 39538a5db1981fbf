# Set-up, demo, tests and checks; everything they make is in .venv and results/.
# After `make setup`: source .venv/bin/activate
# `make setup DEVICE=gpu` installs the CUDA build of JAX, and `make setup PYTHON=python3.13` uses that interpreter. The
# environment keeps both until another `make setup` names something else.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c

VENV := .venv
BIN := $(VENV)/bin
CORES ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell echo $$(($(CORES) < 8 ? $(CORES) : 8)))
SCRIPTS := .ci/run $(wildcard envs/*.sh tests/slurm/*.sh)

DEVICE ?= $(or $(shell cat $(VENV)/device 2>/dev/null),cpu)
LOCK := requirements$(if $(filter gpu,$(DEVICE)),-gpu).lock

# The interpreter that was asked for; empty lets envs/setup.sh choose one.
PYTHON ?= $(shell cat $(VENV)/python 2>/dev/null)

# An environment is valid for one lock file, one interpreter and one place, since its programs contain their path.
KEY := $(shell (echo "$(CURDIR) $(PYTHON)"; cat $(LOCK) envs/uv.txt envs/setup.sh) | sha256sum | cut -c1-16)
STAMP := $(VENV)/set-up-$(KEY)

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: setup demo test test-all lint lock sbom schema picture docs clean

# The compiled gradient is built again when its sources have changed; without a compiler, this says what is lost.
setup: $(STAMP) ## Install everything into .venv, and build the compiled gradient.
	@python -m bnn_atlas.native.build || true

$(STAMP):
	envs/setup.sh $(strip $(VENV) $(DEVICE) $(PYTHON))
	touch $@

demo: setup ## Make everything at scale demo.
	snakemake --cores $(CORES) --config scale=demo

# A file's tests share fixtures, and so a worker; conftest puts long files first. Slurm's tests wait more than they
# compute, and so there is one worker more than cores.
PYTEST = pytest --numprocesses=$$(($(WORKERS) + 1)) --dist=loadfile --no-loadscope-reorder

# All tests but the slowest.
test: setup ## Run all tests but the slowest.
	$(PYTEST) -m "not slow" $(ARGS)

test-all: setup ## Run all tests.
	$(PYTEST) $(ARGS)

lint: setup ## Check style, types, the workflow and scripts.
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	mypy
	snakemake --lint
	for script in $(SCRIPTS); do bash -n $$script; done
	if command -v shellcheck; then shellcheck --external-sources $(SCRIPTS); fi

# One lock for all supported versions of Python, with the same version of a package on each; the lock for GPUs adds the
# CUDA packages, and that of the peers is for benchmarks/. Newer versions: make lock ARGS=--upgrade
COMPILE := uv pip compile --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-header --no-annotate --quiet $(ARGS)
PROJECT := pyproject.toml --group dev --extra arviz --extra docs --extra workflow
PEERS := benchmarks/requirements-peers.lock
lock: setup ## Choose the versions of all packages, and write the lock files.
	$(COMPILE) $(PROJECT) --output-file requirements.lock
	$(COMPILE) $(PROJECT) --extra gpu --constraint requirements.lock --output-file requirements-gpu.lock
	$(COMPILE) --group peers --output-file $(PEERS)
	! grep -nE '://|^-| @ ' requirements.lock requirements-gpu.lock $(PEERS)

# All packages of the environment with versions and licences (CycloneDX). Their files are in the lock, with hashes.
sbom: setup ## List all packages with versions and licences in results/sbom.json.
	mkdir -p results
	uv tool run --quiet --from cyclonedx-bom==7.5.0 cyclonedx-py environment --pyproject pyproject.toml \
	  --output-reproducible --output-file results/sbom.json.part $(BIN)/python
	mv results/sbom.json.part results/sbom.json

schema: setup ## Write the schemas and the generated pages of docs/.
	python -m bnn_atlas.config.pages.schema
	python -m bnn_atlas.config.metrics
	python -m bnn_atlas.report.accuracy
	python -m bnn_atlas.report.artifact
	python -m bnn_atlas.report.published_code
	python -m bnn_atlas.pipeline.targets_page

# The picture of the README and those of docs/figures.md, from the demo.
picture: setup ## Draw the pictures of the documentation again, from the demo.
	snakemake --cores $(CORES) --config scale=demo
	python -m bnn_atlas.report.front
	python -m bnn_atlas.config.pages.schema

# The pages of docs/ as a site; its notebooks run, one of them on the results of the demo.
docs: demo ## Make the site of docs/ in docs/_build, and run its notebooks.
	sphinx-build -qW --keep-going -D nb_execution_mode=force -d docs/_build/.trees docs docs/_build
	@echo "docs/_build/index.html"

# Everything but results/.
clean: ## Remove everything that was made but results/.
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis
