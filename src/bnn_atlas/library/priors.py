"""Priors of a user's network: a prior for each group of parameters, or a function of all parameters."""

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from pydantic import RootModel

from bnn_atlas.config.language.base import validated
from bnn_atlas.config.parts.priors import PriorConfig, StandardNormalPrior
from bnn_atlas.data import DataError
from bnn_atlas.library.networks import UserNetwork, digest_of, traced
from bnn_atlas.models.layout import Layout
from bnn_atlas.posterior.prior_densities import NORMAL, Family, Prior, PriorValues, build_prior, log_prior_gain


def priors_by_name(priors: Mapping[str, PriorConfig], layout: Layout, dtype: Any) -> Prior:
    """The product of priors of groups of parameters.

    Each parameter has the prior of the first pattern that its name matches (`head*`, `*/kernel`, `*`). A parameter of
    the likelihood, such as a learned noise, has a standard normal prior if it matches no pattern. If all priors are
    normal, the product is of the family `normal`.

    Raises:
        DataError: a parameter matches no pattern, or a pattern is not the first match of any parameter.
    """
    groups: dict[str, list[int]] = {}
    for place, parameter in enumerate(layout.parameters):
        matched = next((pattern for pattern in priors if fnmatchcase(parameter.name, pattern)), None)
        if matched is None and parameter.layer is not None:
            raise DataError(
                f"prior: '{parameter.name}' matches none of {', '.join(priors)}: add it, or '*' for all others"
            )
        groups.setdefault(matched or parameter.name, []).append(place)
    if unused := [pattern for pattern in priors if pattern not in groups]:
        names = ", ".join(p.name for p in layout.parameters)
        raise DataError(f"prior: '{unused[0]}' is not the first match of any parameter; there are {names}")
    places, parts = [], []
    for pattern, members in groups.items():
        group = Layout(tuple(layout.parameters[place] for place in members))
        places.append(layout.select([p.name for p in group.parameters]))
        parts.append(build_prior(priors.get(pattern, StandardNormalPrior()), group, dtype))
    order = np.argsort(np.concatenate(places))
    loc, scale = (jnp.concatenate([getattr(part.values, name) for part in parts])[order] for name in ("loc", "scale"))
    log_normaliser = jnp.sum(jnp.stack([part.values.log_normaliser for part in parts]))
    if all(part.family is NORMAL for part in parts):
        return Prior(NORMAL, PriorValues(loc, scale, log_normaliser))
    values = PriorValues(loc, scale, log_normaliser, tuple(part.values.shape for part in parts))
    return Prior(_product([part.family for part in parts], places), values)


def _product(families: list[Family], places: list[np.ndarray]) -> Family:
    def each(values: PriorValues, *vectors: Array) -> Any:
        for family, group, shape in zip(families, places, values.shape, strict=True):
            part = PriorValues(values.loc[group], values.scale[group], jnp.zeros(()), shape)
            yield family, part, *(vector[group] for vector in vectors)

    def log_density(z: Array, values: PriorValues) -> Array:
        return jnp.concatenate([family.log_density(group, part) for family, part, group in each(values, z)])

    def gain(new: Array, old: Array, z_new: Array, z_old: Array, values: PriorValues) -> Array:
        gains = [log_prior_gain(family, part, *group) for family, part, *group in each(values, new, old)]
        return jnp.sum(jnp.stack(gains))

    def draw(key: Array, like: Array, shapes: Any) -> Array:
        for family, group, shape, one in zip(families, places, shapes, jax.random.split(key, len(places)), strict=True):
            like = like.at[group].set(family.draw(one, like[group], shape))
        return like

    return Family("product", log_density, draw, lambda _: 0.0, gain=gain)


class GivenPrior(NamedTuple):
    """A prior as the user gave it."""

    settings: dict[str, Any]
    """Settings to be validated and recorded."""
    build: Callable[[Any, Layout, Any], Prior]
    """(validated settings, layout, precision) -> the prior."""


def prior_of(prior: str | Mapping[str, Any] | Callable[[Any], Any], user: UserNetwork) -> GivenPrior:
    """A prior from its kind, its settings, settings by patterns of names, or a function of the parameters' pytree.

    Raises:
        ConfigError: a setting is wrong.
        DataError: the prior has another type, or the function does not return a single number.
    """
    if isinstance(prior, str):
        prior = {"kind": prior}
    if isinstance(prior, Mapping):
        if "kind" in prior:
            validated(RootModel[PriorConfig], dict(prior), "prior")
            return GivenPrior(dict(prior), build_prior)
        priors = {name: {"kind": one} if isinstance(one, str) else one for name, one in prior.items()}
        for name, one in priors.items():
            validated(RootModel[PriorConfig], dict(one) if isinstance(one, Mapping) else one, f"prior[{name!r}]")
        return GivenPrior(
            {"kind": "by_name", "priors": priors}, lambda config, *place: priors_by_name(config.priors, *place)
        )
    if not callable(prior):
        raise DataError(
            f"prior is a {type(prior).__name__}: pass a kind, settings, settings by patterns of names, or a "
            "function of the parameters that returns their log density"
        )
    dtype, size = user.dtype, user.network.layout.size
    name = getattr(prior, "__name__", type(prior).__name__)
    program, _ = traced(
        lambda theta: prior(user.tree(theta)), name, "the parameters", jax.ShapeDtypeStruct((size,), dtype)
    )
    shapes = [found.shape for found in program.out_avals]
    if len(shapes) != 1 or np.prod(shapes[0]) != 1:
        raise DataError(f"{name} returns arrays of shape {shapes}: a log density is one number")
    return GivenPrior(
        {"kind": "user", "name": name, "digest": digest_of(program)}, partial(_user_prior, prior, user.tree, size)
    )


def _user_prior(
    function: Callable[[Any], Array], tree: Callable[[Array], Any], size: int, _: Any, layout: Layout, dtype: Any
) -> Prior:
    """The prior with this log density of the network's `size` parameters; a learned noise gets a standard normal."""

    def log_density(theta: Array, values: PriorValues) -> Array:
        of_network = jnp.reshape(function(tree(theta[:size])), (1,)).astype(theta.dtype)
        return jnp.append(of_network, -0.5 * theta[size:] ** 2 - 0.5 * math.log(2 * math.pi))

    def draw(key: Array, like: Array, shape: Any) -> Array:
        raise DataError("cannot draw from a prior given as a function")

    zeros = jnp.zeros(layout.size, dtype)
    return Prior(Family("user", log_density, draw, lambda _: 0.0), PriorValues(zeros, zeros + 1, zeros[0]))
