"""What a run cost: wall time and gradients by phase, from the `timing.json` that each block leaves beside its trace."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class TimingError(ValueError):
    """A timing file is damaged, or belongs to another run than the others."""


class PhaseTime(BaseModel):
    """A phase of one block."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    steps: Annotated[int, Field(ge=0)]
    """Steps of each chain."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Wall time of computing the phase, summed over attempts."""
    planned: Annotated[int, Field(ge=0)] | None = None
    """Steps that the phase would have had without the rule that ended it; None where none did."""


class BlockTime(BaseModel):
    """One `timing.json`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    phases: Annotated[tuple[PhaseTime, ...], Field(min_length=1)]
    """In order; the draws of the last one are the trace."""
    device: str
    chains: Annotated[int, Field(ge=1)]
    gradients_per_step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    """Per chain; None where only the trace tells."""


class Phase(NamedTuple):
    """A phase of all blocks."""

    name: str
    steps: int
    """Steps of each chain; the fewest where a rule ended blocks at different draws."""
    seconds: float
    """Sum over the blocks, as if one machine had run them one after another."""
    further: int = 0
    """Steps beyond `steps`, added up over all chains."""


class Cost(NamedTuple):
    """What all blocks of a run cost together; the last phase is the one whose draws are kept."""

    phases: tuple[Phase, ...]
    chains: int
    gradients_per_step: float | None
    devices: tuple[str, ...]
    blocks: int

    @property
    def sampling(self) -> Phase:
        """The phase whose draws are kept."""
        return self.phases[-1]

    @property
    def seconds(self) -> float:
        """Of all phases."""
        return sum(phase.seconds for phase in self.phases)

    def gradients(self, phases: Sequence[Phase]) -> float | None:
        """Gradients of all chains in some phases; None where the number per step is not known."""
        if self.gradients_per_step is None:
            return None
        return self.gradients_per_step * sum(self.chains * phase.steps + phase.further for phase in phases)

    @property
    def note(self) -> str:
        """Says what the seconds are."""
        parts = "" if self.blocks == 1 else f", sum over {self.blocks} blocks"
        return f"wall time on {' and '.join(self.devices)}{parts}"


def read_cost(paths: Sequence[str | Path]) -> Cost | None:
    """Cost of the blocks whose timing files these are; None if there are none, or one of them is not there.

    Raises TimingError, naming the file, for one that is damaged or whose phases or gradients differ from the first's.
    """
    files = [Path(path) for path in paths]
    if not files or not all(file.is_file() for file in files):
        return None
    blocks = [_read(file) for file in files]
    first = blocks[0]
    for file, block in zip(files, blocks, strict=True):
        if _plan(block) != _plan(first):
            raise TimingError(
                f"{file}: its phases are {_plan(block)}, those of {files[0]} {_plan(first)}; sample both blocks again"
            )
    phases = tuple(_together(blocks, place) for place in range(len(first.phases)))
    devices = tuple(dict.fromkeys(block.device for block in blocks))
    return Cost(phases, sum(block.chains for block in blocks), first.gradients_per_step, devices, len(blocks))


def _together(blocks: Sequence[BlockTime], place: int) -> Phase:
    """One phase of all blocks."""
    parts = [block.phases[place] for block in blocks]
    fewest = min(part.steps for part in parts)
    further = sum(block.chains * (part.steps - fewest) for block, part in zip(blocks, parts, strict=True))
    return Phase(parts[0].name, fewest, sum(part.seconds for part in parts), further)


def _read(file: Path) -> BlockTime:
    try:
        return BlockTime.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except (ValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TimingError(f"{file}: not a timing file ({error}); delete the block and sample it again") from None


def _plan(block: BlockTime) -> tuple[list[tuple[str, int]], float | None]:
    """What all blocks of a run have in common: names and planned steps of the phases, gradients per step."""
    planned = [(p.name, p.steps if p.planned is None else p.planned) for p in block.phases]
    return planned, block.gradients_per_step
