"""Settings of the priors of a network's parameters."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from bnn_atlas.config.language.base import ByKind, Given, Model, Number, Positive, Seed

SAME = 1e-6
"""Relative difference up to which two widths count as equal, as for settings that have been read once already."""


class StandardNormalPrior(Model):
    """N(0, 1) on every parameter."""

    kind: Literal["standard_normal"] = "standard_normal"


class _Width(Model):
    """A prior with one width, given as a scale, a variance or a weight decay; `scale` always holds the result."""

    others: ClassVar[tuple[str, ...]] = ("variance", "weight_decay")
    """Keys that give the width instead of `scale`."""

    scale: Positive = 1.0
    """Width of the distribution, as in the formula above."""
    variance: Given = None
    """Variance of a parameter; sets the scale instead of `scale`."""
    weight_decay: Given = None
    """1 / variance; sets the scale instead of `scale`. The penalty weight_decay / 2 |theta|^2 is for a loss that is a
    sum over rows."""

    @classmethod
    def _ratio(cls, data: dict[str, Any]) -> float:
        """Standard deviation of a parameter at scale 1."""
        return 1.0

    @model_validator(mode="before")
    @classmethod
    def _one_width(cls, data: Any) -> Any:
        """Set the scale from the key that gives the width; raise an error for two widths."""
        if not isinstance(data, dict):
            return data
        given = {name: float(data[name]) for name in ("scale", *cls.others) if _is_width(data.get(name))}
        if not any(name in given for name in cls.others):
            return data
        ratio = cls._ratio(data)
        scales = [value if name == "scale" else _deviation(name, value) / ratio for name, value in given.items()]
        if any(not math.isclose(scale, scales[0], rel_tol=SAME) for scale in scales):
            raise ValueError(_two(given, ("scale", *cls.others)))
        return {**data, "scale": scales[-1]}


class NormalPrior(_Width):
    """N(loc, scale^2) on every parameter."""

    kind: Literal["normal"] = "normal"
    loc: Number = 0.0
    """Centre of the distribution."""


class NormalFlatBiasPrior(_Width):
    """N(0, scale^2) on every parameter except the biases, whose log density is 0 everywhere.

    Such a prior is improper, and so is the posterior if the data do not constrain every bias: the bias of a relu unit
    that is off at all rows is unconstrained. The user must make sure that the posterior can be normalised. Biases start
    at 0, as the networks initialise them, and are 0 in draws from the prior.
    """

    kind: Literal["normal_flat_bias"] = "normal_flat_bias"


class NormalGammaNoisePrior(_Width):
    """N(0, scale^2) on the network's parameters, and Gamma(shape, rate) on 1 / sigma^2 of a learned noise sigma.

    For `likelihood.kind: learned_noise`; the mean of 1 / sigma^2 is shape / rate, in the units that the targets have
    after the split has scaled them.
    """

    kind: Literal["normal_gamma_noise"] = "normal_gamma_noise"
    shape: Positive
    """Shape of the gamma distribution of 1 / sigma^2."""
    rate: Positive
    """Rate of the gamma distribution of 1 / sigma^2, in squared units of the targets."""


class EmpiricalCovariancePrior(_Width):
    """N(0, scale^2) on every parameter, times N(0, (C + floor I) / strength) on the weights of each first-layer unit.

    C is the covariance of the rows that the posterior is conditioned on, or of the patches under a filter if the first
    layer is a convolution (zeros beyond the edges). The precision of a unit's weights is therefore
    strength (C + floor I)^-1 + I / scale^2: weights of inputs that never vary stay near 0, and shifts along directions
    in which the training rows do not vary change no output (Izmailov et al. 2021, Dangers of Bayesian Model Averaging
    under Covariate Shift, in the form of its code).
    """

    kind: Literal["empirical_covariance"] = "empirical_covariance"
    strength: Positive = 1.0
    """Factor on the precision matrix (C + floor I)^-1."""
    floor: Positive = 1e-4
    """Added to the eigenvalues of C, which are variances in the units of the scaled rows. Leapfrog steps above 2 sqrt(T
    floor / strength), with T the temperature, are unstable along directions in which no row varies; the published 1e-10
    allows steps of 2e-5 at strength 1."""


class _Shaped(_Width):
    """A prior whose scale differs from its standard deviation."""

    others: ClassVar[tuple[str, ...]] = ("standard_deviation", "variance", "weight_decay")

    standard_deviation: Given = None
    """Standard deviation of a parameter; sets the scale instead of `scale`, to compare priors of equal variance."""


class LaplacePrior(_Shaped):
    """Laplace(loc, scale) on every parameter; its standard deviation is sqrt(2) scale."""

    kind: Literal["laplace"] = "laplace"
    loc: Number = 0.0
    """Centre of the distribution."""

    @classmethod
    def _ratio(cls, data: dict[str, Any]) -> float:
        return math.sqrt(2)


class GlorotPrior(Model):
    """Weights N(0, factor^2 / fan_avg), all other parameters N(0, 1)."""

    kind: Literal["glorot"] = "glorot"
    factor: Positive = 1.0
    """Factor on the standard deviations of the weights."""


class HePrior(Model):
    """Weights N(0, 2 / fan_in), all other parameters N(0, 1)."""

    kind: Literal["he"] = "he"


class GlorotLaplacePrior(Model):
    """Weights Laplace(0, 1 / sqrt(2 fan_avg)), all other parameters Laplace(0, 1 / sqrt 2)."""

    kind: Literal["glorot_laplace"] = "glorot_laplace"


class GlorotUniformPrior(Model):
    """Weights U(-a, a) with a = sqrt(3 / fan_avg); all other parameters with a = sqrt 3.

    Outside the interval, the log density falls by log(1000) per unit, so that gradients bring a chain back.
    """

    kind: Literal["glorot_uniform"] = "glorot_uniform"


class EpsStandardNormalPrior(Model):
    """N(eps_m, (scale softplus(s_m))^2) with eps_m ~ N(0, var_eps) and s_m ~ N(1, var_eps) drawn once by `seed`.

    Since each parameter has a different Gaussian, the permutation symmetry is broken.
    """

    kind: Literal["eps_standard_normal"] = "eps_standard_normal"
    scale: Positive = 1.0
    """Factor on all standard deviations."""
    var_eps: Positive = 0.1
    """Variance of eps_m and s_m."""
    seed: Seed = 0
    """Seed of eps_m and s_m."""


class LogisticPrior(_Shaped):
    """Logistic(loc, scale) on every parameter; its standard deviation is pi / sqrt(3) scale."""

    kind: Literal["logistic"] = "logistic"
    loc: Number = 0.0
    """Centre of the distribution."""

    @classmethod
    def _ratio(cls, data: dict[str, Any]) -> float:
        return math.pi / math.sqrt(3)


class StudentTPrior(_Shaped):
    """Student's t on every parameter; its standard deviation is sqrt(nu / (nu - 2)) scale, for nu > 2 only.

    The weight decay of the published code (Izmailov et al. 2021, Dangers of Bayesian Model Averaging) is 1 / scale^2
    for this prior; here it is 1 / variance for all priors.
    """

    kind: Literal["student_t"] = "student_t"
    loc: Number = 0.0
    """Centre of the distribution."""
    degrees_of_freedom: Positive
    """nu: 1 is the Cauchy distribution; the larger nu, the closer to the normal distribution."""

    @classmethod
    def _ratio(cls, data: dict[str, Any]) -> float:
        freedom: Any = data.get("degrees_of_freedom")
        if not _is_width(freedom):
            return 1.0  # the field itself reports a missing or wrong number
        if freedom <= 2:
            raise ValueError(
                f"with {freedom} degrees of freedom the variance is infinite: give scale instead of "
                f"{' or '.join(name for name in cls.others if data.get(name) is not None)}"
            )
        return math.sqrt(1 + 2 / (freedom - 2))


class MixturePrior(Model):
    """sum_k w_k N(loc_k, scale_k^2) on every parameter."""

    others: ClassVar[tuple[str, ...]] = ("standard_deviation", "variance", "weight_decay")

    kind: Literal["mixture"] = "mixture"
    weights: tuple[Positive, ...]
    """w_k, which add up to 1."""
    scales: tuple[Positive, ...]
    """Standard deviations of the components."""
    locs: tuple[Number, ...] = ()
    """Centres of the components; empty if all are centred at 0."""
    standard_deviation: Given = None
    """Rescales the whole mixture about 0 to this standard deviation, to compare priors of equal variance."""
    variance: Given = None
    """Variance to which the whole mixture is rescaled."""
    weight_decay: Given = None
    """1 / variance to which the whole mixture is rescaled."""

    @property
    def all_locs(self) -> tuple[Number, ...]:
        """One location per component."""
        return self.locs or (0.0,) * len(self.weights)

    @property
    def deviation(self) -> float:
        """Standard deviation of the whole mixture."""
        given = [_deviation(name, value) for name in self.others if (value := getattr(self, name)) is not None]
        return given[0] if given else self._own_deviation

    @property
    def unit(self) -> float:
        """Factor on locations and scales."""
        return self.deviation / self._own_deviation

    @property
    def _own_deviation(self) -> float:
        """Standard deviation of the mixture before it is rescaled."""
        mean = sum(w * m for w, m in zip(self.weights, self.all_locs, strict=True))
        squares = sum(w * (s * s + m * m) for w, s, m in zip(self.weights, self.scales, self.all_locs, strict=True))
        return math.sqrt(squares - mean * mean)

    def _contradictions(self) -> Iterator[str]:
        lengths = {"weights": len(self.weights), "scales": len(self.scales), "locs": len(self.all_locs)}
        if not self.weights or len(set(lengths.values())) > 1:
            counts = ", ".join(f"{count} {name}" for name, count in lengths.items())
            yield f"a mixture needs one weight, one scale and one loc per component, not {counts}"
        if abs(sum(self.weights) - 1) > 1e-6:
            yield f"weights must add up to 1, not {sum(self.weights)}"
        given = {name: value for name in self.others if (value := getattr(self, name)) is not None}
        if len(given) > 1:
            yield _two(given, self.others)


def _is_width(value: Any) -> bool:
    """Whether a value is a positive number; the fields themselves report all other values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _deviation(name: str, value: float) -> float:
    """Standard deviation from the value of a key other than `scale`."""
    match name:
        case "variance":
            return math.sqrt(value)
        case "weight_decay":
            return 1 / math.sqrt(value)
        case _:
            return value


def _two(given: dict[str, float], keys: tuple[str, ...]) -> str:
    shown = " and ".join(f"{name} ({value:g})" for name, value in given.items())
    return f"{shown} are {len(given)} widths of one prior: give one of {', '.join(keys)} (null removes a copied one)"


PriorConfig = Annotated[
    StandardNormalPrior
    | NormalPrior
    | NormalFlatBiasPrior
    | NormalGammaNoisePrior
    | LaplacePrior
    | GlorotPrior
    | HePrior
    | GlorotLaplacePrior
    | GlorotUniformPrior
    | EpsStandardNormalPrior
    | LogisticPrior
    | StudentTPrior
    | MixturePrior
    | EmpiricalCovariancePrior,
    Field(discriminator="kind"),
    ByKind,
]


NORMAL = ("standard_normal", "normal", "normal_flat_bias", "glorot", "he", "eps_standard_normal")
"""Kinds of priors under which all parameters are independent and normal, or flat."""


def standard_deviation(prior: PriorConfig) -> float | None:
    """Standard deviation that all parameters share under a prior; None if it differs between them or is infinite."""
    match prior:
        case StandardNormalPrior():
            return 1.0
        case StudentTPrior(degrees_of_freedom=freedom) if freedom <= 2:
            return None
        case NormalPrior() | LaplacePrior() | LogisticPrior() | StudentTPrior():
            return prior._ratio(vars(prior)) * prior.scale
        case MixturePrior():
            return prior.deviation
        case _:
            return None
