"""Prior densities over the flat parameter vector; all except one are independent over the scalars of the vector.

Every prior is a family with a location and a scale per scalar, so one function serves all models, and only the numbers
change with the model. Eight priors come from Sommer et al. 2025; flat biases come from the same authors' study of
priors and overparametrisation (arXiv 2603.22030); the mixture of Gaussians and the logistic come from the comparison at
equal variance in Izmailov et al. 2021, section 8.2. A gamma prior on the precision of a learned noise is a density over
log sigma. A flat density is a normal of infinite scale without its constant.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp
from scipy.special import digamma, gammaln, polygamma

from bnn_atlas.config.parts.priors import (
    EmpiricalCovariancePrior,
    EpsStandardNormalPrior,
    GlorotLaplacePrior,
    GlorotPrior,
    GlorotUniformPrior,
    HePrior,
    LaplacePrior,
    LogisticPrior,
    MixturePrior,
    NormalFlatBiasPrior,
    NormalGammaNoisePrior,
    NormalPrior,
    PriorConfig,
    StandardNormalPrior,
    StudentTPrior,
)
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior.empirical_covariance import first_layer, log_narrowing


class GammaPrecision(NamedTuple):
    """tau ~ Gamma(shape, rate), with the resulting mean and standard deviation of log sigma = -log(tau) / 2."""

    shape: Array
    rate: Array
    loc: Array
    scale: Array

    def unnormalised(self, z: Array) -> Array:
        """Log density of log sigma = loc + scale z up to a constant: -2 shape log sigma - rate exp(-2 log sigma)."""
        log_sigma = self.loc + self.scale * z
        return -2 * self.shape * log_sigma - self.rate * jnp.exp(-2 * log_sigma)

    def drawn(self, key: Array) -> Array:
        """A draw of z = (log sigma - loc) / scale."""
        log_tau = jax.random.loggamma(key, self.shape, dtype=self.loc.dtype) - jnp.log(self.rate)
        return (-0.5 * log_tau - self.loc) / self.scale


def gamma_precision(config: NormalGammaNoisePrior, layout: Layout) -> GammaPrecision:
    """Build the prior of the noise, in double precision.

    Raises:
        ValueError: the last parameter is not a noise level of the likelihood.
    """
    if not layout.parameters or layout.parameters[-1].name != "log_sigma":
        raise ValueError(
            f"prior.kind '{config.kind}' needs the noise of likelihood.kind 'learned_noise', which this posterior does "
            "not have: choose that likelihood, or prior.kind 'normal'"
        )
    a, b = config.shape, config.rate
    return GammaPrecision(*np.array([a, b, -0.5 * (digamma(a) - np.log(b)), 0.5 * np.sqrt(polygamma(1, a))]))


def log_integral(noise: GammaPrecision) -> float:
    """Log of the integral of exp(unnormalised) over log sigma, Gamma(shape) / (2 rate^shape)."""
    return float(gammaln(noise.shape) - noise.shape * np.log(noise.rate) - math.log(2))


class Components(NamedTuple):
    """Gaussian components of a mixture in units of the prior's own scale, each [component]."""

    log_weight: Array
    loc: Array
    scale: Array


class PriorValues(NamedTuple):
    """Numbers of a prior: location and scale of each scalar [P], log of the normalising constant, and the shape."""

    loc: Array
    scale: Array
    """Infinite for scalars with a flat density (family `normal` only)."""
    log_normaliser: Array
    shape: Any = None
    """Degrees of freedom (Student's t), `Components` (mixture), `FirstLayer` (empirical covariance), `GammaPrecision`
    (normal with gamma noise); None for families without a shape."""


class Family(NamedTuple):
    """A family of priors: its name, and functions of z = (theta - loc) / scale."""

    name: str
    log_density: Callable[[Array, PriorValues], Array]
    """z [P] -> unnormalised log density of each scalar."""
    draw: Callable[[Array, Array, Any], Array]
    """(key, an array [P], the shape) -> z [P]."""
    log_unit: Callable[[Any], float]
    """Shape -> log of the integral over z of the unnormalised density of one scalar."""
    log_rest: Callable[[Any], float] = lambda shape: 0.0
    """Shape -> term of the normalising constant beyond the sum of log scale and `log_unit` over the scalars."""
    gain: Callable[[Array, Array, Array, Array, PriorValues], Array] | None = None
    """(new, old, z of both, values) -> the sum in `log_prior_gain`; None takes the difference of the densities."""


class Prior(NamedTuple):
    """A prior: the family (code) and its values (data)."""

    family: Family
    values: PriorValues

    def sample(self, key: Array) -> Array:
        """One parameter vector [P] from the prior (walled uniforms: drawn inside the walls; flat scalars: loc)."""
        loc, scale, _, shape = self.values
        return loc + jnp.where(jnp.isinf(scale), 0, scale) * self.family.draw(key, loc, shape)


def _normal(z: Array, values: PriorValues) -> Array:
    return -0.5 * z * z


def _laplace(z: Array, values: PriorValues) -> Array:
    return -jnp.abs(z)


def _walled_uniform(z: Array, values: PriorValues) -> Array:
    return -math.log(1000.0) * values.scale * jnp.maximum(jnp.abs(z) - 1.0, 0.0)


def _logistic(z: Array, values: PriorValues) -> Array:
    # The density is even, and the exponential of -|z| cannot overflow.
    size = jnp.abs(z)
    return -size - 2 * jnp.log1p(jnp.exp(-size))


def _student_t(z: Array, values: PriorValues) -> Array:
    return -0.5 * (values.shape + 1) * jnp.log1p(z * z / values.shape)


def _mixture(z: Array, values: PriorValues) -> Array:
    log_weight, loc, scale = (leaf[:, None] for leaf in values.shape)
    return jax.nn.logsumexp(log_weight - jnp.log(scale) - 0.5 * ((z - loc) / scale) ** 2, axis=0)


def _empirical_covariance(z: Array, values: PriorValues) -> Array:
    return -0.5 * jnp.concatenate([z, values.shape.whitened(z).ravel()]) ** 2


def _normal_gamma_noise(z: Array, values: PriorValues) -> Array:
    return jnp.append(-0.5 * z[:-1] ** 2, values.shape.unnormalised(z[-1]))


def _draw_mixture(key: Array, like: Array, components: Components) -> Array:
    choice, noise = jax.random.split(key)
    chosen = jax.random.categorical(choice, components.log_weight, shape=like.shape)
    return components.loc[chosen] + components.scale[chosen] * jax.random.normal(noise, like.shape, like.dtype)


def _draw_gamma_noise(key: Array, like: Array, noise: GammaPrecision) -> Array:
    of_network, of_noise = jax.random.split(key)
    return jnp.append(jax.random.normal(of_network, like[:-1].shape, like.dtype), noise.drawn(of_noise))


def _gain_of_normal(new: Array, old: Array, z_new: Array, z_old: Array, values: PriorValues) -> Array:
    return jnp.sum(0.5 * ((old - new) / values.scale) * (z_old + z_new))


def _gain_of_empirical_covariance(new: Array, old: Array, z_new: Array, z_old: Array, values: PriorValues) -> Array:
    difference, total, first = (old - new) / values.scale, z_old + z_new, values.shape
    return 0.5 * (jnp.sum(difference * total) + jnp.sum(first.whitened(difference) * first.whitened(total)))


def _log_unit_of_normal(shape: Any) -> float:
    return 0.5 * math.log(2 * math.pi)


def _log_unit_of_student_t(freedom: Any) -> float:
    return float(0.5 * math.log(math.pi * freedom) + gammaln(freedom / 2) - gammaln((freedom + 1) / 2))


def _log_rest_of_gamma_noise(noise: GammaPrecision) -> float:
    return float(log_integral(noise) - np.log(noise.scale) - _log_unit_of_normal(noise))


NORMAL = Family(
    "normal",
    _normal,
    lambda key, like, _: jax.random.normal(key, like.shape, like.dtype),
    _log_unit_of_normal,
    gain=_gain_of_normal,
)
LAPLACE = Family(
    "laplace",
    _laplace,
    lambda key, like, _: jax.random.laplace(key, like.shape, like.dtype),
    lambda _: math.log(2),
)
WALLED_UNIFORM = Family(
    "walled_uniform",
    _walled_uniform,
    lambda key, like, _: jax.random.uniform(key, like.shape, like.dtype, -1.0, 1.0),
    lambda _: math.log(2),
)
LOGISTIC = Family(
    "logistic",
    _logistic,
    lambda key, like, _: jax.random.logistic(key, like.shape, like.dtype),
    lambda _: 0.0,
)
STUDENT_T = Family(
    "student_t",
    _student_t,
    lambda key, like, freedom: jax.random.t(key, freedom, like.shape, like.dtype),
    _log_unit_of_student_t,
)
MIXTURE = Family("mixture", _mixture, _draw_mixture, _log_unit_of_normal)
EMPIRICAL_COVARIANCE = Family(
    "empirical_covariance",
    _empirical_covariance,
    lambda key, like, first: first.drawn(jax.random.normal(key, like.shape, like.dtype)),
    _log_unit_of_normal,
    log_narrowing,
    _gain_of_empirical_covariance,
)
NORMAL_GAMMA_NOISE = Family(
    "normal_gamma_noise", _normal_gamma_noise, _draw_gamma_noise, _log_unit_of_normal, _log_rest_of_gamma_noise
)


def log_prior(family: Family, values: PriorValues, theta: Array) -> Array:
    """sum_m log p(theta_m) for theta [P].

    With z = (theta - loc) / scale, the log density of a scalar is, up to a constant,

        normal -z^2 / 2 (0 where the scale is infinite);   Laplace -|z|;   logistic -|z| - 2 log(1 + exp(-|z|));
        Student's t with nu degrees of freedom -(nu + 1) / 2 log(1 + z^2 / nu);
        mixture log sum_k w_k N(z | m_k, s_k^2).

    With gamma noise the last scalar is log sigma, with log density -2 a log sigma - b exp(-2 log sigma) for a
    Gamma(a, b) precision, and the others are normal.

    An empirical covariance adds -|u|^2 / 2 to the normal log density, with u the first layer's weights along the
    directions of its inputs' covariance (`posterior.empirical_covariance`).

    A walled uniform is 1/(2a) inside [-a, a] and decays outside as exp(-log(1000) (|theta| - a)). As published, this
    is not normalised.
    """
    z = (theta - values.loc) / values.scale
    return jnp.sum(family.log_density(z, values)) - values.log_normaliser


def log_prior_gain(family: Family, values: PriorValues, new: Array, old: Array) -> Array:
    """Log p(new) - log p(old) for two parameter vectors [P], summed parameter by parameter.

    The difference of two `log_prior`s has the rounding errors of both sums, which grow with P: the errors are 0.07 in
    single precision for 2.7 million standard normals. The terms of the sum used here are as small as the move; for a
    normal, they are

        log p(theta') - log p(theta) = (theta - theta') / scale (z + z') / 2.
    """
    z_new, z_old = ((theta - values.loc) / values.scale for theta in (new, old))
    if family.gain is not None:
        return family.gain(new, old, z_new, z_old, values)
    return jnp.sum(family.log_density(z_new, values) - family.log_density(z_old, values))


def build_prior(
    config: PriorConfig, layout: Layout, dtype: jnp.dtype = jnp.float32, rows: np.ndarray | None = None
) -> Prior:
    """Build a prior from its settings for a model's layout.

    Args:
        config: the prior.
        layout: layout of the model.
        dtype: precision of the prior's numbers.
        rows: scaled rows [n, ...] that the posterior is conditioned on, for a prior that depends on them.

    Raises:
        ValueError: in the same cases as `empirical_covariance.first_layer` and `gamma_precision`.
    """
    family, loc, scale, shape = _numbers(config, layout, rows)
    proper = scale[np.isfinite(scale)]
    log_normaliser = np.sum(np.log(proper)) + len(proper) * family.log_unit(shape) + family.log_rest(shape)

    def number(value: np.ndarray) -> Array:
        whole = np.issubdtype(np.asarray(value).dtype, np.integer)
        return jnp.asarray(value if whole else np.asarray(value, dtype))

    return Prior(family, PriorValues(*jax.tree.map(number, (loc, scale, log_normaliser, shape))))


class _Numbers(NamedTuple):
    """A family with its location, scale and shape, in double precision."""

    family: Family
    loc: np.ndarray
    scale: np.ndarray
    shape: Any = None


def _numbers(config: PriorConfig, layout: Layout, rows: np.ndarray | None) -> _Numbers:
    zeros = np.zeros(layout.size)

    def scales(weight: Callable[[Parameter], float], other: float) -> np.ndarray:
        return layout.per_scalar({p.name: weight(p) if p.role == "weight" else other for p in layout.parameters})

    def fan_average(p: Parameter) -> float:
        return (p.fan_in + p.fan_out) / 2

    match config:
        case StandardNormalPrior():
            return _Numbers(NORMAL, zeros, zeros + 1)
        case NormalPrior():
            return _Numbers(NORMAL, zeros + config.loc, zeros + config.scale)
        case EmpiricalCovariancePrior():
            first = first_layer(config, layout, rows)
            return _Numbers(EMPIRICAL_COVARIANCE, zeros, zeros + config.scale, first)
        case NormalGammaNoisePrior():
            noise = gamma_precision(config, layout)
            loc, scale = zeros.copy(), zeros + config.scale
            loc[-1], scale[-1] = noise.loc, noise.scale
            return _Numbers(NORMAL_GAMMA_NOISE, loc, scale, noise)
        case NormalFlatBiasPrior():
            widths = {p.name: math.inf if p.role == "bias" else config.scale for p in layout.parameters}
            return _Numbers(NORMAL, zeros, layout.per_scalar(widths))
        case LaplacePrior():
            return _Numbers(LAPLACE, zeros + config.loc, zeros + config.scale)
        case GlorotPrior():
            return _Numbers(NORMAL, zeros, scales(lambda p: config.factor / math.sqrt(fan_average(p)), 1.0))
        case HePrior():
            return _Numbers(NORMAL, zeros, scales(lambda p: math.sqrt(2 / p.fan_in), 1.0))
        case GlorotLaplacePrior():
            return _Numbers(LAPLACE, zeros, scales(lambda p: 1 / math.sqrt(2 * fan_average(p)), math.sqrt(0.5)))
        case GlorotUniformPrior():
            return _Numbers(WALLED_UNIFORM, zeros, scales(lambda p: math.sqrt(3 / fan_average(p)), math.sqrt(3)))
        case EpsStandardNormalPrior():
            rng = np.random.default_rng(config.seed)
            loc, raw = rng.normal(0, math.sqrt(config.var_eps), (2, layout.size)) + np.array([[0.0], [1.0]])
            return _Numbers(NORMAL, loc, config.scale * np.logaddexp(0, raw))
        case LogisticPrior():
            return _Numbers(LOGISTIC, zeros + config.loc, zeros + config.scale)
        case StudentTPrior():
            freedom = np.float64(config.degrees_of_freedom)
            return _Numbers(STUDENT_T, zeros + config.loc, zeros + config.scale, freedom)
        case MixturePrior():
            weights = np.array(config.weights) / math.fsum(config.weights)
            components = Components(*np.array([np.log(weights), config.all_locs, config.scales]))
            return _Numbers(MIXTURE, zeros, zeros + config.unit, components)
