# BNN Atlas: four studies of Bayesian-neural-network posteriors, from raw data to the papers' figures.
import gc
import sys
import time

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

sys.path.insert(0, f"{workflow.basedir}/src")
from bnn_atlas.pipeline import hooks
from bnn_atlas.pipeline.changes import changes_text
from bnn_atlas.pipeline.estimate import Times, estimate
from bnn_atlas.pipeline.targets import Targets

STARTED = time.monotonic()
# A plan is a large number of objects that stay: looking through them for garbage would take a sixth of its time.
gc.set_threshold(100_000, 50, 1000)
min_version("9.0")
hooks.install(sys.argv, kept=("warmstart", "sample", "predict", "predict_sets"))


report: "workflow/report/workflow.rst"


include: "workflow/rules/settings.smk"


hooks.keep_metadata(RESULTS)


include: "workflow/rules/data.smk"
include: "workflow/rules/warmstart.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/traces.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/symmetry.smk"
include: "workflow/rules/compact.smk"
include: "workflow/rules/pairs.smk"
include: "workflow/rules/export.smk"
include: "workflow/rules/diagnostics.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/runs.smk"


rule all:
    """Make every table, figure and verdict, and the site; at larger scales than demo also the diagnostics pages."""
    default_target: True
    input:
        rules.site.input,
    message:
        "Everything is made"


hooks.group_jobs(workflow, RESOURCES.groups)
BENCHMARKS = f"{RESULTS}/benchmarks"
TARGETS = Targets(ATLAS, PATHS, FIGURES, INPUTS.run_targets)
for name, text in TARGETS.sentences.items():
    workflow.get_rule(name).docstring = text
for handler in workflow.logger_manager.get_log_handlers():
    if type(handler).__module__ == "snakemake_logger_plugin_bnn_atlas":
        handler.describe = lambda changed: changes_text(ATLAS, Path(workflow.basedir) / "config" / "studies", changed)
        handler.estimate = lambda: estimate(
            hooks.jobs_to_run(workflow, BENCHMARKS, STEPS),
            Times(Path(BENCHMARKS), Path(workflow.basedir) / KEPT, SCALE),
            workflow.resource_settings.cores,
        )
        handler.refusal = lambda: TARGETS.refusals(hooks.requested_targets(workflow), {r.name for r in workflow.rules})


onstart:
    hooks.without_default_limit(workflow.scheduler)


onsuccess:
    from bnn_atlas.pipeline.farewell import farewell

    hooks.finish_printing(workflow)
    if not workflow.touch:
        known = (ATLAS, PATHS, FIGURES, TARGETS, MISSING_R)
        last = farewell(*known, hooks.requested_targets(workflow), time.monotonic() - STARTED)
        print(last.text, flush=True)
        if last.lost:
            raise WorkflowError(
                f"Not as expected: {', '.join(last.lost)}; docs/verdicts.md says what verdicts mean"
            )
