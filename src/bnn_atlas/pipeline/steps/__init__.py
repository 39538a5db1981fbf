"""The steps of the pipeline: one function per rule, from files and plain settings to files."""

import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

FUNCTIONS = {
    "align": "symmetry.align",
    "barriers": "symmetry.barriers",
    "check": "check.check",
    "density_grid": "traces.density_grid",
    "diagnostics_page": "figures.page",
    "download": "data.download",
    "e_values": "comparisons.e_values",
    "entropies": "comparisons.entropies",
    "functions": "evaluations.functions",
    "gaussian": "starts.compact_starts",
    "keep": "study_page.study_pages",
    "layer_traces": "traces.layer_traces",
    "metrics": "score.score",
    "pack": "archives.pack",
    "pool": "traces.pool",
    "predict": "predict.predict",
    "predict_sets": "predict.predict_sets",
    "prepare": "data.prepare",
    "pruning": "symmetry.pruning",
    "publish": "archives.publish",
    "rates_table": "tables.table",
    "runs_table": "tables.runs_table",
    "sample": "sample.sample",
    "score_against": "score.score_against",
    "score_alignment": "symmetry.score_alignment",
    "score_referee": "score.score_referee",
    "score_sets": "score.score_sets",
    "so_far": "study_page.study_pages",
    "split": "data.split",
    "start": "starts.take_starts",
    "subset": "traces.subset",
    "summary": "tables.summary",
    "surface": "evaluations.surface",
    "table": "tables.table",
    "warmstart": "starts.warm_start",
    "write_site": "study_page.whole_site",
}
"""Rule -> its function in this package. Rules with a name from the configuration have the param `step` instead."""
CODE = "code"
"""Name of a param that is compared with its value in the last run, but not passed to the job."""
TOLD = "told:"
"""Prefix in the name of a param that only the job uses."""


def run(job: Any) -> None:
    """Do the work of a job: call its function with the named files and params of the rule, and record what was made.

    An input without a name only has to exist, and an output without a name is made as well; a param without a name only
    triggers reruns. A rule with the resource `gpu` computes with JAX: on a GPU if it is above 0. Facts that a function
    returns are recorded, too.

    A job that had to wait for another one with the same outputs, such as one that outlived its Snakemake, leaves them
    alone if they were made from the same settings and inputs; and so does every job with outputs of an archive.

    Args:
        job: the object that Snakemake passes to a script as `snakemake`.

    Raises:
        DamagedInput: an input differs from its record.
    """
    from bnn_atlas import records
    from bnn_atlas.files import remove, remove_leftovers
    from bnn_atlas.runner.signals import obey

    outputs = [Path(file) for file in job.output]
    if not outputs:
        _work(job, settings(job.params))
        return
    results = Path(job.config["results"], job.config["scale"])
    first = Path(next((files if isinstance(files, str) else files[0] for _, files in job.output.items()), outputs[0]))
    with records.held(first, obey) as record:
        made_from = {
            "rule": job.rule,
            "settings": compared(job.params),
            "inputs": records.digests_of_inputs(job.input, results),
        }
        if record.says(made_from):
            recorded = record.before["outputs"]
            for file in (file for file in outputs if file.exists()):
                if records.digest(file) != recorded.get(records.name_of(file, results)):
                    log.warning("%s is not what its record says: it is made again", file)
                    remove(file)
            if (record.waited or records.PUBLISHED in record.before) and all(file.exists() for file in outputs):
                log.info("%s is complete already", first)
                return
        for file in outputs:
            remove_leftovers(file)
        found = _work(job, settings(job.params)) or {}
        of_outputs = records.digests(outputs, results)
        origin = records.published(job.input, results)
        fingerprint = {name: record.content[name] for name in (records.FINGERPRINT,) if name in record.content}
        made_here = {"outputs": of_outputs, **origin, **records.environment(), **found}
        record.content = {**fingerprint, **made_from, **made_here}


def compared(params: Any) -> list[Any]:
    """The params with which Snakemake compares those of the last run: all but those that only the job uses."""
    return [p for p in params if not (isinstance(p, Mapping) and any(name.startswith(TOLD) for name in p))]


def settings(params: Any) -> dict[str, Any]:
    """The settings of a job from its params: `{"a.b": 1}` and `{"c": 2}` become `{"a": {"b": 1}, "c": 2}`.

    Params without a name are left out, and so are hashes of code, since a job computes the hashes of its own code. A
    value that is not a dictionary is stored under the param's name.

    Args:
        params: with `items()`, as Snakemake gives them to a script.
    """
    result: dict[str, Any] = {}
    for given, param in params.items():
        for name, value in (param if isinstance(param, Mapping) else {given: param}).items():
            if name == CODE:
                continue
            *sections, last = name.removeprefix(TOLD).split(".")
            place = result
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
    return result


def _work(job: Any, given: dict[str, Any]) -> dict[str, Any] | None:
    step = given.pop("step", None) or FUNCTIONS[job.rule]
    gpus = job.resources.get("gpu")
    if gpus is not None:
        from bnn_atlas import compilation  # noqa: F401  whole entries in the cache of programs
        from bnn_atlas.runtime import configure

        posterior = given["posterior"]
        shards = posterior["data_shards"] if job.rule == "sample" else 1
        configure(job.threads, "gpu" if gpus else "cpu", posterior["float64"], shards)
    module, _, name = step.rpartition(".")
    function = getattr(import_module(f"{__name__}.{module}"), name)
    files = {**dict(job.input.items()), **dict(job.output.items())}
    found: dict[str, Any] | None = function(
        **{name: file if isinstance(file, str) else list(file) for name, file in files.items()}, **given
    )
    return found
