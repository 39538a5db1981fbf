from pathlib import Path

import numpy as np
import pytest

from bnn_atlas.figures import style, subsets
from bnn_atlas.figures.kinds.weight_covariance import block_means, correlations, covariances, weight_covariance
from bnn_atlas.figures.shown import Shown
from bnn_atlas.models.layout import Layout, Parameter
from tests.figures.shown import shown
from tests.figures.subset_files import write_subset


def names(inputs: int, *hidden: int) -> list[str]:
    parameters = []
    for layer, (fan_in, fan_out) in enumerate(zip((inputs, *hidden), (*hidden, 1), strict=True)):
        parameters.append(Parameter(f"layer{layer}.weight", (fan_out, fan_in), "weight", layer, fan_in, fan_out))
        parameters.append(Parameter(f"layer{layer}.bias", (fan_out,), "bias", layer, fan_in, fan_out))
    return Layout((*parameters, Parameter("log_sigma", (), "scale", None, 1, 1))).names()


def draws(size: int, chains: int = 4, count: int = 100) -> np.ndarray:
    """Draws far from 0, correlated within chains, whose means differ between chains."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(size, size)) / np.sqrt(size) + np.eye(size)
    return 50 + rng.normal(0, 1, (chains, 1, size)) + 0.2 * rng.normal(size=(chains, count, size)) @ mix


def network(folder: Path, inputs: int, *hidden: int, chains: int = 4, count: int = 100) -> Shown:
    name = "x".join(map(str, hidden))
    labels = names(inputs, *hidden)
    file = write_subset(folder / f"{name}.parquet", labels, draws(len(labels), chains, count))
    return shown(name, {"subset": file}, hidden=hidden, chains=chains)


def test_covariances_are_numpys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = draws(7)
    values[2, 5, 3] = np.nan
    file = write_subset(tmp_path / "draws.parquet", names(2, 1)[:3] + list("abcd"), values, [3, 4, 5, 6])
    monkeypatch.setattr(subsets.states, "__defaults__", (30,))
    found = covariances(file)
    kept = values[[0, 1, 3]]
    assert (found.chains, found.draws, found.left_out) == (3, 300, 1)
    np.testing.assert_allclose(found.pooled, np.cov(kept.reshape(-1, 7).T), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        found.within, np.mean([np.cov(chain.T) for chain in kept], axis=0), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(correlations(found.pooled), np.corrcoef(kept.reshape(-1, 7).T), rtol=1e-8, atol=1e-10)


def test_a_parameter_that_does_not_vary_has_no_correlation(tmp_path: Path) -> None:
    values = draws(4)
    values[:, :, 1] = 50.3
    found = correlations(covariances(write_subset(tmp_path / "draws.parquet", list("abcd"), values)).pooled)
    assert np.isnan(found[1]).all()
    assert np.isnan(found).sum() == 7


def test_matrices_of_several_runs(tmp_path: Path) -> None:
    runs = [network(tmp_path, 5, 4), network(tmp_path, 2, 6, 4)]
    table = weight_covariance(runs).numbers
    blocks = table[(table["run"] == "4") & (table["kind"] != "pair")]
    assert list(zip(blocks["row"], blocks["column"], strict=True))[:2] == [
        ("layer 1", "layer 1"),
        ("layer 1", "layer 2"),
    ]
    small = table[(table["run"] == "4") & (table["kind"] == "pair")]
    size = len(names(5, 4))
    assert len(small) == size * (size + 1) // 2
    one = small[(small["row"] == "W1[1,1]") & (small["column"] == "b2[1]")].iloc[0]
    place = names(5, 4).index("layer1.bias[0]")
    within = np.mean([np.cov(chain.T) for chain in draws(size)], axis=0)
    correlation = within[0, place] / np.sqrt(within[0, 0] * within[place, place])
    assert one["correlation_within_chains"] == pytest.approx(correlation, rel=1e-3)


def test_block_means_leave_out_the_diagonal_and_what_is_undefined() -> None:
    names = ["layer0.weight[0,0]", "layer0.bias[0]", "layer1.weight[0,0]", "log_sigma"]
    sizes = np.array([[9.0, 0.2, 0.4, np.nan], [0.2, 9, 0.6, np.nan], [0.4, 0.6, 9, np.nan], [np.nan] * 4])
    layers, means = block_means(sizes, names)
    assert layers == ["layer 1", "layer 2", "other"]
    np.testing.assert_allclose(means, [[0.2, 0.5, np.nan], [0.5, np.nan, np.nan], [np.nan] * 3])


def test_a_parameter_has_a_pixel_or_more(tmp_path: Path) -> None:
    with style.context():
        figure = weight_covariance([network(tmp_path, 5, 24, 24, 16, chains=2, count=4)]).figure
        figure.draw_without_rendering()
    matrix = next(ax for ax in figure.axes if ax.get_title(loc="left").startswith("correlation"))
    assert matrix.get_window_extent().width * style.DPI / figure.dpi >= len(names(5, 24, 24, 16))


def test_many_chains_have_block_means_of_all_draws(tmp_path: Path) -> None:
    drawing = weight_covariance([network(tmp_path, 2, 2, chains=100, count=3)])
    columns = ["correlation_within_chains", "correlation_all_draws"]
    assert list(drawing.numbers.columns)[5:] == columns


def test_one_chain_is_enough(tmp_path: Path) -> None:
    assert list(weight_covariance([network(tmp_path, 5, 16, chains=1, count=20)]).numbers.columns)[5:] == [
        "correlation_one_chain"
    ]


def test_bad_tables_are_refused_in_words(tmp_path: Path) -> None:
    for values, says in (
        (np.ones((2, 1, 2)), "one draw per chain has no covariance"),
        (np.full((2, 5, 2), np.nan), "every chain holds values that are not finite"),
        (np.ones((0, 5, 2)), "there are no draws"),
        (np.ones((1, 2, 1501)), "1501 parameters"),
    ):
        labels = [f"w[{i}]" for i in range(values.shape[2])]
        with pytest.raises(ValueError, match=says):
            covariances(write_subset(tmp_path / "draws.parquet", labels, values))
