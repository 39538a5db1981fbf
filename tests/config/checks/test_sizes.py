"""Settings against the numbers of rows and parameters that are known before anything is made."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.checks.sizes import MOST_FACTORISED, arrays_of
from bnn_atlas.config.parts.posterior import (
    CNNLSTMConfig,
    LeNet5Config,
    LeNet5MaxConfig,
    LeNetConfig,
    LeNettiConfig,
    MLPConfig,
    ModelConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.config.settings import load_study
from bnn_atlas.methods.laplace.structure import LARGEST
from bnn_atlas.models.networks import build_network
from bnn_atlas.posterior.density import build_posterior
from tests.config.folders import DATASETS, RUN, Edit, figure, figures, nested, refused, run_edit, study_file

LAPLACE = {"kind": "laplace", "map_steps": 10, "steps": 10}
LEARNED = {"kind": "learned_noise"}


def fit(kind: str, **settings: Any) -> dict[str, Any]:
    return {"kind": kind, "epochs": 10, "steps": 10, **settings}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (run_edit(method=fit("mean_field", batch_size=355)), "one.method.batch_size = 355: there are 354 rows; lower"),
        (run_edit(method=fit("mean_field", batch_size=354)), None),
        (
            run_edit(method=fit("ivon", batch_size=320), split={"test": 0.2, "validation_in_likelihood": False}),
            "method.batch_size = 320: there are 319 rows",
        ),
        (
            run_edit(method=fit("mean_field", batch_size=5), data_shards=2),
            "method.batch_size = 5: data_shards divides the rows among 2 devices; use a multiple of 2",
        ),
        (nested("warmstart", batch_size=320), "one.warmstart.batch_size = 320: there are 319 training rows"),
        (nested("warmstart", batch_size=319), None),
        (nested("split", limit=100), None),
        (run_edit(method=LAPLACE, model={"hidden": [200, 100]}), "a matrix over 22,401 scalars, more than 20,000"),
        (run_edit(method=LAPLACE | {"structure": "kronecker"}, model={"hidden": [200, 100]}), None),
        (run_edit(method=LAPLACE | {"structure": "last_layer"}, model={"hidden": [200, 100]}), None),
        (
            run_edit(method=LAPLACE | {"structure": "last_layer"}, model={"hidden": [20_000]}, likelihood=LEARNED),
            "method.structure = 'last_layer': it would factorise a matrix over 20,002 scalars",
        ),
        (run_edit(method=fit("low_rank", rank=70)), "method.rank = 70: the posterior has 69 parameters"),
        (figures(f={"draw": "bumps", "runs": ["one"], "subset": {"layers": [99]}}), "f.subset.layers: 99: the network"),
        (figures(f={"draw": "bumps", "runs": ["one"], "subset": {"layers": [2]}}), None),
        (
            figures(f={"draw": "bumps", "runs": ["one"], "subset": {"draws": [5, 2]}}),
            "f.subset: draws = [5, 2]: ",
        ),
        (
            figures(f={"draw": "bumps", "runs": ["one"], "subset": {"draws": [5, 11]}}),
            "f.subset.draws = [5, 11]: run 'one' keeps 10 draws of each chain",
        ),
        (figures(f={"draw": "bumps", "runs": ["one"], "subset": {"roles": ["scale"]}}), "'scale': run 'one' has bias"),
        (
            figures(f={"draw": "bumps", "runs": ["one"], "subset": {"parameters": ["layer0.weigth"]}}),
            "'layer0.weigth': no parameter of run 'one' (did you mean 'layer0.weight'?)",
        ),
        (
            figures(f={"draw": "bumps", "runs": ["one"], "subset": {"parameters": ["layer0.weight[3,9]"]}}),
            None,
        ),
        (
            figures(f={"draw": "bumps", "runs": ["one"], "subset": {"pattern": "layer3*"}}),
            "f.subset.pattern = 'layer3*': no parameter of run 'one' matches",
        ),
        (figures(f={"draw": "bumps", "runs": ["one"], "subset": {"pattern": "layer?.weight[3,*]"}}), None),
        (
            figures(f={"draw": "cloud", "runs": ["one"], "grid": {"pairs": [["nope", "layer0.bias[0]"]]}}),
            "f.grid.pairs: 'nope': no scalar of run 'one'; the last one of each array is layer0.bias[3], layer0.weig",
        ),
        (
            figures(f={"draw": "cloud", "runs": ["one"], "grid": {"pairs": [["layer0.bias[0]", "layer0.bias[4]"]]}}),
            "f.grid.pairs: 'layer0.bias[4]': no scalar of run 'one'",
        ),
        (figure(labels={"one": r"$\alpha$ and \$5"}), None),
        (figure(labels={"one": "for $5"}), None),
        (figure(labels={"one": r"a $\foo$"}), r"figures.curve.labels.one = 'a $\foo$': this formula cannot be drawn"),
        (figure(labels={"one": "fine\n$x_$"}), "figures.curve.labels.one"),
    ],
)
def test_what_only_a_job_refused(edit: Edit, message: str | None, tmp_path: Path) -> None:
    path = study_file(tmp_path, edit)
    if message is None:
        load_study(path, "paper", DATASETS)
        return
    with refused(message):
        load_study(path, "paper", DATASETS)


def test_the_limit_is_that_of_the_method() -> None:
    assert MOST_FACTORISED == LARGEST


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("likelihood", [LEARNED, {"kind": "heteroscedastic"}])
def test_arrays_are_those_of_the_network(likelihood: dict[str, Any], bias: bool, tmp_path: Path) -> None:
    edit = run_edit(likelihood=likelihood, model=RUN["model"] | {"bias": bias})
    run = load_study(study_file(tmp_path, edit), "paper", DATASETS).runs["one"]
    config = run.config
    posterior, _ = build_posterior(config.model, config.likelihood, config.prior, temperature=1.0, shape=(10,))
    layout = posterior.layout
    assert arrays_of(run, DATASETS["diabetes"]) == {p.name: p.shape for p in layout.parameters}


@pytest.mark.parametrize(
    "model",
    [
        MLPConfig(hidden=(3, 2)), MLPConfig(hidden=()), LeNetConfig(), LeNet5Config(), LeNet5MaxConfig(),
        LeNettiConfig(), ResNetFRNConfig(depth=8), ResNetFRNConfig(depth=14), CNNLSTMConfig(),
        WideResNetFRNConfig(depth=10, widen=1), WideResNetFRNConfig(depth=16, widen=2),
    ],
    ids=lambda model: model.label,
)  # fmt: skip
def test_layers_are_those_of_the_network(model: ModelConfig) -> None:
    shape = {"mlp": (4,), "cnn_lstm": (40,)}.get(model.kind, (32, 32, 3))
    layout = build_network(model, shape, 10, 50 if model.kind == "cnn_lstm" else 0).layout
    assert model.layers == 1 + max(p.layer for p in layout.parameters if p.layer is not None)
