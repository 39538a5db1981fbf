"""Params of the rules: settings section by section, each with its name, so that the reason of a rerun can be read.

Snakemake compares the values of a job's params, not their names, and prints those that differ. A value here is a
dictionary with one dotted name: `{"posterior.prior": {"kind": "normal", "scale": 2.0}}`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from bnn_atlas.config.posterior import PosteriorConfig
from bnn_atlas.inference.code import code_of_draws, code_of_starts, code_of_untrained
from bnn_atlas.workflow.inputs import Inputs, Wildcards

Param = Callable[[Wildcards], dict[str, Any]]
CODE = "code"
"""Name of the param that is compared with that of the last time, and that the job is not told."""
EXPORTED = ("posterior", "dataset", "split", "seed", "warmstart", "start", "method", "chains", "stopping")
"""Fields of a run's settings that its archive has: all that its draws depend on."""


def run_settings(inputs: Inputs, *fields: str) -> dict[str, Param]:
    """Param for each field of a run's settings; `posterior` stands for all fields that define the posterior."""
    posterior = tuple(PosteriorConfig.model_fields) if "posterior" in fields else ()
    names = {name: f"posterior.{name}" for name in posterior} | {name: name for name in fields if name != "posterior"}
    return {field: _field(inputs, field, name) for field, name in names.items()}


def named(name: str, value: Callable[[Wildcards], Any]) -> dict[str, Param]:
    """A param of this name."""
    return {name: lambda w: {name: value(w)}}


def code_hash_of_run(inputs: Inputs) -> dict[str, Param]:
    """Param with a hash of the code that the draws of a run depend on."""
    known: dict[tuple[str, bool], str] = {}

    def digest(w: Wildcards) -> str:
        config = inputs.run(w).config
        key = config.method.builder, config.stopping is not None
        if key not in known:
            known[key] = code_of_draws(config.method, stopped=key[1])
        return known[key][:12]

    return named(CODE, digest)


def code_hash_of_start(inputs: Inputs) -> dict[str, Param]:
    """Param with a hash of the code that the networks depend on from which a block of chains starts."""
    trained, untrained = cache(code_of_starts), cache(code_of_untrained)
    return named(CODE, lambda w: (untrained() if inputs.shared_starts[w.key].initial else trained())[:12])


def code_hash(digest: Callable[[], str]) -> dict[str, Param]:
    """Param with a hash of code, the same for all jobs of a rule."""
    known = cache(digest)
    return named(CODE, lambda w: known()[:12])


def _field(inputs: Inputs, field: str, name: str) -> Param:
    def param(w: Wildcards) -> dict[str, Any]:
        return {name: plain(getattr(inputs.run(w).config, field))}

    return param


def plain(value: Any) -> Any:
    """Settings as dictionaries, lists, numbers and text."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else value


def settings(params: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a job from its params: `{"a.b": 1}` and `{"c": 2}` become `{"a": {"b": 1}, "c": 2}`.

    Hashes of code are left out: a job finds those of the code that it runs.
    """
    result: dict[str, Any] = {}
    for param in params:
        for name, value in param.items():
            if name == CODE:
                continue
            *sections, last = name.split(".")
            place = result
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
    return result
