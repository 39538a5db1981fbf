"""Sizes of the generators of implicit runs."""

from collections.abc import Sequence
from math import floor, isnan, log10, prod
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.figures.latex import LatexTable, escape
from bnn_atlas.figures.shown import Shown
from bnn_atlas.files import load_arrays

KIND = {
    "files": ["fit", "table"], "output": "table", "methods": ["implicit"],
    "repeats": ["label", "dataset", "generator"],
    "columns": "label dataset generator entropy scored_by sigma noise weights points parameters variance "
    "mean_entropy entropy_error",
}  # fmt: skip

VARIANCE = "variance_within_weight_median"
METRICS = {"variance": VARIANCE, "mean_entropy": "entropy", "entropy_error": "entropy_error"}
"""Column of the CSV -> the metric whose mean over splits it holds; `variance` is divided by sigma^2."""
DECIMALS = 3
"""Largest number of decimals of an entropy."""

KINDS = {
    "mlp": "MLP",
    "matrix": "matrix multiplication",
    "correlated": "correlated matrices",
    "factorised": "one for each layer",
}


class Size(NamedTuple):
    """A row of the table."""

    label: str
    dataset: str
    generator: str
    entropy: str
    """Form of the entropy in the fit."""
    scored_by: str
    """Form of the entropy that scores the draws."""
    sigma: float
    """Spread of the noise on the weights."""
    noise: int
    weights: int
    points: int
    parameters: int


def generator_sizes(shown: Sequence[Shown]) -> LatexTable:
    """Size of each entry's generator, and entropy and spread of what it generates, as a LaTeX table and a CSV.

    Runs of one entry that differ only in splits, seeds or scores share a row of means: of the entropy of the draws (in
    the form that scores them) and its error, in nats, and of `variance`, which is the variance of a parameter within a
    chain, divided by sigma^2 (median over the network's parameters). If it is 1, only the noise sigma varies. Inputs:
    `fit`, what was learned, and the metric `table`; a value that the table lacks is a dash, and empty in the CSV.
    """
    measured: dict[Size, list[list[float]]] = {}
    for one in shown:
        size = _size(one)
        measured.setdefault(size, []).append(_measured(one, size.sigma))
    rows = list(measured)
    means = pd.DataFrame([np.mean(found, axis=0) for found in measured.values()], columns=list(METRICS))
    table = pd.concat([pd.DataFrame(rows), means], axis=1)
    cells = [
        [
            escape(row.label),
            escape(row.dataset),
            KINDS[row.generator],
            *(f"{number:,}" for number in (row.noise, row.weights, row.points, row.parameters)),
            f"{row.parameters / row.weights:.1f}",
            row.entropy if row.entropy == row.scored_by else f"{row.entropy}; scored: {row.scored_by}",
            _with_error(entropy, error),
            f"{row.sigma:g}",
            "--" if isnan(variance) else f"{variance:.3g}",
        ]
        for row, (variance, entropy, error) in zip(rows, means.to_numpy(), strict=True)
    ]
    sizes = ["noise", "weights", "points", "parameters", "per weight"]
    header = ["run", "data", "generator", *sizes, "form of entropy", "entropy, nats", "sigma", "variance"]
    notes = [
        "Noise: standard normal numbers that a generator takes. Weights: parameters of the network that it makes. "
        "Points: parameters of the network, or of its noise, that are optimised as numbers. Parameters: what the "
        "generator learns, including outputs beyond the weights. Per weight: parameters divided by weights. Form of "
        "entropy: how it is computed in the fit, and in the scores if they differ. Entropy: as scored, "
        "mean over the draws, in nats, and its error, from the random directions and from the steps that the "
        "computation leaves out; an error of 0 is an exact entropy. Sigma: spread of the noise that is added to all "
        "weights. Variance: that of a parameter of the network within a chain, median over the parameters, in units "
        "of sigma squared; 1 means that the noise sigma is all that varies. Entropy, its error and variance are means "
        "over splits; a dash where they were not measured."
    ]
    return LatexTable(header, [("Generators", cells)], notes, table)


def _measured(one: Shown, sigma: float) -> list[float]:
    """Values of METRICS; NaN if the table lacks one."""
    rows = one.table()
    values = rows.drop_duplicates("metric").set_index("metric")["value"].reindex(list(METRICS.values()))
    return [float(value) / (sigma**2 if metric == VARIANCE else 1) for metric, value in values.items()]


def _with_error(value: float, error: float) -> str:
    """`value` and `error` to two digits of the error; a dash unless both are numbers."""
    if isnan(value) or isnan(error):
        return "--"
    digits = min(DECIMALS, max(0, 1 - floor(log10(error)))) if error > 0 else 1
    shown = f"{value:,.{digits}f} ± " + (f"{error:,.{digits}f}" if error > 0 else "0")
    return escape(shown.replace("-", "\N{MINUS SIGN}"))


def _size(one: Shown) -> Size:
    fit = load_arrays(one.files["fit"], ["noise"], ValueError, "a fit of a generator", optional=None)
    shapes = {name: array.shape[1:] for name, array in fit.items()}
    noise = int(fit["noise"][0])
    method = ImplicitConfig.model_validate(one.settings["method"])
    return Size(
        one.label,
        one.dataset_title,
        method.generator.kind,
        method.entropy.words,
        method.scoring(noise).words,
        float((fit["sigma"][0] ** 2).mean() ** 0.5) if method.learned_sigma else method.sigma,
        noise,
        shapes["generated"][0],
        shapes["points"][0],
        sum(prod(shape) for name, shape in shapes.items() if name.startswith("generator.")),
    )
