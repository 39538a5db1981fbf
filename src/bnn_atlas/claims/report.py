"""The entry point of the claims rule."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.claims.html import write_page
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import judge_all
from bnn_atlas.metrics.tables.parquet import read_table
from bnn_atlas.provenance import collect


def report(
    studies: Sequence[Mapping[str, Any]],
    tables: Sequence[str | Path],
    figures: Mapping[str, str | Path],
    *,
    scale: str,
    table: str | Path,
    page: str | Path,
    predictions: Mapping[str, str | Path] | None = None,
) -> None:
    """Judge the claims of all studies and write them as a table and as a page.

    Args:
        studies: `claims.plan.ClaimedStudy` of each study, as plain data.
        tables: their metric tables in the same order.
        figures: `study/figure` -> PNG of a figure that is named in claims, with its CSV file next to it.
        scale: the scale, for the page.
        table: the file for the table.
        page: the file for the page.
        predictions: `study/run/split<n>` -> predictions of the test rows, for runs that are compared in claims.
    """
    claimed = [ClaimedStudy.model_validate(study) for study in studies]
    of = dict(zip((study.name for study in claimed), tables, strict=True))
    judgements = judge_all(claimed, of, figures, predictions)
    write_claims(table, judgements, {name: read_table(file) for name, file in of.items() if Path(file).is_file()})
    settings = {"figure": "claims", "scale": scale, "studies": list(studies)}
    write_page(page, judgements, figures, collect(settings, root="."))
