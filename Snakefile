# BNN Atlas: four studies of Bayesian-neural-network posteriors, from raw data to the papers' figures.
import re
import sys
from pathlib import Path

from snakemake.utils import min_version

sys.path.insert(0, f"{workflow.basedir}/src")
from bnn_atlas.checks import require_slurm
from bnn_atlas.claims.plan import claimed_study
from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.evaluation import OUTSIDE, TEST
from bnn_atlas.config.figures import FIGURES
from bnn_atlas.config.overview import run_rows
from bnn_atlas.config.settings import load_atlas
from bnn_atlas.config.shift import PUBLISHED_SHIFTS
from bnn_atlas.figures import r_setup
from bnn_atlas.figures.sources import figure_sources
from bnn_atlas.relay import relay_sigterm
from bnn_atlas.scheduling import without_default_limit

min_version("9.0")
require_slurm(sys.argv)
relay_sigterm(sys.argv)


configfile: "config/config.yaml"


try:
    ATLAS = load_atlas(config, Path(workflow.basedir) / "config")
except ConfigError as error:
    raise SystemExit(f"Configuration error\n{error}")
config.update(ATLAS.settings.model_dump(mode="json"))
SCALE = ATLAS.settings.scale
RUNS = [run for study in ATLAS.studies.values() for run in study.runs.values()]
RESULTS = f"{ATLAS.settings.results}/{SCALE}"
MISSING_R = r_setup.available()


wildcard_constraints:
    dataset="|".join(ATLAS.datasets),
    study="|".join(ATLAS.studies),
    run="|".join(sorted({re.escape(run.name) for run in RUNS})),
    split=r"\d+",
    block=r"\d+",
    set="|".join({TEST, *(name for run in RUNS for name in run.config.evaluate.sets)}),
    reference="|".join(sorted({re.escape(n) for run in RUNS for n in run.config.evaluate.references})) or "none",


localrules:
    download,
    prepare,
    split,
    pool,
    table,
    rates_table,
    summary,
    runs_table,
    claims,
    gallery,
    galleries,
    diagnostics,


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/warmstart.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/traces.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/diagnostics.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/gallery.smk"


rule all:
    default_target: True
    input:
        rules.tables.input,
        rules.claims.output if ATLAS.claims else [],
        [path for study in ATLAS.studies for path in figures_of(study)],
        [path for study in ATLAS.studies for path in diagnostics_of(study)],


onstart:
    without_default_limit(workflow.scheduler)


onsuccess:
    targets = workflow.dag_settings.targets
    missing = [figure for study in ATLAS.studies for figure in figures_without_r(study)]
    if missing and (not targets or "all" in targets):
        print(f"Not made: {', '.join(missing)}. {MISSING_R}")
