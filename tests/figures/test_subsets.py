from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures.subsets import locate, read_subset, states
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.traces.store import TraceWriter, open_trace
from bnn_atlas.traces.subset import subset_to_parquet
from tests.figures.subset_files import write_subset

NAMES = ("layer0.weight[0,0]", "layer0.weight[1,0]", "log_sigma")
LAYOUT = Layout(
    (Parameter("layer0.weight", (2, 1), "weight", 0, 1, 2), Parameter("log_sigma", (), "scale", None, 1, 1))
)


def values(chains: int = 3, draws: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(chains, draws, len(NAMES)))


def test_what_the_subset_rule_writes_is_read_back(tmp_path: Path) -> None:
    draws = values()
    writer = TraceWriter.create(
        tmp_path / "trace", chains=3, draws=5, layout=LAYOUT, statistics={}, segment=2, chain_ids=[4, 5, 6],
        attributes={}, dtype="float64",
    )  # fmt: skip
    for k, part in enumerate((draws[:, :2], draws[:, 2:4], draws[:, 4:])):
        writer.write(k, part, {})
    subset_to_parquet(open_trace(tmp_path / "trace").select(chains=[4, 6]), tmp_path / "subset.parquet")
    found = read_subset(tmp_path / "subset.parquet")
    assert found.names == NAMES
    assert found.chains.tolist() == [4, 6]
    np.testing.assert_array_equal(found.values, draws[[0, 2]])
    np.testing.assert_array_equal(locate(found, ("log_sigma", NAMES[0]), "subset.parquet"), draws[[0, 2]][:, :, [2, 0]])


def test_pieces_that_cut_a_draw_are_joined(tmp_path: Path) -> None:
    file = write_subset(tmp_path / "subset.parquet", NAMES, values())
    pieces = list(states(file, rows=4))
    assert len(pieces) > 3
    np.testing.assert_array_equal(np.concatenate([piece.values for piece in pieces]), values().reshape(-1, 3))


def test_draws_come_in_order_of_chains_and_draws(tmp_path: Path) -> None:
    file = write_subset(tmp_path / "subset.parquet", NAMES, values())
    frame = pd.read_parquet(file).sort_values(["draw", "chain"], kind="stable", ascending=False)
    frame = frame.sort_values(["draw", "chain", "parameter"], ascending=[False, True, True])
    frame.to_parquet(file, index=False)
    np.testing.assert_array_equal(read_subset(file).values, values())


def test_a_chain_that_is_not_finite_is_left_out_and_named(tmp_path: Path) -> None:
    draws = values()
    draws[1, 3, 2] = np.nan
    found = read_subset(write_subset(tmp_path / "subset.parquet", NAMES, draws))
    assert found.left_out == (1,)
    assert found.remark == "1 of 3 chains left out: not finite"
    np.testing.assert_array_equal(found.values, draws[[0, 2]])


def test_bad_tables_are_refused_in_words(tmp_path: Path) -> None:
    file = write_subset(tmp_path / "subset.parquet", NAMES, values())
    with pytest.raises(ValueError, match=r"no parameter layer3\.bias\[0\]; it has layer0\.weight\[0,0\]"):
        locate(read_subset(file), ("layer3.bias[0]",), file)
    frame = pd.read_parquet(file)
    for changed, says in (
        (frame.drop(columns="draw"), "no column draw; a subset has"),
        (frame[:0], "there are no draws"),
        (frame.drop(index=4), "not every draw has"),
        (frame[:-1], "the last draw has 2 of 3 parameters"),
        (frame[:-3], "chains have 4 to 5 draws"),
        (frame.assign(value=np.inf), "every chain holds values that are not finite"),
    ):
        changed.to_parquet(file, index=False)
        with pytest.raises(ValueError, match=rf"subset\.parquet: .*{says}"):
            read_subset(file)
