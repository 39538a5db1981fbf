"""Settings of generators: the published architectures, and what is refused."""

import pytest
from pydantic import ValidationError

from bnn_atlas.config.language.base import validated
from bnn_atlas.config.methods.implicit import CorrelatedGenerator, ImplicitConfig, MatrixGenerator, Part
from tests.config.folders import refused

PART = Part(input=(3, 3), hidden=((2, 2),), output=(4, 4))
MLP = {"kind": "mlp", "noise": 3, "hidden": [4]}


def test_the_published_architectures_load_with_a_trunk():
    whole = CorrelatedGenerator(architecture="cifar100_gen_arch").written_out()
    assert (whole.architecture, len(whole.parts)) == (None, 15)
    trunk = ((250, 500), (983, 250))
    whole = CorrelatedGenerator(architecture="cifar_gen_architecture", trunk=trunk).written_out()
    assert whole.trunk == trunk
    assert sum(rows * columns for rows, columns in (part.output for part in whole.parts)) == 2_750_500


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "noise and parts are missing"),
        ({"architecture": "cifar100_gen_arch", "noise": (3, 3)}, "leave these out, or leave architecture out"),
        ({"architecture": "cifar_gen_architecture"}, "trunk is missing: .* has the 245,750 entries that the parts"),
        ({"noise": (2, 2), "trunk": ((3, 4),), "parts": (PART,)}, "ends in 12 entries, but the parts take 9: change"),
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
        ([3], "generator.hidden.0 = 3: must be a list, such as [a, b]"),
        ([], "generator.hidden = []: must have at least 1 item"),
    ],
)
def test_a_matrix_without_two_sizes_is_refused_once(hidden, message):
    generator = {"kind": "matrix", "noise": [2, 2], "hidden": hidden}
    with refused() as caught:
        validated(ImplicitConfig, {"generator": generator}, "study.yaml")
    assert str(caught.value) == f"study.yaml: {message}"
