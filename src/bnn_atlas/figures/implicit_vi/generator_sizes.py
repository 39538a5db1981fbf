"""Sizes of the generators of implicit runs."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.config.methods.implicit import ImplicitConfig
from bnn_atlas.figures.latex import TableOutputs, escape, write_latex
from bnn_atlas.figures.shown import Shown
from bnn_atlas.provenance import Provenance

KIND = {"files": ["fit"], "output": "table"}

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

    Runs of one entry that differ in splits, seeds or scores alone have one row. Input `fit`: what was learned.
    """
    if not shown:
        raise ValueError("there are no runs to show; list at least one in the figure's runs")
    rows = list(dict.fromkeys(_size(one) for one in shown))
    cells = [
        [
            escape(row.label),
            escape(row.dataset),
            KINDS[row.generator],
            row.entropy if row.entropy == row.scored_by else f"{row.entropy}; scored: {row.scored_by}",
            *(f"{number:,}" for number in (row.noise, row.weights, row.points, row.parameters)),
            f"{row.parameters / row.weights:.1f}",
        ]
        for row in rows
    ]
    header = ["run", "data", "generator", "entropy", "noise", "weights", "points", "parameters", "per weight"]
    notes = [
        "Noise: standard normal numbers that a generator takes. Weights: parameters of the network that it makes. "
        "Points: parameters of the network, or of its noise, that are optimised as numbers. Parameters: what is "
        "learned of the generator, outputs beyond the weights included. Entropy: its form in the fit, and that of "
        "scores where it is another one."
    ]
    write_latex(header, [("Generators", cells)], notes, pd.DataFrame(rows), outputs, provenance)


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
