"""docs/add_a_model.md works as it is written."""

import re
import textwrap

import jax
import numpy as np

from bnn_atlas.config.parts import posterior as parts
from bnn_atlas.models import networks
from bnn_atlas.symmetry import groups
from bnn_atlas.symmetry.permutation import apply
from tests.copies import REPOSITORY

PAGE = (REPOSITORY / "docs" / "add_a_model.md").read_text(encoding="utf-8")


def test_the_example_is_the_formula_and_its_units_can_be_exchanged() -> None:
    settings, module, build, check, symmetry = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = vars(parts) | vars(networks) | vars(groups)
    exec(settings, names)
    exec(module, names)
    for head, case in (
        ("def build(config, shape, outputs):", build),
        ("def check(config, tokens):", check + "    return allowed, fits"),
        ("def exchanged(config, builder):", symmetry + "    return groups"),
    ):
        exec(f"{head}\n    match config:\n" + textwrap.indent(case, 8 * " "), names)
    config = names["SkipConfig"](width=5)
    network = names["build"](config, (3,), 2)
    assert (network.layout.size, config.label) == (5 * 3 + 5 + 2 * 5 + 2 + 2 * 3, "skip 5")
    assert names["check"](config, tokens=True)[1] is False
    theta = np.asarray(network.initialise(jax.random.key(0)))
    arrays = {
        p.name: theta[network.layout.offset(p.name) :][: p.size].reshape(p.shape) for p in network.layout.parameters
    }
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    hidden = np.tanh(arrays["layer0.weight"] @ x.T + arrays["layer0.bias"][:, None])
    expected = arrays["layer1.weight"] @ hidden + arrays["layer1.bias"][:, None] + arrays["skip.weight"] @ x.T

    def outputs(parameters: np.ndarray) -> np.ndarray:
        return np.asarray(network.apply(parameters, network.arrange(x)))[:, :7]

    np.testing.assert_allclose(outputs(theta), expected, rtol=1e-5, atol=1e-6)
    found = groups.Symmetry(network.layout, tuple(names["exchanged"](config, groups._Builder(network.layout))))
    order = np.roll(np.arange(5, dtype=np.int16), 1)
    np.testing.assert_allclose(outputs(apply(found, theta, order)), expected, rtol=1e-5, atol=1e-6)


def test_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:src|tests|docs|workflow)/[\w/.]+)`", PAGE)) - {"src/bnn_atlas/models/skip.py"}
    assert len(named) == 9
    assert all((REPOSITORY / name).is_file() for name in named)
