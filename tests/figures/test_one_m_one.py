from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.drawing import write
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.sampling_perspective.one_m_one import one_m_one
from bnn_atlas.figures.shown import Shown
from bnn_atlas.provenance import Provenance
from tests.figures.conftest import Drawn
from tests.figures.layered_subsets import write_draws
from tests.figures.needs_r import needs_r
from tests.figures.shown import shown

Outputs = Callable[[str], FigureOutputs]
W1, W2 = "layer0.weight[0,0]", "layer1.weight[0,0]"


def run(folder: Path, width: int, sd: float, values: dict[str, np.ndarray] | None = None, **changes: object) -> Shown:
    """A run whose w1 and w2 have correlation 0.6 and standard deviations sd and sd / 2."""
    rng = np.random.default_rng(width)
    w1, other = rng.normal(size=(2, 4, 250))
    values = values or {W1: sd * w1, W2: sd / 2 * (0.6 * w1 + 0.8 * other)}
    name = f"m{width}-sd{sd:g}"
    file = write_draws(folder / f"{name}.parquet", values)
    return shown(name, {"subset": file}, **{"hidden": (width,), "prior_sd": sd, **changes})


@needs_r
def test_panels_hold_the_density_of_their_run(drawn: Drawn, tmp_path: Path) -> None:
    runs = [run(tmp_path, width, sd) for width in (5, 1) for sd in (0.1, 1.0)]
    table = drawn(one_m_one, runs)
    panels = table.groupby(["hidden", "prior_sd"], sort=False)
    assert list(panels.groups) == [(1, 1.0), (1, 0.1), (5, 1.0), (5, 0.1)]
    for (_, sd), panel in panels:
        weight = panel["density"] / panel["density"].sum()
        moments = np.cov(panel["w1"] / sd, panel["w2"] / (sd / 2), aweights=weight)
        np.testing.assert_allclose(moments, [[1, 0.6], [0.6, 1]], atol=0.3)
        # Cells have equal areas, so the densest tenth of the draws is denser than all the rest.
        assert panel["region"].between(0, 0.99).all()
        inner, outer = panel[panel["region"] <= 0.1], panel[panel["region"] > 0.1]
        assert inner["density"].min() >= outer["density"].max()
        assert inner["density"].sum() / panel["density"].sum() == pytest.approx(0.1, abs=0.02)
    # A column has one window: it is the union of what its panels need.
    ends = table.groupby("prior_sd")["w1"].max()
    assert ends[1.0] / ends[0.1] == pytest.approx(10, rel=0.15)


@needs_r
def test_the_density_does_not_fill_the_gap_between_modes(
    outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1, 1], (4, 500))
    mode = {name: sign * (1 + 0.05 * rng.normal(size=sign.shape)) for name in (W1, W2)}
    write(one_m_one, [run(tmp_path, 1, 0.1, mode)], outputs("a"), provenance)
    table = pd.read_csv(outputs("a").csv)
    assert (np.sign(table["w1"]) == np.sign(table["w2"])).all()
    assert table["w1"].abs().between(0.7, 1.3).all()


@needs_r
def test_a_chain_that_is_not_finite_is_left_out(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    good = np.random.default_rng(1).normal(size=(2, 3, 200))
    bad = good.copy()
    bad[:, 1] += 100
    bad[0, 1, 7] = np.nan
    write(one_m_one, [run(tmp_path / "x", 1, 1.0, dict(zip((W1, W2), bad, strict=True)))], outputs("a"), provenance)
    write(
        one_m_one,
        [run(tmp_path / "y", 1, 1.0, dict(zip((W1, W2), good[:, [0, 2]], strict=True)))],
        outputs("b"),
        provenance,
    )
    assert outputs("a").csv.read_bytes() == outputs("b").csv.read_bytes()
    assert outputs("a").png.read_bytes() != outputs("b").png.read_bytes()  # the remark


def same(folder: Path) -> Shown:
    return run(folder, 5, 1.0, {W1: np.ones((2, 9)), W2: np.ones((2, 9))})


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (lambda folder: [], "no runs to draw"),
        (lambda folder: [run(folder, 5, 1.0), run(folder, 5, 1.0, split=1)], r"\(split 0\) and .* both have M = 5"),
        (lambda folder: [run(folder, 5, 1.0, hidden=(5, 5))], "has 2 hidden layers"),
        (lambda folder: [run(folder, 5, 1.0)._replace(prior_sd=None)], "no prior N"),
        (lambda folder: [run(folder, 5, 1.0, {W1: np.ones((2, 9))})], r"no parameter layer1\.weight\[0,0\]"),
        (lambda folder: [same(folder)], "its chains never moved"),
    ],
)
def test_runs_that_do_not_fit_are_refused(
    runs: Callable[[Path], list[Shown]], says: str, outputs: Outputs, provenance: Provenance, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=says):
        write(one_m_one, runs(tmp_path), outputs("a"), provenance)
