"""Claims of a study as files: findings, steps and claims, read and checked against the study's runs and figures."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bnn_atlas.config.base import ConfigError, Model, near_or_all
from bnn_atlas.config.claims.claim import Claim, Side, cannot_fail
from bnn_atlas.config.claims.measurable import never_measured
from bnn_atlas.config.expansion import leaves, takes_part
from bnn_atlas.config.located import with_lines
from bnn_atlas.config.metrics import METRICS
from bnn_atlas.config.reading import read_model
from bnn_atlas.config.studies import REPETITION, Run, Scale, Study, by_name

NAMES = ("description", "chains_per_block")
"""Fields that change no result."""
Cost = Literal["1 s", "10 min", "1 h", "1 day"]
"""How long it takes to check something on two cores; each is a step of the page's ladder of commands."""


class Finding(Model):
    """What a reader takes away from the paper, and the claims that stand behind it."""

    statement: str
    """The paper's finding in one sentence."""
    source: str
    """Where the paper states it."""
    claims: Annotated[tuple[str, ...], Field(min_length=1)]
    """Claims of this file; the first is the main one, whose number stands for the finding."""
    figure: str | None = None
    """A figure of the study that shows it; null takes that of the main claim, if it names one."""
    cost: Cost
    """The shortest of the page's commands that checks its main claim."""


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


class ClaimsConfig(Model):
    """One file in config/claims."""

    paper: str
    """Citation of the claims that name no other."""
    findings: tuple[Finding, ...] = ()
    """What the page of results says first, about ten."""
    steps: dict[str, Step] = Field(default_factory=dict)
    """Target -> claims that are checked together, from the quickest step to the longest."""
    claims: dict[str, Claim]


def load_claims(path: Path, study: Study) -> ClaimsConfig:
    """Read the claims of a study.

    Names are those of the scale `paper`: a run that a smaller scale leaves out is allowed, and its claims are not run
    there. Raises ConfigError where a claim names a run, a figure, a data set or a number of chains or draws that the
    study does not have, or runs that are not repetitions of one setting, for a metric that does not exist or that these
    runs cannot have, where a claim leans on runs that are not behind its number, or takes a claim as given that is not
    before it, where a finding names a claim or a figure that there is not, and for a step that its scale cannot answer.
    """
    claims = read_model(ClaimsConfig, path)
    with with_lines(path):
        _check(claims, study, path)
    return claims


def _check(claims: ClaimsConfig, study: Study, path: Path) -> None:
    """Refuse what `load_claims` refuses of claims that are read."""
    found = [f"claims.{name}: {why}" for name, claim in claims.claims.items() if (why := cannot_fail(claim))]
    if found := found + unknown_names(claims.findings, claims.claims, study.config.figures):
        raise ConfigError("\n".join(f"{path}: {text}" for text in found))
    for name, claim in claims.claims.items():
        for key, side in claim.sides.items():
            if side.in_figure is not None:
                continue
            _check_runs(side.runs, study, f"{path}: claims.{name}.{key}")
            _check_rows(side, study, f"{path}: claims.{name}{'.than' if key == 'than.runs' else ''}")
        figures = study.config.figures
        if claim.figure is not None and claim.figure not in figures:
            raise ConfigError(
                f"{path}: claims.{name}.figure: no figure '{claim.figure}' in study '{study.name}'"
                f"{near_or_all(claim.figure, 'it has', figures)}"
            )
        if claim.leans_on:
            _check_leans_on(claim, study, f"{path}: claims.{name}.leans_on")
        if claim.given is not None:
            _check_given(claim.given, name, claims, f"{path}: claims.{name}.given")
    check_steps(claims, study, path)


def _check_runs(names: tuple[str, ...], study: Study, where: str) -> None:
    """Refuse runs that the paper's scale does not have, and runs that differ in more than their seeds."""
    paper = study._replace(runs=study.runs_at["paper"])
    found = by_name(paper.runs)
    for name in names:
        if name not in found:
            entries = sorted(study.config.runs)
            hint = near_or_all(name, "it has", entries, paper.runs)
            raise ConfigError(f"{where}: no run '{name}' in study '{study.name}'{hint}")
    for runs in (paper.runs_of(names), study.runs_of(names)):
        first = _settings(runs[0]) if len(runs) > 1 else {}
        for run in runs[1:]:
            if fields := _differences(first, _settings(run)):
                raise ConfigError(
                    f"{where}: '{runs[0].name}' and '{run.name}' differ in {', '.join(fields)}; runs of a claim may "
                    f"differ in {' and '.join(REPETITION)} only"
                )


def _check_leans_on(claim: Claim, study: Study, where: str) -> None:
    """Refuse runs that are not behind the claim's numbers, and methods without chains that could converge."""
    names = study.config.figures[claim.figure or ""].runs if claim.in_figure else _named(claim)
    behind = {run.name: run for run in study._replace(runs=study.runs_at["paper"]).runs_of(names)}
    for name in claim.leans_on or ():
        found = [run for run in behind.values() if name in (run.name, run.entry)]
        if not found:
            whose = f"'{claim.figure}' does not show" if claim.in_figure else "the claim does not name"
            raise ConfigError(f"{where}: {whose} the run '{name}'{near_or_all(name, 'there are', behind)}")
        if not found[0].config.method.kind_of_draws.are_chain:
            raise ConfigError(f"{where}: '{name}' has no Markov chains that could converge; leave it out")


def _check_given(given: str, name: str, claims: ClaimsConfig, where: str) -> None:
    """Refuse a claim that is not before this one, so that none waits for itself."""
    before = list(claims.claims)[: list(claims.claims).index(name)]
    if given not in before:
        raise ConfigError(f"{where}: no claim '{given}' before this one{near_or_all(given, 'these are', before)}")


def _named(claim: Claim) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for side in claim.sides.values() for name in side.runs))


def _check_rows(side: Side, study: Study, where: str) -> None:
    """Refuse a data set, a level, a metric, chains and draws that the tables of the paper's scale cannot have."""
    metric = METRICS[side.metric]
    if bool(side.at) != bool(metric.at):
        name = f"'{metric.name}'"
        wanted = f"{name} needs one, its {metric.at}" if metric.at else f"{name} has no level; leave `at` out"
        raise ConfigError(f"{where}.at = '{side.at}': {wanted}")
    for run in study._replace(runs=study.runs_at["paper"]).runs_of(side.runs):
        config = run.config
        sets = [config.dataset, *(f"{config.dataset}/{name}" for name in config.evaluate.sets)]
        if side.dataset is not None and side.dataset not in sets:
            raise ConfigError(
                f"{where}.dataset = '{side.dataset}': run '{run.name}' has no such set"
                f"{near_or_all(side.dataset, 'it has', sets)}"
            )
        if why := never_measured(metric.name, side.at, side.dataset, run, study):
            raise ConfigError(f"{where}.metric = '{metric.name}': {why}")
        kept = {"chains": config.chains, "draws": getattr(config.method, "draws", 1)}
        for key, most in kept.items():
            if (wanted := getattr(side, key)) is not None and wanted > most:
                raise ConfigError(f"{where}.{key} = {wanted}: run '{run.name}' has {most:,} {key}")


def _settings(run: Run) -> dict[str, Any]:
    """Dotted name -> value of the settings in which repetitions agree."""
    dump = leaves(run.config.model_dump(mode="json"))
    return {key: value for key, value in dump if key not in REPETITION + NAMES}


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Names of the settings in which two runs differ."""
    return [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]


def unknown_names(findings: Iterable[Finding], claims: Collection[str], figures: Collection[str]) -> list[str]:
    """What is wrong with the names in findings: claims and figures that do not exist, claims that are named twice."""
    found = []
    for place, finding in enumerate(findings):
        where = f"findings.{place}"
        for name in dict.fromkeys(finding.claims):
            if name not in claims:
                found.append(f"{where}.claims: no claim '{name}' in this file{near_or_all(name, 'it has', claims)}")
            if finding.claims.count(name) > 1:
                found.append(f"{where}.claims: '{name}' is named {finding.claims.count(name)} times; name it once")
        if finding.figure is not None and finding.figure not in figures:
            near = near_or_all(finding.figure, "it has", figures)
            found.append(f"{where}.figure: no figure '{finding.figure}' in the study{near}")
    return found


def claims_of(config: ClaimsConfig, step: str) -> list[str]:
    """Names of the claims of a step and of the steps that it includes, in the order of the file."""
    chosen = {claim for name in _with_included(config.steps, step) for claim in config.steps[name].claims}
    return [claim for claim in config.claims if claim in chosen]


def figures_of(config: ClaimsConfig, step: str) -> list[str]:
    """Names of the figures that a step draws: those that it names, and those in which its claims find numbers."""
    named = [figure for name in _with_included(config.steps, step) for figure in config.steps[name].figures]
    found = [config.claims[name].figure for name in claims_of(config, step) if config.claims[name].in_figure]
    return list(dict.fromkeys([*named, *(figure for figure in found if figure)]))


def check_steps(config: ClaimsConfig, study: Study, path: object) -> None:
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


def _unanswered(claim: Claim, study: Study, scale: Scale) -> str:
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
