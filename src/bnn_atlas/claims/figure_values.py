"""Numbers of figures, which claims read from the CSV file of a figure."""

from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.sides import Answer, ClaimError, Problem, Repetition
from bnn_atlas.config.claims.claim import FigureValue, Side
from bnn_atlas.metrics.judgement.trust import worst


def figure_answer(measured: Measured, side: Side, figure: str, study: ClaimedStudy, runs: Collection[str]) -> Answer:
    """The number of a figure as the only row of a side, or why there is none.

    Its trust is the worst trust of `runs`, the runs behind the claim. Raises ClaimError like `figure_value`.
    """
    assert side.in_figure is not None
    plan, path = study.figures.get(figure), measured.figures.get(figure)
    needed = "a scale that draws it for the paper's runs"
    if plan is None:
        return Answer((), Problem(f"scale {study.scale} does not draw the figure '{figure}'", needed))
    if plan.other or (changed := [text for run in plan.runs if (text := study.runs[run].other_data)]):
        return Answer(
            (), Problem(f"scale {study.scale} draws '{figure}' otherwise: {plan.other or changed[0]}", needed)
        )
    csv = Path(path).with_suffix(".csv") if path else None
    if csv is None or not csv.is_file():
        return Answer((), Problem(f"there is no CSV file of the figure '{figure}'", study.command([figure])))
    value = figure_value(csv, side.in_figure)
    of_runs = [one for (run, _), one in measured.trusts.items() if run in runs]
    trust = worst(of_runs).words if runs else ""
    return Answer((Repetition(figure, 0, "", side.metric, 0, 0, 0, value, None, "", trust=trust),), None)


def figure_value(csv: Path, wanted: FigureValue) -> float:
    """The number in a CSV file to which a claim refers.

    Raises ClaimError if a column is missing, if no row matches, and if several match a claim about one.
    """
    table = pd.read_csv(csv)
    if missing := [name for name in (wanted.column, *wanted.where) if name not in table.columns]:
        raise ClaimError(f"{csv}: no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    for column, value in wanted.where.items():
        numbers = not isinstance(value, str) and pd.api.types.is_numeric_dtype(table[column])
        table = table[table[column] == value if numbers else table[column].astype(str) == str(value)]
    if table.empty:
        raise ClaimError(f"{csv}: no row fits {wanted.text}")
    return _taken(table[wanted.column], wanted, csv)


def _taken(values: pd.Series, wanted: FigureValue, csv: Path) -> float:
    if wanted.take == "share_given":
        return float(values.notna().mean())
    different: Sequence[float] = values.unique().tolist()
    if wanted.take == "only" and len(different) > 1:
        raise ClaimError(f"{csv}: {len(values)} rows fit {wanted.text}; a claim means one value")
    return float(different[0] if wanted.take == "only" else values.agg(wanted.take))
