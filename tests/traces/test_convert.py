import json
import pickle

import numpy as np
import pytest
import xarray

from bnn_atlas.traces import open_pool, open_trace, pool_traces
from bnn_atlas.traces.convert import LazyArray

from .making import LAYOUT, make_draws, write_trace


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


def as_tree(data):
    """What ArviZ 1 works with, also from an InferenceData of earlier versions."""
    return data if isinstance(data, xarray.DataTree) else data.to_datatree()


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
    np.testing.assert_array_equal(dataset["diverging"], statistics["divergent"])
    np.testing.assert_array_equal(dataset["steps"].mean("draw"), statistics["steps"].mean(1))


def test_arviz_gets_one_variable_per_array(pool, requests):
    source, values, statistics = pool
    data = source.to_arviz()
    assert set(as_tree(data).children) == {"posterior", "sample_stats"}
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


SAMPLER = {"log_likelihood": "float32", "log_prior": "float32", "acceptance": "float32", "divergent": "int32",
           "gradients": "int32", "step_size": "float32", "tree_depth": "float32"}  # fmt: skip
PROVENANCE = {"commit": None, "settings": {"method": {"kind": "nuts"}}}


@pytest.fixture
def sampled(tmp_path):
    """A trace with the statistics of NUTS and attributes that are text, numbers, and neither."""
    numbers = np.random.default_rng(3)
    statistics = {name: numbers.integers(0, 4, (2, 10)).astype(kind) for name, kind in SAMPLER.items()}
    attributes = {"fingerprint": "f", "splits": 3, "provenance": PROVENANCE, "marks": [], "stopped": True}
    write_trace(tmp_path / "t.zarr", make_draws(2, 10), statistics, attributes=attributes)
    return open_trace(tmp_path / "t.zarr"), statistics


def test_statistics_have_the_names_and_types_of_arviz(sampled):
    source, statistics = sampled
    found = source.to_arviz()["sample_stats"]
    assert set(found.data_vars) == {
        "total_log_likelihood", "log_prior", "lp", "acceptance_rate", "diverging", "n_steps", "step_size", "tree_depth",
    }  # fmt: skip
    assert found["diverging"].dtype == bool
    np.testing.assert_array_equal(found["diverging"], statistics["divergent"] > 0)
    np.testing.assert_array_equal(found["lp"][1, 2:5], (statistics["log_likelihood"] + statistics["log_prior"])[1, 2:5])
    np.testing.assert_array_equal(found["n_steps"], statistics["gradients"])
    assert set(source.to_xarray().data_vars) == {"draws", *found.data_vars}


@pytest.mark.filterwarnings("ignore:ArviZ is undergoing")
def test_the_log_likelihood_of_all_rows_is_not_taken_for_that_of_each(sampled):
    import arviz

    with pytest.raises(TypeError, match="log likelihood not found"):
        arviz.loo(sampled[0].to_arviz())


def test_files_of_xarray_have_everything(sampled, tmp_path):
    dataset = sampled[0].to_xarray()
    dataset.to_netcdf(tmp_path / "x.nc")
    dataset.to_zarr(tmp_path / "x.zarr", consolidated=False)
    for read in (xarray.open_dataset(tmp_path / "x.nc"), xarray.open_zarr(tmp_path / "x.zarr", consolidated=False)):
        with read as again:
            assert again.identical(dataset)
            assert json.loads(again.attrs["provenance"]) == PROVENANCE
            assert (again.attrs["fingerprint"], again.attrs["splits"]) == ("f", 3)


@pytest.mark.parametrize("part", [{}, {"parameters": ["layer1.bias", "layer0.weight[1,0]"]}], ids=["all", "selection"])
def test_files_of_arviz_have_everything(sampled, tmp_path, part):
    import arviz

    source = sampled[0].select(**part) if part else sampled[0]
    data = source.to_arviz({"observed_data": {"y": (("row",), np.arange(3.0))}})
    data.to_netcdf(tmp_path / "i.nc")
    as_tree(data).to_zarr(tmp_path / "i.zarr", consolidated=False)
    from_zarr = xarray.open_datatree(tmp_path / "i.zarr", engine="zarr", consolidated=False)
    if arviz.__version__.startswith("0."):
        from_zarr = arviz.InferenceData.from_datatree(from_zarr)
    expected = as_tree(data).children
    assert set(expected) == {"posterior", "sample_stats", "observed_data"}
    for again in (arviz.from_netcdf(tmp_path / "i.nc"), from_zarr):
        found = as_tree(again).children
        assert set(found) == set(expected)
        assert all(found[name].to_dataset().identical(expected[name].to_dataset()) for name in expected)


def test_from_version_1_on_it_is_a_tree(sampled, monkeypatch, requests):
    import arviz

    monkeypatch.setattr(arviz, "__version__", "1.3.0")
    tree = sampled[0].to_arviz()
    assert isinstance(tree, xarray.DataTree)
    assert not requests
    monkeypatch.undo()
    children = as_tree(sampled[0].to_arviz()).children
    assert set(tree.children) == set(children)
    assert all(tree[name].to_dataset().identical(children[name].to_dataset()) for name in children)


def test_arviz_computes_with_it(pool):
    import arviz

    source, values, _ = pool
    ours = arviz.rhat(source.to_arviz(), var_names=["layer1.weight", "log_sigma"])
    np.testing.assert_allclose(ours["log_sigma"], arviz.rhat(values[:, :, -1].astype(float)), rtol=1e-6)
    assert ours["layer1.weight"].shape == (2, 4)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # used by ArviZ
def test_every_dimension_has_a_coordinate_and_the_objects_can_be_pickled(pool):
    source, values, _ = pool
    data = source.to_arviz({"observed_data": {"y": (("row",), np.arange(3.0))}})
    for child in as_tree(data).children.values():
        assert set(child.dims) <= set(child.coords)
    again = pickle.loads(pickle.dumps(data))
    for name, child in as_tree(data).children.items():
        assert child.to_dataset().identical(as_tree(again)[name].to_dataset())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source.to_xarray()))["draws"], values)
    if hasattr(data, "to_dataframe"):  # before ArviZ 1
        frame = data.to_dataframe(groups=["posterior"], include_coords=False)
        assert len(frame) == values.shape[0] * values.shape[1]


def test_arviz_gets_the_scalars_of_arrays_that_a_selection_cuts(pool):
    source, values, _ = pool
    part = source.select(parameters=["layer1.bias", "layer0.weight[1,0]"], thinning=3)
    data = part.to_arviz()
    assert list(data["posterior"].data_vars) == ["layer0.weight[1,0]", "layer1.bias"]
    np.testing.assert_array_equal(data["posterior"]["layer0.weight[1,0]"], values[:, ::3, 3])
    np.testing.assert_array_equal(data["posterior"]["layer1.bias"], values[:, ::3, -3:-1])
    assert data["posterior"]["draw"].values.tolist() == [0, 3, 6, 9]
