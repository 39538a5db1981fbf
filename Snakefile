# BNN Atlas: four studies of Bayesian-neural-network posteriors, from raw data to the papers' figures.
import sys

from snakemake.utils import min_version

sys.path.insert(0, f"{workflow.basedir}/src")
from bnn_atlas.checks import require_slurm
from bnn_atlas.relay import relay_sigterm
from bnn_atlas.scheduling import without_default_limit

min_version("9.0")
require_slurm(sys.argv)
relay_sigterm(sys.argv)


configfile: "config/config.yaml"


include: "workflow/rules/settings.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/common_figures.smk"
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
