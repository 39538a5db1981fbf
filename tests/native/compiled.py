"""The library of the compiled gradient, called without JAX and on either instruction set."""

import ctypes
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from bnn_atlas.native.build import BuildError, build
from bnn_atlas.posterior.compiled import ACTIVATIONS, HEADS

AVX2, AVX512 = 1, 2
FUNCTIONS = ("exp", "log", "log1p", "tanh", "sigmoid")


def load() -> ctypes.CDLL:
    """The library, built where it is not there; skips where that is impossible."""
    try:
        return ctypes.CDLL(str(build()))
    except BuildError as error:
        pytest.skip(f"no compiled gradient here: {error}")


def best() -> int:
    """The best instruction set of this processor; skips where there is none that the kernel is for."""
    found = load().bnn_atlas_best()
    if not found:
        pytest.skip("this processor has neither AVX-512 nor AVX2")
    return found


def pointer(array: np.ndarray | None) -> Any:
    return None if array is None else array.ctypes.data_as(ctypes.c_void_p)


def function(instructions: int, name: str, x: np.ndarray) -> np.ndarray:
    """A function of the kernel at float32 numbers x."""
    y, number = np.empty_like(x), FUNCTIONS.index(name)
    assert load().bnn_atlas_function(instructions, number, pointer(x), pointer(y), ctypes.c_int64(x.size))
    return y


class Case(NamedTuple):
    """A network with data: x [rows, features] as they come."""

    widths: tuple[int, ...]
    activation: str
    bias: bool
    head: str
    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    theta: np.ndarray


def case(
    widths: tuple[int, ...],
    activation: str = "relu",
    bias: bool = True,
    head: str = "softplus_noise",
    rows: int = 100,
    weighted: bool = False,
    seed: int = 0,
) -> Case:
    """Random data, and parameters of the size of an initialised network's."""
    rng = np.random.default_rng(seed)
    outputs = widths[-1]
    sizes = [rng.normal(size=(b, a + bias)) / np.sqrt(a + 1) for a, b in pairwise(widths)]
    theta = np.concatenate([s.ravel() for s in sizes] + ([[0.1]] if head == "learned_noise" else []))
    y = rng.integers(0, outputs, rows, np.int32) if head == "categorical" else rng.normal(size=rows)
    return Case(
        widths,
        activation,
        bias,
        head,
        rng.normal(size=(rows, widths[0])).astype(np.float32),
        y if head == "categorical" else y.astype(np.float32),
        rng.integers(0, 2, rows).astype(np.float32) if weighted else None,
        theta.astype(np.float32),
    )


def gradient(
    instructions: int, case: Case, indices: np.ndarray | None = None, by_feature: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood and gradient."""
    value, slopes = np.zeros(1, np.float32), np.full_like(case.theta, np.nan)
    x, stride = case.x, 0
    if by_feature:
        stride = -(-len(x) // 16) * 16
        x = np.ascontiguousarray(np.pad(x, ((0, stride - len(x)), (0, 0)), constant_values=np.nan).T)
    count = len(case.y) if indices is None else len(indices)
    widths = np.array(case.widths, np.int32)
    done = load().bnn_atlas_gradient(
        instructions,
        pointer(widths),
        len(widths) - 1,
        ACTIVATIONS.index(case.activation),
        int(case.bias),
        HEADS.index(case.head),
        ctypes.c_float(0.0),
        ctypes.c_float(1.0),
        pointer(x),
        ctypes.c_int64(stride),
        pointer(case.y),
        pointer(case.weights),
        pointer(indices),
        ctypes.c_int64(len(case.y)),
        ctypes.c_int64(count),
        pointer(case.theta),
        pointer(value),
        pointer(slopes),
    )
    assert done
    return value, slopes
