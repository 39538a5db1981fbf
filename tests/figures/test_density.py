import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnn_atlas.figures.density import Cells, cell_table, coarsen, count_ticks, equalise, resolution

COUNTS = arrays(np.int64, (6, 6), elements=st.integers(0, 50))


def cells(counts: np.ndarray) -> Cells:
    edges = np.linspace(-1, 1, counts.shape[0] + 1)
    return Cells(counts, edges, edges)


def test_levels_are_ranks_among_occupied_cells() -> None:
    levels = equalise(np.array([[0, 1, 1], [5, 5, 900]]))
    np.testing.assert_allclose(levels, [[np.nan, 0, 0], [2 / 3, 2 / 3, 1]])


@given(COUNTS)
def test_levels_keep_the_order_of_the_counts(counts: np.ndarray) -> None:
    levels = equalise(counts)
    np.testing.assert_array_equal(np.isnan(levels), counts == 0)
    occupied = counts > 0
    order = np.argsort(counts[occupied], kind="stable")
    assert (np.diff(levels[occupied][order]) >= 0).all()
    if occupied.any():
        assert levels[occupied].max() == 1
        assert levels[occupied].min() in (0, 1)


@given(COUNTS, st.integers(0, 8))
def test_coarser_cells_hold_the_same_draws(counts: np.ndarray, at_most: int) -> None:
    coarse = coarsen(cells(counts), at_most)
    assert coarse.counts.sum() == counts.sum()
    assert coarse.counts.shape[0] <= max(1, at_most)
    assert len(coarse.x_edges) == coarse.counts.shape[0] + 1
    assert (coarse.x_edges[0], coarse.x_edges[-1]) == (-1, 1)


def test_coarsening_adds_neighbours() -> None:
    coarse = coarsen(cells(np.arange(16).reshape(4, 4)), 3)
    np.testing.assert_array_equal(coarse.counts, [[10, 18], [42, 50]])


@pytest.mark.parametrize(
    ("draws", "inches", "expected"), [(100, 2, 40), (10_000, 2, 100), (10**7, 0.5, 150), (10, 0.01, 40)]
)
def test_resolution_follows_draws_and_size(draws: int, inches: float, expected: int) -> None:
    assert resolution(draws, inches) == expected


def test_ticks_name_counts_at_their_colour() -> None:
    counts = np.array([[1, 2, 3], [1500, 0, 0]])
    levels = equalise(counts)
    places, texts = count_ticks(counts)
    assert texts[0] == "1"
    assert texts[-1] == "1,500"
    for place, text in zip(places, texts, strict=True):
        assert place == levels[counts == int(text.replace(",", ""))][0]


def test_the_table_holds_the_occupied_cells() -> None:
    counts = np.array([[0, 2], [1, 0]])
    table = cell_table(cells(counts))
    assert table.to_dict("list") == {"x": [-0.5, 0.5], "y": [0.5, -0.5], "count": [2, 1], "level": [1, 0]}
