"""The width of a prior, given in one of several ways."""

import math
from typing import Any

import pytest
import scipy.stats
from pydantic import TypeAdapter, ValidationError

from bnn_atlas.config.parts.priors import NormalPrior, PriorConfig, standard_deviation
from bnn_atlas.config.runs.studies import RunConfig
from tests.config.folders import RUN

PRIOR: TypeAdapter[PriorConfig] = TypeAdapter(PriorConfig)
NU = 5.0
SCALED = {
    "normal": scipy.stats.norm,
    "laplace": scipy.stats.laplace,
    "logistic": scipy.stats.logistic,
    "student_t": scipy.stats.t(NU),
}
SHAPED = ("laplace", "logistic", "student_t")


def prior(kind: str, **width: Any) -> Any:
    freedom = {"degrees_of_freedom": NU} if kind == "student_t" else {}
    return PRIOR.validate_python({"kind": kind, **freedom, **width})


def ratio(kind: str) -> float:
    """Standard deviation at scale 1, from SciPy."""
    return float(SCALED[kind].std())


@pytest.mark.parametrize("kind", SCALED)
def test_variance_and_weight_decay_set_the_scale(kind: str) -> None:
    for width in ({"variance": 0.2}, {"weight_decay": 5}):
        assert prior(kind, **width).scale == pytest.approx(math.sqrt(0.2) / ratio(kind), rel=1e-12)
    assert prior(kind).scale == 1.0
    assert prior(kind, scale=0.3).scale == 0.3


@pytest.mark.parametrize("kind", SHAPED)
def test_a_standard_deviation_sets_the_scale_where_the_two_differ(kind: str) -> None:
    assert prior(kind, standard_deviation=0.7).scale == pytest.approx(0.7 / ratio(kind), rel=1e-12)


@pytest.mark.parametrize("width", [{"scale": 0.3}, {"variance": 0.2}, {"weight_decay": 40.0}], ids=str)
@pytest.mark.parametrize("kind", SCALED)
def test_settings_are_the_same_after_a_round_trip(kind: str, width: dict[str, float]) -> None:
    config = prior(kind, **width)
    dumped = config.model_dump(mode="json")
    assert PRIOR.validate_python(dumped) == config
    assert dumped["scale"] == config.scale
    assert ("variance" in dumped, "weight_decay" in dumped) == ("variance" in width, "weight_decay" in width)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "normal", "scale": 0.5, "variance": 0.3}, r"scale \(0\.5\) and variance \(0\.3\) are 2 widths"),
        ({"kind": "normal", "variance": 0.3, "weight_decay": 3}, r"give one of scale, variance, weight_decay \(null"),
        ({"kind": "logistic", "scale": 0.5, "standard_deviation": 1.0}, r"give one of scale, standard_deviation, var"),
        (
            {"kind": "mixture", "weights": [1], "scales": [1], "variance": 1, "standard_deviation": 1},
            r"standard_deviation \(1\) and variance \(1\) are 2 widths",
        ),
        ({"kind": "student_t", "degrees_of_freedom": 1, "variance": 1}, "variance is infinite: give scale instead"),
        ({"kind": "normal", "variance": 0}, r"variance\n  Input should be greater"),
        ({"kind": "normal", "weight_decay": -1}, r"weight_decay\n  Input should be greater"),
        ({"kind": "normal", "variance": "wide"}, r"variance\n  Input should be a valid number"),
    ],
    ids=str,
)
def test_other_widths_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PRIOR.validate_python(settings)


def test_null_takes_a_width_back() -> None:
    assert prior("normal", scale=None, variance=0.25).scale == 0.5
    assert prior("normal", scale=2.0, variance=None).scale == 2.0


@pytest.mark.parametrize("kind", SCALED)
def test_the_standard_deviation_of_a_prior(kind: str) -> None:
    assert standard_deviation(prior(kind, scale=0.3)) == pytest.approx(0.3 * ratio(kind), rel=1e-12)
    assert standard_deviation(prior(kind, weight_decay=16)) == pytest.approx(0.25, rel=1e-12)


def test_the_standard_deviation_of_other_priors() -> None:
    mixture = prior("mixture", weights=[0.5, 0.5], scales=[1, 2], locs=[-1, 1])
    assert standard_deviation(mixture) == pytest.approx(math.sqrt((1 + 1 + 4 + 1) / 2), rel=1e-12)
    assert standard_deviation(prior("standard_normal")) == 1.0
    assert standard_deviation(NormalPrior(loc=3.0, variance=4.0)) == 2.0
    assert standard_deviation(PRIOR.validate_python({"kind": "student_t", "degrees_of_freedom": 2})) is None
    for kind in ("glorot", "he", "normal_flat_bias", "empirical_covariance", "glorot_uniform"):
        assert standard_deviation(prior(kind)) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"kind": "cnn_lstm"}}, "not for words: use 'normal'"),
        ({"method": {"kind": "laplace"}}, "correlates parameters, which method.kind 'laplace' does not allow for"),
    ],
    ids=str,
)
def test_the_covariance_of_the_data_is_refused_where_it_has_no_meaning(changes: dict[str, Any], message: str) -> None:
    settings = RUN | {"prior": {"kind": "empirical_covariance"}}
    assert RunConfig.model_validate(settings).prior.kind == "empirical_covariance"
    with pytest.raises(ValidationError, match=message):
        RunConfig.model_validate(settings | changes)


@pytest.mark.parametrize("temperature", [0, -1.0, 1e-30])
def test_temperatures_that_are_not_positive_are_refused(temperature: float) -> None:
    with pytest.raises(ValidationError, match="temperature"):
        RunConfig.model_validate(RUN | {"temperature": temperature})
