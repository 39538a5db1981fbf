"""Methods and models that do not fit the posterior are refused when the configuration is read."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from bnn_atlas.config.checks.methods import COLUMNS, LEAST_SIDE, MICROCANONICAL
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.parts.posterior import ModelConfig
from bnn_atlas.config.settings import load_study
from bnn_atlas.methods.implicit.entropy import DIRECTIONS
from bnn_atlas.models.networks import ShapeError, build_network
from tests.config.folders import DATASETS, refused, run_edit, study_file

DATA = DATASETS | {
    "line": DATASETS["diabetes"].model_copy(update={"inputs": 1}),
    "pictures": DATASETS["diabetes"].model_copy(update={"kind": "image", "inputs": (14, 14, 1)}),
    "text": DATASETS["diabetes"].model_copy(update={"kind": "tokens", "inputs": (5,), "vocabulary": 50}),
}
MLP = {"kind": "mlp", "noise": 10, "hidden": [4]}
MATRIX = {"kind": "matrix", "noise": [2, 5], "hidden": [[3, 3]]}
LEARNED = {"kind": "learned_noise"}
SINGLE: dict[str, Any] = {"dataset": "line", "model": {"kind": "mlp", "hidden": [], "bias": False}}
KRONECKER = {"kind": "laplace", "structure": "kronecker"}
WORDS = {"kind": "cnn_lstm", "embedding": 5, "filters": 4, "kernel": 4, "pool": 3, "cells": 3}


def implicit(generator: dict[str, Any] = MLP, **settings: Any) -> dict[str, Any]:
    return {"kind": "implicit", "generator": generator, "epochs": 10, "steps": 10} | settings


def factorised(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "factorised", "parts": list(parts)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": {"kind": "smile", "batch_size": 354}}, "batch_size = 354: there are as many rows, but the noise"),
        ({"method": {"kind": "smile", "batch_size": 353}}, None),
        (SINGLE, "method.kind = 'mclmc': microcanonical dynamics need at least two parameters"),
        (SINGLE | {"likelihood": LEARNED}, None),
        (SINGLE | {"method": {"kind": "nuts", "step_size": 0.1}}, None),
        (
            {"method": {"kind": "mean_field", "noise": "point"}, "likelihood": LEARNED, "prior": {"kind": "laplace"}},
            "method.noise = 'point': it takes the noise out of a normal prior, not 'laplace'",
        ),
        ({"method": KRONECKER, "prior": {"kind": "laplace"}}, "'kronecker': it needs a normal prior, not 'laplace'"),
        ({"method": KRONECKER, "prior": {"kind": "normal_flat_bias"}}, "'normal_flat_bias' is flat for the biases"),
        ({"method": KRONECKER, "prior": {"kind": "eps_standard_normal"}}, "those of 'eps_standard_normal' are not"),
        ({"method": KRONECKER, "prior": {"kind": "glorot"}}, None),
        (
            {"method": KRONECKER, "dataset": "pictures", "model": {"kind": "lenetti"}},
            "it needs dense layers, and model.kind 'lenetti' has others",
        ),
        (
            {"model": {"kind": "lenetti"}},
            "model.kind = 'lenetti': the data set 'diabetes' has rows of the kind 'table'",
        ),
        ({"dataset": "pictures", "model": {"kind": "lenet"}}, "it takes images of at least 15 x 15 pixels; use 'mlp'"),
        ({"dataset": "pictures", "model": {"kind": "lenet5"}}, None),
        ({"dataset": "text"}, "model.kind = 'mlp': the data set 'text' has rows of the kind 'tokens'"),
        ({"model": WORDS}, "model.kind = 'cnn_lstm': the data set 'diabetes' has rows of the kind 'table'"),
        ({"dataset": "text", "model": WORDS}, "it needs at least 6 tokens (kernel + pool - 1)"),
        ({"dataset": "text", "model": WORDS | {"pool": 2}}, None),
        ({"method": implicit()}, None),
        ({"method": implicit(MLP | {"noise": 9})}, "entropy.steps = 10: the generator has only 9 noise numbers"),
        (
            {"method": implicit(entropy={"kind": "exact"}, scored_by={"kind": "lanczos", "steps": 11})},
            "scored_by.steps = 11: the generator has only 10 noise numbers",
        ),
        (
            {"method": implicit(MATRIX | {"noise": [5, 2]}, entropy={"kind": "published"})},
            "needs noise with at least 3 columns, and that of the generator has 2",
        ),
        ({"method": implicit(MATRIX, entropy={"kind": "published"})}, None),
        ({"method": implicit(MATRIX | {"output": [2, 34]})}, "generator: its 68 outputs cannot make 69 weights"),
        ({"method": implicit(MATRIX | {"output": [3, 23]})}, None),
        ({"method": implicit(MLP | {"noise": 70})}, "generator: it has 70 noise numbers for 69 weights"),
        ({"method": implicit(MATRIX | {"output": [4, 20], "bias_rank": 5})}, "bias_rank = 5: the last matrix allows"),
        ({"method": implicit(MATRIX | {"bias_rank": 9})}, "bias_rank = 9: the last matrix allows at most 8"),
        ({"method": implicit(MATRIX | {"bias_rank": 8})}, None),
        ({"method": implicit(generated={"layers": [3]})}, "generated.layers: 3 is not in this network"),
        ({"method": implicit(generated={"roles": ["scale"]})}, "generated.roles: 'scale' is not in this network"),
        (
            {"method": implicit(generated={"names": ["layer0.weigth"]})},
            "generated.names: 'layer0.weigth' is not in this network (did you mean 'layer0.weight'?)",
        ),
        (
            {"method": implicit(generated={"layers": [0], "names": ["layer1.bias"]})},
            "generated: no parameter meets all its conditions",
        ),
        (
            {"method": implicit(generated={"roles": ["scale"]}, noise="point"), "likelihood": LEARNED},
            "it selects only the noise, which noise: point fits as a number",
        ),
        ({"method": implicit(generated={"layers": [0]})}, None),
        (
            {"method": implicit(factorised(MLP, MLP), generated={"layers": [0, 1, 2]})},
            "generator.parts: there are 2, and 3 layers are generated (0, 1, 2)",
        ),
        (
            {"method": implicit(factorised(MLP), entropy={"kind": "exact"})},
            "generator.parts: layer 2: it has 10 noise numbers for 5 weights",
        ),
        ({"method": implicit(factorised(MLP | {"noise": 5}))}, None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    def edit(study: dict[str, Any]) -> None:
        run_edit(**changes)(study)
        del study["figures"]

    path = study_file(tmp_path, edit)
    if message is None:
        load_study(path, "paper", DATA)
        return
    with refused(message):
        load_study(path, "paper", DATA)


def test_limits_are_those_of_models_and_methods() -> None:
    assert COLUMNS == DIRECTIONS
    assert set(MICROCANONICAL) <= set(METHODS)
    sizes = {"resnet_frn": {"depth": 8}, "wide_resnet_frn": {"depth": 10, "widen": 1}}
    for kind, side in LEAST_SIDE.items():
        model = TypeAdapter[ModelConfig](ModelConfig).validate_python({"kind": kind} | sizes.get(kind, {}))
        build_network(model, (side, side, 1), 2)
        if side > 1:
            with pytest.raises(ShapeError):
                build_network(model, (side - 1, side - 1, 1), 2)
