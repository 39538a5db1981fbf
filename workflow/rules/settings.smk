# What all rules know: the checked configuration, the runs of this scale, and what wildcards stand for.
import re
from pathlib import Path

from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.evaluation import OUTSIDE, TEST
from bnn_atlas.config.settings import load_atlas
from bnn_atlas.config.shift import PUBLISHED_SHIFTS
from bnn_atlas.figures import r_setup

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
