"""The runs of alignments, and whether an alignment is one of its run."""

import re
from collections.abc import Mapping

from bnn_atlas.config.alignments import OWN_REFERENCES, AlignmentConfig, unsuited
from bnn_atlas.config.base import ConfigError, near_or_all
from bnn_atlas.config.expansion import NAME
from bnn_atlas.config.sources import check_same
from bnn_atlas.config.studies import Run, Study

SAME = ("dataset", "split", "model", "likelihood", "prior", "temperature")
"""Fields of a run that decide its posterior, whose draws one frame is for."""


def alignments_of(study: Study, run: Run) -> dict[str, AlignmentConfig]:
    """Name -> alignments of a run, in the order of the study's file."""
    return {name: each for name, each in study.alignments.items() if each.run in (run.name, run.entry)}


def reference_run(study: Study, alignment: AlignmentConfig, run: Run) -> Run | None:
    """The run in whose frame a run is aligned: that of another alignment; None for a frame of its own.

    Of the runs of an entry it is the one with the same values of the grid. Raises ConfigError where there is none.
    """
    if alignment.reference in OWN_REFERENCES:
        return None
    there = study.runs_of((study.alignments[alignment.reference].run,))
    found = there if len(there) == 1 else [each for each in there if each.point == run.point]
    if len(found) != 1:
        raise ConfigError(
            f"reference = '{alignment.reference}': it is an alignment of {len(there)} runs, {len(found)} of them with "
            f"the grid values of '{run.name}'; name one for a single run"
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
            if wrong := unsuited(alignment, run.config.model, _draws(run)):
                field, why = wrong
                raise ConfigError(f"{place}.{field} = {getattr(alignment, field)!r} (run '{run.name}'): {why}")
            try:
                other = reference_run(study, alignment, run)
            except ConfigError as error:
                raise ConfigError(f"{place}.{error}") from None
            if other is not None:
                conclusion = "so its frame is one of another posterior"
                check_same(
                    run, other, SAME, f"{place}.reference = '{alignment.reference}' ('{other.name}')", conclusion
                )


def _check_reference(
    study: Study, name: str, alignment: AlignmentConfig, place: str, known: Mapping[str, object]
) -> None:
    """Refuse a reference that is no alignment, or one whose own frame is another's."""
    reference = alignment.reference
    if reference in OWN_REFERENCES:
        return
    others = [*OWN_REFERENCES, *(each for each in study.alignments if each != name)]
    if reference not in study.alignments or reference == name:
        why = "no such alignment at this scale" if reference in known and reference != name else "no such reference"
        raise ConfigError(f"{place}.reference = '{reference}': {why}{near_or_all(reference, 'there are', others)}")
    further = study.alignments[reference].reference
    if further not in OWN_REFERENCES:
        raise ConfigError(
            f"{place}.reference = '{reference}': the frame of '{reference}' is itself that of '{further}'; name "
            f"'{further}'"
        )


def _draws(run: Run) -> int:
    """Draws of all chains."""
    return run.config.chains * int(getattr(run.config.method, "draws", 1))
