"""Steps in which a study's claims can be checked, by the time that they take: which claims each has, as data."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bnn_atlas.config.base import ConfigError, Model, near_or_all
from bnn_atlas.config.expansion import takes_part
from bnn_atlas.config.studies import Run, Scale, Study, by_name

if TYPE_CHECKING:
    from bnn_atlas.config.claims import Claim, ClaimsConfig


class Step(Model):
    """Claims that are checked together; the step's name is a target, such as `snakemake --cores 2 evaluate`."""

    takes: str
    """How long it takes, for readers, such as `ten minutes on two cores`."""
    scale: Scale = "laptop"
    """The scale at which it runs, whatever config/config.yaml says."""
    includes: tuple[str, ...] = ()
    """Steps written before it whose claims it checks, too."""
    claims: tuple[str, ...] = ()
    """Claims of this file; what they need is run: their runs, and the figures in which they find numbers."""
    figures: tuple[str, ...] = ()
    """Further figures that are drawn, with the runs that they show."""


def claims_of(config: "ClaimsConfig", step: str) -> list[str]:
    """Names of the claims of a step and of the steps that it includes, in the order of the file."""
    chosen = {claim for name in _with_included(config.steps, step) for claim in config.steps[name].claims}
    return [claim for claim in config.claims if claim in chosen]


def figures_of(config: "ClaimsConfig", step: str) -> list[str]:
    """Names of the figures that a step draws: those that it names, and those in which its claims find numbers."""
    named = [figure for name in _with_included(config.steps, step) for figure in config.steps[name].figures]
    found = [config.claims[name].figure for name in claims_of(config, step) if config.claims[name].in_figure]
    return list(dict.fromkeys([*named, *(figure for figure in found if figure)]))


def check_steps(config: "ClaimsConfig", study: Study, path: object) -> None:
    """Refuse steps with unknown claims, figures or steps, and claims that the scale of the step cannot answer.

    Raises ConfigError that names the file, the key, and what is allowed.
    """
    before: list[str] = []
    for name, step in config.steps.items():
        where = f"{path}: steps.{name}"
        if not re.fullmatch(r"[a-z]\w*", name):
            raise ConfigError(f"{where}: a step's name is a target: a small letter, then letters, digits and '_'")
        if not (step.claims or step.includes or step.figures):
            raise ConfigError(f"{where}: it checks nothing; name some claims")
        _known(step.claims, config.claims, f"{where}.claims", "claim", "of this file")
        _known(step.includes, before, f"{where}.includes", "step", "before it")
        _known(step.figures, study.config.figures, f"{where}.figures", "figure", f"in study '{study.name}'")
        for other in step.includes:
            if config.steps[other].scale != step.scale:
                raise ConfigError(
                    f"{where}.includes: '{other}' is at scale {config.steps[other].scale}, not {step.scale}"
                )
        for figure in step.figures:
            if not _drawn(figure, study, step.scale):
                raise ConfigError(f"{where}.figures: scale {step.scale} does not draw '{figure}'; leave it out")
        for claim in step.claims:
            if why := _unanswered(config.claims[claim], study, step.scale):
                raise ConfigError(f"{where}.claims: scale {step.scale} cannot answer '{claim}': {why}; leave it out")
        before.append(name)


def _with_included(steps: Mapping[str, Step], name: str) -> list[str]:
    """A step and all that it includes, the included ones first."""
    inner = [one for other in steps[name].includes for one in _with_included(steps, other)]
    return list(dict.fromkeys([*inner, name]))


def _known(names: tuple[str, ...], known: Mapping[str, object] | list[str], where: str, what: str, place: str) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: no {what} '{name}' {place}{near_or_all(name, 'there are', list(known))}")


def _drawn(figure: str, study: Study, scale: Scale) -> bool:
    return takes_part({"scales": study.config.figures[figure].scales}, scale)


def _unanswered(claim: "Claim", study: Study, scale: Scale) -> str:
    """Why a scale cannot answer a claim; empty if it can."""
    if claim.in_figure is not None:
        return "" if _drawn(claim.figure or "", study, scale) else f"it does not draw '{claim.figure}'"
    runs, paper = by_name(study.runs_at[scale]), by_name(study.runs_at["paper"])
    for side in claim.sides.values():
        for name in side.runs:
            if not runs.get(name):
                return f"it does not run '{name}'"
            for run in runs[name]:
                if run.config.dataset not in _datasets(paper[name]):
                    return f"it runs '{name}' on other data ({run.config.dataset})"
                if side.chains is not None and run.config.chains < side.chains:
                    return f"'{name}' has {run.config.chains:,} chains there, not {side.chains:,}"
    return ""


def _datasets(runs: list[Run]) -> set[str]:
    return {run.config.dataset for run in runs}
