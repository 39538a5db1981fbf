"""Whether the tables of a run can have a metric at all."""

from typing import get_args

from bnn_atlas.config.metrics import ALIGNMENT, CLASSIFICATION, PAIRS, PUBLISHED, REGRESSION, SETS
from bnn_atlas.config.parts.evaluation import INTERVAL, OUTSIDE, PublishedBy
from bnn_atlas.config.runs.studies import Run, Study

TASKS = {
    **{metric.name: "regression" for metric in REGRESSION},
    **{metric.name: "classification" for metric in (*CLASSIFICATION, *SETS, *PUBLISHED)},
    **dict.fromkeys(("rmse_linear", "lppd_sommer", "calibration_error_sommer"), "regression"),
}
"""Metric -> the only task that has it; others are in the tables of both."""
TASKS.pop("elpd_diff")
TASKS["function_sd"] = "regression"
COMPARED = ("agreement", "total_variation", "elpd_diff")
"""Metrics of a run and a reference, which the column `at` names."""
LPPD_SOMMER = ("deep_ensemble", "laplace", "mean_field")
"""Methods whose LPPD the published scorer of Sommer et al. 2025 gets wrong where all rows have one noise level."""
OF_PAIRS = {metric.name for metric in PAIRS}
FUNCTION_SD = "function_sd"
"""Metric of an interval of the input."""
DETECTION = {
    metric.name
    for metric in (*SETS, *PUBLISHED)
    if metric.name.startswith(("auroc_", "fpr95_")) or "_ood" in metric.name
}
"""Metrics of an out-of-distribution set beside the test rows."""
ALIGNED = {metric.name for metric in ALIGNMENT}
"""Metrics of an alignment, which the column `at` names before a slash."""


def never_measured(metric: str, at: str, dataset: str | None, run: Run, study: Study) -> str:
    """Why a run cannot have a metric, whatever it samples, and what to do; empty where it can.

    `at` is what the metric is taken at, and `dataset` the set of the rows, None for the test rows.
    """
    task = "classification" if run.config.likelihood.kind == "categorical" else "regression"
    if TASKS.get(metric, task) != task:
        return f"it is measured of a {TASKS[metric]}, and run '{run.name}' is a {task}"
    author = metric.rpartition("_")[2]
    if author in get_args(PublishedBy) and author not in study.config.published:
        return (
            f"it is measured in studies with `published: [{author}]` only; add it to config/studies/{study.name}.yaml"
        )
    method = run.config.method.kind
    if metric == "lppd_sommer" and method not in LPPD_SOMMER:
        return f"it is measured of {', '.join(LPPD_SOMMER)}, and the method of run '{run.name}' is {method}"
    if metric == "lppd_sommer" and run.config.likelihood.kind == "heteroscedastic":
        return f"it is measured where all rows have one noise level, and run '{run.name}' learns one for each row"
    if metric in OF_PAIRS and run.config.evaluate.barriers is None:
        return f"it is measured of runs with evaluate.barriers, which run '{run.name}' has not"
    aligned = [name for name, one in study.config.alignments.items() if one.run in (run.name, run.entry)]
    if metric in ALIGNED and at.partition("/")[0] not in aligned:
        return f"it is measured of an alignment; run '{run.name}' has {', '.join(aligned) or 'none'}, not '{at}'"
    references = run.config.evaluate.references
    if metric in COMPARED and at not in references:
        has = f"has {', '.join(references)}" if references else "has none"
        return f"it is measured against a reference of evaluate.references; run '{run.name}' {has}, not '{at}'"
    on_interval = (dataset or "").partition("/")[2].startswith(INTERVAL)
    if (metric == FUNCTION_SD) != on_interval:
        if on_interval:
            return f"on an interval of the input only {FUNCTION_SD} is measured"
        sets = [f"{run.config.dataset}/{INTERVAL}{name}" for name in run.config.evaluate.intervals]
        there = ", ".join(sets) or "none: give it evaluate.intervals"
        return f"it is measured on an interval of the input; set `dataset` to one, of which '{run.name}' has {there}"
    outside = (dataset or "").partition("/")[2].startswith(OUTSIDE)
    if metric in DETECTION and not outside:
        sets = [f"{run.config.dataset}/{OUTSIDE}{name}" for name in run.config.evaluate.out_of_distribution]
        there = ", ".join(sets) or "none: give it evaluate.out_of_distribution"
        need = "it is measured on out-of-distribution rows; set `dataset` to such a set, of which"
        return f"{need} '{run.name}' has {there}"
    if outside and metric not in DETECTION:
        return f"it is not measured on out-of-distribution rows; those have {', '.join(sorted(DETECTION))}"
    return ""
