"""A small network of every model with random parameters, and its function by plain formulas."""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from bnn_atlas.config.parts.posterior import (
    CNNLSTMConfig,
    LeNet5Config,
    LeNet5MaxConfig,
    LeNetConfig,
    LeNettiConfig,
    MLPConfig,
    ModelConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.groups import Symmetry, symmetry_of

from ..models import reference

Function = Callable[[reference.Arrays, np.ndarray], np.ndarray]


def mlp(p: reference.Arrays, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    names = [name for name in p if name.endswith(".weight")]
    for name in names[:-1]:
        x = activation(p[name] @ x + p.get(name.replace("weight", "bias"), 0.0))
    return p[names[-1]] @ x + p.get(names[-1].replace("weight", "bias"), 0.0)


CASES: dict[str, tuple[ModelConfig, tuple[int, ...], Function]] = {
    "mlp": (MLPConfig(hidden=(7, 5, 6)), (4,), partial(mlp, activation=reference.relu)),
    "mlp_tanh": (MLPConfig(hidden=(6, 5), activation="tanh"), (4,), partial(mlp, activation=np.tanh)),
    "mlp_no_bias": (MLPConfig(hidden=(6,), bias=False), (4,), partial(mlp, activation=reference.relu)),
    "lenet": (LeNetConfig(), (28, 28, 1), reference.lenet),
    "lenet5": (LeNet5Config(activation="tanh"), (16, 16, 3), partial(reference.lenet5, activation=np.tanh)),
    "lenet5_max": (LeNet5MaxConfig(), (16, 16, 1), reference.lenet5_max),
    "lenetti": (LeNettiConfig(), (6, 6, 1), reference.lenetti),
    "resnet_frn": (ResNetFRNConfig(depth=8), (7, 7, 3), reference.resnet),
    "wide_resnet_frn": (WideResNetFRNConfig(depth=10, widen=1), (6, 6, 3), reference.wide_resnet),
    "wide_resnet_frn_2": (WideResNetFRNConfig(depth=16, widen=2), (6, 6, 3), reference.wide_resnet),
    "cnn_lstm": (
        CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=2, cells=6),
        (12,),
        partial(reference.cnn_lstm, size=2),
    ),
}


class Example(NamedTuple):
    config: ModelConfig
    layout: Layout
    symmetry: Symmetry
    theta: np.ndarray
    x: np.ndarray
    function: Function

    def outputs(self, theta: np.ndarray) -> np.ndarray:
        """Outputs [m, rows, outputs] of parameters [m, P]."""
        arrays = [self.layout.unflatten(one) for one in theta]
        return np.array([[self.function(each, row) for row in self.x] for each in arrays])


@cache
def example(name: str) -> Example:
    config, shape, function = CASES[name]
    numbers = np.random.default_rng(0)
    vocabulary = 9 if config.kind == "cnn_lstm" else 0
    layout = build_network(config, shape, 3, vocabulary).layout
    scale = [np.full(p.size, 1.5 / np.sqrt(p.fan_in) if p.role == "weight" else 0.3) for p in layout.parameters]
    theta = np.concatenate(scale) * numbers.normal(size=layout.size)
    x = numbers.integers(vocabulary, size=(2, *shape)) if vocabulary else numbers.normal(size=(2, *shape))
    return Example(config, layout, symmetry_of(config, layout), theta, x, function)
