#!/usr/bin/env bash
# Run by Snakemake, from the root of the repository, when it has made the conda environment.
set -euo pipefail
python -m pip install --quiet --no-deps --no-build-isolation --editable .
