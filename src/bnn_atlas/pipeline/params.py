"""Params of the rules: settings, section by section, each with its name, so that the reason for a rerun is readable.

Snakemake compares the values of a job's params, not their names, and prints those that differ. A value here is a
dictionary with one dotted name: `{"posterior.prior": {"kind": "normal", "scale": 2.0}}`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import Run
from bnn_atlas.inference.fingerprint import code_of_draws, code_of_predictions, code_of_starts
from bnn_atlas.pipeline.inputs import Inputs, Wildcards
from bnn_atlas.pipeline.steps import TOLD, settings

Param = Callable[[Wildcards], dict[str, Any]]
EXPORTED = ("posterior", "dataset", "split", "seed", "warmstart", "initial", "start", "method", "chains", "stopping")
"""Fields of a run's settings that are in its archive: all fields that affect its draws."""


def run_settings(inputs: Inputs, *fields: str) -> dict[str, Param]:
    """Param for each field of a run's settings; `posterior` means all fields that define the posterior."""
    posterior = tuple(PosteriorConfig.model_fields) if "posterior" in fields else ()
    names = {name: f"posterior.{name}" for name in posterior} | {name: name for name in fields if name != "posterior"}
    return {field: _field(inputs, field, name) for field, name in names.items()}


def score_settings(inputs: Inputs) -> dict[str, Param]:
    """Params of what the scores of a run depend on besides its draws, its predictions and `row_settings`."""
    return {
        **run_settings(inputs, "model", "temperature"),
        **named(
            published=lambda w: list(inputs.atlas.studies[w.study].config.published),
            prior_sd=lambda w: inputs.run(w).config.prior_sd,
            batch_rows=lambda w: getattr(inputs.run(w).config.method, "batch_size", None),
        ),
    }


def row_settings(inputs: Inputs) -> dict[str, Param]:
    """Params of a rule that writes rows of a run's metrics: the rows' first columns, and the marks for every note."""
    return named(identity=inputs.identity, marks=inputs.marks)


def named(**values: Callable[[Wildcards], Any]) -> dict[str, Param]:
    """Params with these names."""

    def param(name: str, value: Callable[[Wildcards], Any]) -> Param:
        return lambda w: {name: value(w)}

    return {name: param(name, value) for name, value in values.items()}


def told(**values: Callable[[Wildcards], Any]) -> dict[str, Callable[..., dict[str, Any]]]:
    """Params with these names that only the job uses: Snakemake does not compare a function that takes the input."""

    def param(name: str, value: Callable[[Wildcards], Any]) -> Callable[..., dict[str, Any]]:
        return lambda w, input: {f"{TOLD}{name}": value(w)}

    return {name: param(name, value) for name, value in values.items()}


def code_hash_of_run(inputs: Inputs) -> dict[str, Param]:
    """Param with a hash of the code that the draws of a run depend on."""

    @cache
    def digest(study: str, run: str) -> str:
        config = inputs.atlas.studies[study].runs[run].config
        return code_of_draws(config.method, config.posterior, stopped=config.stopping is not None)[:12]

    return named(code=lambda w: digest(w.study, w.run))


def code_hash_of_predictions(inputs: Inputs) -> dict[str, Param]:
    """Param with a hash of the code that the predictions of a run depend on."""

    @cache
    def digest(study: str, run: str) -> str:
        return code_of_predictions(inputs.atlas.studies[study].runs[run].config.posterior)[:12]

    return named(code=lambda w: digest(w.study, w.run))


def code_hash_of_start(inputs: Inputs) -> dict[str, Param]:
    """Param with a hash of the code behind the networks that a block of chains starts from."""

    @cache
    def digest(key: str) -> str:
        start = inputs.shared_starts[key]
        return code_of_starts(start.posterior, start.training, start.initial)[:12]

    return named(code=lambda w: digest(w.key))


def _field(inputs: Inputs, field: str, name: str) -> Param:
    def param(w: Wildcards) -> dict[str, Any]:
        return {name: plain(getattr(inputs.run(w).config, field))}

    return param


def exported_settings(inputs: Inputs, w: Wildcards) -> dict[str, Any]:
    """The settings that are in the archive of a run."""
    return settings({name: param(w) for name, param in run_settings(inputs, *EXPORTED).items()})


def plain(value: Any) -> Any:
    """Settings as dictionaries, lists, numbers and text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else value


def defaults(run: Run) -> set[tuple[str, str]]:
    """Name and value of the settings at their defaults; kinds do not count, since they name the other settings."""
    chosen = dict(leaves(run.config.model_dump(mode="json", exclude_defaults=True)))
    every = leaves(run.config.model_dump(mode="json"))
    return {(name, str(value)) for name, value in every if name not in chosen and not name.endswith("kind")}
