"""The alignments that a figure shows, and how their variants look."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.figures import style
from bnn_atlas.figures.page import check_fits
from bnn_atlas.figures.shown import Shown

LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "sampled": ("as sampled", {"color": style.BLACK, "ls": "-", "lw": 1.0}),
    "aligned": ("aligned", {"color": style.BLUE, "ls": "-", "lw": 1.6}),
    "scrambled": ("scrambled (control)", {"color": style.VERMILION, "ls": (0, (1, 1)), "lw": 1.3}),
    "chain_wise": ("one permutation per chain", {"color": style.ORANGE, "ls": (0, (4, 1.5)), "lw": 1.3}),
}
"""Variant (`symmetry.frame.VARIANTS`) -> text in legends, and its line."""


class Aligned(NamedTuple):
    """An alignment of one run and split."""

    label: str
    """Text of the run, with the alignment's name where the run has several."""
    alignment: str
    file: Path
    run: Shown


def alignments(shown: Sequence[Shown], name: str, most: int) -> list[Aligned]:
    """The files `name` of all alignments; ValueError for none, or more than fit."""
    found = list(_all(shown, name))
    check_fits(len(found), most, "alignments", "choose some by `alignments` of the figure")
    return found


def _all(shown: Sequence[Shown], name: str) -> Iterator[Aligned]:
    splits = {one.run: sum(other.run == one.run for other in shown) for one in shown}
    for one in shown:
        parts = one.parts[name]
        for alignment, file in parts.items():
            named = f"{one.label}, {alignment.replace('_', ' ')}" if len(parts) > 1 else one.label
            yield Aligned(f"{named}, split {one.split}" if splits[one.run] > 1 else named, alignment, file, one)
