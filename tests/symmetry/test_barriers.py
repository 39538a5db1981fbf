"""Barriers along lines between two networks, and what pairs of networks are as metrics."""

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from flax import linen as nn
from jax import numpy as jnp

from bnn_atlas.config.metrics import METRICS
from bnn_atlas.metrics.judgement.rows import listed
from bnn_atlas.metrics.tables.measurement import Measurement, RunIdentity
from bnn_atlas.metrics.tables.parquet import LINE_SCHEMA, MATCH_SCHEMA
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry.barriers import Repair, barriers, jackknife_error, line, pair_measurements
from bnn_atlas.symmetry.groups import SymmetryError

from .networks import Example, example


def test_a_straight_line_has_no_excess_over_its_chord() -> None:
    found = barriers(line(11), 2.0 + 3.0 * line(11))
    assert found.sup == pytest.approx(0, abs=1e-12)
    assert found.midpoint == pytest.approx(0, abs=1e-12)
    assert found.max == pytest.approx(1.5), "the higher end minus the mean of both"


def test_a_parabola_has_its_height_by_every_definition() -> None:
    x = line(11)
    assert barriers(x, 0.7 + 4 * 0.25 * x * (1 - x)) == pytest.approx((0.25, 0.25, 0.25))


def test_definitions_differ_where_the_peak_is_off_the_middle() -> None:
    """Ends 1 and 3, and 5 at a quarter: the chord is 1.5 there and 2 in the middle, where the value is 0."""
    found = barriers(np.array([0, 0.25, 0.5, 0.75, 1]), np.array([1.0, 5.0, 0.0, 2.0, 3.0]))
    assert found == pytest.approx((3.5, -2.0, 3.0))


def test_values_that_are_not_finite_give_nan_and_lines_without_a_middle_are_refused() -> None:
    assert np.isnan(barriers(line(3), np.array([0.0, np.inf, 0.0]))).all()
    for points in (line(4), np.array([0.1, 0.5, 1.0]), np.array([0.5])):
        with pytest.raises(ValueError, match="with 1/2"):
            barriers(points, np.zeros(len(points)))


def test_leaving_one_out_gives_the_standard_error_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=30)
    left_out = np.array([np.delete(values, i).mean() for i in range(30)])
    assert jackknife_error(left_out) == pytest.approx(values.std(ddof=1) / np.sqrt(30))


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_repaired_units_have_the_interpolated_moments(name: str) -> None:
    case = example(name)
    x = np.random.default_rng(0).normal(size=(30, *case.x.shape[1:])).astype(np.float32)
    repair = Repair(case.config, case.symmetry, x.shape[1:], x, outputs=3)
    first = case.theta.astype(np.float32)
    second = first[np.random.default_rng(1).permutation(first.size)]
    points = np.array([0.0, 0.5, 0.75, 1.0])
    between = (first + points[:, None] * (second - first)).astype(np.float32)
    repaired = repair.line(first, second, points, between)
    np.testing.assert_allclose(repaired[[0, -1]], between[[0, -1]], rtol=2e-3, atol=2e-4)
    for group in case.symmetry.groups:
        layer, *_ = (value.layer for value in group.values)
        of = [inputs_of(case, theta, layer, x) for theta in (first, second, *repaired)]
        for number, at in enumerate(points):
            for moment in (np.mean, np.std):
                wanted = (1 - at) * moment(of[0], axis=1) + at * moment(of[1], axis=1)
                np.testing.assert_allclose(moment(of[2 + number], axis=1), wanted, rtol=5e-3, atol=5e-3)


def inputs_of(case: Example, theta: np.ndarray, layer: str, x: np.ndarray) -> np.ndarray:
    """Outputs [n, samples] of a layer, captured by Flax itself."""
    network = build_network(case.config, x.shape[1:], 3)
    found: dict[str, np.ndarray] = {}

    def watch(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        result = call(*args, **kwargs)
        found[".".join(context.module.path)] = np.asarray(result)
        return result

    with nn.intercept_methods(watch), jax.disable_jit():
        network.apply(jnp.asarray(theta), network.arrange(jnp.asarray(x[:16])))
        parts = [found[layer]]
        network.apply(jnp.asarray(theta), network.arrange(jnp.asarray(x[16:])))
        parts.append(found[layer][..., : len(x) - 16])
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1).astype(np.float64)


@pytest.mark.parametrize("name", ["resnet_frn", "mlp_no_bias", "cnn_lstm"])
def test_units_without_a_weight_and_a_bias_of_their_own_cannot_be_repaired(name: str) -> None:
    case = example(name)
    with pytest.raises(SymmetryError, match="cannot be repaired"):
        Repair(case.config, case.symmetry, case.x.shape[1:], case.x.astype(np.float32), outputs=3)


X = np.linspace(0, 1, 5)
PLANTED = (2, 40, 60, 90, 95)
HEIGHTS = (0.1, 0.4, 0.5, 1.0, 0.9)
CHANGES = (0, 1, -2, 0, 0)
UNITS, CEILING = 100, 94.8


def tables(heights: tuple[float, ...] = HEIGHTS) -> tuple[pd.DataFrame, pd.DataFrame]:
    lines, matches = [], []
    for i, (planted, height, change) in enumerate(zip(PLANTED, heights, CHANGES, strict=True)):
        for draw in (0, 7):
            for state in ("as_trained", "aligned"):
                bump = height * 4 * X * (1 - X) if draw == 7 and state == "as_trained" else 0 * X
                for rows in ("train", "test"):
                    values = zip(X, 0.3 + bump, 0.1 + bump / 10, strict=True)
                    lines += [(2 * i, 2 * i + 1, draw, state, rows, *value) for value in values]
                found = planted + change * (draw == 7) if state == "as_trained" else 0
                distance = 3.0 * found
                matches.append((2 * i, 2 * i + 1, draw, state, 1.0, planted, found, CEILING, UNITS, distance))
    return pd.DataFrame(lines, columns=LINE_SCHEMA.names), pd.DataFrame(matches, columns=MATCH_SCHEMA.names)


def by_name(found: list[Measurement]) -> dict[tuple[str, str], Measurement]:
    return {(one.metric, one.at): one for one in found}


def test_means_over_pairs_of_the_last_draws_with_their_errors() -> None:
    found = by_name(pair_measurements(*tables()))
    one = found["barrier_loss_max", "train, as trained"]
    assert one.value == pytest.approx(np.mean(HEIGHTS))
    assert one.standard_error == pytest.approx(np.std(HEIGHTS, ddof=1) / np.sqrt(5))
    assert one.over == "pairs"
    assert found["barrier_error_sup", "test, as trained"].value == pytest.approx(np.mean(HEIGHTS) / 10)
    assert found["barrier_loss_sup", "train, aligned"].value == pytest.approx(0)
    assert found["barrier_loss_far", "train, as trained"].value == pytest.approx(0.95), "pairs with 78.1 and more"
    assert found["pair_transpositions", "as trained"].value == pytest.approx(np.mean(np.add(PLANTED, CHANGES)))
    assert found["pair_transpositions_change_max", ""].value == 2
    assert found["pair_transpositions_ceiling", ""].value == CEILING
    assert found["pair_squared_distance", "as trained"].value == pytest.approx(3 * np.mean(np.add(PLANTED, CHANGES)))


def test_correlations_and_their_errors() -> None:
    found = by_name(pair_measurements(*tables()))
    x = np.add(PLANTED, CHANGES)
    pearson = found["correlation_transpositions_barrier", "pearson"]
    assert pearson.value == pytest.approx(np.corrcoef(x, HEIGHTS)[0, 1])
    assert 0 < pearson.standard_error < 0.2
    assert found["correlation_transpositions_barrier", "spearman"].value == pytest.approx(0.9)
    assert found["correlation_transpositions_distance", "pearson"].value == pytest.approx(1), "three times as large"


def test_a_barrier_that_is_not_finite_is_said_and_enters_no_mean_silently() -> None:
    found = by_name(pair_measurements(*tables((0.1, np.nan, 0.5, 1.0, 0.9))))
    one = found["barrier_loss_max", "train, as trained"]
    assert np.isnan(one.value)
    assert one.standard_error is None
    assert "1 of 5 pairs are not finite" in one.note
    assert "left out" in found["correlation_transpositions_barrier", "pearson"].note


def test_every_name_is_in_the_list_and_every_listed_name_is_measured() -> None:
    rows = listed(RunIdentity("s", "r", "demo", 0, "d", "m", "path"), pair_measurements(*tables()), 10, 1)
    measured = {row.metric for row in rows}
    kinds = ("barrier_", "pair_", "correlation_transpositions")
    assert measured == {name for name in METRICS if name.startswith(kinds)}
    assert {(row.chains, row.draws) for row in rows} == {(10, 1)}
