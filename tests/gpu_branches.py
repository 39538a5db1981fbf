"""Every method, model, likelihood and other program with the branches that a GPU takes: all chains in one batch.

As a program, it runs them on a device and stores their results, to be compared with another device's:
`python -m tests.gpu_branches gpu results.npz`, then the same with `cpu`.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, np.ndarray]
TOLERANCE = 1e-3
"""Of an array's largest value: in single precision, a few hundred operations stay far below it."""
TUNED = {"method: hmc": 0.05, "method: adjusted mclmc": 0.05, "method: mclmc": 0.05}
"""The same where tuning makes rounding larger."""
UNCOMPARED = ("method: mclmc, tuned by blackjax|", "|entropy_bracket", ".inputs", ".outputs")
"""Parts of the names of arrays that two CPUs can compute differently, too: BlackJAX's tuning leaves no digit after a
few steps, brackets of an exact value are its rounding, and eigenvectors have any sign."""
NOT_YET = ("method: smile", "method: baoab", "method: low-rank normal, best of two")
"""Programs that have not run on a GPU."""


def programs() -> dict[str, Callable[[Path], Results]]:
    """Name -> function of an empty folder that runs it and returns its numbers."""
    from bnn_atlas.config.methods.gaussian import LaplaceConfig
    from bnn_atlas.config.parts import posterior as parts

    from .methods.harness import SMALL

    laplace = ("full", "last_layer", "diagonal", "kronecker")
    methods = SMALL | {f"laplace, {name}": LaplaceConfig(structure=name, map_steps=0, steps=5) for name in laplace}
    methods |= implicit()
    image, text = (16, 16, 1), (12,)
    models: dict[str, tuple[Any, tuple[int, ...]]] = {
        "mlp": (parts.MLPConfig(hidden=(8, 8)), (5,)),
        "lenet": (parts.LeNetConfig(), image),
        "lenet5": (parts.LeNet5Config(), (28, 28, 1)),
        "lenet5, max": (parts.LeNet5MaxConfig(), (28, 28, 1)),
        "lenetti": (parts.LeNettiConfig(), image),
        "resnet": (parts.ResNetFRNConfig(depth=8), image),
        "wide resnet": (parts.WideResNetFRNConfig(depth=10, widen=1), image),
        "cnn-lstm": (parts.CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=2, cells=3), text),
    }
    likelihoods = {
        "gaussian": parts.GaussianLikelihood(sigma=0.3),
        "learned noise": parts.LearnedNoiseLikelihood(),
        "heteroscedastic": parts.HeteroscedasticLikelihood(),
        "categorical": parts.CategoricalLikelihood(),
    }
    return {
        **{f"method: {name}": partial(method, config) for name, config in methods.items()},
        **{f"model: {name}": partial(model, *of) for name, of in models.items()},
        **{f"likelihood: {name}": partial(likelihood, config) for name, config in likelihoods.items()},
        "warm start": warm_start,
        "plane": plane,
    }


def implicit() -> dict[str, Any]:
    """Implicit fits with every estimate of the entropy and every generator."""
    from bnn_atlas.config.methods import implicit as config

    base = {"epochs": 3, "batch_size": 10, "samples": 2, "steps": 3}
    small = config.MLPGenerator(noise=4, hidden=(4,))
    lanczos = config.LanczosEntropy(steps=3)
    entropies = (config.ExactEntropy(), lanczos, config.SmallestEntropy(), config.PublishedEntropy())
    matrices = config.MatrixGenerator(noise=(2, 3), hidden=((4, 4),))
    factorised = config.FactorisedGenerator(parts=(small,))
    return {
        **{f"implicit, {e.kind}": config.ImplicitConfig(generator=small, entropy=e, **base) for e in entropies},
        **{
            f"implicit, {g.kind}": config.ImplicitConfig(generator=g, entropy=lanczos, **base)
            for g in (matrices, factorised)
        },
    }


def method(config: Any, folder: Path) -> Results:
    """Draws, densities and fits of three chains, through start, phases, checkpoints and trace."""
    from .methods.harness import build
    from .methods.problems import linear, network
    from .methods.running import run

    problem = linear(3).problem if config.kind == "laplace" else network(3)
    trace = run(build(config, problem), problem, folder / "trace.zarr")
    with np.load(folder / "fit.npz") as fit:
        return {"draws": trace.read(), **{name: trace.statistic(name) for name in trace.statistics}, **fit}


def model(config: Any, shape: tuple[int, ...], folder: Path) -> Results:
    """Densities, gradients and predictions of three networks with two classes."""
    from bnn_atlas.config.parts.posterior import CategoricalLikelihood

    return network_of(config, CategoricalLikelihood(), shape)


def likelihood(config: Any, folder: Path) -> Results:
    """The same of small dense networks with this likelihood."""
    from bnn_atlas.config.parts.posterior import MLPConfig

    return network_of(MLPConfig(hidden=(6,)), config, (5,))


def network_of(config: Any, of: Any, shape: tuple[int, ...]) -> Results:
    import jax

    from bnn_atlas.config.parts.posterior import CategoricalLikelihood, CNNLSTMConfig
    from bnn_atlas.config.parts.priors import StandardNormalPrior
    from bnn_atlas.inference.problem import Predictor
    from bnn_atlas.placement import Placement
    from bnn_atlas.posterior.density import binder, build_posterior, posterior_data

    rng, chains, rows = np.random.default_rng(0), 3, 12
    vocabulary = 20 if isinstance(config, CNNLSTMConfig) else 0
    classes = 2 if isinstance(of, CategoricalLikelihood) else 0
    x = rng.integers(vocabulary, size=(rows, *shape)) if vocabulary else rng.normal(size=(rows, *shape))
    y = rng.integers(classes, size=rows) if classes else rng.normal(size=rows)
    about = {"shape": shape, "classes": classes, "vocabulary": vocabulary}
    posterior, prior = build_posterior(config, of, StandardNormalPrior(), temperature=1.0, **about)
    data = posterior_data(x, y, prior, vocabulary=vocabulary)
    theta = np.stack([posterior.network.initialise(jax.random.key(chain)) for chain in range(chains)])
    theta = np.pad(theta, ((0, 0), (0, posterior.layout.size - theta.shape[1])))
    bind, place = binder(posterior), Placement(chains)
    evaluation = place.get(
        place.map(lambda data, theta: bind(data).evaluate(theta))(place.share(data), place.put(theta))
    )
    predicted = Predictor(posterior, data, 1e9)(theta, x if vocabulary else x.astype(np.float32))
    arrays = {**evaluation.density._asdict(), "gradient": evaluation.gradient, **predicted._asdict()}
    return {name: np.asarray(array) for name, array in arrays.items() if array is not None}


def warm_start(folder: Path) -> Results:
    """A deep ensemble with early stopping."""
    from jax import numpy as jnp

    from bnn_atlas.config.parts.starts import WarmStartConfig
    from bnn_atlas.warmstart.ensemble import Rows, train_ensemble

    from .methods.problems import network

    problem = network(3)
    x, y = problem.data.x, problem.data.y
    rows = Rows(x, y, jnp.asarray(x[:20]), jnp.asarray(y[:20]))
    config = WarmStartConfig(max_epochs=5, batch_size=16)
    return {
        k: np.asarray(v) for k, v in train_ensemble(problem.posterior, config, rows, np.arange(3), 0)._asdict().items()
    }


def plane(folder: Path) -> Results:
    """Densities on a plane through three networks."""
    from bnn_atlas.inference.surfaces import densities_on, plane_through

    from .methods.problems import network

    problem = network(3)
    through = plane_through(problem.starts)
    coordinates = np.random.default_rng(0).normal(size=(40, 2))
    return densities_on(problem.posterior, problem.data, through, coordinates)._asdict()


def differences(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Array -> largest difference of two devices relative to its largest value, where it is no rounding or missing."""
    found = dict.fromkeys(left.keys() ^ right.keys(), np.inf)
    for name in left.keys() & right.keys():
        most = TUNED.get(name.partition("|")[0], TOLERANCE)
        if not any(part in name for part in UNCOMPARED) and not (value := distance(left[name], right[name])) < most:
            found[name] = value
    return found


def distance(left: np.ndarray, right: np.ndarray) -> float:
    """Largest difference relative to the largest value; NaN agrees with NaN."""
    if not left.size:
        return 0.0
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    left, right = left.astype(float), right.astype(float)
    largest = np.abs(right[np.isfinite(right)]).max(initial=1e-6)
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(left - right)).max() / largest)


def main(device: str, destination: str, share: str = "0/1") -> None:
    """Run every program of a share (`0/4`: each fourth from the first on) on a device and store `program|array`."""
    from bnn_atlas import runtime

    runtime.configure(threads=1, device=device)
    runtime.on_cpu = lambda: False
    stored: Results = {}
    first, step = map(int, share.split("/"))
    for name, program in list(programs().items())[first::step]:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            stored |= {f"{name}|{key}": np.asarray(array) for key, array in program(Path(folder)).items()}
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
    np.savez(destination, **stored)


if __name__ == "__main__":
    main(*sys.argv[1:])
