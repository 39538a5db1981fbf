"""docs/add_a_prior.md works as it is written."""

import re
import textwrap

import jax
import numpy as np
import scipy.stats

from bnn_atlas.config.parts import priors
from bnn_atlas.posterior import prior_densities
from tests.copies import REPOSITORY

PAGE = (REPOSITORY / "docs" / "add_a_prior.md").read_text(encoding="utf-8")


def test_the_example_has_the_density_that_it_says() -> None:
    settings, family, case = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = vars(priors) | vars(prior_densities)
    exec(settings, names)
    exec(family, names)
    exec("def numbers(config, zeros):\n    match config:\n" + textwrap.indent(case, 8 * " "), names)
    config = names["SecantPrior"](loc=0.4, standard_deviation=0.5)
    found, loc, scale, _ = names["numbers"](config, np.zeros(1))
    theta = np.linspace(-3, 3, 7)
    z = (theta - loc) / scale
    log_density = np.asarray(found.log_density(z, None)) - found.log_unit(None) - np.log(scale)
    # SciPy's has the scale 1 where its standard deviation is pi / 2.
    np.testing.assert_allclose(log_density, scipy.stats.hypsecant.logpdf(theta, 0.4, scale[0]), atol=1e-5)
    draws = loc + scale * np.asarray(found.draw(jax.random.key(0), np.zeros(40_000, np.float32), None))
    assert abs(draws.mean() - 0.4) < 0.01
    assert abs(draws.std() - 0.5) < 0.01


def test_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:src|tests|docs|workflow)/[\w/.]+)`", PAGE))
    assert len(named) == 5
    assert all((REPOSITORY / name).is_file() for name in named)
