"""Scores of the runs of a figure, with their repetitions, and limits that one bad run does not set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bnn_atlas.figures import style
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables import read_table

ERROR = {"regression": "rmse", "classification": "accuracy"}
"""Task -> the score that stands beside the LPPD."""
LABELS = {
    ("regression", "lppd"): "LPPD per test row,\nstandardised target",
    ("regression", "rmse"): "RMSE,\nstandardised target",
    ("classification", "lppd"): "LPPD per test row",
    ("classification", "accuracy"): "accuracy",
}
"""Task and metric -> text at an axis."""
NAMES = {
    "mclmc": "MCLMC", "mclmc_blackjax": "MCLMC (BlackJAX)", "adjusted_mclmc": "adjusted MCLMC", "hmc": "HMC",
    "nuts": "NUTS", "sgld": "SGLD", "psgld": "pSGLD", "sghmc": "SGHMC", "sghmc_clr": "SGHMC-CLR",
    "sghmc_clr_prec": "SGHMC-CLR-Prec", "adaptive_sghmc": "adaptive SGHMC", "map": "MAP", "laplace": "Laplace",
}  # fmt: skip
ENSEMBLE = "deep_ensemble"


def method_name(method: str) -> str:
    """A method as texts name it."""
    return NAMES.get(method, method.replace("_", " "))


def read_scores(shown: Sequence[Shown]) -> pd.DataFrame:
    """LPPD and RMSE or accuracy of every run and split: a row each, with the fields of `Shown` in front.

    Columns: run, entry, dataset, task, model, hidden, method, likelihood, prior_sd, split, metric, value,
    standard_error (over test rows; NaN where the table has none). Raises ValueError for a table that lacks one of them.
    """
    rows = []
    tables: dict[Path, pd.DataFrame] = {}
    for run in shown:
        file = run.files["table"]
        table = tables.setdefault(file, read_table(file))
        mine = table[(table["run"] == run.run) & (table["split"] == run.split)]
        for metric in ("lppd", ERROR[run.task]):
            found = mine.loc[mine["metric"] == metric, ["value", "standard_error"]]
            if len(found) != 1:
                raise ValueError(
                    f"{file}: {len(found)} rows with {metric} of run {run.run}, split {run.split}, where there is "
                    "one; run its metrics again"
                )
            fields = {name: getattr(run, name) for name in FIELDS}
            rows.append({**fields, "metric": metric, **found.iloc[0].astype(float)})
    if not rows:
        raise ValueError("there are no runs to compare; list some in the figure's runs")
    return pd.DataFrame(rows)


FIELDS = (
    "run",
    "entry",
    "dataset",
    "dataset_title",
    "task",
    "model",
    "hidden",
    "method",
    "likelihood",
    "prior_sd",
    "split",
)
"""Fields of `Shown` that go with a score."""


def over_repetitions(values: pd.Series) -> pd.Series:
    """Mean, sd (n - 1), low, high and number of the scores of seeds and splits.

    NaN and infinite scores are not left out: the mean is then NaN or infinite, and there is no sd.
    """
    array = values.to_numpy(dtype=float)
    with np.errstate(invalid="ignore"):
        mean = array.mean()
    spread = array.std(ddof=1) if len(array) > 1 and np.isfinite(mean) else np.nan
    return pd.Series({"mean": mean, "sd": spread, "low": array.min(), "high": array.max(), "repetitions": len(array)})


def robust_limits(values: np.ndarray, deviations: np.ndarray | None = None, fence: float = 3.0) -> tuple[float, float]:
    """Limits that hold all finite values but those farther out than `fence` interquartile ranges from the quartiles.

    The bars +- `deviations` of the values that are held (none where NaN) are inside too. Tukey, Exploratory Data
    Analysis, 1977 (outer fences), with a margin; (0, 1) where nothing is finite.
    """
    known = np.isfinite(values)
    finite = values[known]
    if not finite.size:
        return 0.0, 1.0
    bars = np.zeros(len(finite)) if deviations is None else np.nan_to_num(deviations[known])
    first, third = np.quantile(finite, (0.25, 0.75))
    reach = fence * (third - first)
    near = (finite >= first - reach) & (finite <= third + reach) if reach > 0 else np.ones(len(finite), dtype=bool)
    low, high = float((finite - bars)[near].min()), float((finite + bars)[near].max())
    margin = 0.06 * (high - low) or 0.05 * max(abs(high), 1e-3)
    return low - margin, high + margin


def score_text(value: float) -> str:
    """A score in three digits, with a true minus and an infinity sign."""
    if np.isinf(value):
        return "\N{MINUS SIGN}\N{INFINITY}" if value < 0 else "\N{INFINITY}"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def off_scale_remark(values: np.ndarray, limits: tuple[float, float]) -> str:
    """How many values lie beyond the limits (infinite ones too) and the farthest of them; empty for none."""
    beyond = values[(values < limits[0]) | (values > limits[1])]
    if not beyond.size:
        return ""
    centre = sum(limits) / 2
    farthest = beyond[np.argmax(np.abs(beyond - centre))]
    return f"{beyond.size} off scale, to {score_text(float(farthest))}"


def remark(ax: Axes, texts: Sequence[str]) -> None:
    """What a panel does not show, small at its top right."""
    ax.set_title("\n".join(text for text in texts if text), loc="right", fontsize=6, color=style.GREY)
