"""E-values by hand, their crossings, and the file that holds them."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bnn_atlas.files import TableError
from bnn_atlas.metrics.tables.parquet import E_VALUE_SCHEMA, read_e_values, write_e_values
from bnn_atlas.runner.stopping import crossings, log_e_values

LN2 = math.log(2)


def test_by_hand():
    """Held-out densities 1/2, 1/4 and 1/16 against 1/8: the ratios are 4, 2 and 1/2, and their products 4, 8 and 4."""
    density = np.log([[1 / 2, 1 / 4, 1 / 16], [1 / 8, 1 / 8, 1]])
    found = log_e_values(np.zeros(2), density, np.log([1 / 8, 1 / 8]))
    np.testing.assert_allclose(np.exp(found), [[4, 8, 4], [1, 1, 8]], rtol=1e-14)
    assert crossings(found, 1 / 3.9).tolist() == [1, 3]
    assert crossings(found, 1 / 7.9).tolist() == [2, 3]
    assert crossings(found, 1 / 9).tolist() == [0, 0]


def test_what_was_reached_counts_also_after_a_fall():
    assert crossings(np.array([[0.0, 5.0, -np.inf], [5.0, np.nan, np.nan]]), 0.01).tolist() == [2, 1]


def test_the_bound_itself_is_reached():
    assert crossings(np.array([[-math.log(0.01)], [np.nextafter(-math.log(0.01), 0)]]), 0.01).tolist() == [1, 0]


def test_values_that_are_not_finite_stay_and_spoil_no_other_chain():
    nan, inf = np.nan, np.inf
    density = np.array([[1, -inf, 3, 9], [1, nan, 3, 9], [1, inf, 3, 9], [1, -inf, nan, 9], [1, 2, 3, 4]])
    found = log_e_values(np.zeros(5), density, np.ones(5))
    expected = [[0, -inf, -inf, -inf], [0, nan, nan, nan], [0, nan, nan, nan], [0, -inf, nan, nan], [0, 1, 3, 6]]
    np.testing.assert_array_equal(found, expected)
    later = log_e_values(found[:, -1], np.full((5, 1), 100.0), np.ones(5))
    np.testing.assert_array_equal(later[:, 0], [-inf, nan, nan, nan, 105])
    assert crossings(later, 0.01).tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("start", [-np.inf, np.inf, np.nan])
def test_a_warm_start_without_density_is_compared_with_nothing(start):
    found = log_e_values(np.zeros(2), np.zeros((2, 3)), np.array([start, -1.0]))
    np.testing.assert_array_equal(found, [[np.nan] * 3, [1, 2, 3]])


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_no_bit_depends_on_how_many_draws_come_at_a_time(size):
    density, reference = 1e3 * np.random.default_rng(0).normal(size=(3, 30)), np.array([0.1, 1e-3, 7.7])
    whole = log_e_values(np.zeros(3), density, reference)
    log_e, parts = np.zeros(3), []
    for begin in range(0, 30, size):
        parts.append(log_e_values(log_e, density[:, begin : begin + size], reference))
        log_e = parts[-1][:, -1]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


def test_many_draws_neither_overflow_nor_lose_digits():
    found = log_e_values(np.zeros(1), np.full((1, 100_000), -1e4 + 0.1), np.array([-1e4]))
    assert found[0, -1] == pytest.approx(10_000, rel=1e-9)


def test_draws_that_predict_as_well_as_the_start_have_mean_one_and_seldom_cross():
    """Under E exp(difference) = 1 E-values are a martingale of mean 1; a share of at most alpha reaches 1 / alpha."""
    sd, chains, alpha = 0.3, 20_000, 0.05
    difference = np.random.default_rng(1).normal(-(sd**2) / 2, sd, size=(chains, 150))
    log_e = log_e_values(np.zeros(chains), difference - 5.0, np.full(chains, -5.0))
    for draws in (1, 10):
        error = np.sqrt(np.expm1(sd**2 * draws) / chains)
        assert np.exp(log_e[:, draws - 1]).mean() == pytest.approx(1, abs=4 * error)
    share = (crossings(log_e, alpha) > 0).mean()
    assert alpha / 2 < share <= alpha + 4 * np.sqrt(alpha / chains)


def test_the_file_keeps_every_value_and_the_level(tmp_path):
    own = {0: np.array([1.5, -np.inf, -np.inf]), 3: np.array([np.nan, 2.0]), 4: np.array([-0.25])}
    chains = [(number, values, values - 1) for number, values in own.items()]
    write_e_values(tmp_path / "e.parquet", chains, 0.05)
    assert pq.read_schema(tmp_path / "e.parquet").metadata == {b"alpha": b"0.05"}
    table = pq.read_table(tmp_path / "e.parquet")
    assert table.schema.equals(E_VALUE_SCHEMA)
    assert table.column("log_e").null_count == 0, "NaN is a value and no gap"
    frame, alpha = read_e_values(tmp_path / "e.parquet")
    assert alpha == 0.05
    assert (frame.chain.tolist(), frame.draw.tolist()) == ([0, 0, 0, 3, 3, 4], [1, 2, 3, 1, 2, 1])
    np.testing.assert_array_equal(frame.log_e, [1.5, -np.inf, -np.inf, np.nan, 2.0, -0.25])
    np.testing.assert_array_equal(frame.log_e_ensemble, frame.log_e - 1)
    before = (tmp_path / "e.parquet").read_bytes()
    write_e_values(tmp_path / "e.parquet", chains, 0.05)
    assert (tmp_path / "e.parquet").read_bytes() == before


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "e.parquet"
    with pytest.raises(TableError, match=r"e\.parquet: no such table; run the rule"):
        read_e_values(path)
    path.write_text("no table")
    with pytest.raises(TableError, match=r"e\.parquet: not a Parquet file"):
        read_e_values(path)
    pq.write_table(pa.table({"chain": [0]}), path)
    with pytest.raises(TableError, match=r"e\.parquet: columns missing: draw, log_e, log_e_ensemble, unknown: none"):
        read_e_values(path)
