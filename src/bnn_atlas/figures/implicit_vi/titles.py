"""Titles of panels with one run each."""

from collections.abc import Sequence

from bnn_atlas.figures.shown import Shown


def panel_title(one: Shown) -> str:
    """Label of a run, and its split but for the first."""
    return f"{one.label} (split {one.split})" if one.split else one.label


def check_titles(shown: Sequence[Shown], titles: Sequence[str]) -> None:
    """Refuse panels with equal titles, which nobody can tell apart. Raises ValueError."""
    seen: dict[str, str] = {}
    for one, title in zip(shown, titles, strict=True):
        if (other := seen.setdefault(title, one.run)) != one.run:
            raise ValueError(
                f"the panels of the runs '{other}' and '{one.run}' have one title, '{title}'; give them different "
                "labels, or show one of them"
            )
