"""The forms of the entropy beside the exact value, at a fit that is kept."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import Form
from bnn_atlas.methods.implicit.entropy.exact import check_memory
from bnn_atlas.methods.implicit.entropy.lanczos import Lanczos
from bnn_atlas.methods.implicit.entropy.published import Published
from bnn_atlas.methods.implicit.entropy.smallest import Smallest
from bnn_atlas.methods.implicit.fitted import Fitted

STEPS = (2, 5, 10, 20)
ITERATIONS = {"smallest": (1, 3, 10, 30), "published": (1, 3, 5, 10)}
PLACES, REPEATS = 3, 20
"""Noise vectors z at which the forms are compared, and random starts of each form at each z."""
MEMORY_MB = 4000


class Compared(NamedTuple):
    """A form with one setting: what it gives over all places and random starts."""

    form: str
    setting: int
    """Steps or iterations."""
    products: int
    """Products with J and with J' that a value takes."""
    exact: float
    """1/2 log det(J'J + sigma^2 I), mean over places."""
    error: float
    """Mean of value less exact value."""
    sd: float
    """Standard deviation of that difference over random starts, root of the mean variance at a place."""
    stated: float
    """Error that the form states of itself, root mean square; NaN for the published one."""


def compared(fit: Fitted, seed: int) -> list[Compared]:
    """Rows for the published form, the smallest singular value and Lanczos, each from few to many products.

    Raises:
        ValueError: the exact value would take too much memory.
    """
    generator, values, sigma = fit.family.generator, fit.family.tree(fit.q.generator), fit.family.sigma
    check_memory(generator, np.dtype(fit.q.generator.dtype), MEMORY_MB)
    places_key, starts_key = jax.random.split(jax.random.key(seed))
    places = [fit.family.draw_noise(key, fit.q.generator).z for key in jax.random.split(places_key, PLACES)]
    spectrum = jax.jit(lambda z: jnp.linalg.eigvalsh(generator.gram(values, z)))
    spectra = [np.maximum(np.asarray(spectrum(z), np.float64), 0) for z in places]
    exact = np.array([0.5 * np.log(one + sigma**2).sum() for one in spectra])
    keys = jax.random.split(starts_key, REPEATS)
    rows = []
    for name, settings, make, products in _forms(fit.family.noise):

        def value(key: Array, z: Array, setting: Any, make: Callable[[Any], Form] = make) -> tuple[Array, Array]:
            first, second = jax.random.split(key)
            form = make(setting)
            found, report = form.half_log_det(second, generator, values, z, sigma, form.start(first, z))
            return found, report.error

        def over_keys(z: Array, setting: Any, value: Callable[..., Any] = value) -> tuple[Array, Array]:
            return jax.lax.map(lambda key: value(key, z, setting), keys)

        # Lanczos has arrays of its number of steps, so each number is a program of its own.
        program = jax.jit(over_keys, static_argnums=(1,) if name == "lanczos" else ())
        for setting in settings:
            found, stated = (np.stack(part) for part in zip(*(program(z, setting) for z in places), strict=True))
            off = np.asarray(found, np.float64) - exact[:, None]
            rows.append(
                Compared(
                    name,
                    setting,
                    products(setting),
                    float(exact.mean()),
                    float(off.mean()),
                    float(np.sqrt(off.var(axis=1, ddof=1).mean())),
                    float(np.sqrt(np.mean(np.asarray(stated, np.float64) ** 2))),
                )
            )
    return rows


def _forms(noise: int) -> Iterator[tuple[str, list[int], Callable[[Any], Form], Callable[[int], int]]]:
    """Name, settings, form of a setting, and products that it takes."""
    yield "lanczos", [s for s in STEPS if s <= noise], lambda steps: Lanczos(steps, 1), lambda steps: 2 * steps
    yield "smallest", list(ITERATIONS["smallest"]), lambda n: Smallest(n, 0.1), lambda n: 5 * n + 2
    yield "published", list(ITERATIONS["published"]), Published, lambda n: 6 * n + 1
