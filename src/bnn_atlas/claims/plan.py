"""What verdicts need to know of a study besides its metric table, as plain data for the workflow."""

from typing import Any, get_args

from pydantic import PositiveInt

from bnn_atlas.config.base import Model
from bnn_atlas.config.claims import ClaimsConfig
from bnn_atlas.config.studies import RunEntry, Scale, Study


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

    @property
    def other_data(self) -> str | None:
        """The change of data set, where this scale replaces the paper's."""
        return next((text for text in self.reductions if text.startswith(("dataset: ", "grid.dataset: "))), None)


class ClaimedStudy(Model):
    """The claims of a study and the runs that answer them at one scale."""

    name: str
    title: str
    scale: Scale
    claims: ClaimsConfig
    runs: dict[str, RunPlan]
    """Runs that claims name, as far as this scale has them."""
    scales: dict[str, dict[Scale, PositiveInt]]
    """Entry of such runs -> scales that run it on the paper's data set, each with its number of chains."""

    def runs_of(self, name: str) -> list[str]:
        """Names of the runs that one of a claim's `runs` stands for; empty where this scale has none."""
        return [run for run, plan in self.runs.items() if name in (run, plan.entry)]

    def scales_with(self, name: str, chains: int = 1) -> list[str]:
        """Other scales that run `name`, or its entry, on the paper's data set and with enough chains."""
        entry = max((e for e in self.scales if name == e or name.startswith(f"{e}-")), key=len, default="")
        return [s for s, count in self.scales.get(entry, {}).items() if count >= chains and s != self.scale]


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
        )
        for run in study.runs_of(tuple(named))
    }
    entries = {
        name: _scales(entry)
        for name, entry in study.config.runs.items()
        if any(wanted == name or wanted.startswith(f"{name}-") for wanted in named)
    }
    return ClaimedStudy(
        name=study.name, title=study.config.title, scale=scale, claims=claims, runs=runs, scales=entries
    )


def _scales(entry: RunEntry) -> dict[Scale, int]:
    """Scales that run an entry on the paper's data set -> chains there, from small to large."""
    found: dict[Scale, int] = {}
    for scale in get_args(Scale):
        overlay = {} if scale == "paper" else entry.scales.get(scale, {})
        if overlay is not None and "dataset" not in overlay and "dataset" not in overlay.get("grid", {}):
            found[scale] = overlay.get("chains", entry.chains)
    return found
