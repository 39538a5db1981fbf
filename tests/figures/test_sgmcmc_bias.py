from pathlib import Path

import pytest

from bnn_atlas.figures.hmc_posteriors.sgmcmc_bias import STEP_SIZE, TEMPERATURE, _figure, _said, sgmcmc_bias
from bnn_atlas.figures.shown import Shown
from bnn_atlas.metrics.judgement.trust import UNCONVERGED
from tests.figures.swept import swept


def sgld(
    folder: Path, name: str, agreement: float, *, temperature: float, step_size: float, **changes: object
) -> Shown:
    against = {"agreement": agreement, "total_variation": 1 - agreement, "elpd_diff": agreement - 1}
    settings = {"temperature": temperature, "method": {"step_size": step_size}}
    fixed = {"label": "SGLD", "method": "sgld", "entry": name.rstrip("0123456789")}
    return swept(folder, name, settings=settings, against=against, **{**fixed, **changes})


def sweeps(folder: Path, note: str = "") -> list[Shown]:
    return [
        *(sgld(folder, f"step{i}", 0.9 - 0.01 * i, temperature=1.0, step_size=1e-6 * 2**i) for i in range(3)),
        *(
            sgld(folder, f"heat{i}", 0.8 + 0.02 * i, temperature=t, step_size=1e-6 * t)
            for i, t in enumerate((0.125, 1.0))
        ),
        sgld(
            folder, "other", 0.97, temperature=1.0, step_size=0.01, method="hmc", label="HMC, another seed", note=note
        ),
    ]


def test_entries_are_in_the_column_of_what_they_vary(tmp_path: Path) -> None:
    table = sgmcmc_bias(sweeps(tmp_path)).numbers
    agreement = table[(table["metric"] == "agreement") & (table["label"] == "SGLD")]
    by_field = {field: part.set_index("x")["value"].to_dict() for field, part in agreement.groupby("field")}
    assert by_field == {
        "method.step_size": pytest.approx({1e-6: 0.9, 2e-6: 0.89, 4e-6: 0.88}),
        "temperature": pytest.approx({0.125: 0.8, 1.0: 0.82}),
    }
    level = table[table["label"] == "HMC, another seed"]
    assert level["x"].isna().all()
    assert level.groupby("field").size().to_dict() == {"method.step_size": 3, "temperature": 3}
    assert set(table["against"]) == {"exact"}


def test_a_reference_that_has_not_converged_is_told_of_and_leaves_marks_open(tmp_path: Path) -> None:
    word = f"{UNCONVERGED}: R-hat above 1.1 at 12.0% of function values (at most 5%)"
    runs = [one for one in sweeps(tmp_path) if one.entry != "other"]
    runs.append(sgld(tmp_path, "heat9", 0.9, temperature=3.0, step_size=3e-6, note=f"{word}; against exact"))
    table = sgmcmc_bias(runs).numbers
    assert table.loc[table["x"] == 3.0, "converged"].eq(False).all()
    assert table.loc[table["x"] == 3.0, "reference"].eq(word).all()
    filled = table.fillna({"reference": "", "error_over": ""})
    figure = _figure(filled, [STEP_SIZE, TEMPERATURE])
    assert _said(filled) == [word]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim(), "both columns have one axis"


def test_one_column_where_only_one_field_varies(tmp_path: Path) -> None:
    assert set(sgmcmc_bias(sweeps(tmp_path)[:3]).numbers["field"]) == {"method.step_size"}


def test_runs_that_vary_neither_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no entry of this figure's runs varies method\.step_size or temperature"):
        sgmcmc_bias(sweeps(tmp_path)[:1])
