"""Tests of draws by integration by parts: their temperature, from gradients, and the balance of their layers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bnn_atlas.files import load_arrays, save_arrays
from bnn_atlas.metrics.formulas.repetitions import GROUPS, jackknife
from bnn_atlas.metrics.formulas.rhat_ess import error_of_chain_mean
from bnn_atlas.metrics.tables.measurement import Measurement, PredictionError, joined
from bnn_atlas.traces.draws import Draws, evenly

MOST_DRAWS = 500
"""Largest number of draws of a chain from which the balance of layers is computed; they are evenly spread."""
MOST_DIFFERENCES = 4_000_000
"""Largest number of such values, of all chains, draws and layers."""
FURTHER_GRADIENTS = 50
"""Most gradients on all rows by which the rise above an optimum is searched, whatever the rows, chains and blocks."""


class Virial(NamedTuple):
    """-theta . grad log p at s draws of each of c chains, summed over the parameters of each of L layers; untempered.

    Without draws (s = 0) if the virial was not computed: a single network has no temperature.
    """

    layers: np.ndarray
    """[L] names, such as `layer0`; `noise` for parameters outside the layers."""
    sizes: np.ndarray
    """[L] number of parameters."""
    draws: int
    """Number of draws of each chain, of which s are used."""
    chains: np.ndarray
    """[c] indices of the chains that are used; the others were left out to save time."""
    likelihood: np.ndarray
    """[c, s, L] float64: the part of the log-likelihood; NaN for a draw that is not finite."""
    prior: np.ndarray
    """[c, s, L] float64: the part of the log-prior."""
    rises: np.ndarray = np.empty(0)
    """[C] how much further steps raise the log posterior above the optimum of each chain (`inference.optimum`); empty
    if the draws are no optima."""


def save_virial(path: str | Path, virial: Virial) -> None:
    """Write as .npz."""
    save_arrays(path, virial._asdict())


def load_virial(path: str | Path) -> Virial:
    """Read what `save_virial` wrote; PredictionError if the file is damaged or holds something else."""
    *required, optional = Virial._fields
    arrays = load_arrays(path, required, PredictionError, "gradients at the draws", optional=[optional])
    values: dict[str, Any] = {**arrays, "draws": int(arrays["draws"])}
    return Virial(**values)


def virial_measurements(virial: Virial, kept: np.ndarray, temperature: float) -> list[Measurement]:
    """Effective temperature of the draws of the chains `kept`: whole, by layer, and of likelihood and prior apart.

    Integration by parts gives, for draws from p(theta)^(1/T) with p a density of d parameters that falls off,

        E[-theta . grad log p(theta)] = d T,

    and the same for the d_l parameters of a layer alone. The left side, divided by d, is `effective_temperature`. It
    differs from T if the draws are not from this posterior, whether because of finite steps, noise of mini-batches or
    chains that still move, and needs neither modes that mix nor another sampler. The parts of likelihood and prior add
    up to the whole; for a normal prior of mean 0, the part of the prior is `prior_shell`. For d independent Gaussians,
    the value of a single draw has the standard deviation T sqrt(2 / d).

    `monte_carlo_error` is sd / sqrt(ESS) over all draws or, with fewer than four draws per chain, a jackknife over
    chains. Empty without draws or chains. The identity is the equipartition (virial) theorem of statistical mechanics;
    its left side, divided by d, is the configurational temperature of Leimkuhler and Matthews 2015, Molecular Dynamics,
    and of Wenzel et al. 2020, How Good is the Bayes Posterior in Deep Neural Networks Really?
    """
    used = virial.likelihood.shape[1]
    own = np.isin(virial.chains, kept)
    if not used or not own.any():
        return []
    likelihood, prior = virial.likelihood[own], virial.prior[own]
    thinned = f"{used:,} of {virial.draws:,} draws of each chain, evenly spread" if used < virial.draws else ""
    if np.count_nonzero(own) < len(kept):
        thinned = joined(thinned, f"{np.count_nonzero(own):,} of {len(kept):,} chains")
    parts = {"": likelihood + prior, "likelihood": likelihood, "prior": prior}
    rows = []
    for name, values in parts.items():
        whole = values.sum(axis=2) / virial.sizes.sum()
        if not name:
            note = joined(f"draws from the posterior have {temperature:g}", thinned)
            rows.append(_measured("effective_temperature", whole, note))
        else:
            rows.append(_measured("effective_temperature_part", whole, thinned, name))
        if len(virial.layers) > 1:
            rows += [
                _measured("effective_temperature_part", values[..., i] / size, thinned, f"{layer} {name}".strip())
                for i, (layer, size) in enumerate(zip(virial.layers.tolist(), virial.sizes.tolist(), strict=True))
            ]
    return rows


class Rescaling(NamedTuple):
    """Parameters that can be multiplied (`incoming`) and divided (`outgoing`) by a factor without changing outputs."""

    name: str
    incoming: np.ndarray
    """[i] positions in the flat vector."""
    outgoing: np.ndarray
    """[o] positions; none for parameters that are normalised afterwards."""


def balance_measurements(
    pool: Draws,
    kept: np.ndarray,
    rescalings: Sequence[Rescaling],
    prior_sd: float | None,
    temperature: float,
    max_bytes: int,
    differences: np.ndarray | None = None,
) -> list[Measurement]:
    """How far incoming and outgoing parameters of hidden units are out of balance in the chains `kept`, by layer.

    A factor on the i incoming parameters u and its inverse on the o outgoing parameters v of relu units leave the
    likelihood as it is. Integration by parts along this direction gives, for draws from the posterior at temperature T
    with the prior N(0, s^2),

        E[|u|^2 - |v|^2] / s^2 = (i - o) T,

    whatever the data and the likelihood. `layer_imbalance` is the left side minus the right side, divided by i + o: 0
    for draws from the posterior, and positive if incoming parameters are too large. It needs no gradients, no other
    sampler, and no modes that mix. With equal numbers of both, the layers have equal norms on average (compare the
    balancedness of layers in Kobialka et al. 2026, arXiv 2603.22030).

    Monte Carlo errors as in `virial_measurements`. Empty for other priors (`prior_sd` None), without chains, and for
    single networks (one draw), which are no draws from a posterior.
    `differences` (`differences_of`) of all chains take the place of their draws.
    """
    if prior_sd is None or not rescalings or not len(kept) or pool.draws < 2:
        return []
    if differences is None:
        differences = differences_of(pool, rescalings, max_bytes)
    values = differences[np.isin(np.arange(pool.chains), kept)]
    measured = []
    for number, one in enumerate(rescalings):
        incoming, outgoing = len(one.incoming), len(one.outgoing)
        excess = values[..., number] / prior_sd**2 - temperature * (incoming - outgoing)
        note = f"{incoming:,} incoming and {outgoing:,} outgoing parameters; draws from the posterior have 0"
        measured.append(_measured("layer_imbalance", excess / (incoming + outgoing), note, one.name))
    return measured


def differences_of(pool: Draws, rescalings: Sequence[Rescaling], max_bytes: int, of: int | None = None) -> np.ndarray:
    """|u|^2 - |v|^2 [C, s, rescaling] at evenly spread draws of each chain; `of` chains of the run, if not of the pool.

    Each chain has at most `MOST_DRAWS` draws, or fewer with many chains: about `MOST_DIFFERENCES` values in all, but no
    fewer than 10 draws per chain.
    """
    signs = np.zeros((pool.layout.size, len(rescalings)))
    for number, one in enumerate(rescalings):
        signs[one.incoming, number] = 1
        signs[one.outgoing, number] -= 1
    most = max(10, MOST_DIFFERENCES // ((of or pool.chains) * max(1, len(rescalings))))
    taken = np.zeros(pool.draws, dtype=bool)
    taken[evenly(pool.draws, min(MOST_DRAWS, most))] = True
    place = np.cumsum(taken) - 1
    values = np.empty((pool.chains, np.count_nonzero(taken), len(rescalings)))
    for chains, draws, batch in pool.batches(max_bytes=max_bytes):
        part = np.square(batch[:, taken[draws]], dtype=np.float64) @ signs
        values[np.ix_(np.arange(pool.chains)[chains], place[draws][taken[draws]])] = part
    return values


def _measured(metric: str, values: np.ndarray, note: str, at: str = "") -> Measurement:
    """The mean of values [c, s], with its Monte Carlo error."""
    return Measurement(metric, float(values.mean()), note=note, at=at, monte_carlo_error=_error(values))


def _error(values: np.ndarray) -> float | None:
    error = error_of_chain_mean(values)
    if not np.isfinite(error) and len(values) > 1:
        groups = np.array_split(values, min(GROUPS, len(values)))
        total, count = values.sum(), values.size
        error = jackknife(np.array([(total - group.sum()) / (count - group.size) for group in groups]))
    return error if error > 0 else None
