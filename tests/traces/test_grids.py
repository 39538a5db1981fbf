import tracemalloc

import numpy as np
import pytest

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces import TraceError, TraceWriter, open_trace
from bnn_atlas.traces.grids import BivariateGrids, Pair, automatic_limits, bivariate_grids, layer_pairs

from .making import LAYOUT, make_draws, write_trace

NAMES = LAYOUT.names()
PAIRS = [(NAMES[0], NAMES[5]), (NAMES[26], NAMES[0]), (NAMES[3], NAMES[3])]
PLACES = [(0, 5), (26, 0), (3, 3)]


@pytest.fixture(scope="module", params=["float32", "float64"])
def trace(tmp_path_factory, request):
    """6 chains x 50 draws with values on bin edges, outside all limits, infinite and NaN."""
    values = make_draws(6, 50, dtype=request.param)
    values[:, :20] = np.round(values[:, :20] * 4) / 4
    values[0, 0, :9], values[1, 1, :9], values[2, 2, 5] = 2.0, -2.0, 1e30
    values[3, 3, 0], values[4, 4, 5], values[4, 5, 26] = np.nan, np.inf, -np.inf
    path = tmp_path_factory.mktemp("grids") / "t"
    write_trace(path, values, {}, segment=20)
    return open_trace(path), values


def columns(values: np.ndarray, *places: int) -> list[np.ndarray]:
    return [values[..., place].reshape(-1).astype(float) for place in places]


@pytest.mark.parametrize("max_bytes", [1, 3000, 10**8])
@pytest.mark.parametrize("bins", [1, 7, 16])
def test_pairs_are_counted_as_numpy_does(trace, max_bytes, bins):
    source, values = trace
    grids = bivariate_grids(source, PAIRS, limits=(-2.0, 2.0), bins=bins, max_bytes=max_bytes)
    assert grids.counts.dtype == np.int64
    assert grids.pairs == tuple(PAIRS)
    for k, places in enumerate(PLACES):
        x, y = columns(values, *places)
        with np.errstate(invalid="ignore"):
            expected, x_edges, y_edges = np.histogram2d(x, y, bins, [(-2, 2), (-2, 2)])
        np.testing.assert_array_equal(grids.counts[k], expected)
        np.testing.assert_array_equal(grids.edges(k), [x_edges, y_edges])
        finite = np.isfinite(x) & np.isfinite(y)
        assert grids.nonfinite[k] == (~finite).sum()
        assert grids.outside[k] + grids.nonfinite[k] + grids.counts[k].sum() == grids.draws == 300
        area = np.diff(x_edges)[:, None] * np.diff(y_edges)
        np.testing.assert_allclose((grids.density(k) * area).sum(), expected.sum() / 300)


def test_values_at_edges_that_are_not_exact_go_where_numpy_puts_them(tmp_path):
    low, high, bins = -0.3, 0.7, 30
    edges = np.linspace(low, high, bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, -1), np.nextafter(edges, 1)])
    values = np.repeat(near[None, :, None], LAYOUT.size, axis=2)
    write_trace(tmp_path / "t", values, {}, segment=50)
    grids = bivariate_grids(open_trace(tmp_path / "t"), [(NAMES[0], NAMES[1])], limits=(low, high), bins=bins)
    np.testing.assert_array_equal(np.diag(grids.counts[0]), np.histogram(near, bins, (low, high))[0])
    assert grids.counts[0].sum() == np.trace(grids.counts[0])


def test_grids_are_kept_in_a_file(trace, tmp_path):
    source, _ = trace
    grids = bivariate_grids(source, PAIRS)
    for name in "ab":
        grids.save(tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    again = type(grids).load(tmp_path / "a.npz")
    for name, value in vars(grids).items():
        np.testing.assert_array_equal(vars(again)[name], value, strict=True) if isinstance(value, np.ndarray) else None
        assert type(vars(again)[name]) is type(value)
    assert again.draws == 300
    np.savez(tmp_path / "other.npz", counts=grids.counts, limits=grids.limits)
    with pytest.raises(TraceError, match=r"other\.npz: not a file of BivariateGrids \(missing: draws, nonfinite"):
        BivariateGrids.load(tmp_path / "other.npz")


def test_automatic_limits(trace, monkeypatch):
    source, values = trace
    monkeypatch.setattr("bnn_atlas.traces.grids.QUANTILE", 0.1)
    finite = [column[np.isfinite(column)] for column in columns(values, 0, 5)]
    assert automatic_limits(source, NAMES[5:6] + NAMES[:1], max_bytes=3000) == {
        NAMES[i]: tuple(np.quantile(column, [0.1, 0.9])) for i, column in zip((0, 5), finite, strict=True)
    }
    monkeypatch.setattr("bnn_atlas.traces.grids.QUANTILE_DRAWS", 60)
    thinned = values[:, ::5, 5].reshape(-1).astype(float)
    assert automatic_limits(source, [NAMES[5]])[NAMES[5]] == tuple(
        np.quantile(thinned[np.isfinite(thinned)], [0.1, 0.9])
    )


def test_few_draws_are_outside_automatic_limits(trace):
    grids = bivariate_grids(trace[0], [(NAMES[0], NAMES[1])], bins=4)
    assert (grids.outside + grids.nonfinite <= 6).all()


def test_limits_of_constants_and_of_nothing_finite(tmp_path):
    values = make_draws(2, 6)
    values[..., 0], values[..., 1] = 3.0, np.nan
    write_trace(tmp_path / "t", values, {})
    source = open_trace(tmp_path / "t")
    assert automatic_limits(source, NAMES[:1]) == {NAMES[0]: (2.5, 3.5)}
    with pytest.raises(ValueError, match=r"no finite draw of layer0.weight\[0,1\]"):
        automatic_limits(source, NAMES[:2])


@pytest.mark.parametrize("limits", [(1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (-1e308, 1e308), (1.0, 1.0 + 1e-15)])
def test_limits_without_room_are_refused(trace, limits):
    with pytest.raises(
        ValueError, match=r"limits of layer0.weight\[0,0\] must be finite, in ascending order, and have room for 9 bins"
    ):
        bivariate_grids(trace[0], [(NAMES[0], NAMES[0])], limits=limits, bins=9)


def test_names_and_limits_that_are_not_there(trace):
    with pytest.raises(ValueError, match=r"no parameter 'layer0.weight\[0,9\]' is stored in .*similar names are"):
        bivariate_grids(trace[0], [(NAMES[0], "layer0.weight[0,9]")], limits=(-1, 1))
    with pytest.raises(
        ValueError, match=r"no limits are given for layer0.weight\[0,1\]; they are given for layer0.weight\[0,0\]"
    ):
        bivariate_grids(trace[0], [(NAMES[0], NAMES[1])], limits={NAMES[0]: (-1, 1)})


@pytest.mark.parametrize("limits", [(-3.0, 3.0), None])
def test_memory_does_not_grow_with_the_draws(tmp_path, monkeypatch, limits):
    monkeypatch.setattr("bnn_atlas.traces.grids.QUANTILE_DRAWS", 10_000)
    # How many files are in reading at the same time, each with a buffer of fixed size, is a matter of chance.
    monkeypatch.setattr("bnn_atlas.traces.shard.READERS", 1)
    layout = Layout((Parameter("layer0.weight", (8, 4), "weight", 0, 4, 8),))
    peaks = []
    for draws in (400, 4000):
        writer = TraceWriter.create(
            tmp_path / str(draws), chains=50, draws=draws, layout=layout, statistics={}, segment=200,
            chain_ids=range(50), attributes={},
        )  # fmt: skip
        for k in range(writer.segments):
            writer.write(k, make_draws(50, 200, 32, seed=k), {})
        source = open_trace(tmp_path / str(draws))
        names = source.parameter_names
        tracemalloc.start()
        pairs = list(zip(names[:6], names[6:12], strict=True))
        grids = bivariate_grids(source, pairs, limits=limits, bins=50, max_bytes=1 << 20)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert grids.counts.sum() + grids.outside.sum() == 6 * 50 * draws
    assert peaks[1] < 1.5 * peaks[0], peaks
    assert peaks[1] < 50 * 4000 * 32 * 4 / 2, "less than half the draws"


def test_pairs_within_and_across_layers():
    pairs = layer_pairs(LAYOUT)
    assert [pair for pair in pairs if pair.role == "weight"] == [
        Pair("layer0.weight[0,0]", "layer0.weight[0,1]", "weight", 0, 0),
        Pair("layer0.weight[0,0]", "layer1.weight[0,1]", "weight", 0, 1),
        Pair("layer1.weight[0,0]", "layer0.weight[0,1]", "weight", 1, 0),
        Pair("layer1.weight[0,0]", "layer1.weight[0,1]", "weight", 1, 1),
    ]
    assert len([pair for pair in pairs if pair.role == "bias"]) == 4
    assert len(layer_pairs(LAYOUT, roles=["weight"], per_layer=3)) == 4 * 3
    assert {(pair.layer_x, pair.layer_y) for pair in layer_pairs(LAYOUT, per_layer=1)} == {(0, 1), (1, 0)}


def test_pairs_of_narrow_layers():
    layout = Layout(
        (
            Parameter("layer0.weight", (1, 1), "weight", 0, 1, 1),
            Parameter("layer1.weight", (2, 1), "weight", 1, 1, 2),
            Parameter("noise", (), "scale", None, 1, 1),
        )
    )
    assert layer_pairs(layout) == (
        Pair("layer0.weight[0,0]", "layer1.weight[1,0]", "weight", 0, 1),
        Pair("layer1.weight[0,0]", "layer0.weight[0,0]", "weight", 1, 0),
        Pair("layer1.weight[0,0]", "layer1.weight[1,0]", "weight", 1, 1),
    )
