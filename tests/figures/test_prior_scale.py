from collections.abc import Callable
from pathlib import Path

import pytest

from bnn_atlas.figures.hmc_posteriors.prior_scale import prior_scale
from bnn_atlas.figures.page import FigureOutputs
from tests.figures.conftest import Drawn
from tests.figures.swept import swept

Outputs = Callable[[str], FigureOutputs]


def test_variances_come_from_the_grid_or_from_the_prior(drawn: Drawn, tmp_path: Path) -> None:
    runs = [swept(tmp_path, f"v{v}", {"accuracy": 0.9 - v}, point={"prior.variance": v}) for v in (0.025, 0.1)]
    runs.append(swept(tmp_path, "reference", {"accuracy": 0.85}, prior_sd=0.5))
    table = drawn(prior_scale, runs)
    own = table[(table["kind"] == "run") & (table["metric"] == "accuracy")].set_index("x")["value"]
    assert own.to_dict() == pytest.approx({0.025: 0.875, 0.1: 0.8, 0.25: 0.85})
    theirs = table[table["kind"] == "published"].groupby("label", sort=False)["x"].agg(list)
    assert theirs.tolist() == [[0.025, 1.0], [0.00625, 1.0]], "only the ends of the ranges are known"


def test_a_prior_without_one_variance_is_refused(tmp_path: Path) -> None:
    run = swept(tmp_path, "he", prior_sd=None, settings={"prior": {"kind": "he"}})
    with pytest.raises(ValueError, match=r"run he: its settings have no value of 'prior\.variance'"):
        prior_scale([run])
