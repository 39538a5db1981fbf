# What all rules know: the checked configuration, the runs of this scale, and what wildcards stand for.
import re
from pathlib import Path

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.expansion import NAME
from bnn_atlas.config.settings import read_settings
from bnn_atlas.figures import r_setup
from bnn_atlas.pipeline.atlas import checked_atlas
from bnn_atlas.pipeline.claims import claim_targets
from bnn_atlas.pipeline.forks import compile_quickly
from bnn_atlas.pipeline.figures import Figures, rule_names
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.targets import check_mending, check_studies, steps, wanted_scale
from bnn_atlas.pipeline.params import (
    EXPORTED,
    code_hash_of_predictions,
    code_hash_of_run,
    code_hash_of_start,
    exported_settings,
    named,
    row_settings,
    run_settings,
    score_settings,
    told,
)
from bnn_atlas.pipeline.paths import Paths
from bnn_atlas.pipeline.resources import JobResources

try:
    read_settings(Path(workflow.basedir) / "config" / "config.yaml")
except ConfigError as error:
    raise SystemExit(f"Configuration error\n{error}")


configfile: "config/config.yaml"


MISSING_R = r_setup.available()
try:
    ATLAS = checked_atlas(config, Path(workflow.basedir) / "config")
    if (wanted := wanted_scale(ATLAS.claims, sys.argv)) and wanted != ATLAS.settings.scale:
        print(f"Scale {wanted}, whatever config/config.yaml says", file=sys.stderr)
        hooks.set_config(workflow, config, scale=wanted)
        ATLAS = checked_atlas(config, Path(workflow.basedir) / "config")
    PATHS = Paths(f"{ATLAS.settings.results}/{ATLAS.settings.scale}")
    RULES = rule_names(Path(workflow.basedir))
    check_studies(ATLAS, RULES)
    if ATLAS.settings.mend and "--mode" not in sys.argv:
        check_mending(hooks.targets_of(sys.argv))
    STEPS = steps(ATLAS.claims, {*RULES, *ATLAS.studies, *claim_targets(ATLAS)})
    FIGURES = Figures(ATLAS, PATHS, MISSING_R, {*RULES, *STEPS})
except ConfigError as error:
    raise SystemExit(f"Configuration error\n{error}")
config.update(ATLAS.settings.model_dump(mode="json"))
SCALE = ATLAS.settings.scale
if SCALE == "demo" and ATLAS.settings.device == "cpu":
    compile_quickly()
RESULTS, RUN = PATHS.results, PATHS.run
INPUTS = Inputs(ATLAS, PATHS)
RESOURCES = JobResources(INPUTS)
METRIC_FILES = {"table": "metrics"} | {
    name: name for name in ("rates", "parameters", "functions", "chains", "samplers", "curves")
}
JAX_ENVIRONMENT = f"../../envs/{RESOURCES.environment}.yaml"


wildcard_constraints:
    dataset="|".join(ATLAS.datasets),
    study="|".join(ATLAS.studies),
    run=NAME,
    split=r"\d+",
    block=r"\d+",
    key=r"[0-9a-f]{12}",
    section=r"[0-9a-f]{8}",
    reference="|".join(sorted({re.escape(n) for run in INPUTS.runs for n in run.config.evaluate.references})) or "none",


localrules:
    download,
    prepare,
    split,
    start,
    pool,
    table,
    rates_table,
    summary,
    runs_table,
    write_site,
    so_far,
    check,
    keep,
    diagnostics,
