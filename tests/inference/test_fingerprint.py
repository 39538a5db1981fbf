"""Which code the fingerprint of a trace depends on."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bnn_atlas import sources
from bnn_atlas.config.methods.gaussian import LaplaceConfig, LowRankConfig
from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.starts import WarmStartConfig
from bnn_atlas.inference.fingerprint import code_of_draws, code_of_predictions, code_of_starts

HMC = HMCConfig(step_size=0.1, trajectory_length=1.0)
POSTERIOR = PosteriorConfig.model_validate(
    {
        "model": {"kind": "mlp", "hidden": [8]},
        "likelihood": {"kind": "learned_noise"},
        "prior": {"kind": "normal", "scale": 1.0},
    }
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the library, which the fingerprint is taken of."""
    copy = tmp_path / "bnn_atlas"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "cache"))
    sources.forget()
    yield copy
    sources.forget()


def draws(method=HMC, posterior: PosteriorConfig = POSTERIOR, *, stopped: bool = False) -> str:
    sources.forget()
    return code_of_draws(method, posterior, stopped=stopped)


def edit(package: Path, name: str, pattern: str = "", new: str = "") -> None:
    """Replace a pattern in a file of the copy; without one, add a number to the first that is computed with."""
    file = package / name
    text, count = re.subn(pattern, new, file.read_text(), count=1, flags=re.MULTILINE)
    assert count, f"{name} does not have {pattern}"
    file.write_text(text)
    sources.forget()


@pytest.mark.parametrize(
    ("name", "pattern", "new"),
    [
        ("methods/hmc.py", r"^DIVERGENCE = ", "DIVERGENCE = 2 * "),
        ("methods/noise.py", r"return ", "return 2 * "),
        ("posterior/density.py", r"self\.temperature", "(2 * self.temperature)"),
        ("posterior/likelihoods.py", r"return -0\.5 \* z \* z", "return -0.25 * z * z"),
        ("posterior/prior_densities.py", r"return -0\.5 \* z \* z", "return -0.25 * z * z"),
        ("models/mlp.py", r"^ACTIVATIONS.* = {", r"\g<0>'swish': jax.nn.swish, "),
        ("keys.py", r"^_PARITY = ", "_PARITY = 1 ^ "),
        ("keys.py", r"group % 2", "(group + 1) % 2"),
        ("placement.py", r'^DATA_AXIS = "data"', 'DATA_AXIS = "rows"'),
        ("inference/problem.py", r"1e6 \*", "2e6 *"),
    ],
)
def test_code_that_makes_the_draws_counts(package, name, pattern, new):
    before = draws()
    edit(package, name, pattern, new)
    assert draws() != before


def test_several_starts_depend_on_their_method_and_on_their_choice(package):
    one, several = (LowRankConfig(starts=starts) for starts in (1, 3))
    before = draws(one), draws(several)
    assert before[0] != before[1]
    edit(package, "methods/restarts.py", r"^COMPARED = ", "COMPARED = 2 * ")
    after = draws(one), draws(several)
    assert after[0] == before[0]
    assert after[1] != before[1]
    edit(package, "methods/low_rank.py", r"return ", "return 2 * ")
    assert draws(several) != after[1]


def everywhere(package: Path, change: Callable[[str], str]) -> None:
    for file in package.rglob("*.py"):
        file.write_text(change(file.read_text()))


def test_words_do_not_count(package):
    """Docstrings, comments and messages of every module of the library."""
    before = draws(), code_of_predictions(POSTERIOR), code_of_starts(POSTERIOR, WarmStartConfig())
    everywhere(package, lambda text: re.sub(r'"""(\w)', r'"""Changed. \1', text) + "# the end\n")
    everywhere(package, lambda text: re.sub(r'raise (\w+)\(f?"', r'raise \1("Changed. " f"', text))
    assert (draws(), code_of_predictions(POSTERIOR), code_of_starts(POSTERIOR, WarmStartConfig())) == before


@pytest.mark.parametrize(
    ("name", "pattern", "new"),
    [
        ("methods/laplace/lbfgs.py", r"return ", "return 2 * "),
        ("methods/mclmc_tuning.py", r"return ", "return 2 * "),
        ("methods/nuts.py", r"return ", "return 2 * "),
        ("models/lenet.py", r"return ", "return 2 * "),
        ("posterior/prior_densities.py", r"return -jnp\.abs\(z\)", "return -2 * jnp.abs(z)"),
        ("metrics/formulas/averages.py", r"return ", "return 2 * "),
        ("runner/stopping.py", r"return ", "return 2 * "),
        ("inference/pointwise.py", r"return ", "return 2 * "),
    ],
)
def test_code_of_other_runs_does_not(package, name, pattern, new):
    before = draws()
    edit(package, name, pattern, new)
    assert draws() == before


def test_a_new_prior_model_and_method_leave_other_runs_alone(package):
    before = draws(), code_of_predictions(POSTERIOR)
    edit(
        package,
        "config/parts/priors.py",
        r"^class LaplacePrior\(",
        "class CauchyPrior(_Width):\n    pass\n\n\nclass LaplacePrior(",
    )
    edit(package, "posterior/prior_densities.py", r"^    LaplacePrior,\n", "    LaplacePrior,\n    CauchyPrior,\n")
    edit(
        package,
        "posterior/prior_densities.py",
        r"^        case LaplacePrior\(\):",
        "        case CauchyPrior():\n            return _Numbers(CAUCHY, zeros, zeros)\n        case LaplacePrior():",
    )
    edit(
        package,
        "posterior/prior_densities.py",
        r"^LAPLACE = ",
        'CAUCHY = Family("cauchy", _normal, None, None)\nLAPLACE = ',
    )
    edit(
        package,
        "config/parts/posterior.py",
        r"^class LeNetConfig\(",
        "class AlexNetConfig(Model):\n    pass\n\n\nclass LeNetConfig(",
    )
    edit(package, "models/networks.py", r"^    LeNetConfig,\n", "    LeNetConfig,\n    AlexNetConfig,\n")
    for body in ("return _of_images(AlexNet(outputs), shape)", 'allowed, fits = "images", image'):
        edit(
            package,
            "models/networks.py",
            r"^        case LeNetConfig\(\):",
            f"        case AlexNetConfig():\n            {body}\n        case LeNetConfig() :",
        )
    edit(package, "config/methods/registry.py", r"\Z", "OTHER = 1\n")
    assert (draws(), code_of_predictions(POSTERIOR)) == before


def test_a_method_depends_on_what_it_uses(package):
    laplace, mile = LaplaceConfig(), MCLMCConfig()
    before = draws(laplace), draws(mile)
    edit(package, "methods/laplace/lbfgs.py", r"return ", "return 2 * ")
    assert draws(laplace) != before[0]
    assert draws(mile) == before[1]
    edit(package, "metrics/formulas/rhat_ess.py", r"return ", "return 2 * ")
    assert draws(mile) == before[1]
    edit(package, "metrics/formulas/rhat_ess.py", r"^def effective_size(.|\n)*?return ", r"\g<0>2 * ")
    assert draws(mile) != before[1]


@pytest.mark.parametrize("name", ["runner/stopping.py", "inference/pointwise.py"])
def test_where_a_rule_ends_the_chains_its_code_counts(package, name):
    before = draws(stopped=True)
    edit(package, name, r"return ", "return 2 * ")
    assert draws(stopped=True) != before


def test_predictions_depend_on_no_formula_of_a_metric(package):
    before = code_of_predictions(POSTERIOR)
    for name in ("metrics/formulas/averages.py", "metrics/gathering/curves.py", "metrics/judgement/measure.py"):
        edit(package, name, r"return ", "return 2 * ")
        assert code_of_predictions(POSTERIOR) == before
    edit(package, "metrics/gathering/summary.py", r"return ", "return 2 * ")
    assert code_of_predictions(POSTERIOR) != before
