"""The forms of the entropy beside the exact value, at a fit that is kept."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.methods.implicit.entropy.base import products_at
from bnn_atlas.methods.implicit.entropy.exact import check_memory
from bnn_atlas.methods.implicit.entropy.lanczos import values_after
from bnn_atlas.methods.implicit.entropy.published import Published
from bnn_atlas.methods.implicit.entropy.smallest import Smallest
from bnn_atlas.methods.implicit.fitted import Fitted
from bnn_atlas.methods.implicit.generators.base import Generator, Tree

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
    generator, values, sigma = fit.family.generator, fit.family.tree(fit.q), fit.family.sigma
    check_memory(generator, np.dtype(fit.q.dtype), MEMORY_MB)
    places_key, starts_key = jax.random.split(jax.random.key(seed))
    place = jax.jit(lambda key: fit.family.draw_noise(key, fit.q).z)
    places = [place(key) for key in jax.random.split(places_key, PLACES)]
    spectrum = jax.jit(lambda z: jnp.linalg.eigvalsh(generator.gram(values, z)))
    spectra = [np.maximum(np.asarray(spectrum(z), np.float64), 0) for z in places]
    exact = np.array([0.5 * np.log(one + sigma**2).sum() for one in spectra])
    keys = jax.random.split(starts_key, REPEATS)
    rows = []
    for form in _forms(fit.family.noise):

        @jax.jit
        def over_keys(z: Array, form: "_Form" = form) -> tuple[Array, Array]:
            return jax.lax.map(lambda key: form.values(key, generator, values, z, sigma), keys)

        found, stated = (np.stack(part) for part in zip(*map(over_keys, places), strict=True))
        off = np.asarray(found, np.float64) - exact[:, None, None]
        rows += [
            Compared(
                form.name,
                setting,
                form.products(setting),
                float(exact.mean()),
                float(off[..., n].mean()),
                float(np.sqrt(off[..., n].var(axis=1, ddof=1).mean())),
                float(np.sqrt(np.mean(np.asarray(stated[..., n], np.float64) ** 2))),
            )
            for n, setting in enumerate(form.settings)
        ]
    return rows


class _Form(NamedTuple):
    """A form with several settings, whose values one program has."""

    name: str
    settings: tuple[int, ...]
    values: Callable[[Array, Generator, Tree, Array, float], tuple[Array, Array]]
    """(key, generator, its parameters, z, sigma) -> values and stated errors [setting]."""
    products: Callable[[int], int]
    """Products with J and with J' that a setting takes."""


def _forms(noise: int) -> list[_Form]:
    steps = tuple(s for s in STEPS if s <= noise)

    def lanczos(key: Array, generator: Generator, values: Tree, z: Array, sigma: float) -> tuple[Array, Array]:
        found = values_after(steps, key, z, products_at(generator, values, z), sigma)
        return found.value, jnp.sqrt(found.variance)

    return [
        _Form("lanczos", steps, lanczos, lambda steps: 2 * steps),
        _Form("smallest", ITERATIONS["smallest"], _searching(Smallest(1, 0.1), "smallest"), lambda n: 5 * n + 2),
        _Form("published", ITERATIONS["published"], _searching(Published(1), "published"), lambda n: 6 * n + 1),
    ]


def _searching(form: Smallest | Published, name: str) -> Callable[..., tuple[Array, Array]]:
    """Values of a form after each of its numbers of iterations."""

    def values(key: Array, generator: Generator, values: Tree, z: Array, sigma: float) -> tuple[Array, Array]:
        first, second = jax.random.split(key)

        def after(iterations: Any) -> tuple[Array, Array]:
            several = form._replace(iterations=iterations)
            found, report = several.half_log_det(second, generator, values, z, sigma, form.start(first, z))
            return found, report.error

        return jax.lax.map(after, jnp.asarray(ITERATIONS[name]))

    return values
