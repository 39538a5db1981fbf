#!/usr/bin/env bash
# Snakemake runs this from the root of the repository after it has created the conda environment.
set -euo pipefail
python -m pip install --quiet --no-deps --no-build-isolation --editable .
python -m bnn_atlas.native.build || true # says what is lost
