"""The same pairs of networks brought together by several methods: objective, barrier and seconds of each.

Networks of scikit-learn's MLPClassifier (two hidden layers, relu) are trained on its digits from different seeds, and
every pair of them is aligned. The methods of others are written here from their papers, with plain arrays. The
objective is the cosine between the weights of a pair after alignment; the barrier is the largest rise of the training
loss along the line above its chord (`bnn_atlas.symmetry.barriers`), also with REPAIR. Seconds are CPU time of one
thread, for a pair.
"""

import os

if __name__ == "__main__":
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # NumPy reads them when it is imported

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

import report
from machine import cores, processor

if TYPE_CHECKING:
    from bnn_atlas.config.parts.posterior import MLPConfig
    from bnn_atlas.symmetry.features import Statistic
    from bnn_atlas.symmetry.groups import Symmetry

HERE = Path(__file__).parent
Layers = list[tuple[np.ndarray, np.ndarray]]
"""Weights [out, in] and biases [out] of each layer."""
Orders = list[np.ndarray]
"""Order [n] of the units of each hidden layer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="networks, of which all pairs are aligned (default 3)")
    parser.add_argument("--width", type=int, default=64, help="units of a hidden layer (default 64)")
    parser.add_argument("--epochs", type=int, default=60, help="(default 60)")
    parser.add_argument("--swaps", type=int, default=8000, help="swaps of annealing for a pair (default 8000)")
    parser.add_argument("--points", type=int, default=25, help="points on a line (default 25)")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    options = parser.parse_args()
    from bnn_atlas.runtime import configure

    configure(1)
    about = {
        "processor": processor(),
        "cores": cores(),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("bnn-atlas", "numpy", "scipy", "scikit-learn")),
    }
    networks, x, y = trained(options.seeds, options.width, options.epochs)
    rows = compared(networks, x, y, options.swaps, options.points)
    options.output.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([row | about for row in rows])
    table.to_csv(options.output / "alignment_methods.csv", index=False, lineterminator="\n")
    picture(table, options.output / "alignment_methods.png")
    print("\n" + report.alignment_methods(table))


def trained(seeds: int, width: int, epochs: int) -> tuple[list[Layers], np.ndarray, np.ndarray]:
    """Networks of different seeds, and the rows that they were trained on."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    pixels, y = load_digits(return_X_y=True)
    x = (pixels / 16).astype(np.float32)
    networks = []
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the number of epochs was reached
            fit = MLPClassifier((width, width), max_iter=epochs, random_state=seed, alpha=1e-3).fit(x, y)
        networks.append(
            [(w.T.astype(np.float64), b.astype(np.float64)) for w, b in zip(fit.coefs_, fit.intercepts_, strict=True)]
        )
    return networks, x, y


def compared(
    networks: list[Layers], x: np.ndarray, y: np.ndarray, swaps: int, points: int
) -> Iterator[tuple[dict, list[dict]]]:
    """Rows of the table: every method on every pair."""
    from bnn_atlas.symmetry.barriers import barriers, line

    between = line(points)
    repair = repairing(networks[0], x)
    for method, align in methods(x, y, swaps).items():
        begun = time.process_time()
        orders = align(networks)
        pairs = list(combinations(range(len(networks)), 2))
        seconds = (time.process_time() - begun) / len(pairs)
        for first, second in pairs:
            one, other = (
                permuted(networks[first], orders[first, second][0]),
                permuted(networks[second], orders[first, second][1]),
            )
            mixed = [mixture(one, other, at) for at in between]
            losses = {"": [loss(each, x, y) for each in mixed]}
            losses["repaired"] = [loss(each, x, y) for each in repair(one, other, between, mixed)]
            a, b = flat(one), flat(other)
            row: dict[str, Any] = {"method": method, "first": first, "second": second, "seconds": seconds}
            row["objective"] = float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
            row |= {
                f"barrier_{kind}".rstrip("_"): barriers(between, np.array(values)).sup
                for kind, values in losses.items()
            }
            yield row


Pairs = dict[tuple[int, int], tuple[Orders, Orders]]
"""Pair of networks -> orders of the first and of the second."""


def methods(x: np.ndarray, y: np.ndarray, swaps: int) -> dict[str, Callable[[list[Layers]], Pairs]]:
    """Name in the table -> networks to orders of every pair."""

    def each(align: Callable[[Layers, Layers, int], Orders]) -> Callable[[list[Layers]], Pairs]:
        def of(networks: list[Layers]) -> Pairs:
            pairs = combinations(range(len(networks)), 2)
            return {
                (a, b): (identity(networks[a]), align(networks[a], networks[b], a * len(networks) + b))
                for a, b in pairs
            }

        return of

    def together(align: Callable[[list[Layers]], list[Orders]]) -> Callable[[list[Layers]], Pairs]:
        def of(networks: list[Layers]) -> Pairs:
            orders = align(networks)
            return {(a, b): (orders[a], orders[b]) for a, b in combinations(range(len(networks)), 2)}

        return of

    return {
        "as trained": each(lambda first, second, seed: identity(second)),
        "git-re-basin, weights, one run": each(git_re_basin),
        "simulated annealing of the loss": each(lambda first, second, seed: annealed(first, second, x, y, swaps, seed)),
        "cycle-consistent (Frank-Wolfe)": together(cycle_consistent),
        "ours: weights": each(lambda first, second, seed: ours(first, second, x, None, 1)),
        "ours: weights, 6 orders": each(lambda first, second, seed: ours(first, second, x, None, 6)),
        "ours: activations, centred": each(lambda first, second, seed: ours(first, second, x, "centred", 1)),
        "ours: activations, correlation": each(lambda first, second, seed: ours(first, second, x, "correlation", 1)),
        "ours: barycentre of all, 6 orders": together(our_barycentre),
    }


# Networks


def identity(network: Layers) -> Orders:
    return [np.arange(len(b)) for _, b in network[:-1]]


def permuted(network: Layers, orders: Orders) -> Layers:
    """The same function with reordered units."""
    whole = [np.arange(network[0][0].shape[1]), *orders, np.arange(len(network[-1][1]))]
    return [(w[np.ix_(whole[i + 1], whole[i])], b[whole[i + 1]]) for i, (w, b) in enumerate(network)]


def mixture(first: Layers, second: Layers, at: float) -> Layers:
    return [((1 - at) * v + at * w, (1 - at) * a + at * b) for (v, a), (w, b) in zip(first, second, strict=True)]


def flat(network: Layers) -> np.ndarray:
    return np.concatenate([part.ravel() for layer in network for part in layer])


def loss(network: Layers, x: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log-likelihood of the classes."""
    for number, (w, b) in enumerate(network):
        x = x @ w.T.astype(x.dtype) + b.astype(x.dtype)
        x = np.maximum(x, 0) if number < len(network) - 1 else x
    return float(-log_softmax(x.astype(np.float64), axis=1)[np.arange(len(y)), y].mean())


# Methods of others


def git_re_basin(first: Layers, second: Layers, seed: int) -> Orders:
    """Weight matching (Ainsworth et al. 2023, algorithm 1): layers in random order, until no assignment gains."""
    generator = np.random.default_rng(seed)
    orders, gained = identity(second), True
    while gained:
        gained = False
        for layer in generator.permutation(len(orders)).tolist():
            free = [*orders[:layer], np.arange(len(orders[layer])), *orders[layer + 1 :]]
            moved = permuted(second, free)
            (w, b), (v, a) = first[layer], moved[layer]
            gain = w @ v.T + np.outer(b, a) + first[layer + 1][0].T @ moved[layer + 1][0]
            best = linear_sum_assignment(gain, maximize=True)[1]
            places = np.arange(len(best))
            if gain[places, best].sum() > gain[places, orders[layer]].sum() + 1e-9:
                orders[layer], gained = best, True
    return orders


def annealed(first: Layers, second: Layers, x: np.ndarray, y: np.ndarray, swaps: int, seed: int) -> Orders:
    """Swaps of two units, accepted by the loss of the midpoint (simulated annealing, as in Entezari et al. 2022).

    The temperature falls from 0.1 to 0.0001 nats; the best orders that were met are kept.
    """
    generator = np.random.default_rng(seed)
    orders = identity(second)
    present = loss(mixture(first, permuted(second, orders), 0.5), x, y)
    best, least = [order.copy() for order in orders], present
    for temperature in np.geomspace(1e-1, 1e-4, swaps):
        layer = generator.integers(len(orders))
        i, j = generator.choice(len(orders[layer]), size=2, replace=False)
        orders[layer][[i, j]] = orders[layer][[j, i]]
        trial = loss(mixture(first, permuted(second, orders), 0.5), x, y)
        if trial <= present or generator.random() < np.exp((present - trial) / temperature):
            present = trial
            if present < least:
                best, least = [order.copy() for order in orders], present
        else:
            orders[layer][[i, j]] = orders[layer][[j, i]]
    return best


Matrices = list[list[np.ndarray]]
"""Of every network, a matrix for each layer."""
STEPS = 100
"""Largest number of steps of Frank-Wolfe."""


def cycle_consistent(networks: list[Layers]) -> list[Orders]:
    """Permutations of all networks into one space at once, by Frank-Wolfe (C2M3, Crisostomi et al. 2024).

    With X doubly stochastic matrices, it maximises the sum over pairs of networks and over layers of
    <X_a W_a X'_a, X_b W_b X'_b>, steps to the best vertex as far as a line search says, and ends with assignments.
    """
    weights = [[np.column_stack(layer) for layer in network] for network in networks]
    depth = len(networks[0]) - 1
    present = [[np.eye(len(b)) for _, b in network[:-1]] for network in networks]

    def moved(x: Matrices) -> Matrices:
        """The layers of every network in the common space, each with its bias as one more column."""
        return [
            [_left(mine, i, w) @ _right(mine, i, w.shape[1]).T for i, w in enumerate(layers)]
            for mine, layers in zip(x, weights, strict=True)
        ]

    def value(x: Matrices) -> float:
        space = moved(x)
        total = [sum(each[i] for each in space) for i in range(depth + 1)]
        own = sum(float((layer**2).sum()) for each in space for layer in each)
        return 0.5 * (sum(float((layer**2).sum()) for layer in total) - own)

    def gradient(x: Matrices) -> Matrices:
        space = moved(x)
        slopes = []
        for mine, own, layers in zip(x, space, weights, strict=True):
            others = [sum(each[i] for each in space) - own[i] for i in range(depth + 1)]
            slopes.append([
                others[i] @ (layers[i] @ _right(mine, i, layers[i].shape[1]).T).T
                + others[i + 1][:, :-1].T @ _left(mine, i + 1, layers[i + 1])[:, :-1]
                for i in range(depth)
            ])  # fmt: skip
        return slopes

    def vertices(slopes: Matrices) -> Matrices:
        return [[np.eye(len(s))[linear_sum_assignment(s, maximize=True)[1]] for s in each] for each in slopes]

    def between(x: Matrices, to: Matrices, at: float) -> Matrices:
        return [[(1 - at) * a + at * b for a, b in zip(*both, strict=True)] for both in zip(x, to, strict=True)]

    for _ in range(STEPS):
        to = vertices(gradient(present))
        shares = np.linspace(0, 1, 21)
        values = [value(between(present, to, at)) for at in shares]
        best = int(np.argmax(values))
        if values[best] <= values[0] * (1 + 1e-9):
            break
        present = between(present, to, float(shares[best]))
    return [[linear_sum_assignment(m, maximize=True)[1] for m in each] for each in present]


def _left(matrices: list[np.ndarray], layer: int, w: np.ndarray) -> np.ndarray:
    """A layer with its outputs moved; those of the network stay."""
    return matrices[layer] @ w if layer < len(matrices) else w


def _right(matrices: list[np.ndarray], layer: int, width: int) -> np.ndarray:
    """The matrix of a layer's inputs, with one more for the bias; those of the network stay."""
    result = np.eye(width)
    if layer:
        result[:-1, :-1] = matrices[layer - 1]
    return result


# This library


def vector(network: Layers) -> np.ndarray:
    """The parameters in the order of the library."""
    symmetry = of_library(network)[1]
    theta = np.zeros(symmetry.layout.size, np.float32)
    arrays = symmetry.layout.unflatten(theta)
    for number, (w, b) in enumerate(network):
        arrays[f"layer{number}.weight"][:], arrays[f"layer{number}.bias"][:] = w, b
    return theta


def layers_of(theta: np.ndarray, like: Layers) -> Layers:
    arrays = of_library(like)[1].layout.unflatten(theta)
    return [(arrays[f"layer{n}.weight"], arrays[f"layer{n}.bias"]) for n in range(len(like))]


def of_library(network: Layers) -> tuple["MLPConfig", "Symmetry"]:
    """Settings and symmetry of a network."""
    from bnn_atlas.config.parts.posterior import MLPConfig
    from bnn_atlas.models.networks import build_network
    from bnn_atlas.symmetry.groups import symmetry_of

    config = MLPConfig(hidden=tuple(len(b) for _, b in network[:-1]))
    layout = build_network(config, (network[0][0].shape[1],), len(network[-1][1])).layout
    return config, symmetry_of(config, layout)


def ours(first: Layers, second: Layers, x: np.ndarray, statistic: "Statistic | None", orders: int) -> Orders:
    from bnn_atlas.symmetry.features import activation_features, weight_features
    from bnn_atlas.symmetry.matching import match_networks

    config, symmetry = of_library(first)
    features = weight_features(symmetry)
    if statistic is not None:
        features = activation_features(config, symmetry, x.shape[1:], x, statistic, outputs=len(first[-1][1]))
    found = match_networks(features, vector(first), vector(second)[None], orders=orders)
    return [part.astype(np.int64) for part in symmetry.split(found.units[0])]


def our_barycentre(networks: list[Layers]) -> list[Orders]:
    from bnn_atlas.symmetry.features import weight_features
    from bnn_atlas.symmetry.matching import barycentre

    _, symmetry = of_library(networks[0])
    rows = np.stack([vector(each) for each in networks])
    found = barycentre(weight_features(symmetry), rows, np.ones(len(rows)), orders=6)
    return [[part.astype(np.int64) for part in symmetry.split(units)] for units in found.matched.units]


def repairing(like: Layers, x: np.ndarray) -> Callable[[Layers, Layers, np.ndarray, list[Layers]], list[Layers]]:
    from bnn_atlas.symmetry.barriers import Repair

    config, symmetry = of_library(like)
    repair = Repair(config, symmetry, x.shape[1:], x, outputs=len(like[-1][1]))

    def line(first: Layers, second: Layers, points: np.ndarray, mixed: list[Layers]) -> list[Layers]:
        between = np.stack([vector(each) for each in mixed])
        return [layers_of(theta, like) for theta in repair.line(vector(first), vector(second), points, between)]

    return line


def picture(table: pd.DataFrame, path: Path) -> None:
    """Barriers of every method, means over the pairs with standard errors, also with REPAIR."""
    from matplotlib.figure import Figure

    from bnn_atlas.figures import style

    groups = table.groupby("method", sort=False)
    names = list(groups.groups)
    looks = {"barrier": ("on the line", "o", style.BLUE), "barrier_repaired": ("with REPAIR", "s", style.VERMILION)}
    with style.context():
        figure = Figure(figsize=(style.TEXT_WIDTH, 0.28 * len(names) + 0.8), layout="constrained")
        ax = figure.subplots()
        for shift, (column, (label, marker, colour)) in zip((-0.12, 0.12), looks.items(), strict=True):
            mean, error = groups[column].mean()[names], groups[column].sem()[names]
            at = np.arange(len(names)) + shift
            ax.errorbar(mean, at, xerr=error, fmt=marker, color=colour, label=label, ms=4, lw=1)
        ax.set(yticks=range(len(names)), yticklabels=names, xlabel="barrier of the training loss (nats)", xscale="log")
        ticks = [0.05, 0.1, 0.2, 0.5, 1.0]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.set_xticks([], minor=True)
        ax.invert_yaxis()
        ax.legend(loc="lower right")
        figure.savefig(path, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
