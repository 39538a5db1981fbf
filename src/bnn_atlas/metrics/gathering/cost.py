"""What a run cost, its effective sample size per gradient and per second, and the courses of its fits.

Wall time, gradients and courses come from the `timing.json` that each block leaves next to its trace. Costs include
excluded chains; effective sample sizes exclude them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bnn_atlas.metrics.tables.measurement import Measurement

if TYPE_CHECKING:
    import pandas

RATED = tuple(
    f"ess_{kind}_{space}_{which}"
    for space in ("weight", "function")
    for kind, which in (("bulk", "min"), ("bulk", "median"), ("tail", "min"))
)
"""Effective sample sizes that are reported per gradient and per second."""


class TimingError(ValueError):
    """A timing file is damaged, or does not belong to the same run as the others."""


class PhaseTime(BaseModel):
    """Steps, time and gradients of one phase of one block."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    steps: Annotated[int, Field(ge=0)]
    """Steps of each chain."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Wall time of the phase, summed over attempts."""
    planned: Annotated[int, Field(ge=0)] | None = None
    """Steps planned for the phase if a stopping rule ended it early; None if no rule did."""
    gradients: Annotated[int, Field(ge=0)] | None = None
    """Gradients counted over all chains; None if not counted, and for the last phase, whose counts are in the trace."""


class BlockTime(BaseModel):
    """The contents of one `timing.json`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phases: Annotated[tuple[PhaseTime, ...], Field(min_length=1)]
    """Phases in order; the draws of the last phase are the trace."""
    device: str
    chains: Annotated[int, Field(ge=1)]
    gradients_per_step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    """Per chain; None if the number is recorded only in the trace."""
    courses: dict[str, tuple[tuple[float, ...], ...]] = {}
    """Name of a quantity -> its values [chain][point] in the course of a fit or of the training of an ensemble."""


class Phase(NamedTuple):
    """Steps, time and gradients of one phase over all blocks."""

    name: str
    steps: int
    """Steps of each chain; the smallest number if a rule ended blocks at different draws."""
    seconds: float
    """Wall time summed over the blocks, as if one machine had run the blocks one at a time."""
    further: int = 0
    """Steps beyond `steps`, summed over all chains."""
    gradients: int | None = None
    """Gradients counted over all chains of all blocks; None if a block has no count."""


class Cost(NamedTuple):
    """The cost of all blocks of a run together; the draws of the last phase are the trace."""

    phases: tuple[Phase, ...]
    chains: int
    gradients_per_step: float | None
    devices: tuple[str, ...]
    blocks: int
    courses: Mapping[str, np.ndarray] = {}
    """Name of a quantity -> its values [chain, point] in the course of a fit or of the training of an ensemble."""

    @property
    def sampling(self) -> Phase:
        """The phase that makes the draws."""
        return self.phases[-1]

    @property
    def seconds(self) -> float:
        """Wall time of all phases."""
        return sum(phase.seconds for phase in self.phases)

    def gradients(self, phases: Sequence[Phase]) -> float | None:
        """Gradients of all chains in `phases`: as counted, or else steps times gradients per step; None if unknown."""
        found = [self._gradients(phase) for phase in phases]
        known = [gradients for gradients in found if gradients is not None]
        return sum(known) if len(known) == len(found) else None

    def _gradients(self, phase: Phase) -> float | None:
        if phase.gradients is not None:
            return phase.gradients
        if self.gradients_per_step is None:
            return None
        return self.gradients_per_step * (self.chains * phase.steps + phase.further)

    @property
    def note(self) -> str:
        """Note on the meaning of the seconds."""
        parts = "" if self.blocks == 1 else f", sum over {self.blocks} blocks"
        return f"wall time on {' and '.join(self.devices)}{parts}"


def read_cost(paths: Sequence[str | Path]) -> Cost | None:
    """Cost of the blocks with these timing files; None if the list is empty or a file is missing.

    Raises TimingError if a file is damaged, or if its phases or gradients per step differ from those in the first file.
    """
    files = [Path(path) for path in paths]
    if not files or not all(file.is_file() for file in files):
        return None
    blocks = [_read(file) for file in files]
    first = blocks[0]
    for file, block in zip(files, blocks, strict=True):
        if _plan(block) != _plan(first):
            raise TimingError(
                f"{file}: phases {_plan(block)} differ from {_plan(first)} in {files[0]}; delete the folders "
                f"{file.parent} and {files[0].parent}, and call snakemake again"
            )
    phases = tuple(_together(blocks, place) for place in range(len(first.phases)))
    devices = tuple(dict.fromkeys(block.device for block in blocks))
    names = [name for name in first.courses if all(name in block.courses for block in blocks)]
    courses = {name: np.array([chain for block in blocks for chain in block.courses[name]]) for name in names}
    chains = sum(block.chains for block in blocks)
    return Cost(phases, chains, first.gradients_per_step, devices, len(blocks), courses)


def gradient_measurements(
    convergence: Iterable[Measurement], chains: "pandas.DataFrame", cost: Cost | None, batch_rows: int | None
) -> list[Measurement]:
    """Gradients of all chains, and effective draws per gradient; a rerun returns the same numbers.

    Gradients are taken from the trace (column `gradients` of `chains`), or else are steps times gradients per step.
    `batch_rows` is the size of a mini-batch, None for gradients of the full data. Empty if the number of gradients in
    sampling is unknown; totals over all phases are left out if the number in an earlier phase is unknown.
    """
    note = "of the full data" if batch_rows is None else f"of mini-batches of {batch_rows} rows"
    counted = chains["gradients"].to_numpy(dtype=np.float64)
    sampling = float(counted.sum()) if np.isfinite(counted).all() and counted.size else None
    if sampling is None and cost is not None:
        sampling = cost.gradients([cost.sampling])
    before = cost.gradients(cost.phases[:-1]) if cost is not None else None
    measurements = []
    if sampling:
        measurements.append(
            Measurement("gradients_sampling", sampling, note=f"of all chains, {note}", chains=len(chains))
        )
        measurements += _rates(convergence, sampling, "per_gradient", f"gradients {note}")
    if sampling is not None and before is not None:
        total = sampling + before
        measurements.append(Measurement("gradients_total", total, note=f"of all chains, {note}", chains=len(chains)))
        measurements += _rates(convergence, total, "per_gradient_total", f"gradients of all phases, {note}")
    return measurements


def time_measurements(
    convergence: Iterable[Measurement], gradients: float | None, cost: Cost | None
) -> list[Measurement]:
    """Seconds by phase, gradients per second, and effective draws per second; they differ between reruns.

    `gradients` is the number in the sampling phase, if known. Empty without a cost.
    """
    if cost is None:
        return []
    convergence = list(convergence)
    chains, seconds = cost.chains, cost.sampling.seconds
    rows = [
        Measurement("seconds_phase", phase.seconds, note=cost.note, chains=chains, at=phase.name)
        for phase in cost.phases
    ]
    rows.append(Measurement("seconds_sampling", seconds, note=cost.note, chains=chains))
    rows.append(Measurement("seconds_total", cost.seconds, note=cost.note, chains=chains))
    if gradients and seconds > 0:
        rows.append(Measurement("gradients_per_second", gradients / seconds, note=cost.note, chains=chains))
    rows += _rates(convergence, seconds, "per_second", cost.note)
    rows += _rates(convergence, cost.seconds, "per_second_total", f"{cost.note}, all phases")
    return rows


def _together(blocks: Sequence[BlockTime], place: int) -> Phase:
    parts = [block.phases[place] for block in blocks]
    fewest = min(part.steps for part in parts)
    further = sum(block.chains * (part.steps - fewest) for block, part in zip(blocks, parts, strict=True))
    counted = [part.gradients for part in parts if part.gradients is not None]
    gradients = sum(counted) if len(counted) == len(parts) else None
    return Phase(parts[0].name, fewest, sum(part.seconds for part in parts), further, gradients)


def _read(file: Path) -> BlockTime:
    try:
        return BlockTime.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TimingError(
            f"{file}: not a timing file ({error}); delete the folder {file.parent} and call snakemake again"
        ) from None


def _plan(block: BlockTime) -> tuple[list[tuple[str, int]], float | None]:
    """Settings that all blocks of a run must share: names and planned steps of the phases, and gradients per step."""
    planned = [(p.name, p.steps if p.planned is None else p.planned) for p in block.phases]
    return planned, block.gradients_per_step


def _rates(convergence: Iterable[Measurement], cost: float, suffix: str, note: str) -> list[Measurement]:
    """Effective sample sizes per unit of cost, without undefined sizes; empty if the cost is 0."""
    if cost <= 0:
        return []
    return [
        Measurement(f"{row.metric}_{suffix}", row.value / cost, note=note)
        for row in convergence
        if row.metric in RATED and np.isfinite(row.value)
    ]
