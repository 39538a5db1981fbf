"""Settings of generators: the ten published architectures, and what is refused."""

from typing import get_args

import pytest
from pydantic import ValidationError

from bnn_atlas.config.language.base import ConfigError, validated
from bnn_atlas.config.methods.generators import (
    ARCHITECTURES,
    CorrelatedGenerator,
    MatrixGenerator,
    Part,
    Published,
)
from bnn_atlas.config.methods.implicit import ImplicitConfig

COMPLETE = ("cifar100_gen_arch", "cifar100_gen_arch3", "cifar100_gen_arch4", "cifar100_gen_arch5", "cifar100_gen_arch7")
PART = Part(input=(3, 3), hidden=((2, 2),), output=(4, 4))
LACKING = {
    "cifar100_gen_arch2": "154,800",
    "cifar_gen_arch2": "390,000",
    "cifar_gen_arch3": "72,750",
    "cifar_gen_architecture": "245,750",
    "cifar_gen_test": "12,750",
}
"""Published architecture without a trunk -> the numbers that its parts take."""
MLP = {"kind": "mlp", "noise": 3, "hidden": [4]}


def test_every_published_architecture_is_listed():
    assert {path.stem for path in ARCHITECTURES.glob("*.yaml")} == set(get_args(Published))


@pytest.mark.parametrize("name", get_args(Published))
def test_each_loads_or_says_why_not(name):
    if name in LACKING:
        message = f"'{name}' has no trunk .*without which the published code stops.* has {LACKING[name]} entries"
        with pytest.raises(ValidationError, match=message) as caught:
            CorrelatedGenerator(architecture=name)
        example = "such as trunk: [[250, 500], [983, 250]]" in str(caught.value)
        assert example == (name == "cifar_gen_architecture")
        return
    assert name in COMPLETE
    whole = CorrelatedGenerator(architecture=name).written_out()
    assert whole.architecture is None
    assert len(whole.parts) in (15, 25)
    assert whole.spare == (20_050 if name == "cifar100_gen_arch7" else 0)


def test_a_trunk_repairs_the_one_that_it_fits():
    trunk = ((250, 500), (983, 250))
    whole = CorrelatedGenerator(architecture="cifar_gen_architecture", trunk=trunk).written_out()
    assert whole.trunk == trunk
    assert sum(rows * columns for rows, columns in (part.output for part in whole.parts)) == 2_750_500
    with pytest.raises(ValidationError, match="ends in 245,750 numbers, but its parts take 390,000"):
        CorrelatedGenerator(architecture="cifar_gen_arch2", trunk=trunk)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "noise and parts are missing"),
        ({"architecture": "cifar100_gen_arch", "noise": (3, 3)}, "leave these out, or architecture"),
        ({"noise": (2, 2), "parts": (PART, PART)}, "this generator has no trunk: give one whose .* has 18 entries"),
        ({"noise": (2, 2), "parts": (PART,), "spare": 2}, "has 11 entries, which its parts take together with spare"),
        ({"noise": (2, 2), "trunk": ((3, 4),), "parts": (PART,)}, "ends in 12 numbers, but its parts take 9"),
        ({"noise": (2, 2), "trunk": ((3, 4),), "spare": 2, "parts": (PART,)}, "take 9 and 2 are spare"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_add_up_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        CorrelatedGenerator(**settings)


def test_a_bias_of_low_rank_cannot_be_a_warm_start():
    with pytest.raises(ValidationError, match="bias_rank and last_bias: warm_start exclude each other"):
        MatrixGenerator(noise=(2, 2), hidden=((3, 3),), bias_rank=2, last_bias="warm_start")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0}, "0.001"),
        ({"sigma": 0.5}, "less than 0.5"),
        ({"objective": "published_2023_10", "prior_weight": 0.1}, "has its own weights"),
        ({"noise_init": 0.1}, "set noise: point"),
        ({"generated": {"layers": []}}, "at least 1 item"),
        ({"generator": {"kind": "gan"}}, "gan"),
    ],
)
def test_settings_of_the_method_that_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ImplicitConfig.model_validate({"generator": MLP, **settings})


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ([[3]], "generator.hidden.0 = [3]: must have 2 items"),
        ([[]], "generator.hidden.0 = []: must have 2 items"),
        ([[3, 3], [3, 3, 3]], "generator.hidden.1 = [3, 3, 3]: must have at most 2 items"),
        ([3], "generator.hidden.0 = 3: a list is wanted, such as [a, b]"),
        ([], "generator.hidden = []: must have at least 1 item"),
    ],
)
def test_a_matrix_without_two_sizes_is_refused_once(hidden, message):
    generator = {"kind": "matrix", "noise": [2, 2], "hidden": hidden}
    with pytest.raises(ConfigError) as caught:
        validated(ImplicitConfig, {"generator": generator}, "study.yaml")
    assert str(caught.value) == f"study.yaml: {message}"
