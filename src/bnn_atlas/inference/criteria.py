"""Matching the networks of a run: the criterion that its settings ask for, on the rows of its split."""

from typing import Literal

import numpy as np

from bnn_atlas.data.pixels import dead_inputs
from bnn_atlas.inference.problem import Problem
from bnn_atlas.symmetry.features import Features, activation_features, cosine_features, weight_features
from bnn_atlas.symmetry.groups import Symmetry
from bnn_atlas.traces.draws import evenly

Criterion = Literal["weights", "cosine", "activations", "centred", "correlation"]


def features_of(
    symmetry: Symmetry, problem: Problem, criterion: Criterion, *, rows: int | None = None, masked: bool = False
) -> Features:
    """Features by which draws of a run's posterior are matched.

    Args:
        symmetry: symmetry of the run's network.
        problem: its posterior and split; activations are taken at the rows that the posterior is conditioned on.
        criterion: `weights` (all parameters of a unit), `cosine` (first layer, as published), or `activations`, which
            can be `centred` or give a `correlation`.
        rows: at most this many rows, evenly spaced; None takes all.
        masked: whether to leave out weights of inputs that never vary in these rows.

    Raises:
        SymmetryError: the criterion does not apply to this network.
    """
    split = problem.split
    dead = dead_inputs(split) if masked else None
    if criterion == "weights":
        return weight_features(symmetry, dead)
    if criterion == "cosine":
        return cosine_features(symmetry, dead)
    x = split.x_fit[evenly(len(split.x_fit), rows or len(split.x_fit))]
    outputs = next(p.fan_out for p in reversed(symmetry.layout.parameters) if p.role == "weight")
    sizes = {"outputs": outputs, "vocabulary": split.vocabulary}
    inputs = np.asarray(x, problem.data.x.dtype)
    return activation_features(problem.config.model, symmetry, split.shape, inputs, criterion, **sizes)
