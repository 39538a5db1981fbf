import numpy as np
import pytest

from bnn_atlas.traces import open_pool, pool_traces
from bnn_atlas.traces.convert import LazyArray
from bnn_atlas.traces.subset import choose

from .making import LAYOUT


@pytest.fixture
def pool(make_trace, tmp_path):
    paths, parts = [], []
    for i in range(2):
        trace, values, statistics = make_trace(f"block{i}", 3, 10, chain_ids=[i, i + 2, i + 4], seed=i)
        paths.append(trace.path)
        parts.append((values, statistics))
    pool_traces(paths, tmp_path / "pool.json")
    values = np.stack([part[0] for part in parts], axis=1).reshape(6, 10, -1)
    statistics = {n: np.stack([part[1][n] for part in parts], axis=1).reshape(6, 10) for n in parts[0][1]}
    return open_pool(tmp_path / "pool.json"), values, statistics


@pytest.fixture
def requests(monkeypatch):
    """Shapes of what is read through xarray."""
    shapes = []
    outer = LazyArray._outer

    def record(self, key):
        values = outer(self, key)
        shapes.append(values.shape)
        return values

    monkeypatch.setattr(LazyArray, "_outer", record)
    return shapes


def test_xarray_reads_only_what_is_computed_with(pool, requests):
    source, values, statistics = pool
    dataset = source.to_xarray()
    assert dict(dataset.sizes) == {"chain": 6, "draw": 10, "parameter": LAYOUT.size}
    assert dataset["parameter"].values.tolist() == LAYOUT.names()
    assert dataset.attrs["study"] == "s"
    weights = dataset["draws"].sel(parameter=["layer1.bias[1]", "layer0.weight[0,2]"])
    part = weights.isel(draw=slice(2, 9, 3), chain=4)
    assert not requests
    np.testing.assert_array_equal(part, values[4, 2:9:3][:, [LAYOUT.size - 2, 2]])
    assert requests == [(3, 2)]
    np.testing.assert_array_equal(dataset["draws"], values)
    np.testing.assert_array_equal(dataset["draws"][::-1, 3], values[::-1, 3])
    np.testing.assert_array_equal(dataset["draws"].sel(chain=2, draw=7), values[2, 7])
    np.testing.assert_array_equal(dataset["divergent"], statistics["divergent"])
    np.testing.assert_array_equal(dataset["steps"].mean("draw"), statistics["steps"].mean(1))


def test_arviz_gets_one_variable_per_array(pool, requests):
    source, values, statistics = pool
    data = source.to_arviz()
    assert set(data.groups()) == {"posterior", "sample_stats"}
    assert list(data["posterior"].data_vars) == [p.name for p in LAYOUT.parameters]
    assert data["posterior"]["layer0.weight"].dims == ("chain", "draw", "layer0.weight.fan_out", "layer0.weight.fan_in")
    assert data["posterior"]["layer1.bias"].dims == ("chain", "draw", "layer1.bias.fan_out")
    assert data["posterior"]["log_sigma"].dims == ("chain", "draw")
    assert data["posterior"]["chain"].values.tolist() == [0, 1, 2, 3, 4, 5]
    assert not requests
    arrays = LAYOUT.unflatten(values)
    for name, expected in arrays.items():
        np.testing.assert_array_equal(data["posterior"][name], expected)
    np.testing.assert_array_equal(
        data["posterior"]["layer0.weight"][1, ::2, 3, [2, 0]], arrays["layer0.weight"][1, ::2, 3][:, [2, 0]]
    )
    np.testing.assert_array_equal(data["sample_stats"]["energy_error"], statistics["energy_error"])


def test_arviz_computes_with_it(pool):
    import arviz

    source, values, _ = pool
    ours = arviz.rhat(source.to_arviz(), var_names=["layer1.weight", "log_sigma"])
    np.testing.assert_allclose(ours["log_sigma"], arviz.rhat(values[:, :, -1].astype(float)), rtol=1e-6)
    assert ours["layer1.weight"].shape == (2, 4)


def test_arviz_gets_the_scalars_of_arrays_that_a_selection_cuts(pool):
    source, values, _ = pool
    part = choose(source, parameters=["layer1.bias", "layer0.weight[1,0]"], thinning=3)
    data = part.to_arviz()
    assert list(data["posterior"].data_vars) == ["layer0.weight[1,0]", "layer1.bias"]
    np.testing.assert_array_equal(data["posterior"]["layer0.weight[1,0]"], values[:, ::3, 3])
    np.testing.assert_array_equal(data["posterior"]["layer1.bias"], values[:, ::3, -3:-1])
    assert data["posterior"]["draw"].values.tolist() == [0, 3, 6, 9]
