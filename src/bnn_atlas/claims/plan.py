"""What verdicts need to know of a study besides its metric table, as plain data for the workflow."""

from typing import Any, get_args

from pydantic import PositiveInt

from bnn_atlas.config.base import Model
from bnn_atlas.config.claims import ClaimsConfig
from bnn_atlas.config.studies import Run, Scale, Study


class RunPlan(Model):
    """A run that a claim names."""

    entry: str
    point: dict[str, Any]
    """Field of the entry's grid -> value of this run."""
    dataset: str
    splits: PositiveInt
    chains: PositiveInt
    """Planned at this scale; the table has fewer where chains were excluded."""
    reductions: tuple[str, ...]
    """What this scale changes, as `field: paper value -> value here`."""
    other_data: str | None = None
    """The change of data set, where this scale replaces the paper's."""


class ClaimedStudy(Model):
    """The claims of a study and the runs that answer them at one scale."""

    name: str
    title: str
    scale: Scale
    claims: ClaimsConfig
    runs: dict[str, RunPlan]
    """Runs that claims name, as far as this scale has them."""
    scales: dict[str, dict[Scale, PositiveInt]]
    """Run or entry -> scales that run it on the paper's data set, from small to large, with their numbers of chains."""

    def runs_of(self, name: str) -> list[str]:
        """Names of the runs that one of a claim's `runs` stands for; empty where this scale has none."""
        return [run for run, plan in self.runs.items() if name in (run, plan.entry)]

    def scales_with(self, name: str, chains: int = 1) -> list[str]:
        """Other scales that run a run or entry on the paper's data set and with enough chains."""
        return [s for s, count in self.scales.get(name, {}).items() if count >= chains and s != self.scale]


def claimed_study(study: Study, claims: ClaimsConfig, scale: Scale) -> ClaimedStudy:
    """The claims of a study with what their verdicts need of its runs."""
    named = [name for claim in claims.claims.values() for side in claim.sides.values() for name in side.runs]
    runs = {
        run.name: RunPlan(
            entry=run.entry,
            point=run.point,
            dataset=run.config.dataset,
            splits=run.config.split.count,
            chains=run.config.chains,
            reductions=run.reductions,
            other_data=_other_data(run, study),
        )
        for run in study.runs_of(tuple(named))
    }
    scales = {name: _scales(name, study) for name in dict.fromkeys([*named, *runs])}
    return ClaimedStudy(name=study.name, title=study.config.title, scale=scale, claims=claims, runs=runs, scales=scales)


def _scales(name: str, study: Study) -> dict[Scale, int]:
    """Scales that run a run or entry on the paper's data set -> chains there, from small to large."""
    found: dict[Scale, int] = {}
    for scale in get_args(Scale):
        runs = study._replace(runs=study.runs_at[scale]).runs_of((name,))
        if runs and not any(_other_data(run, study) for run in runs):
            found[scale] = min(run.config.chains for run in runs)
    return found


def _other_data(run: Run, study: Study) -> str | None:
    """The change of data set against the run of this name at the scale `paper`, or against those of its entry."""
    paper = study.runs_at["paper"]
    runs = [paper[run.name]] if run.name in paper else [one for one in paper.values() if one.entry == run.entry]
    datasets = list(dict.fromkeys(one.config.dataset for one in runs))
    return None if run.config.dataset in datasets else f"dataset: {', '.join(datasets)} -> {run.config.dataset}"
