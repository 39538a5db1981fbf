"""The page of claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.claims.report import report


def claims(
    tables: Sequence[str | Path],
    pictures: Sequence[str | Path],
    table: str | Path,
    page: str | Path,
    *,
    studies: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
    scale: str,
    densities: Sequence[str | Path] = (),
    compared: Sequence[str] = (),
) -> None:
    """Judge the claims of all studies from their metric tables.

    `pictures` are the PNGs of the `figures` (`study/figure`), and `densities` the predictions of the runs in `compared`
    (`study/run/split<n>`).
    """
    shown, predictions = (dict(zip(*pair, strict=True)) for pair in ((figures, pictures), (compared, densities)))
    report(studies, tables, shown, scale=scale, table=table, page=page, predictions=predictions)
