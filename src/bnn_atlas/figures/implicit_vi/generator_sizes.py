"""Sizes of the generators of implicit runs."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.figures.latex import TableOutputs, escape, write_latex
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.tables.files import read_table
from bnn_atlas.provenance import Provenance

KIND = {"files": ["fit", "table"], "output": "table"}

VARIANCE = "variance_within_weight_median"

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
    """Form in the fit."""
    scored_by: str
    """Form with which draws are scored."""
    noise: int
    weights: int
    points: int
    parameters: int


def generator_sizes(shown: Sequence[Shown], outputs: TableOutputs, provenance: Provenance) -> None:
    """Noise numbers, generated weights and learned parameters of each entry's generator, as a LaTeX table and a CSV.

    Runs of one entry that differ in splits, seeds or scores alone have one row, with the mean of `variance`: the median
    over the network's parameters of their variance within a chain, over sigma^2. Where it is 1, the noise sigma is all
    that varies. Inputs: `fit`, what was learned, and the metric `table`.
    """
    if not shown:
        raise ValueError("there are no runs to show; list at least one in the figure's runs")
    variances: dict[Size, list[float]] = {}
    for one in shown:
        variances.setdefault(_size(one), []).append(_variance(one))
    rows = list(variances)
    table = pd.DataFrame(rows).assign(variance=[float(np.mean(found)) for found in variances.values()])
    cells = [
        [
            escape(row.label),
            escape(row.dataset),
            KINDS[row.generator],
            row.entropy if row.entropy == row.scored_by else f"{row.entropy}; scored: {row.scored_by}",
            *(f"{number:,}" for number in (row.noise, row.weights, row.points, row.parameters)),
            f"{row.parameters / row.weights:.1f}",
            f"{variance:.3g}",
        ]
        for row, variance in zip(rows, table["variance"], strict=True)
    ]
    sizes = ["noise", "weights", "points", "parameters", "per weight", "variance"]
    header = ["run", "data", "generator", "entropy", *sizes]
    notes = [
        "Noise: standard normal numbers that a generator takes. Weights: parameters of the network that it makes. "
        "Points: parameters of the network, or of its noise, that are optimised as numbers. Parameters: what is "
        "learned of the generator, outputs beyond the weights included. Entropy: its form in the fit, and that of "
        "scores where it is another one. Variance: that of the network's parameters, median, in units of sigma "
        "squared: 1 is the noise that is added to all weights, and nothing else."
    ]
    write_latex(header, [("Generators", cells)], notes, table, outputs, provenance)


def _variance(one: Shown) -> float:
    """Median variance of a parameter within a chain, over sigma^2."""
    rows = one.rows(read_table(one.files["table"]))
    sigma = ImplicitConfig.model_validate(one.settings["method"]).sigma
    found = rows.loc[rows["metric"] == VARIANCE, "value"]
    return float(found.iloc[0]) / sigma**2 if len(found) else float("nan")


def _size(one: Shown) -> Size:
    if one.method != "implicit":
        raise ValueError(f"run '{one.run}' has the method {one.method}, and only implicit runs have a generator")
    with np.load(one.files["fit"], allow_pickle=False) as fit:
        shapes = {name: fit[name].shape[1:] for name in fit.files}
        noise = int(fit["noise"][0])
    method = ImplicitConfig.model_validate(one.settings["method"])
    return Size(
        one.label,
        one.dataset_title,
        method.generator.kind,
        method.entropy.words,
        method.scoring(noise).words,
        noise,
        shapes["generated"][0],
        shapes["points"][0],
        sum(prod(shape) for name, shape in shapes.items() if name.startswith("generator.")),
    )
