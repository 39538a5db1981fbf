"""The runs of alignments, and whether an alignment is one of its run."""

import re
from collections.abc import Mapping

from bnn_atlas.config.checks.sources import check_same
from bnn_atlas.config.language.base import ConfigError, near_or_all
from bnn_atlas.config.parts.alignments import OWN_REFERENCES, AlignmentConfig, unsuited
from bnn_atlas.config.runs.expansion import NAME
from bnn_atlas.config.runs.studies import Run, Study

SAME = ("dataset", "split", "model", "likelihood", "prior", "temperature")
"""Fields of a run that decide its posterior, whose draws one frame is for."""


def alignments_of(study: Study, run: Run) -> dict[str, AlignmentConfig]:
    """Name -> alignments of a run, in the order of the study's file."""
    return {name: each for name, each in study.alignments.items() if each.run in (run.name, run.entry)}


def reference_run(study: Study, alignment: AlignmentConfig, run: Run) -> Run | None:
    """The run in whose frame a run is aligned: that of another alignment (`other`); None for a frame of its own.

    Of the runs of an entry it is the one with the same values of the grid. Raises ConfigError where there is none.
    """
    if alignment.other is None:
        return None
    there = study.runs_of((study.alignments[alignment.other].run,))
    found = there if len(there) == 1 else [each for each in there if each.point == run.point]
    if len(found) != 1:
        raise ConfigError(
            f"{_field(alignment)} = '{alignment.other}': it is an alignment of {len(there)} runs, {len(found)} of them "
            f"with the grid values of '{run.name}'; name one for a single run"
        )
    return found[0]


def check_alignments(study: Study, where: str, known: Mapping[str, object]) -> None:
    """Refuse alignments of no run, of a run that they do not suit, and frames of other posteriors.

    `known` are the names of all alignments of the study's file, at any scale. Raises ConfigError.
    """
    for name, alignment in study.alignments.items():
        place = f"{where}: alignments.{name}"
        if not re.fullmatch(NAME, name) or name in OWN_REFERENCES:
            raise ConfigError(
                f"{place}: a name is made of letters, digits, '_', '.', '-', and is not {', '.join(OWN_REFERENCES)}"
            )
        runs = study.runs_of((alignment.run,))
        if not runs:
            entries = sorted({run.entry for run in study.runs.values()})
            raise ConfigError(
                f"{place}.run = '{alignment.run}': no such run at this scale"
                f"{near_or_all(alignment.run, 'there are', entries, study.runs)}"
            )
        _check_reference(study, name, alignment, place, known)
        for run in runs:
            if wrong := unsuited(alignment, run.config.model, run.config.chains, _draws(run)):
                field, why = wrong
                raise ConfigError(f"{place}.{field} = {getattr(alignment, field)!r} (run '{run.name}'): {why}")
            try:
                other = reference_run(study, alignment, run)
            except ConfigError as error:
                raise ConfigError(f"{place}.{error}") from None
            if other is not None:
                conclusion = "so its frame is one of another posterior"
                check_same(
                    run, other, SAME, f"{place}.{_field(alignment)} = '{alignment.other}' ('{other.name}')", conclusion
                )


def _check_reference(
    study: Study, name: str, alignment: AlignmentConfig, place: str, known: Mapping[str, object]
) -> None:
    """Refuse a reference that is no alignment, or one whose own frame is another's."""
    other, field = alignment.other, _field(alignment)
    if other is None:
        return
    others = [*(OWN_REFERENCES if field == "reference" else ()), *(each for each in study.alignments if each != name)]
    if other not in study.alignments or other == name:
        why = "no such alignment at this scale" if other in known and other != name else f"no such {field}"
        raise ConfigError(f"{place}.{field} = '{other}': {why}{near_or_all(other, 'there are', others)}")
    if further := study.alignments[other].other:
        raise ConfigError(
            f"{place}.{field} = '{other}': the frame of '{other}' is itself that of '{further}'; name '{further}'"
        )


def _field(alignment: AlignmentConfig) -> str:
    """The field that names another alignment."""
    return "frame" if alignment.own_reference else "reference"


def _draws(run: Run) -> int:
    """Draws of a chain."""
    return int(getattr(run.config.method, "draws", 1))
