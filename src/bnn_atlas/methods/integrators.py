"""Integrators of Hamiltonian and isokinetic dynamics: alternating kicks of the momentum and drifts of the position."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from jax import Array
from jax import numpy as jnp

from bnn_atlas.posterior.density import Evaluate, Evaluation

Momentum = TypeVar("Momentum")

MCLACHLAN_KICK = 0.1931833275037836
MCLACHLAN = (MCLACHLAN_KICK, 1 - 2 * MCLACHLAN_KICK, MCLACHLAN_KICK)
"""Kicks of McLachlan's two-stage palindrome; the drifts between them take half a step each."""


def compose(
    kicks: Sequence[float],
    position: Array,
    momentum: Momentum,
    evaluation: Evaluation,
    evaluate: Evaluate,
    kick: Callable[[Momentum, Array, float], Momentum],
    drift: Callable[[Array, Momentum], Array],
) -> tuple[Array, Momentum, Evaluation]:
    """One step: a kick, then a drift, an evaluation and a kick for each further coefficient.

    Args:
        kicks: coefficients of the kicks.
        position: [P].
        momentum: the momentum, with any values that are updated together with it.
        evaluation: densities and gradient at the position.
        evaluate: densities and tempered gradient at a position.
        kick: (momentum, gradient [P], coefficient) -> momentum.
        drift: (position, momentum) -> position.
    """
    first, *others = kicks
    momentum = kick(momentum, evaluation.gradient, first)
    for coefficient in others:
        position = drift(position, momentum)
        evaluation = evaluate(position)
        momentum = kick(momentum, evaluation.gradient, coefficient)
    return position, momentum, evaluation


def leapfrog(
    position: Array,
    momentum: Array,
    evaluation: Evaluation,
    evaluate: Evaluate,
    step_size: Array,
    inverse_mass: Array | None = None,
) -> tuple[Array, Array, Evaluation]:
    """One step of x' = v p, p' = g, with v the inverse mass [P] and g the gradient of the log density.

    p <- p + eps/2 g(x),  x <- x + eps v p,  p <- p + eps/2 g(x)
    """

    def kick(momentum: Array, gradient: Array, coefficient: float) -> Array:
        return momentum + coefficient * step_size * gradient

    def drift(position: Array, momentum: Array) -> Array:
        velocity = momentum if inverse_mass is None else inverse_mass * momentum
        return position + step_size * velocity

    return compose((0.5, 0.5), position, momentum, evaluation, evaluate, kick, drift)


def baoab(
    position: Array,
    momentum: Array,
    evaluation: Evaluation,
    evaluate: Evaluate,
    step_size: float | Array,
    decay: float | Array,
    noise: Array,
) -> tuple[Array, Array, Evaluation]:
    """One step of x' = p, p' = g - gamma p + sqrt(2 gamma) dW/dt, with g the gradient of the tempered log density.

        B: p <- p + eps/2 g(x),   A: x <- x + eps/2 p,   O: p <- c p + sqrt(1 - c^2) N(0, I),   then A and B again

    with c = exp(-gamma eps) the `decay`; c = 1 (no friction) is `leapfrog`. Leimkuhler and Matthews 2013 (Rational
    Construction of Stochastic Numerical Methods for Molecular Sampling). It targets the density with an error of the
    second order in eps; along a direction in which the density is Gaussian with standard deviation s, positions have
    exactly this variance for every eps < 2 s, and momenta the variance 1 - eps^2 / (4 s^2) in place of 1. `noise` [P]
    is N(0, I), and there is one evaluation.
    """
    momentum = momentum + step_size / 2 * evaluation.gradient
    position = position + step_size / 2 * momentum
    momentum = decay * momentum + (1 - decay**2) ** 0.5 * noise
    position = position + step_size / 2 * momentum
    evaluation = evaluate(position)
    return position, momentum + step_size / 2 * evaluation.gradient, evaluation


def isokinetic(
    position: Array, momentum: Array, evaluation: Evaluation, evaluate: Evaluate, step_size: Array, scale: Array
) -> tuple[Array, Array, Evaluation, Array]:
    """One McLachlan step with a unit momentum u and two gradients; also returns the change of kinetic energy.

    With g the gradient of the log density, s = `scale` [P] and d the dimension:

        kick(c):   delta = c eps |g s| / (d - 1),  zeta = exp(-delta),  e = g s / |g s|,  p = u.e
                   u <- normalise(e (1 - zeta) (1 + zeta + p (1 - zeta)) + 2 zeta u)
                   dK += (d - 1) (delta - log 2 + log(1 + p + (1 - p) zeta^2))
        drift:     x <- x + eps/2 s u
    """

    def kick(carry: tuple[Array, Array], gradient: Array, coefficient: float) -> tuple[Array, Array]:
        momentum, kinetic = carry
        momentum, change = isokinetic_kick(momentum, gradient, coefficient * step_size, scale)
        return momentum, kinetic + change

    def drift(position: Array, carry: tuple[Array, Array]) -> Array:
        return position + 0.5 * step_size * scale * carry[0]

    begin = momentum, jnp.zeros((), position.dtype)
    position, (momentum, kinetic), evaluation = compose(MCLACHLAN, position, begin, evaluation, evaluate, kick, drift)
    return position, momentum, evaluation, kinetic


def isokinetic_kick(momentum: Array, gradient: Array, time: Array, scale: Array) -> tuple[Array, Array]:
    """The momentum after an isokinetic update over `time`, and the change of kinetic energy."""
    force = gradient * scale
    size = jnp.maximum(jnp.linalg.norm(force), jnp.finfo(force.dtype).tiny)
    cosine = jnp.dot(momentum, force) / size
    delta = time * size / (momentum.size - 1)
    zeta = jnp.exp(-delta)
    # The length of `along` e + 2 zeta u, from the cosine of the angle between e and u, which saves a pass over the
    # vectors.
    length = 1 + cosine + (1 - cosine) * zeta**2
    along = (1 - zeta) * (1 + zeta + cosine * (1 - zeta))
    change = (momentum.size - 1) * (delta - jnp.log(2.0) + jnp.log(length))
    return (along / (size * length)) * force + (2 * zeta / length) * momentum, change
