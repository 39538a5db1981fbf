"""Facts about a study, besides its metric table, that verdicts depend on, as plain data for the workflow."""

import re
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import Field, PositiveInt

from bnn_atlas.config.checks.figures import pruned_runs
from bnn_atlas.config.claims.claim import Claim, Side
from bnn_atlas.config.claims.load import ClaimsConfig
from bnn_atlas.config.language.base import Model
from bnn_atlas.config.runs.shared import SharedStart, shared_start
from bnn_atlas.config.runs.studies import Problem, Run, Scale, Study, by_name, legend_texts

SIGN = {"lppd": 1.0, "lppd_cumulative_chains": 1.0, "nll": -1.0}
"""Metrics that average the log density of a mixture of chains over rows -> their sign."""
OF_ROWS = (*SIGN, "accuracy")
"""Metrics that average values known for single test rows, so that differences can be paired."""
PRUNED = "accuracy_pruned"
"""The metric that scores networks of several runs; `at` names them."""

IDENTITIES = ("same", "reduced", "settings unknown", "another problem")
"""How the runs behind a claim relate to the paper, from near to far."""
OF_PROBLEM: dict[Problem, str] = {
    "as_published": "same",
    "settings_unknown": "settings unknown",
    "own": "another problem",
}
"""`problem` of an unreduced run -> identity."""


class RunPlan(Model):
    """A run that is named in claims."""

    entry: str
    point: dict[str, Any]
    """Field of the entry's grid -> its value in this run."""
    problem: Problem = "own"
    dataset: str
    splits: PositiveInt
    chains: PositiveInt
    """The number of chains planned at this scale; the table has fewer if chains were excluded."""
    reductions: tuple[str, ...]
    """What this scale changes, each as `field: paper value -> value here`."""
    other_data: str | None = None
    """The change of data set, if this scale replaces the paper's."""
    chained: bool = False
    """Whether the run's draws are Markov chains."""
    starts: str | None = None
    """For Markov chains: the run of this scale that has only their warm starts, if the study has one."""
    reference: bool = False
    """Whether another run of the study is compared with this run's predictions."""
    pruned: dict[str, str] = Field(default_factory=dict)
    """Name of each network that this run prunes -> the run of that network."""
    all_rows: bool = False
    """Whether the run already has all test rows that the publisher provides."""


class FigurePlan(Model):
    """A figure with a CSV file from which a claim takes its number."""

    runs: tuple[str, ...]
    """The runs of the study that it shows."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Run -> its label in the legend."""
    other: str | None = None
    """What this scale draws instead of the paper's runs, if it differs."""


class ClaimedStudy(Model):
    """The claims of a study, and the runs that answer them at one scale."""

    name: str
    title: str
    scale: Scale
    claims: ClaimsConfig
    runs: dict[str, RunPlan]
    """Runs that are named in claims, and the references of their numbers, if this scale has these runs."""
    figures: dict[str, FigurePlan] = Field(default_factory=dict)
    """Figures of this scale from which claims take numbers."""
    problems: dict[str, tuple[Problem, ...]] = Field(default_factory=dict)
    """Run, entry or figure that a claim names -> the problems of its runs at scale `paper`."""
    scales: dict[str, dict[Scale, PositiveInt]]
    """Run or entry -> scales that run it on the paper's data set, from small to large, with their numbers of chains."""

    def runs_of(self, name: str) -> list[str]:
        """Names of the runs that an item of a claim's `runs` refers to; empty if this scale has none of them."""
        return [run for run, plan in self.runs.items() if name in (run, plan.entry)]

    def runs_behind(self, claim: Claim) -> set[str]:
        """Runs that answer a claim: named in the claim or its `leans_on`, shown in the figure, or of pruned networks.

        If the number of a figure belongs to one label, only the figure's runs with this label are returned.
        """
        named = {name for side in claim.sides.values() for name in side.runs} | {*(claim.leans_on or ())}
        found = {run for name in named for run in self.runs_of(name)}
        plan = self.figures.get(claim.figure or "")
        for side in claim.sides.values():
            if side.metric == PRUNED:
                words = re.findall(r"\w+", side.at)
                pruning = [self.runs[run].pruned for name in side.runs for run in self.runs_of(name)]
                found |= {run for networks in pruning for network, run in networks.items() if network in words}
            if side.in_figure is not None and plan is not None:
                label = side.in_figure.where.get("label")
                found |= {run for run in plan.runs if plan.labels.get(run) == label} or {*plan.runs}
        return found

    def reductions_of(self, claim: Claim) -> dict[str, tuple[str, ...]]:
        """Entry -> the reductions of its runs at this scale that affect the claim; only entries with reductions."""
        found = {}
        for run in sorted(self.runs_behind(claim), key=list(self.runs).index):
            plan = self.runs[run]
            unaffected = {*claim.unaffected_by}
            if all(side.chains and side.chains <= plan.chains for side in self._sides_of(claim, run)):
                unaffected.add("chains")
            kept = [text for text in plan.reductions if not _parts(text.partition(": ")[0]) & unaffected]
            if kept:
                found[plan.entry] = tuple(kept)
        return found

    def identity(self, claim: Claim) -> str:
        """How the runs behind a claim relate to the paper: the identity of the run farthest from the paper.

        If no run of the claim is made at this scale, the runs of scale `paper` are used. A calculation without a run is
        the same everywhere.
        """
        plans = [self.runs[run] for run in self.runs_behind(claim)]
        named = [name for side in claim.sides.values() for name in (side.runs if side.in_figure is None else ())]
        absent = [name for name in named if not self.runs_of(name)] or ([] if plans else [claim.figure or ""])
        problems = [plan.problem for plan in plans]
        problems += [problem for name in absent for problem in self.problems.get(name, ())]
        found = [OF_PROBLEM[problem] for problem in problems]
        found += ["another problem" for plan in plans if plan.other_data]
        found += ["reduced"] if self.reductions_of(claim) else []
        return max(found, key=IDENTITIES.index, default="same")

    def _sides_of(self, claim: Claim, run: str) -> list[Side]:
        """The sides of a claim that a run answers; all sides if the claim only leans on the run."""
        sides = list(claim.sides.values())
        return [side for side in sides if {run, self.runs[run].entry} & {*side.runs}] or sides

    def command(self, names: Iterable[str], scale: str | None = None) -> str:
        """The command that makes the scores of runs, or figures, by default at the scale of the study."""
        return f"snakemake --cores 2 {' '.join(dict.fromkeys(names))} --config scale={scale or self.scale}"

    def scales_with(self, name: str, chains: int = 1) -> list[str]:
        """Other scales that make a run or entry on the paper's data set and with enough chains."""
        return [s for s, count in self.scales.get(name, {}).items() if count >= chains and s != self.scale]


def _parts(field: str) -> set[str]:
    """Names by which a reduced field is known: for `grid.split.seed`, also `split.seed` and `seed`."""
    names = field.split(".")
    return {".".join(names[place:]) for place in range(len(names))}


def claimed_study(study: Study, claims: ClaimsConfig, scale: Scale) -> ClaimedStudy:
    """The claims of a study, with the facts about its runs that verdicts depend on."""
    named = [name for claim in claims.claims.values() for side in claim.sides.values() for name in side.runs]
    figures = {
        c.figure or "": plan for c in claims.claims.values() if c.in_figure and (plan := _figure(study, c.figure or ""))
    }
    shown = [name for plan in figures.values() for name in plan.runs]
    against = [side.at for claim in claims.claims.values() for side in claim.sides.values()]
    chosen = study.runs_of((*named, *shown, *against))
    starts = {run.name: _starts(run, study) for run in chosen}
    pruned = {run.name: _pruned(run, study) for run in chosen}
    more = {*filter(None, starts.values())}.union(*(networks.values() for networks in pruned.values()))
    chosen += study.runs_of(tuple(more - {run.name for run in chosen}))
    references = {name for run in study.runs.values() for name in run.config.evaluate.references}
    runs = {
        run.name: RunPlan(
            entry=run.entry,
            point=run.point,
            problem=run.config.problem,
            dataset=run.config.dataset,
            splits=run.config.split.count,
            chains=run.config.chains,
            reductions=run.reductions,
            other_data=_other_data(run, study),
            chained=run.config.method.kind_of_draws.are_chain,
            starts=starts.get(run.name),
            reference=run.name in references,
            pruned=pruned.get(run.name, {}),
            all_rows=run.config.split.kind == "published" and run.config.split.first_test is None,
        )
        for run in chosen
    }
    scales = _scales(dict.fromkeys([*named, *runs]), study)
    at_paper = study._replace(runs=study.runs_at["paper"])
    shown_at_paper = {
        c.figure: study.config.figures[c.figure].runs for c in claims.claims.values() if c.in_figure and c.figure
    }
    problems = {
        name: tuple(dict.fromkeys(run.config.problem for run in at_paper.runs_of(tuple(names))))
        for name, names in ({name: (name,) for name in named} | shown_at_paper).items()
    }
    return ClaimedStudy(
        name=study.name,
        title=study.config.title,
        scale=scale,
        claims=claims,
        runs=runs,
        problems=problems,
        scales=scales,
        figures=figures,
    )


def _figure(study: Study, name: str) -> FigurePlan | None:
    """What a figure shows at this scale; None if the scale does not make it."""
    if name not in study.figures:
        return None
    here, paper = study.figures[name].runs, study.config.figures[name].runs
    other = None if here == paper else f"it shows {', '.join(here)} in place of {', '.join(paper)}"
    shown = {run.name: run for run in study.runs_of(here)}
    return FigurePlan(runs=tuple(shown), labels=legend_texts(study.figures[name], shown), other=other)


def _pruned(run: Run, study: Study) -> dict[str, str]:
    pruning, runs = run.config.evaluate.pruning, pruned_runs(study, run)
    return {network: runs[alignment].name for network, alignment in pruning.networks.items()} if pruning else {}


def _starts(run: Run, study: Study) -> str | None:
    """The smallest deep-ensemble run that contains the warm starts of a run's chains."""
    if not run.config.method.kind_of_draws.are_chain or run.config.start is not None:
        return None
    wanted = _start_of(run)
    found = [
        other
        for other in study.runs.values()
        if other.config.method.kind == "deep_ensemble" and other.config.chains >= run.config.chains
        if other.config.split.count >= run.config.split.count and _start_of(other) == wanted
    ]
    return min(found, key=lambda other: other.config.chains).name if found else None


def _start_of(run: Run) -> SharedStart:
    """Everything that the warm starts of a run depend on, regardless of its blocks."""
    return shared_start(run.config, 0, 0)._replace(members=range(0))


def _scales(names: Iterable[str], study: Study) -> dict[str, dict[Scale, int]]:
    """Run or entry -> scales that run it on the paper's data set -> chains there, from small to large."""
    chains: dict[str, dict[Scale, int]] = {name: {} for name in names}
    for scale in get_args(Scale):
        found = by_name(study.runs_at[scale])
        for name, at in chains.items():
            runs = found.get(name, [])
            if runs and not any(_other_data(run, study) for run in runs):
                at[scale] = min(run.config.chains for run in runs)
    return chains


def _other_data(run: Run, study: Study) -> str | None:
    """The change of data set relative to the run of the same name at scale `paper`, or else to its entry's runs."""
    paper = study.runs_at["paper"]
    runs = [paper[run.name]] if run.name in paper else [one for one in paper.values() if one.entry == run.entry]
    datasets = list(dict.fromkeys(one.config.dataset for one in runs))
    return None if run.config.dataset in datasets else f"dataset: {', '.join(datasets)} -> {run.config.dataset}"
