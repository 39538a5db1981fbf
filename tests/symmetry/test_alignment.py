"""Draws in a common frame: exact on copies, never worse than chain by chain, and the same bytes after interruptions."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.models.networks import build_network
from bnn_atlas.symmetry import alignment, matching
from bnn_atlas.symmetry.alignment import Aligned, Aligner, Checkpoint, Fit, Plan
from bnn_atlas.symmetry.features import Features, activation_features, weight_features
from bnn_atlas.symmetry.frame import Frame, load_frame, save_frame
from bnn_atlas.symmetry.groups import SymmetryError, symmetry_of
from bnn_atlas.symmetry.matching import barycentre, match, match_pairs
from bnn_atlas.symmetry.permutation import apply, uniform_units

from .draws import copies, in_memory, small_symmetry
from .networks import example

SYMMETRY = small_symmetry()


def aligned(draws: np.ndarray, folder: Path, fit: Fit | None = None, symmetry: Any = SYMMETRY, **plan: Any) -> Aligned:
    settings = Plan(**{"reference": "barycentre", **plan})
    checkpoint = Checkpoint(folder / "part.npz", "same")
    return Aligner(in_memory(symmetry, draws), symmetry, weight_features(symmetry), settings, checkpoint, fit).run()


def spread(draws: np.ndarray, units: np.ndarray) -> float:
    """Sum of squared distances of the draws to their mean, after permutations."""
    moved = apply(SYMMETRY, draws, units).astype(np.float64)
    return float(((moved - moved.mean(axis=(0, 1))) ** 2).sum())


@pytest.mark.parametrize("reference", ["first", "last", "barycentre"])
def test_copies_of_one_network_have_no_spread_in_the_frame(reference: str, tmp_path: Path) -> None:
    draws, theta = copies(SYMMETRY, 3, 8, 0.0)
    frame = aligned(draws, tmp_path, reference=reference).frame
    np.testing.assert_array_equal(frame.moment("aligned", "sd"), 0)
    np.testing.assert_array_equal(np.sort(frame.mean.astype(np.float32)), np.sort(theta))
    assert np.median(frame.moment("sampled", "sd")) > 0.3
    assert np.median(frame.moment("scrambled", "sd")) > 0.3
    assert not len(frame.factor), "no direction has any variance"


def test_the_unaligned_mean_is_a_reference_too(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 3, 8, 0.0)
    frame = aligned(draws, tmp_path, reference="mean").frame
    found = match(SYMMETRY, draws.mean(axis=(0, 1), dtype=np.float64).astype(np.float32), draws.reshape(24, -1))
    assert frame.objective[-1] == pytest.approx(found.objective.mean(), rel=0.05)
    assert frame.moment("aligned", "sd").mean() < frame.moment("sampled", "sd").mean()


def test_the_frame_finds_the_noise_around_a_mode(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 4, 50, 0.05)
    frame = aligned(draws, tmp_path, rank=200).frame
    moved = apply(SYMMETRY, draws, frame.units).astype(np.float64)
    np.testing.assert_allclose(frame.mean, moved.mean((0, 1)))
    np.testing.assert_allclose(frame.moment("aligned", "sd"), moved.reshape(200, -1).std(axis=0, ddof=1), rtol=1e-4)
    within = np.sqrt(moved.var(axis=1, ddof=1).mean(axis=0))
    np.testing.assert_allclose(frame.moment("aligned", "within_sd"), within, rtol=1e-4)
    assert frame.moment("aligned", "sd").mean() == pytest.approx(0.05, rel=0.05)
    covariance = np.cov(moved.reshape(200, -1).T)
    np.testing.assert_allclose(frame.factor.T @ frame.factor, covariance, atol=1e-6)


def test_a_barycentre_is_a_fixed_point_and_never_worse_than_chain_by_chain(tmp_path: Path) -> None:
    for seed in range(3):
        draws, _ = copies(SYMMETRY, 4, 12, 0.8, seed, per_chain=True)
        frame = aligned(draws, tmp_path, seed=seed).frame
        whole = np.repeat(frame.chain_units[:, None], 12, axis=1)
        first = aligned(draws, tmp_path, reference="first").frame
        assert spread(draws, frame.units) <= spread(draws, whole) <= spread(draws, np.broadcast_to(
            SYMMETRY.identity, whole.shape))  # fmt: skip
        assert spread(draws, frame.units) <= spread(draws, first.units) * 1.2
        assert (np.diff(frame.objective) >= 0).all()
        assert frame.fixed
        again = match(SYMMETRY, frame.mean.astype(np.float32), apply(SYMMETRY, draws, frame.units).reshape(48, -1))
        np.testing.assert_array_equal(again.units, np.tile(SYMMETRY.identity, (48, 1)))


def test_passes_to_a_barycentre_can_be_limited(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 4, 12, 2.0)
    every, few = (aligned(draws, tmp_path, **plan).frame for plan in ({}, {"passes": 2}))
    assert every.fixed
    assert not few.fixed
    np.testing.assert_array_equal(few.objective, every.objective[: len(few.objective)])
    assert len(few.objective) == 3 < len(every.objective)


def test_the_better_of_two_starts_is_taken() -> None:
    """Copies that are permuted chain by chain are brought together, and those that already agree stay so."""
    features = weight_features(SYMMETRY)
    rows, _ = copies(SYMMETRY, 5, 1, 0.0)
    assert barycentre(features, rows[:, 0], np.ones(5)).objective[-1] == pytest.approx((rows[0, 0] ** 2).sum())
    same = np.repeat(rows[0], 5, axis=0)
    np.testing.assert_array_equal(
        barycentre(features, same, np.ones(5)).matched.units, np.tile(SYMMETRY.identity, (5, 1))
    )


def test_few_networks_do_not_hold_on_to_their_own_order() -> None:
    """Each of three networks, in the frame, is best matched to the mean of the other two, too."""
    symmetry = small_symmetry(hidden=(12, 12))
    rows = copies(symmetry, 3, 1, 0.9)[0][:, 0]
    features, weights = weight_features(symmetry), np.array([1.0, 2.0, 1.5])
    with_all = barycentre(features, rows, weights)
    assert with_all.fixed
    assert (np.diff(with_all.objective) > 0).all()
    moved = apply(symmetry, rows, with_all.matched.units).astype(np.float64)
    for number in range(3):
        others = np.delete(moved, number, axis=0)
        mean = np.average(others, axis=0, weights=np.delete(weights, number)).astype(np.float32)
        again = match(symmetry, mean, moved[number : number + 1].astype(np.float32))
        np.testing.assert_array_equal(again.units[0], symmetry.identity)


def test_matching_one_by_one_raises_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    symmetry = small_symmetry(hidden=(12, 12))
    found = []
    for few in (0, 100):
        monkeypatch.setattr(matching, "FEW", few)
        every = [copies(symmetry, 4, 1, 0.9, seed)[0][:, 0] for seed in range(6)]
        found.append([barycentre(weight_features(symmetry), rows, np.ones(4)).objective[-1] for rows in every])
    gains = np.subtract(found[1], found[0]) / found[0]
    assert (gains >= 0).all()
    assert gains.mean() > 0.02


def test_one_permutation_for_each_chain(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 3, 10, 0.3, per_chain=True)
    frame = aligned(draws, tmp_path, unit="chain").frame
    assert (frame.units == frame.units[:, :1]).all()
    np.testing.assert_array_equal(frame.units[:, 0], frame.chain_units)
    np.testing.assert_array_equal(frame.moment("aligned", "sd"), frame.moment("chain_wise", "sd"))
    assert frame.moment("aligned", "sd").mean() < 0.5 * frame.moment("sampled", "sd").mean()


def test_another_frame_is_taken_over(tmp_path: Path) -> None:
    draws, theta = copies(SYMMETRY, 2, 6, 0.01)
    others, _ = copies(SYMMETRY, 2, 6, 0.02)
    first = aligned(draws, tmp_path).frame
    second = aligned(others, tmp_path, reference=first.target).frame
    assert np.abs(first.mean - second.mean).max() < 0.05
    assert np.abs(np.sort(theta) - np.sort(second.mean)).max() < 0.1
    np.testing.assert_allclose(second.target, first.target, rtol=1e-6)


def test_a_target_is_what_draws_were_matched_to(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 2, 6, 0.3)
    np.testing.assert_array_equal(aligned(draws, tmp_path, reference="first").frame.target, draws[0, 0])
    np.testing.assert_array_equal(aligned(draws, tmp_path, reference="last").frame.target, draws[1, 5])
    barycentre = aligned(draws, tmp_path).frame
    np.testing.assert_array_equal(barycentre.target, barycentre.mean)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_aligned_draws_enter_another_frame_as_one(activation: str, tmp_path: Path) -> None:
    """One permutation, also of signs, carries all draws: spread and objective stay, and the mean enters the frame."""
    symmetry, signed = small_symmetry(hidden=(6,), activation=activation), activation == "tanh"
    draws, theta = copies(symmetry, 3, 4, 0.3)
    if signed:
        signs = np.random.default_rng(3).choice([-1, 1], size=(3, 4, symmetry.units)).astype(np.int8)
        draws = alignment.transform(symmetry, draws, np.broadcast_to(symmetry.identity, signs.shape), signs)
    alone = aligned(draws, tmp_path, symmetry=symmetry, signs=signed).frame
    entered = aligned(draws, tmp_path, symmetry=symmetry, signs=signed, frame=theta).frame
    assert np.abs(entered.mean - theta).max() < 0.5 < np.abs(alone.mean - theta).max()
    np.testing.assert_array_equal(entered.objective, alone.objective)
    for variant in ("aligned", "chain_wise"):
        np.testing.assert_allclose(
            np.sort(entered.moment(variant, "sd")), np.sort(alone.moment(variant, "sd")), rtol=1e-5, atol=1e-6
        )
    moved = alignment.transform(symmetry, draws, entered.units, entered.signs)
    np.testing.assert_allclose(moved.mean(axis=(0, 1)), entered.mean, atol=1e-6)
    np.testing.assert_array_equal(entered.target, theta)


@pytest.mark.parametrize("statistic", ["activations", "centred", "correlation"])
@pytest.mark.parametrize("unit", ["draw", "chain"])
def test_streamed_activations_align_like_activations_that_are_held(statistic: Any, unit: Any, tmp_path: Path) -> None:
    """Draws, and chains by the means of their activations, are matched to the first draw."""
    config = MLPConfig(hidden=(6, 5))
    x = np.random.default_rng(0).normal(1, 1, size=(30, 3)).astype(np.float32)
    features = activation_features(config, SYMMETRY, (3,), x, statistic, outputs=2)
    draws, _ = copies(SYMMETRY, 3, 5, 0.4)
    draws[1, 2] = np.nan
    plan = Plan(reference="first", unit=unit)
    frame = Aligner(in_memory(SYMMETRY, draws), SYMMETRY, features, plan, Checkpoint(tmp_path / "part.npz")).run().frame
    (wanted,) = features.of(draws[0, :1])
    for chain, rows in enumerate(draws):
        values = features.of(rows[np.isfinite(rows).all(axis=1)])
        of_chain = match(features.symmetry, wanted, values.mean(axis=0, keepdims=True))
        np.testing.assert_array_equal(frame.chain_units[chain], of_chain.units[0])
        of_draws = match(features.symmetry, wanted, values).units
        expected = of_draws if unit == "draw" else np.repeat(of_chain.units, len(values), axis=0)
        np.testing.assert_array_equal(frame.units[chain][frame.finite[chain]], expected)
    assert (np.diff(frame.objective) > 0).all()
    np.testing.assert_array_equal(frame.units[1, 2], SYMMETRY.identity)


def test_activations_of_many_rows_have_no_barycentre(tmp_path: Path) -> None:
    config, x = MLPConfig(hidden=(6, 5)), np.zeros((4_000_000, 3), np.float32)
    features = activation_features(config, SYMMETRY, (3,), x, "centred", outputs=2)
    draws, checkpoint = in_memory(SYMMETRY, copies(SYMMETRY, 2, 2, 0.0)[0]), Checkpoint(tmp_path / "part.npz")
    with pytest.raises(SymmetryError, match=r"activations need 168 MiB .*match to the first draw"):
        Aligner(draws, SYMMETRY, features, Plan(reference="barycentre"), checkpoint)
    Aligner(draws, SYMMETRY, features, Plan(reference="first"), checkpoint)


def test_more_orders_never_lower_the_objective(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 4, 12, 1.0)
    one, several = (aligned(draws, tmp_path, reference="first", orders=orders).frame for orders in (1, 5))
    assert several.objective[-1] > one.objective[-1]
    assert one.tried is not None
    assert several.tried is not None
    assert len(several.tried) == 5
    assert (several.tried < several.objective[-1]).all()
    assert one.tried[0] == one.objective[-1]
    frame = aligned(draws, tmp_path, orders=5).frame
    assert frame.tried is not None
    assert (np.diff(frame.objective) >= 0).all()
    save_frame(tmp_path / "frame.npz", frame)
    np.testing.assert_array_equal(load_frame(tmp_path / "frame.npz", SYMMETRY).tried, frame.tried)


def test_passes_end_at_a_small_gain(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 4, 12, 2.0)
    whole, short = (aligned(draws, tmp_path, gain=gain).frame for gain in (0.0, 0.02))
    assert whole.fixed
    assert not short.fixed
    np.testing.assert_array_equal(short.objective, whole.objective[: len(short.objective)])
    gains = np.diff(short.objective[1:]) / short.objective[2:]
    assert (gains[:-1] > 0.02).all()
    assert gains[-1] <= 0.02
    assert short.gain == pytest.approx(gains[-1])
    assert whole.gain == 0


def test_a_checkpoint_of_other_draws_is_not_used_whatever_its_name(tmp_path: Path) -> None:
    """An interrupted alignment leaves a checkpoint; other draws, settings and features then start anew."""
    draws, _ = copies(SYMMETRY, 3, 8, 0.6)
    middle, others = draws.copy(), copies(SYMMETRY, 3, 8, 0.6, seed=7)[0]
    middle[1, 4] = others[1, 4]

    class Stopped(Checkpoint):
        def save(self, arrays: Any, *, now: bool = False) -> None:
            super().save(arrays, now=True)
            if int(arrays()["progress"][0]) >= alignment.MATCHING:
                raise Interrupted

    def frame(theta: np.ndarray, checkpoint: Checkpoint, masked: bool = False, **plan: Any) -> Frame:
        features = weight_features(SYMMETRY, np.array([True, False, False]) if masked else None)
        return Aligner(in_memory(SYMMETRY, theta), SYMMETRY, features, Plan(**plan), checkpoint).run().frame

    first = {"reference": "first"}
    cases = [(draws, False, first), (middle, False, first), (others, False, first), (draws, True, first),
             (draws, False, {"reference": "last"}), (draws, False, {"reference": others[0, 0]})]  # fmt: skip
    for theta, masked, plan in cases:
        (tmp_path / "part.npz").unlink(missing_ok=True)
        with pytest.raises(Interrupted):
            frame(draws, Stopped(tmp_path / "part.npz"), **first)
        again = frame(theta, Checkpoint(tmp_path / "part.npz"), masked, **plan)
        fresh = frame(theta, Checkpoint(tmp_path / "none.npz"), masked, **plan)
        np.testing.assert_array_equal(again.units, fresh.units)
        np.testing.assert_array_equal(again.mean, fresh.mean)


def test_a_frame_in_which_draws_differ_more_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two chains around unlike networks: the draws of the second get an order each."""
    config = MLPConfig(hidden=(60,))
    wide = symmetry_of(config, build_network(config, (100,), 2).layout)
    theta = np.random.default_rng(0).normal(size=(2, 1, wide.layout.size)).astype(np.float32)
    draws = theta + 0.3 * np.random.default_rng(1).normal(size=(2, 30, wide.layout.size)).astype(np.float32)
    frame = aligned(draws, tmp_path, symmetry=wide, reference="first").frame
    larger = (frame.moment("aligned", "sd") ** 2).mean() > (frame.moment("sampled", "sd") ** 2).mean()
    assert larger == ("differ more in this frame" in caplog.text)
    assert larger
    caplog.clear()
    aligned(draws, tmp_path, symmetry=wide)
    assert not caplog.text


def test_fits_enter_the_frame_by_their_means(tmp_path: Path) -> None:
    centres, theta = copies(SYMMETRY, 3, 1, 0.0)
    sds = np.abs(centres[:, 0]) + 1
    draws = centres + 0.5 * np.random.default_rng(5).normal(size=(3, 4, theta.size)).astype(np.float32)
    frame = aligned(draws, tmp_path, Fit(centres[:, 0], sds), unit="chain").frame
    assert frame.fit_mean is not None
    assert frame.fit_sd is not None
    np.testing.assert_array_equal(frame.fit_mean, np.tile(frame.fit_mean[0], (3, 1)))
    np.testing.assert_array_equal(frame.fit_sd, np.abs(frame.fit_mean) + 1)


def test_spreads_of_fits_are_balanced_as_their_means(tmp_path: Path) -> None:
    centres, _ = copies(SYMMETRY, 3, 1, 0.5)
    fit = Fit(centres[:, 0], 0.1 * np.abs(centres[:, 0]))
    frame = aligned(np.repeat(centres, 2, axis=1), tmp_path, fit, unit="chain", scales=True).frame
    assert frame.fit_mean is not None
    assert frame.fit_sd is not None
    np.testing.assert_allclose(frame.fit_sd, 0.1 * np.abs(frame.fit_mean), rtol=1e-5)
    assert not np.allclose(np.sort(frame.fit_mean), np.sort(centres[:, 0]), rtol=0.01)


@pytest.mark.parametrize("plan", [{"unit": "chain", "reference": "first"}, {"unit": "chain"}, {}])
def test_a_diverged_fit_is_left_out(plan: dict[str, Any], tmp_path: Path) -> None:
    centres, _ = copies(SYMMETRY, 3, 1, 0.0)
    draws = np.repeat(centres, 2, axis=1)
    centres[1], draws[1] = np.nan, np.nan
    frame = aligned(draws, tmp_path, Fit(centres[:, 0], None), **plan).frame
    assert frame.finite.tolist() == [[True, True], [False, False], [True, True]]
    np.testing.assert_array_equal(frame.moment("aligned", "sd"), 0)


def test_what_finite_draws_are_matched_by_must_be_finite(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 2, 3, 0.0)
    overflowing = Features(SYMMETRY, lambda rows: rows * np.where(np.abs(rows).max() > 1e20, np.inf, 1))
    draws[1, 2] *= 1e25
    run = Aligner(in_memory(SYMMETRY, draws), SYMMETRY, overflowing, Plan("first"), Checkpoint(tmp_path / "p", "same"))
    with pytest.raises(SymmetryError, match="draws of chain 1 are finite, but"):
        run.run()


def test_draws_that_are_not_finite_are_counted_and_left_out(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 3, 6, 0.0)
    draws[0, 2, 7] = np.nan
    draws[1] = np.inf
    result = aligned(draws, tmp_path)
    assert result.frame.finite.sum() == 11
    np.testing.assert_array_equal(result.frame.moment("aligned", "sd"), 0)
    np.testing.assert_array_equal(result.frame.units[~result.frame.finite], np.tile(SYMMETRY.identity, (7, 1)))
    assert np.isnan(result.values["aligned"][~result.frame.finite]).all()
    assert np.isfinite(result.values["aligned"][result.frame.finite]).all()
    draws[0], draws[2, 1:] = np.nan, np.nan
    with pytest.raises(SymmetryError, match="has 1 finite draws of 18; an alignment needs two"):
        aligned(draws, tmp_path)


@pytest.mark.parametrize("name", ["llama", "grouped_relu_tanh", "wide_resnet_frn"])
@pytest.mark.parametrize("reference", ["first", "barycentre"])
def test_heads_channels_and_signs_have_no_spread_in_the_frame(name: str, reference: str, tmp_path: Path) -> None:
    case = example(name)
    generator = np.random.default_rng(0)
    units = np.stack([uniform_units(case.symmetry, generator) for _ in range(6)]).reshape(2, 3, -1)
    signs = generator.choice([-1, 1], size=units.shape).astype(np.int8)
    draws = alignment.transform(case.symmetry, case.theta.astype(np.float32), units, signs)
    frame = aligned(draws, tmp_path, symmetry=case.symmetry, reference=reference, signs=True).frame
    np.testing.assert_allclose(frame.moment("aligned", "sd"), 0, atol=1e-6)
    assert np.median(frame.moment("sampled", "sd")) > 0.05
    assert np.median(frame.moment("scrambled", "sd")) > 0.05
    back = alignment.transform(case.symmetry, draws, frame.units, frame.signs)
    np.testing.assert_allclose(back, np.broadcast_to(frame.mean, back.shape), atol=1e-6)


def test_signs_and_scales_are_removed_where_there_are_some(tmp_path: Path) -> None:
    tanh = small_symmetry(hidden=(6,), activation="tanh")
    draws, _ = copies(tanh, 2, 5, 0.0)
    signs = np.random.default_rng(1).choice([-1, 1], size=(2, 5, tanh.units)).astype(np.int8)
    turned = alignment.transform(tanh, draws, np.broadcast_to(tanh.identity, signs.shape), signs)
    np.testing.assert_allclose(aligned(turned, tmp_path, symmetry=tanh, signs=True).frame.moment("aligned", "sd"), 0)
    assert aligned(turned, tmp_path, symmetry=tanh).frame.moment("aligned", "sd").max() > 0.1
    same_signs = np.abs(draws).astype(np.float32)
    scrambled = [aligned(same_signs, tmp_path, symmetry=tanh, signs=signed).frame.moment("scrambled", "mean")
                 for signed in (True, False)]  # fmt: skip
    assert np.abs(scrambled[0]).mean() < 0.5 * np.abs(scrambled[1]).mean(), "signs of the control are random too"
    with pytest.raises(SymmetryError, match="no scales to remove"):
        aligned(draws, tmp_path, symmetry=tanh, scales=True)
    with pytest.raises(SymmetryError, match="no signs to remove"):
        aligned(copies(SYMMETRY, 2, 2, 0.0)[0], tmp_path, signs=True)


def test_pairs_within_and_across_chains() -> None:
    draws, _ = copies(SYMMETRY, 4, 6, 0.0, per_chain=True)
    found = match_pairs(in_memory(SYMMETRY, draws), weight_features(SYMMETRY), np.ones((4, 6), bool), 40, 0)
    assert found.within.sum() == 40
    assert len(found.chains) == 80
    assert (found.transpositions[found.within] == 0).all()
    assert (found.transpositions[~found.within].sum(axis=1) > 0).all()
    np.testing.assert_array_equal(found.consistency, 1.0)
    alone = match_pairs(in_memory(SYMMETRY, draws[:, :1]), weight_features(SYMMETRY), np.ones((4, 1), bool), 5, 0)
    assert not alone.within.any()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize(("reference", "hidden"), [("barycentre", (6, 5)), ("first", (6, 5)), ("first", (6,))])
def test_interruptions_change_no_byte(
    reference: Any, hidden: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    symmetry = small_symmetry(hidden=hidden)
    monkeypatch.setattr(alignment, "READ_BYTES", 6 * 4 * symmetry.layout.size)
    draws, _ = copies(symmetry, 2, 14, 0.3)
    draws[1, 3] = np.nan
    save_frame(tmp_path / "whole.npz", aligned(draws, tmp_path, symmetry=symmetry, reference=reference).frame)

    def attempt(most: int) -> Aligned:
        counter = itertools.count(1)

        class Short(Checkpoint):
            def save(self, arrays: Any, *, now: bool = False) -> None:
                super().save(arrays, now=True)
                if next(counter) >= most:
                    raise Interrupted

        checkpoint = Short(tmp_path / "part.npz", "same")
        plan = Plan(reference=reference)
        return Aligner(in_memory(symmetry, draws), symmetry, weight_features(symmetry), plan, checkpoint).run()

    for every in (1, 5):
        (tmp_path / "part.npz").unlink(missing_ok=True)
        stops = 0
        while True:
            try:
                result = attempt(every)
                break
            except Interrupted:
                stops += 1
        assert stops > 3
        save_frame(tmp_path / "pieces.npz", result.frame)
        assert (tmp_path / "pieces.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


KILLED = """
import sys, os, signal, itertools
from pathlib import Path
from tests.symmetry.test_alignment import *
alignment.READ_BYTES = 6 * 4 * SYMMETRY.layout.size
counter = itertools.count(1)
class Killed(Checkpoint):
    def save(self, arrays, *, now=False):
        super().save(arrays, now=True)
        if next(counter) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
draws, _ = copies(SYMMETRY, 2, 14, 0.3)
folder = Path(sys.argv[1])
checkpoint = Killed(folder / "part.npz", "same")
result = Aligner(in_memory(SYMMETRY, draws), SYMMETRY, weight_features(SYMMETRY), Plan("barycentre"), checkpoint).run()
save_frame(folder / "killed.npz", result.frame)
"""


def test_a_killed_process_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "READ_BYTES", 6 * 4 * SYMMETRY.layout.size)
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    killed = subprocess.run([*command, "9"], cwd=Path(__file__).parents[2], env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "part.npz").exists()
    draws, _ = copies(SYMMETRY, 2, 14, 0.3)
    save_frame(tmp_path / "after.npz", aligned(draws, tmp_path).frame)
    (tmp_path / "part.npz").unlink()
    save_frame(tmp_path / "whole.npz", aligned(draws, tmp_path).frame)
    assert (tmp_path / "after.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_a_checkpoint_of_other_settings_is_not_used(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "part.npz", "other").save(lambda: {"progress": np.array([5, 5])}, now=True)
    assert Checkpoint(tmp_path / "part.npz", "same").load() is None
    (tmp_path / "part.npz").write_bytes(b"half of a file")
    assert Checkpoint(tmp_path / "part.npz", "same").load() is None


def test_a_frame_is_read_back_and_a_truncated_one_refused(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 2, 5, 0.3)
    frame = aligned(draws, tmp_path).frame
    save_frame(tmp_path / "frame.npz", frame)
    back = load_frame(tmp_path / "frame.npz", SYMMETRY)
    np.testing.assert_array_equal(back.mean, frame.mean)
    assert isinstance(back, Frame)
    assert back.units.dtype == np.int16
    with pytest.raises(SymmetryError, match=r"frame\.npz: .*network has 4"):
        load_frame(tmp_path / "frame.npz", small_symmetry(hidden=(4,)))
    whole = (tmp_path / "frame.npz").read_bytes()
    (tmp_path / "frame.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SymmetryError, match=r"not an alignment .*delete it and make it again"):
        load_frame(tmp_path / "frame.npz", SYMMETRY)


def test_frames_with_units_twice_are_refused(tmp_path: Path) -> None:
    draws, _ = copies(SYMMETRY, 2, 3, 0.0)
    frame = aligned(draws, tmp_path).frame
    frame.units[0, 0, 0] = frame.units[0, 0, 1]
    save_frame(tmp_path / "frame.npz", frame)
    with pytest.raises(SymmetryError, match="not a permutation of the 6 units of layer0"):
        load_frame(tmp_path / "frame.npz", SYMMETRY)
