from pathlib import Path

from bnn_atlas.figures.hmc_posteriors.cold_posterior import cold_posterior
from tests.figures.conftest import Drawn
from tests.figures.swept import swept


def test_samplers_have_lines_and_optima_are_level(drawn: Drawn, tmp_path: Path) -> None:
    temperatures = (0.1, 1, 10)
    hmc = [swept(tmp_path, f"h{t}", {"ece": 0.01 * t}, point={"temperature": t}) for t in temperatures]
    sgld = [
        swept(tmp_path, f"s{t}", label="SGLD", entry="sgld", method="sgld", point={"temperature": t}, converged=False)
        for t in temperatures
    ]
    sgd = swept(
        tmp_path, "sgd", {"accuracy": 0.7}, label="SGD", entry="sgd", method="map", settings={"temperature": 1.0}
    )
    table = drawn(cold_posterior, [*hmc, *sgld, sgd])
    own = table[(table["kind"] == "run") & (table["metric"] == "ece")]
    assert own[own["label"] == "HMC"].set_index("x")["value"].to_dict() == {0.1: 0.001, 1.0: 0.01, 10.0: 0.1}
    assert own.groupby("label")["converged"].all().to_dict() == {"HMC": True, "SGD": True, "SGLD": False}
    assert own.loc[own["label"] == "SGD", "x"].isna().all()
    theirs = table[table["kind"] == "published"]
    assert theirs.groupby("metric").size().to_dict() == {"accuracy": 6, "lppd": 6}
