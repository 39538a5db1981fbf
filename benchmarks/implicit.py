"""What a step of implicit variational inference costs with each form of the entropy, and how much memory it takes.

Whole steps on the toy of two sinusoids (7-10 elu, 70 rows, 3 samples) and on a UCI regression (50 relu, 927 rows of 8
inputs, 2 samples), compared with steps of mean field and IVON; and the entropy alone, with its gradient, of the
generators of a 784-400-400-10 network. Times are CPU times of all threads together on one core. Memory is what the
compiled program takes beside its arguments, and what a Jacobian, D x d numbers, would take, which is never formed.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from bnn_atlas.runtime import configure
from machine import matmul_gflops, processor

# One core for all threads, or those that spin while they wait for work would be counted.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
configure(1)

import jax
import jax.numpy as jnp
import numpy as np

from bnn_atlas.config.methods.gaussian import IVONConfig, MeanFieldConfig
from bnn_atlas.config.methods.implicit import (
    EntropyConfig,
    ExactEntropy,
    GeneratorConfig,
    ImplicitConfig,
    LanczosEntropy,
    MatrixGenerator,
    MLPGenerator,
    PublishedEntropy,
    SmallestEntropy,
)
from bnn_atlas.config.methods.optimisation import AdamConfig
from bnn_atlas.config.parts.posterior import LearnedNoiseLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.keys import step_key
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.implicit.entropy import Place, build_form
from bnn_atlas.methods.implicit.fitting import build_implicit
from bnn_atlas.methods.implicit.generators import build_generator
from bnn_atlas.methods.ivon import build_ivon
from bnn_atlas.methods.mean_field import build_mean_field
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior.density import binder, build_posterior, posterior_data

RESULT = Path(__file__).parent / "results" / "implicit.csv"
FORMS: dict[str, EntropyConfig] = {
    "exact": ExactEntropy(memory_mb=100_000),
    "Lanczos, 10 steps": LanczosEntropy(),
    "smallest, 3 iterations": SmallestEntropy(),
    "as published, 5 iterations": PublishedEntropy(),
}
SPREAD = ", spread of each weight learned"
"""Follows the name of a form in whole steps with such a spread; the published form has none."""
NORMAL: dict[str, Callable[..., Method]] = {
    "mean field": lambda settings, *problem: build_mean_field(MeanFieldConfig(**settings), *problem),
    "IVON": lambda settings, *problem: build_ivon(IVONConfig(**settings), *problem),
}
"""Methods without a generator, timed in whole steps."""
STEPS = 200


class Work(NamedTuple):
    """A generator of the weights of a 784-400-400-10 network, and the forms that are timed."""

    generator: GeneratorConfig
    forms: tuple[str, ...]


class Fit(NamedTuple):
    """A regression with learned noise, and the settings of the fit whose steps are timed."""

    x: np.ndarray
    y: np.ndarray
    model: MLPConfig
    prior_variance: float
    noise: int
    hidden: int
    sigma: float
    samples: int


def toy() -> Fit:
    """The toy of two sinusoids: 105 weights."""
    x = np.linspace(-1, 1, 70)[:, None]
    y = x[:, 0] + 0.8 * np.sin(2 * np.pi * x[:, 0])
    return Fit(x, y, MLPConfig(hidden=(7, 10), activation="elu"), 10, 60, 105, 0.009, 3)


def uci() -> Fit:
    """Rows like those of concrete: 501 weights."""
    x = np.random.default_rng(0).normal(size=(927, 8))
    return Fit(x, np.sin(x[:, 0]), MLPConfig(hidden=(50,), activation="relu"), 1, 40, 100, 0.003, 2)


FITS = {"toy": toy, "UCI": uci}
WEIGHTS = 478_410
WORKS = {
    "MM 20x20": Work(MatrixGenerator(noise=(20, 20), hidden=((100, 100),) * 3, output=(957, 500)), tuple(FORMS)),
    "MM 40x40": Work(MatrixGenerator(noise=(40, 40), hidden=((420, 420),) * 3, output=(957, 500)), tuple(FORMS)[1:]),
}


class Timed(NamedTuple):
    """A compiled call, its runs of the work, and the memory beside its arguments."""

    call: Callable[[], Any]
    runs: int
    megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--works", nargs="+", choices=[*FITS, *WORKS], help="default: all")
    parser.add_argument("--output", type=Path, help="default: results/implicit.csv; nothing with --works")
    options = parser.parse_args()
    chosen = options.works or [*FITS, *WORKS]
    rows = [row for name in chosen for row in measure(name, options.repeats)]
    output = options.output or (None if options.works else RESULT)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def measure(name: str, repeats: int) -> list[dict[str, object]]:
    """Milliseconds of each form, `repeats` times in turn."""
    if name in FITS:
        fit = FITS[name]()
        work, weights, noise = whole_steps(fit), network_size(fit), fit.noise
    else:
        work, weights, noise = entropies(WORKS[name]), WEIGHTS, prod(WORKS[name].generator.noise)
    rows: list[dict[str, object]] = []
    for repeat in range(repeats):
        products = matmul_gflops()
        for form, timed in work.items():
            begun = time.process_time()
            jax.block_until_ready(timed.call())
            milliseconds = (time.process_time() - begun) / timed.runs * 1e3
            rows.append(
                {
                    "repeat": repeat,
                    "work": name,
                    "weights": weights,
                    "noise": noise * (form not in NORMAL),
                    "form": form,
                    "milliseconds": round(milliseconds, 4),
                    "temporary_mb": round(timed.megabytes, 3),
                    "jacobian_mb": round(4e-6 * weights * noise, 3) * (form not in NORMAL),
                    "matmul_gflops": round(products, 1),
                    "processor": processor(),
                    "cores": 1,
                    "versions": ", ".join(f"{package} {version(package)}" for package in ("bnn-atlas", "jax")),
                }
            )
    print(f"{name}: {weights:,} weights, {noise:,} noise numbers")
    for form in work:
        values = [float(str(row["milliseconds"])) for row in rows if row["form"] == form]
        print(f"  {form:28} {np.median(values):10.3f} ms  {work[form].megabytes:10.2f} MB beside the arguments")
    return rows


def network_size(fit: Fit) -> int:
    """Number of weights of the network, without the noise of the targets."""
    return int(_posterior(fit)[0].layout.size) - 1


def _posterior(fit: Fit) -> Any:
    prior, shape = NormalPrior(variance=fit.prior_variance), fit.x.shape[1:]
    return build_posterior(fit.model, LearnedNoiseLikelihood(), prior, temperature=1.0, shape=shape)


def whole_steps(fit: Fit) -> dict[str, Timed]:
    """Steps of an implicit fit with each form, and of mean field and IVON on the same posterior."""
    posterior, prior = _posterior(fit)
    data, bind = posterior_data(fit.x, fit.y, prior), binder(posterior)
    start = jnp.zeros(posterior.layout.size)
    learned = {f"{form}{SPREAD}": entropy for form, entropy in FORMS.items() if entropy.kind in ("exact", "lanczos")}
    methods: dict[str, Method] = {}
    for form, entropy in (FORMS | learned).items():
        config = ImplicitConfig(
            generator=MLPGenerator(noise=fit.noise, hidden=(fit.hidden,)),
            noise="point",
            sigma=fit.sigma,
            learned_sigma="weight" if form.endswith(SPREAD) else None,
            entropy=entropy,
            samples=fit.samples,
            batch_size=None,
            optimiser=AdamConfig(),
        )
        methods[form] = build_implicit(config, posterior, data)
    shared: dict[str, Any] = {"samples": fit.samples, "batch_size": None}
    methods |= {name: build(shared, posterior, data) for name, build in NORMAL.items()}
    found = {}
    for form, method in methods.items():
        step = method.phases[0].step
        state = jax.jit(lambda data, method=method: method.init(jax.random.key(0), start, bind(data)))(data)

        def steps(state: Any, data: Any, step: Callable[..., Any] = step) -> Any:
            target = bind(data)

            def one(index: jax.Array, state: Any) -> Any:
                return step(step_key(jax.random.key(1), 0, index), index, state, target, ())[0]

            return jax.lax.fori_loop(0, STEPS, one, state)

        found[form] = _timed(steps, STEPS, state, data)
    return found


def entropies(work: Work) -> dict[str, Timed]:
    """Entropy and its gradient at one sample, with each form."""
    layout = Layout((Parameter("layer0.weight", (WEIGHTS,), "weight", 0, 1, 1),))
    generator = build_generator(work.generator, layout, np.arange(WEIGHTS))
    values = jax.jit(generator.start)(jax.random.key(0), jnp.zeros(WEIGHTS))
    z = jax.random.normal(jax.random.key(1), (prod(generator.shape),))
    found = {}
    for name in work.forms:
        form = build_form(FORMS[name], generator, np.dtype(np.float32))

        def value(values: Any, z: jax.Array, form: Any = form) -> Any:
            search = form.start(jax.random.key(2), z)
            place = Place(generator, values, form.shared(generator, values), z, 0.05)
            return form.half_log_det(jax.random.key(3), place, search)

        found[name] = _timed(jax.value_and_grad(value, has_aux=True), 1, values, z)
    return found


def _timed(function: Callable[..., Any], runs: int, *arguments: Any) -> Timed:
    compiled = jax.jit(function).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    return Timed(lambda: compiled(*arguments), runs, compiled.memory_analysis().temp_size_in_bytes / 1e6)


if __name__ == "__main__":
    main()
