"""Compares the forms of the entropy with the exact entropy, at a stored fit."""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from bnn_atlas.config.methods.implicit import EntropyConfig, PublishedEntropy, SmallestEntropy
from bnn_atlas.methods.implicit.entropy import (
    Place,
    Published,
    Smallest,
    build_form,
    memory_of,
    products_at,
    values_after,
)
from bnn_atlas.methods.implicit.family import Fitted
from bnn_atlas.methods.implicit.generators import Generator, Map, Tree

STEPS = (2, 5, 10, 20)
ITERATIONS = {"smallest": (1, 3, 10, 30), "published": (1, 3, 5, 10)}
PLACES, REPEATS = 3, 20
"""Number of noise vectors z at which the forms are compared, and number of random starts of each form at each z."""
MEMORY_MB = 4000


class Compared(NamedTuple):
    """One form with one setting, summarised over all noise vectors and random starts."""

    form: str
    setting: int
    """Number of steps or iterations."""
    products: int
    """Number of products with J and J' needed for one value."""
    exact: float
    """1/2 log det(J'J + sigma^2 I), or 1/2 log det(J'S^-2 J + I) for a learned spread, mean over noise vectors."""
    error: float
    """Mean difference between the value and the exact value."""
    sd: float
    """Standard deviation of that difference over random starts: the root of the mean variance at a noise vector."""
    stated_sd: float
    """Root mean square of the standard deviations over probes that the form reports; NaN if it reports none."""
    bracket: float
    """Mean bracket: how much too large a value may be because of too few steps, as reported by the form; NaN for
    `published`."""


def compared(fit: Fitted, seed: int) -> list[Compared]:
    """Rows for the published form, the smallest singular value and Lanczos, each with increasing numbers of products.

    A form that does not suit the generator (`entropy.build_form`) or a learned spread has no rows.

    Raises:
        ValueError: the exact value would take too much memory.
    """
    generator = fit.family.generator
    dtype = np.dtype(fit.q.dtype)
    if (needed := memory_of(generator, dtype)) > MEMORY_MB:
        raise ValueError(
            f"the comparison needs the exact entropy, which takes about {needed:,.0f} MB for a generator with "
            f"{fit.family.noise:,} noise numbers, but at most {MEMORY_MB:,} are allowed: compare the entropies of a "
            "run with a smaller generator"
        )
    places_key, starts_key = jax.random.split(jax.random.key(seed))
    place = jax.jit(lambda key: fit.family.draw_noise(key, fit.q).z)
    places = [place(key) for key in jax.random.split(places_key, PLACES)]
    scaled, values, sigma = fit.family.scaled(fit.q)
    spectrum = jax.jit(lambda z: jnp.linalg.eigvalsh(scaled.gram(values, scaled.squares(values), z)))
    spectra = [np.maximum(np.asarray(spectrum(z), np.float64), 0) for z in places]
    exact = np.array([0.5 * np.log(one + sigma**2).sum() for one in spectra])
    keys = jax.random.split(starts_key, REPEATS)
    rows = []
    for form in _forms(generator, dtype, fixed=fit.family.owner is None):

        @jax.jit
        def over_keys(z: Array, form: "_Form" = form) -> Values:
            return jax.lax.map(lambda key: form.values(key, scaled, values, z, sigma), keys)

        found, stated, bracket = (np.stack(part).astype(float) for part in zip(*map(over_keys, places), strict=True))
        off = found - exact[:, None, None]
        rows += [
            Compared(
                form.name,
                setting,
                form.products(setting),
                float(exact.mean()),
                float(off[..., n].mean()),
                float(np.sqrt(off[..., n].var(axis=1, ddof=1).mean())),
                float(np.sqrt(np.mean(stated[..., n] ** 2))),
                float(bracket[..., n].mean()),
            )
            for n, setting in enumerate(form.settings)
        ]
    return rows


Values = tuple[Array, Array, Array]
"""Values [setting] of a form, with the standard deviations and brackets that the form reports."""


class _Form(NamedTuple):
    """A form with several settings, computed by one program."""

    name: str
    settings: tuple[int, ...]
    values: Callable[[Array, Map, Tree, Array, float], Values]
    """(key, generator, parameters of the generator, z, sigma) -> values."""
    products: Callable[[int], int]
    """Setting -> number of products with J and J' needed for one value."""


def _forms(generator: Generator, dtype: np.dtype, *, fixed: bool) -> list[_Form]:
    noise = prod(generator.shape)
    steps = tuple(s for s in STEPS if s <= noise) or (noise,)

    def lanczos(key: Array, generator: Map, values: Tree, z: Array, sigma: float) -> Values:
        found = values_after(steps, key, z, products_at(generator, values, z), sigma)
        return found.value, jnp.sqrt(found.variance), found.bracket

    found = [_Form("lanczos", steps, lanczos, lambda steps: 2 * steps)]
    if _suits(SmallestEntropy(), generator, dtype):
        smallest = _searching(Smallest(1, 0.1), "smallest")
        found.append(_Form("smallest", ITERATIONS["smallest"], smallest, lambda n: 5 * n + 2))
    if fixed and _suits(PublishedEntropy(), generator, dtype):
        published = _searching(Published(1, generator.noise_rows), "published")
        found.append(_Form("published", ITERATIONS["published"], published, lambda n: 6 * n + 1))
    return found


def _suits(config: EntropyConfig, generator: Generator, dtype: np.dtype) -> bool:
    try:
        build_form(config, generator, dtype)
    except ValueError:
        return False
    return True


def _searching(form: Smallest | Published, name: str) -> Callable[..., Values]:
    """Values of a form after each of the numbers of iterations."""

    def values(key: Array, generator: Map, values: Tree, z: Array, sigma: float) -> Values:
        first, second = jax.random.split(key)

        def after(iterations: Any) -> Values:
            several = form._replace(iterations=iterations)
            place = Place(generator, values, several.shared(generator, values), z, sigma)
            found, report = several.half_log_det(second, place, form.start(first, z))
            return found, report.error, report.bracket

        return jax.lax.map(after, jnp.asarray(ITERATIONS[name]))

    return values
