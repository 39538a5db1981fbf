"""The fitted distribution: generated weights plus a little noise, and point estimates."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from jax.tree_util import keystr

from bnn_atlas.config.language.base import near_or_all
from bnn_atlas.config.methods.implicit import GeneratedConfig, ImplicitConfig, LearnedSigma
from bnn_atlas.methods.implicit.entropy import constant
from bnn_atlas.methods.implicit.generators import Generator, Map, Scaled, Tree, build_generator
from bnn_atlas.methods.noise import standard_normal
from bnn_atlas.methods.variational import noise_index
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.density import Posterior


class Noise(NamedTuple):
    """Standard normal numbers from which a draw is made."""

    z: Array
    """[d] input of the generator."""
    e: Array
    """[D]; s e, with the spread s, is added to the generated weights."""


@dataclass(frozen=True)
class Family:
    """theta [P] from generated weights [D] and points [r], the values of the scalars that are not generated.

    One vector q is learned: the generator's parameters in order, the logarithms of a learned spread, then the points. A
    step of the optimiser is then a single loop, which compiles quickly.
    """

    generator: Generator
    generated: np.ndarray
    """Indices [D] of the generated scalars."""
    points: np.ndarray
    """Indices [r] of the other scalars."""
    sigma: float
    """Standard deviation of the noise on the weights, or its start if it is learned."""
    noise_at: int | None
    """Index of the targets' log sigma if it is a point estimate, else None."""
    owner: np.ndarray | None = None
    """Number [D] of the learned standard deviation of each generated weight; None if none is learned."""

    @property
    def spreads(self) -> int:
        """Number of learned standard deviations."""
        return 0 if self.owner is None else int(self.owner.max()) + 1

    @property
    def noise(self) -> int:
        """d, the number of noise entries of the generator."""
        return prod(self.generator.shape)

    def start(self, key: Array, position: Array) -> Array:
        """The initial q of a fit that starts from a position [P]."""
        leaves = jax.tree.leaves(self.generator.start(key, position[self.generated]))
        spread = jnp.full(self.spreads, np.log(self.sigma), position.dtype)
        return jnp.concatenate([*(leaf.ravel() for leaf in leaves), spread, position[self.points]])

    def parts(self, q: Array) -> tuple[Tree, Array]:
        """Parameters of the generator by layer, and the points [r]."""
        *pieces, _, point = jnp.split(q, self._ends)
        shaped = [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
        return jax.tree.unflatten(self._started[1], shaped), point

    def tree(self, q: Array) -> Tree:
        """Parameters of the generator by layer."""
        return self.parts(q)[0]

    def spread(self, q: Array) -> Array | float:
        """s, the standard deviation of the noise: one number, or one for each generated weight [D]."""
        if self.owner is None:
            return self.sigma
        own = jnp.exp(jnp.split(q, self._ends)[-2])
        if self.spreads == 1:
            return own[0]
        return own[self.owner]

    def scaled(self, q: Array) -> tuple[Map, Tree, float]:
        """A map, its parameters and a sigma, whose 1/2 log det(J'J + sigma^2 I) is the first term of the entropy."""
        values, spread = self.tree(q), self.spread(q)
        if isinstance(spread, float):
            return self.generator, values, spread
        return Scaled(self.generator), (values, spread), 1.0

    def rest(self, q: Array) -> Array | float:
        """The other terms: (D - d) log sigma, or sum_i log s_i if s is learned, plus D/2 log(2 pi e)."""
        if self.owner is None:
            return constant(len(self.generated), self.noise, self.sigma)
        counts = np.bincount(self.owner).astype(q.dtype)
        return jnp.vdot(counts, jnp.split(q, self._ends)[-2]) + constant(len(self.owner), 0, 1.0)

    def named(self, q: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray | None, np.ndarray]:
        """The generator's parameters by name, a learned spread [D], and the points; on the host."""
        *pieces, logs, point = np.split(q, self._ends)
        named = zip(self.names, pieces, self.shapes, strict=True)
        spread = None if self.owner is None else np.exp(logs)[self.owner]
        return {name: piece.reshape(shape) for name, piece, shape in named}, spread, point

    @property
    def names(self) -> list[str]:
        """Names of the generator's parameters in their order in q, such as `branches.0.1.weight`."""
        return [keystr(path, simple=True, separator=".") for path, _ in self._started[0]]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the generator's parameters."""
        return [leaf.shape for _, leaf in self._started[0]]

    @property
    def _ends(self) -> list[int]:
        """Positions in q at which each parameter of the generator, and the learned spread, ends."""
        return np.cumsum([*map(prod, self.shapes), self.spreads]).tolist()

    @cached_property
    def _started(self) -> tuple[list[Any], Any]:
        """Paths, shapes and tree structure of the generator's parameters."""
        centre = jax.ShapeDtypeStruct((len(self.generated),), jnp.float32)
        started = jax.eval_shape(self.generator.start, jax.random.key(0), centre)
        return jax.tree.flatten_with_path(started)

    def draw_noise(self, key: Array, like: Array) -> Noise:
        """Noise for one draw, with the number type of `like`."""
        numbers = standard_normal(key, jnp.zeros(self.noise + len(self.generated), like.dtype))
        return Noise(numbers[: self.noise], numbers[self.noise :])

    def __call__(self, q: Array, noise: Noise) -> Array:
        """The draw theta: g(z) + s e for the generated scalars, and the points for the other scalars."""
        values, point = self.parts(q)
        weights = self.generator(values, noise.z) + self.spread(q) * noise.e
        if not len(self.points):
            return weights
        order = np.argsort(np.concatenate([self.generated, self.points]))
        whole = jnp.concatenate([weights, point])
        return whole if np.array_equal(order, np.arange(len(order))) else whole[order]


def build_family(config: ImplicitConfig, posterior: Posterior) -> Family:
    """Build the family from its settings.

    Raises:
        ValueError: nothing is generated; a layer, role or parameter does not exist; the generator does not suit the
            network; or in the same cases as `variational.noise_index`.
    """
    layout = posterior.layout
    generated = _selected(config.generated, layout)
    noise_at = noise_index(posterior) if config.noise == "point" else None
    if noise_at is not None:
        generated = generated[generated != noise_at]
    if not len(generated):
        if noise_at is not None and len(_selected(config.generated, layout)):
            raise ValueError(
                "`generated` selects only the noise of the targets, which `noise: point` fits as a number: add other "
                "parameters to `generated`, or leave `noise` out"
            )
        raise ValueError(
            "no parameter meets all conditions of `generated`, so nothing is generated: loosen these conditions, "
            "or leave `generated` out"
        )
    generator = build_generator(config.generator, layout, generated)
    points = np.setdiff1d(np.arange(layout.size), generated)
    return Family(generator, generated, points, config.sigma, noise_at, _owner(config.learned_sigma, layout, generated))


def _owner(learned: LearnedSigma | None, layout: Layout, generated: np.ndarray) -> np.ndarray | None:
    """Number [D] of the learned spread of each generated weight; parameters outside layers share one."""
    match learned:
        case None:
            return None
        case "one":
            return np.zeros(len(generated), int)
        case "weight":
            return np.arange(len(generated))
        case "layer":
            layers = [-1 if p.layer is None else p.layer for p in layout.parameters]
            of_all = np.repeat(layers, [p.size for p in layout.parameters])
            return np.unique(of_all[generated], return_inverse=True)[1]


def _selected(config: GeneratedConfig, layout: Layout) -> np.ndarray:
    there: dict[str, tuple[Any, list[Any]]] = {
        "layers": (config.layers, sorted({p.layer for p in layout.parameters if p.layer is not None})),
        "roles": (config.roles, sorted({p.role for p in layout.parameters})),
        "names": (config.names, [p.name for p in layout.parameters]),
    }
    for key, (wanted, known) in there.items():
        for one in wanted or ():
            if one not in known:
                hint = near_or_all(str(one), "there are", map(str, known))
                raise ValueError(f"generated.{key} has {one!r}, which this network does not have{hint}")
    return layout.select(config.names, config.roles, config.layers)


class FitError(ValueError):
    """Raised if arrays are not a fit with these settings."""


class Fitted(NamedTuple):
    """The distribution fitted by one chain."""

    family: Family
    q: Array

    def draws(self, key: Array, count: int) -> Array:
        """Independent draws theta [count, P]."""

        def draw(key: Array) -> Array:
            return self.family(self.q, self.family.draw_noise(key, self.q))

        return jax.lax.map(draw, jax.random.split(key, count))

    def squared_singular_values(self, key: Array) -> Array:
        """Eigenvalues [d] of J'J at a random z, in ascending order."""
        return self.spectrum_at(self.family.draw_noise(key, self.q).z)

    def spectrum_at(self, z: Array) -> Array:
        """Eigenvalues [d] of J'J at a given z [d], in ascending order."""
        generator, values = self.family.generator, self.family.tree(self.q)
        return jnp.linalg.eigvalsh(generator.gram(values, generator.squares(values), z))


def fitted(config: ImplicitConfig, posterior: Posterior, arrays: Mapping[str, np.ndarray], chain: int = 0) -> Fitted:
    """The distribution fitted by chain `chain`, from the arrays [chain, ...] of a file `fit.npz`.

    Raises:
        FitError: the arrays are not a fit of these settings.
        ValueError: as `build_family`.
    """
    family = build_family(config, posterior)
    shapes = zip(family.names, family.shapes, strict=True)
    learned = {} if family.owner is None else {"sigma": family.owner.shape}
    wanted = {**{f"generator.{name}": shape for name, shape in shapes}, **learned, "point": (len(family.points),)}
    found = {name: arrays[name].shape[1:] for name in wanted if name in arrays}
    if found != wanted:
        wrong = sorted(name for name in wanted if found.get(name) != wanted[name])
        raise FitError(
            f"not a fit of these settings: {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} missing or of "
            "the wrong shape; pass the settings of the run"
        )
    if not 0 <= chain < len(arrays["point"]):
        raise FitError(f"no chain {chain}: this fit has {len(arrays['point'])}")
    numbers = {name: np.ravel(arrays[name][chain]) for name in wanted}
    if family.owner is not None:
        numbers["sigma"] = np.log(numbers["sigma"][np.unique(family.owner, return_index=True)[1]])
    return Fitted(family, jnp.asarray(np.concatenate(list(numbers.values()))))
