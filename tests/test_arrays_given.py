"""Arrays that users pass to the public functions: the right numbers, or an error that names the argument."""

import contextlib
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from flax import linen as nn
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from jax import numpy as jnp

import bnn_atlas
from bnn_atlas import (
    AtlasClassifier,
    AtlasRegressor,
    NetworkPosterior,
    PosteriorDraws,
    Symmetry,
    align,
    arrays,
    build_posterior,
    configure,
    open_pool,
    open_reference,
    posterior_of,
    predict,
    predict_draws,
    sample,
    score,
    starting_points,
    to_arviz,
)
from bnn_atlas.config.parts.posterior import CategoricalLikelihood, GaussianLikelihood, MLPConfig
from bnn_atlas.data import DataError
from bnn_atlas.models.networks import build_network
from bnn_atlas.traces.draws import ArrayDraws
from bnn_atlas.traces.shard import TraceError
from bnn_atlas.warmstart.ensemble import TrainingError

NUMBERS = np.random.default_rng(3)
X = NUMBERS.standard_normal((40, 2))
Y = X[:, 0] + 0.3 * NUMBERS.standard_normal(40)
LABELS = (Y > 0).astype(np.int64)
LINE: dict[str, Any] = {"model": {"kind": "mlp", "hidden": []}, "likelihood": {"kind": "gaussian"}, "kernel": "xla"}
CLASSES = LINE | {"likelihood": {"kind": "categorical"}}
HMC = {"kind": "hmc", "burn_in": 0, "steps": 4, "step_size": 0.1, "trajectory_length": 0.3}
LAYOUT = build_network(MLPConfig(hidden=()), (2,), 1).layout
DATES = np.datetime64("2020-01-01") + np.arange(40)
FRAME, SERIES = pd.DataFrame(X, columns=["a", "b"]), pd.Series(Y)
PAIRS = pd.MultiIndex.from_tuples([(i, "x") for i in range(40)])


@pytest.fixture(scope="module")
def line() -> NetworkPosterior:
    return build_posterior(X, Y, LINE)


@pytest.fixture(scope="module")
def labelled() -> NetworkPosterior:
    return build_posterior(X, LABELS, CLASSES)


def draws_of(posterior: NetworkPosterior, **settings: Any) -> ArrayDraws:
    """Three chains of random draws, with the record of the posterior that they are of."""
    layout = posterior.density.layout
    recorded = {"posterior": posterior.config.model_dump(mode="json") | settings, "method": HMC}
    values = np.random.default_rng(0).standard_normal((3, 6, layout.size)).astype("float32")
    statistics = {name: np.zeros((3, 6), "float32") for name in ("log_likelihood", "log_prior")}
    attributes = {"provenance": {"settings": recorded}}
    return ArrayDraws(Path("pool.json"), layout, values, statistics, np.arange(3), np.arange(6), attributes)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, np.round(10 * Y).astype(int)),
        (X, (3_000_000_000 + 1e8 * Y).astype(np.int64)),
        (X, Y[:, None]),
        (X, Y > 0),
        (np.round(5 * X).astype(np.int64), Y),
        (4e9 * X // 1, Y),
        (X.tolist(), Y.tolist()),
        (pd.DataFrame(X), pd.Series(Y)),
        (pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0}), pd.DataFrame({"y": Y})),
        (pd.DataFrame(X).astype("Float64"), pd.Series(np.round(Y)).astype("Int64")),
        (jnp.asarray(X), jnp.asarray(Y)),
        (jnp.asarray(X, jnp.bfloat16), jnp.asarray(np.round(Y), jnp.int32)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_regressions_take_numbers_of_every_kind(x: Any, y: Any) -> None:
    data = build_posterior(x, y, LINE).data
    np.testing.assert_array_equal(data.x, np.asarray(pd.DataFrame(np.asarray(x)), float).astype("float32"))
    np.testing.assert_array_equal(data.y, np.asarray(y, float).reshape(-1).astype("float32"), strict=True)


@pytest.mark.parametrize("y", [LABELS, LABELS.astype(float), LABELS[:, None], LABELS > 0, LABELS.astype(np.uint8)])
def test_labels_are_whole_numbers_of_any_type(y: np.ndarray) -> None:
    posterior = build_posterior(X, y, CLASSES)
    assert posterior.classes == 2
    np.testing.assert_array_equal(posterior.data.y, LABELS.astype(np.int32), strict=True)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:0], Y[:0], r"^x has no rows"),
        (X[:, :0], Y, r"^x .* rows are empty"),
        (X[:, 0], Y, r"^x has the shape \[40\].*numpy\.reshape\(x, \(-1, 1\)\)"),
        (X + 1j, Y, r"^x holds complex"),
        (DATES[:, None], Y, r"^x holds dates"),
        (X.astype(str), Y, r"^x holds text: pass numpy\.asarray\(x\)\.astype\(float\)"),
        (X.astype(bytes), Y, r"^x holds text: .*astype\(float\)"),
        (X.astype(object), Y, r"^x holds objects: .*astype\(float\)"),
        (X, [None, *Y[1:]], r"^y holds None \(the first at \[0\]\): leave"),
        (X, ["3", None, *Y[2:]], r"^y holds None \(the first at \[1\]\)"),
        (X, np.where(Y > 0, "a", "b"), r"^y holds text instead of numbers"),
        (X, ["a", *Y[1:].astype(object)], r"^y holds "),
        (np.ma.masked_greater(X, 1), Y, r"^x is a masked array"),
        (list(np.ma.masked_greater(X, 1)), Y, r"^x holds a masked array"),
        (X, list(np.ma.masked_greater(Y, 1)), r"^y holds a masked array"),
        (X, tuple([[one] for one in np.ma.masked_greater(Y, 1)]), r"^y holds a masked array"),
        (X, np.array([*Y[1:], np.ma.masked], object), r"^y holds a masked array"),
        (pd.DataFrame({"a": X[:, 0], "b": DATES}), Y, r"^x has .* in column 'b', which holds dates: .*x\['b'\], 'M8"),
        (X, pd.Series(np.where(Y > 0, "a", "b"), dtype="category"), r"^y has the type 'category', .* number words"),
        (X, pd.Series(DATES).where(Y > 0), r"^y holds NaT \(the first at \["),
        (np.where(X > 1, np.nan, X), Y, r"^x has numbers that are not finite \(\d+,"),
        (1e39 * X, Y, r"^x has .* float32 ends at"),
        (1.7e12 + 1000 * X, Y, r"^x goes from .* in column 0, and float32"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], r"^x cannot be made an array"),
        ({"a": X}, Y, r"^x is a dict: pass an array"),
        (X, None, r"^y is a NoneType: pass an array"),
        (pd.DataFrame({"a": X[:, 0], "b": "red"}), Y, r"^x has the type 'str' in column 'b'"),
        (X, Y[:5], r"^y has 5 targets for 40 rows"),
        (X, np.column_stack([Y, Y]), r"^y has the shape \[40, 2\]: one target"),
        (X, 1e39 * Y, r"^y has .* float32 ends at"),
        (X, (3_000_000_000 + 1000 * Y).astype(np.int64), r"^y goes from .* and float32"),
        (X, DATES, r"^y holds dates"),
        (X, DATES.tolist(), r"^y holds dates"),
        (X, pd.Series(Y).mask(Y > 1), r"^y has numbers that are not finite \(\d+,"),
    ],
)  # fmt: skip
def test_regressions_refuse_what_has_no_right_answer(x: Any, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_posterior(x, y, LINE)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.eye(2)[LABELS], r"^y has the shape \[40, 2\].*numpy\.argmax\(y, axis=1\)"),
        (Y, r"^y has .* take a likelihood for regression if"),
        (np.where(LABELS, np.nan, 1), r"^y has nan at .*: leave these rows out"),
        (LABELS + 0.5, r"^y has [01]\.5 at \[0\], but class numbers 0, 1, 2"),
        (2 * LABELS - 1, r"^y has -1 at"),
        (LABELS * 10**6, r"^y has labels up to 1000000 in 40 rows"),
        (np.where(LABELS, "a", "b"), r"^y holds text .*numbering used for training"),
        (0 * LABELS, r"^y has one class"),
    ],
)
def test_labels_that_are_not_class_numbers_are_refused(y: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_posterior(X, y, CLASSES)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS * 0 + 3, "class 3;"),
        (LABELS + 1, "subtract 1"),
        (LABELS * 2, "1 of 3 classes never occur"),
        (np.arange(40), "a class of its own"),
    ],
)
def test_labels_that_look_like_a_mistake_are_told(y: np.ndarray, message: str) -> None:
    with pytest.warns(UserWarning, match=message) as told:
        build_posterior(X, y, CLASSES)
    assert told[0].filename == __file__


def test_rows_and_targets_that_may_not_belong_together_are_told() -> None:
    x, y = pd.DataFrame(X), pd.Series(Y)
    with pytest.warns(UserWarning, match=r"y\.loc\[x\.index\]"):
        build_posterior(x, y[::-1], LINE)
    with pytest.warns(UserWarning, match="every row has the same target, 7"):
        build_posterior(x, 0 * y + 7, LINE)
    build_posterior(x, y.set_axis(y.index + 40), LINE)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (FRAME, SERIES[::-1], "another order"),
        (FRAME, SERIES.set_axis(SERIES.index + 10), "other labels"),
        (FRAME.set_axis(SERIES.index // 2), SERIES, "other labels"),
        (FRAME, SERIES.set_axis(SERIES.index + 40), ""),
        (FRAME.set_axis(PAIRS), SERIES, ""),
        (FRAME, SERIES.set_axis(PAIRS), ""),
        (FRAME.set_axis(PAIRS), SERIES.set_axis(PAIRS[::-1]), "another order"),
    ],
)
def test_every_function_tells_of_rows_and_targets_with_other_labels(
    line: NetworkPosterior, x: pd.DataFrame, y: pd.Series, message: str
) -> None:
    training = {"max_epochs": 1, "batch_size": None}
    calls: list[Callable[[], Any]] = [
        lambda: build_posterior(x, y, LINE),
        lambda: predict(line, draws_of(line), x, y),
        lambda: score(line, draws_of(line), x, y),
        lambda: starting_points(line, 1, training=training, validation=(x, y)),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            call()
        labels = [warning for warning in told if "its index" in str(warning.message)]
        assert len(labels) == (message != "")
        assert all(re.search(message, str(warning.message)) and warning.filename == __file__ for warning in labels)


def test_columns_go_by_name_where_frames_share_names() -> None:
    posterior = pickle.loads(pickle.dumps(build_posterior(FRAME, Y, LINE)))
    draws = draws_of(posterior)
    same = [X, FRAME, FRAME.set_axis(["c", "d"], axis=1), FRAME.set_axis([PAIRS[0], PAIRS[1]], axis=1)]
    for x in same:
        np.testing.assert_array_equal(predict(posterior, draws, x).mean, predict(posterior, draws, X).mean)
    for x in (FRAME[["b", "a"]], FRAME.set_axis(["a", "c"], axis=1), FRAME.assign(c=1)):
        for call in (predict, score):
            with pytest.raises(DataError, match=r"^x has the columns .*x\.to_numpy\(\)"):
                call(posterior, draws, x, Y)
        with pytest.raises(DataError, match=r"^validation\[0\] has the columns"):
            starting_points(posterior, 1, training={}, validation=(x, Y))


def test_advice_works_when_it_is_followed(line: NetworkPosterior) -> None:
    names: dict[str, Any] = {"numpy": np, "x": X[0], "y": Y}
    times = [DATES, DATES.tolist(), DATES - DATES[0], (DATES - DATES[0]).tolist()]
    for x, y in [(X[0], Y[:1]), (X.astype(str), Y), (X, Y.astype(bytes)), *((X, y) for y in times)]:
        with pytest.raises(DataError) as refused:
            score(line, draws_of(line), x, y)
        name, code = re.fullmatch(r"(\w) .*?(?=\(?numpy)(\(?numpy.*)", str(refused.value)).groups()
        names |= {"x": x, "y": y}
        names[name] = eval(code, names)
        score(line, draws_of(line), names["x"], names["y"])


def test_a_masked_array_without_masked_values_is_an_array() -> None:
    data = build_posterior(np.ma.masked_greater(X, 100), np.ma.array(Y), LINE).data
    np.testing.assert_array_equal(data.x, X.astype("float32"))


@pytest.mark.parametrize("folder", [3, "", "file", "file/below", "a\0b", "/proc/draws", "/proc/self/fd", "long" * 100])
def test_a_folder_for_draws_is_a_folder(line: NetworkPosterior, folder: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = tmp_path / folder if isinstance(folder, str) and folder else folder
    with pytest.raises(DataError, match=r"^folder "):
        sample(line, HMC, np.zeros((1, 3)), place)


@pytest.mark.parametrize(("given", "message"), [({"classes": 1}, "y has 1 at"), ({"classes": -1}, "classes is -1")])
def test_numbers_of_classes_are_checked(given: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build_posterior(X, LABELS, CLASSES, **given)
    assert build_posterior(X, LABELS, CLASSES, classes=3).classes == 3
    with pytest.raises(DataError, match="'gaussian' is a regression"):
        build_posterior(X, Y, LINE, classes=3)


@pytest.mark.parametrize("value", [2**32, 2**40, -1, 1.5, "1", True, None, np.arange(2), np.float64(2)])
def test_seeds_that_are_no_whole_numbers_of_32_bits_are_refused(line: NetworkPosterior, value: Any) -> None:
    with pytest.raises(DataError, match=r"^seed is .* from 0 to 4294967295"):
        starting_points(line, 1, seed=value)
    with pytest.raises(DataError, match=r"^seed is"):
        sample(line, HMC, np.zeros((1, 3)), "nowhere", seed=value)
    with pytest.raises(DataError, match=r"^seed is"):
        to_arviz(line, draws_of(line), seed=value)


def test_every_seed_of_32_bits_has_its_own_numbers(line: NetworkPosterior, tmp_path: Path) -> None:
    seeds = [0, 1, np.uint8(2), 2**31, 2**32 - 1]
    starts = [starting_points(line, 1, seed=value) for value in seeds]
    assert len(np.unique(np.concatenate(starts), axis=0)) == len(seeds)
    pool = sample(line, HMC, starts[0], tmp_path, seed=2**32 - 1)
    assert pool.attributes["provenance"]["settings"]["seed"] == 2**32 - 1


@pytest.mark.parametrize("chains", [0, -1, 1.5, 10**9, "2"])
def test_numbers_of_chains_are_checked(line: NetworkPosterior, chains: Any) -> None:
    with pytest.raises(DataError, match=r"^chains is"):
        starting_points(line, chains)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (np.zeros(3), r"shape \[3\].*numpy\.reshape\(starts, \(1, -1\)\)"),
        (np.zeros((2, 4)), r"shape \[2, 4\], but one row of 3 parameters"),
        (np.zeros((0, 3)), "one row of 3 parameters"),
        (np.zeros((2, 3), str), "holds text"),
        (np.zeros((2, 3), complex), "holds complex"),
        (np.full((2, 3), np.nan), "not finite .*: pass finite numbers, such as"),
        (np.full((2, 3), 1e39), "float32 ends at"),
    ],
)
def test_starts_are_one_row_of_finite_numbers_for_each_chain(
    line: NetworkPosterior, starts: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=f"^starts .*{message}"):
        sample(line, HMC, starts, "nowhere")


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((X, LABELS[:5]), r"^validation\[1\] has 5 targets"),
        ((X, LABELS + 1), r"^validation\[1\] has 2 at"),
        ((X, LABELS + 0.5), r"^validation\[1\] has"),
        ((X[:, :1], LABELS), r"^validation\[0\] has rows of the shape \[1\]"),
        ((X, None), r"^validation\[1\] is a NoneType"),
        (X, r"^validation must be two arrays"),
    ],
)
def test_validation_rows_are_checked(labelled: NetworkPosterior, validation: Any, message: str) -> None:
    for training in ({}, None):
        with pytest.raises(DataError, match=message):
            starting_points(labelled, 1, training=training, validation=validation)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:0], Y[:0], "^x has no rows"),
        (np.where(X > 1, np.nan, X), Y, "^x has .* not finite"),
        (X[:, :1], Y, r"^x has rows of the shape \[1\]"),
        (X[0], Y[:1], r"^x is one row.*numpy\.reshape\(x, \(1, 2\)\)"),
        (X[:, 0], Y, r"^x has the shape \[40\].*takes rows of the shape \[2\]"),
        (3.0, Y, r"^x has the shape \[\]"),
        (X, np.column_stack([Y, Y]), "^y has the shape"),
        (X, np.ma.masked_greater(Y, 1), "^y is a masked array"),
    ],
)
def test_rows_to_score_are_checked(line: NetworkPosterior, x: np.ndarray, y: np.ndarray, message: str) -> None:
    for function in (predict, score):
        with pytest.raises(DataError, match=message):
            function(line, draws_of(line), x, y)


def test_whole_numbers_are_scored_as_floats(line: NetworkPosterior) -> None:
    whole = np.round(3 * Y)
    assert whole.min() < 0
    ours, theirs = (score(line, draws_of(line), X, y) for y in (whole.astype(int), whole))
    pd.testing.assert_frame_equal(ours, theirs)


@pytest.mark.parametrize(
    ("recorded", "differs"),
    [
        ({"model": {"kind": "mlp", "hidden": [4]}}, "model"),
        ({"likelihood": {"kind": "gaussian", "sigma": 2.0}}, "likelihood"),
        ({"prior": {"kind": "laplace"}}, "prior"),
        ({"temperature": 0.5}, "temperature"),
    ],
)
def test_draws_of_another_posterior_are_refused(line: NetworkPosterior, recorded: dict[str, Any], differs: str) -> None:
    draws = draws_of(line, **recorded)
    calls = lambda: predict(line, draws, X), lambda: score(line, draws, X, Y), lambda: to_arviz(line, draws)
    for call in calls:
        with pytest.raises(
            DataError, match=rf"^draws \(pool\.json\) are of another posterior; these differ: {differs} "
        ):
            call()


def test_draws_without_a_record_are_compared_by_their_network(line: NetworkPosterior) -> None:
    wide = build_posterior(X, Y, LINE | {"model": {"kind": "mlp", "hidden": [2]}})
    draws = draws_of(line)
    draws.attributes = {}
    assert predict(line, draws, X[:3]).mean.shape == (3, 3)
    with pytest.raises(DataError, match="these differ: network"):
        predict(wide, draws, X)
    with pytest.raises(DataError, match="do not record the method"):
        score(line, draws, X, Y)
    with pytest.raises(DataError, match=r"^draws is a ndarray: pass a pool"):
        predict(line, draws.read(), X)
    with pytest.raises(DataError, match=r"^posterior is a int: pass what `build_posterior`"):
        predict(3, draws, X)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_posterior_pickles_and_has_a_short_repr(shards: int) -> None:
    prior = {"kind": "empirical_covariance", "floor": 0.1}
    posterior = build_posterior(X, LABELS, CLASSES | {"prior": prior, "data_shards": shards})
    assert (
        repr(posterior) == "NetworkPosterior(mlp linear relu, 6 parameters, categorical, empirical_covariance, 40 rows)"
    )
    again = pickle.loads(pickle.dumps(posterior))
    assert (again.config, again.classes, again.vocabulary) == (posterior.config, 2, 0)
    theta = jnp.linspace(-1, 1, 6)
    for one, other in zip(*map(jax.tree.leaves, (posterior.data, again.data)), strict=True):
        np.testing.assert_array_equal(one, other)
    ours, theirs = (
        (p.density.log_likelihood_of(theta, p.data.x, p.data.y), p.density.log_prior(theta, p.data.prior))
        for p in (posterior, again)
    )
    assert ours == theirs


def test_what_is_returned_has_a_short_repr(line: NetworkPosterior) -> None:
    draws = draws_of(line)
    assert re.fullmatch(r"PredictiveSummary\(regression, 3 chains x 6 draws: [\w, ]+\)", repr(predict(line, draws, X)))
    assert repr(draws) == "ArrayDraws(3 chains x 6 draws x 3 parameters, pool.json)"
    assert repr(build_posterior(X[:1], Y[:1], LINE)).endswith(", 1 row)")


@pytest.mark.parametrize("groups", [{"a": 1}, [1], 3])
def test_groups_for_arviz_are_mappings(line: NetworkPosterior, groups: Any) -> None:
    with pytest.raises(ValueError, match=r"^groups must map the name of each group to variables"):
        draws_of(line).to_arviz(groups)


@pytest.mark.parametrize("package", ["xarray", "arviz"])
def test_a_missing_package_is_named_with_its_extra(
    line: NetworkPosterior, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "bnn_atlas.traces.convert", raising=False)
    convert = {"xarray": ArrayDraws.to_xarray, "arviz": ArrayDraws.to_arviz}[package]
    with pytest.raises(ModuleNotFoundError, match=rf"^{package} .*pip install 'bnn-atlas\[arviz\]'"):
        convert(draws_of(line))


SHAPES = arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
ANY = arrays_of.scalar_dtypes().flatmap(lambda kind: SHAPES.flatmap(lambda shape: arrays_of.arrays(kind, shape)))


def trained(posterior: NetworkPosterior, x: np.ndarray, y: np.ndarray) -> None:
    """Train a network; that its loss is not finite for huge numbers is no fault of the arrays."""
    with contextlib.suppress(TrainingError):
        starting_points(posterior, 1, training={"max_epochs": 1, "batch_size": None}, validation=(x, y))


def refusal(call: Callable[[], Any]) -> str | None:
    """The error that says what is wrong with an argument; None if nothing is."""
    try:
        call()
    except DataError as error:
        return str(error)
    return None


def check(gate: Callable[..., np.ndarray], values: np.ndarray, name: str, *others: Any, **more: Any) -> None:
    """The gate gives the same numbers, all of them finite, or an error of one line about the argument."""
    if (told := refusal(lambda: gate(values, *others, **more))) is not None:
        assert told.startswith(f"{name} ")
        assert "\n" not in told
    else:
        found = gate(values, *others, **more)
        assert found.dtype.kind in "fi"
        assert np.isfinite(found.astype("float32")).all()
        np.testing.assert_array_equal(found.astype(float), values.astype(float).reshape(found.shape))


@settings(max_examples=200, deadline=None, database=None)
@given(ANY)
def test_any_array_is_checked(values: np.ndarray) -> None:
    count = len(values) if values.ndim else 0
    check(arrays.rows, values, "x", np.float32)
    check(arrays.rows, values, "x", np.float32, vocabulary=5)
    check(arrays.starts, values, "starts", LAYOUT, np.float32)
    for likelihood, classes in ((GaussianLikelihood(), 0), (CategoricalLikelihood(), 0), (CategoricalLikelihood(), 3)):
        check(arrays.targets, values, "y", likelihood, classes, np.float32, count=count)


PLACED = arrays_of.scalar_dtypes().flatmap(
    lambda kind: st.sampled_from([(3, 2), (3,), (3, 1), (2, 3), (0, 2)]).flatmap(
        lambda shape: arrays_of.arrays(kind, shape)
    )
)
GOOD_X, GOOD_Y = st.just(X[:3]), st.just(LABELS[:3])


@settings(max_examples=60, deadline=None, database=None)
@given(st.one_of(st.tuples(PLACED, GOOD_Y), st.tuples(GOOD_X, PLACED), st.tuples(PLACED, PLACED)), st.booleans())
def test_no_array_makes_a_public_function_fail_with_an_error_of_another_library(
    line: NetworkPosterior, labelled: NetworkPosterior, rows: tuple[np.ndarray, np.ndarray], classes: bool
) -> None:
    posterior = labelled if classes else line
    draws, (x, y) = draws_of(posterior), rows
    calls: list[Callable[[], Any]] = [
        lambda: build_posterior(x, y, CLASSES if classes else LINE),
        lambda: predict(posterior, draws, x, y),
        lambda: score(posterior, draws, x, y),
        lambda: trained(posterior, x, y),
    ]
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            told = refusal(call)
        assert told is None or told.startswith(("x ", "y ", "validation["))


NOT_CALLED = {"Alignment", "Reference"}
"""Public names that are only returned, with nothing that takes a value."""
RAGGED = [[1.0, 2.0], [3.0]]
WITHOUT = np.full_like(X, np.nan)


class Given:
    """What public functions are called with, besides the bad argument."""

    def __init__(self) -> None:
        self.posterior = build_posterior(X, Y, LINE)
        self.draws = PosteriorDraws(draws_of(self.posterior), self.posterior)
        self.classes = build_posterior(X, LABELS, CLASSES)


@cache
def sound() -> Given:
    return Given()


def network(params: Any, x: Any) -> Any:
    return x @ params["w"]


def own(**changes: Any) -> Any:
    return posterior_of(network, X, Y, **{"start": {"w": np.ones((2, 1))}, **changes})


def alone(**changes: Any) -> Any:
    return posterior_of(lambda p: -jnp.sum(p["w"] ** 2), start={"w": np.ones(2)}, **changes)


def estimator(kind: Any = AtlasRegressor, y: Any = Y, x: Any = X, **changes: Any) -> Any:
    return kind(**changes).fit(x, y)


REFUSED: dict[str, list[tuple[Callable[[Given], Any], str]]] = {
    "build_posterior": [
        (lambda g: build_posterior(X[:, 0], Y, LINE), r"x .*\[n, \.\.\.\]"),
        (lambda g: build_posterior(WITHOUT, Y, LINE), "x .*not finite"),
        (lambda g: build_posterior(RAGGED, Y[:2], LINE), "x .*equal length"),
        (lambda g: build_posterior(X[:0], Y[:0], LINE), "x .*no rows"),
        (lambda g: build_posterior(X, Y[:3], LINE), "y .*3 targets"),
        (lambda g: build_posterior(X, Y, {"modle": {}}), "modle"),
        (lambda g: build_posterior(X, Y, "mlp"), "posterior"),
        (lambda g: build_posterior(X, LABELS, CLASSES, classes=2.5), "classes .*whole"),
    ],
    "posterior_of": [
        (lambda g: own(start={"w": np.full((2, 1), np.nan)}), r"start\['w'\].*not finite"),
        (lambda g: own(start={}), "start .*no parameters"),
        (lambda g: own(start={"w": np.ones((2, 1)), "v": np.zeros(0)}), r"start\['v'\] is empty"),
        (lambda g: own(start={"w": np.ones((2, 1), int)}), r"start\['w'\].*whole numbers"),
        (lambda g: own(start={"w": np.array(RAGGED, object)}), r"start\['w'\]"),
        (lambda g: own(start={"w": "text"}), r"start\['w'\]"),
        (lambda g: own(start={"w": np.ones((3, 1))}), r"network fails on rows of shape \[2, 2\]"),
        (lambda g: own(start=3.0), "network fails"),
        (lambda g: own(stochastic=["v*"]), "stochastic: .*'v"),
        (lambda g: own(stochastic=[]), "stochastic"),
        (lambda g: own(stochastic=3), "stochastic"),
        (lambda g: own(prior={"v": "standard_normal"}), "prior: 'w'"),
        (lambda g: own(prior={"w": 3}), "prior"),
        (lambda g: own(prior=3), "prior is a int"),
        (lambda g: own(likelihood="gausian"), "gausian"),
        (lambda g: own(temperature=0), "temperature"),
        (lambda g: own(temperature=float("nan")), "temperature"),
        (lambda g: own(float64="yes"), "float64"),
        (lambda g: own(mean=3), "mean"),
        (lambda g: own(likelihood=lambda o, y: -((y - o[:, 0]) ** 2), mean=3), "mean is a int"),
        (lambda g: own(vocabulary=-1), "vocabulary"),
        (lambda g: posterior_of(3, X, Y), "network is a int"),
        (lambda g: posterior_of(network, WITHOUT, Y, start={"w": np.ones((2, 1))}), "x .*not finite"),
        (lambda g: posterior_of(network, start=None), "start is missing"),
        (lambda g: alone(likelihood="gaussian"), "likelihood belongs to a network .*leave it out"),
        (lambda g: alone(prior="laplace"), "prior belongs to a network .*put it into the density"),
        (lambda g: alone(prior=lambda p: 0.0), "prior belongs to a network"),
        (lambda g: alone(mean=lambda o: o), "mean belongs to a network"),
        (lambda g: alone(classes=3), "classes belongs to a network"),
        (lambda g: alone(vocabulary=3), "vocabulary belongs to a network"),
        (lambda g: posterior_of(nn.Dense(1)), "^x and y are missing"),
        (lambda g: posterior_of(nnx.Linear(2, 1, rngs=nnx.Rngs(0))), "^x and y are missing"),
        (
            lambda g: own(start={"w": np.ones((2, 1)), "b1": RAGGED}),
            r"^start\['b1'\] is a list of numbers: pass an arr",
        ),
        (lambda g: own(start={"w": np.ones((2, 1)), "b": [0.0, 0.0]}), r"^start\['b'\] is a list of numbers"),
        (lambda g: own(start=[1.0, 2.0]), "^start is a list of numbers"),
    ],
    "NetworkPosterior": [
        (lambda g: g.posterior.as_pytree(np.zeros(5)), r"theta .*\[5\].*3 parameters"),
        (lambda g: g.posterior.as_pytree(RAGGED), "theta .*equal length"),
        (lambda g: own().as_pytree(np.zeros((4, 7))), r"theta .*\[4, 7\].*parameters"),
    ],
    "starting_points": [
        (lambda g: starting_points(g.posterior, 0), "chains .*whole number"),
        (lambda g: starting_points(g.posterior, 1.5), "chains .*whole number"),
        (lambda g: starting_points("line", 1), "posterior is a str"),
        (lambda g: starting_points(g.posterior, 1, seed=-1), "seed"),
        (lambda g: starting_points(g.posterior, 1, training={"epochs": 3}), "epochs"),
        (lambda g: starting_points(g.posterior, 1, training=3), "training"),
        (lambda g: starting_points(g.posterior, 1, training={}, validation=X), "validation"),
        (lambda g: starting_points(g.posterior, 1, training={}, validation=(RAGGED, Y[:2])), r"validation\[0\]"),
        (lambda g: starting_points(g.posterior, 1, progress="yes"), "progress"),
    ],
    "sample": [
        (lambda g: sample(g.posterior, HMC, np.zeros((2, 5))), r"starts .*\[2, 5\]"),
        (lambda g: sample(g.posterior, HMC, np.full((2, 3), np.nan)), "starts .*not finite"),
        (lambda g: sample(g.posterior, HMC, RAGGED), "starts .*equal length"),
        (
            lambda g: sample(g.posterior, HMC, {"layer0.weight": np.ones((2, 1, 2))}),
            "starts: .*'layer0.bias' is missing",
        ),
        (lambda g: sample(own(), HMC, {"w": np.ones((2, 1))}), r"starts\['w'\] .*\[chain, 2, 1\].*pass a list"),
        (lambda g: sample(own(), HMC, [{"w": np.ones((2, 1))}, {"w": np.ones(2)}]), r"starts\[1\]\['w'\] .*\[2\]"),
        (lambda g: sample(own(), HMC, [{"w": np.ones((2, 1)), "v": np.ones(2)}]), r"starts\[0\]: .*no parameter 'v'"),
        (lambda g: sample(own(), HMC, [{"w": np.full((2, 1), np.nan)}]), r"starts\[0\]\['w'\] .*not finite"),
        (lambda g: sample(own(), HMC, [{"w": np.ones((2, 1), int)}]), r"starts\[0\]\['w'\] .*whole numbers"),
        (lambda g: sample(own(), HMC, [{"w": "text"}]), r"starts\[0\]\['w'\]"),
        (
            lambda g: sample(g.posterior, HMC, {"layer0.weight": np.ones((3, 1, 2)), "layer0.bias": np.ones((2, 1))}),
            r"starts\['layer0.weight'\] is of 3 networks, and starts\['layer0.bias'\] of 2",
        ),
        (lambda g: sample(own(), HMC, [{"w": [[1.0], [2.0]]}]), r"^starts\[0\]\['w'\] is a list of numbers"),
        (lambda g: sample(own(), "deep_ensemble", chains=2), "^all members of the deep ensemble would be equal"),
        (lambda g: sample(g.posterior, "deep_ensemble", np.ones((2, 3))), "^all members of the deep ensemble"),
        (lambda g: sample(g.posterior, "hcm"), "hcm"),
        (lambda g: sample(g.posterior, HMC | {"step": 1}), "step"),
        (lambda g: sample(g.posterior, HMC | {"steps": 1.5}), "steps"),
        (lambda g: sample(g.posterior, 3), "method"),
        (lambda g: sample(g.posterior, HMC, folder=3), "folder is a int"),
        (lambda g: sample(g.posterior, HMC, chains=0), "chains"),
        (lambda g: sample(g.posterior, HMC, seed=0.5), "seed"),
        (lambda g: sample(g.posterior, HMC, progress=3), "progress"),
        (lambda g: sample(None, HMC), "posterior is a NoneType"),
    ],
    "predict": [
        (lambda g: predict(g.posterior, g.draws, X[:, :1]), "x .*rows of the shape"),
        (lambda g: predict(g.posterior, g.draws, WITHOUT), "x .*not finite"),
        (lambda g: predict(g.posterior, g.draws, RAGGED), "x .*equal length"),
        (lambda g: predict(g.posterior, g.draws, X, Y[:2]), "y .*2 targets"),
        (lambda g: predict(g.posterior, np.zeros((1, 2, 3)), X), "draws is a ndarray"),
        (lambda g: predict(g.classes, g.draws, X), "draws .*likelihood"),
        (lambda g: predict(3, g.draws, X), "posterior is a int"),
        (
            lambda g: predict(own(), draws_of(own(), model={"kind": "user", "name": "network", "digest": "0"}), X),
            r"differ: model \(network, here another network\)\. Build",
        ),
    ],
    "predict_draws": [
        (lambda g: predict_draws(g.posterior, g.draws, X[0]), "x is one row"),
        (lambda g: predict_draws(g.posterior, g.draws, WITHOUT), "x .*not finite"),
        (lambda g: predict_draws(g.posterior, g.draws.select(parameters=["layer0.bias"]), X), "1 of 3 parameters"),
    ],
    "score": [
        (lambda g: score(g.posterior, g.draws, X, np.full(40, np.nan)), "y .*not finite"),
        (lambda g: score(g.posterior, g.draws, X[:0], Y[:0]), "x .*no rows"),
        (lambda g: score(g.classes, PosteriorDraws(draws_of(g.classes), None), X, LABELS + 5), "y .*from 0 to 1"),
        (lambda g: score(g.posterior, g.draws.select(parameters=["layer0.bias"]), X, Y), "1 of 3 parameters"),
    ],
    "to_arviz": [
        (lambda g: to_arviz(g.posterior, [1.0]), "draws is a list"),
        (lambda g: to_arviz(g.posterior, g.draws, seed="x"), "seed"),
        (lambda g: to_arviz(g.classes, g.draws), "draws .*likelihood"),
    ],
    "PosteriorDraws": [
        (lambda g: PosteriorDraws(np.zeros((1, 2, 3)), g.posterior), "draws is a ndarray"),
        (lambda g: PosteriorDraws(g.draws, 3), "posterior is a int"),
        (lambda g: g.draws["layer0.wieght"], "layer0.weight"),
        (lambda g: g.draws.select(parameters=["layer1.bias"]), "layer0.bias"),
        (lambda g: g.draws.select(parameters="layer0.biass"), "layer0.bias"),
        (lambda g: g.draws.select(chains=[7]), "no chain 7"),
        (lambda g: g.draws.select(chains=9), r"^chains is 9: pass a list of chain numbers"),
        (lambda g: g.draws.select(draws=[1]), r"^draws is \[1\]: pass a slice"),
        (lambda g: g.draws.select(layers=0), r"^layers is 0: pass a list"),
        (lambda g: g.draws.select(roles="weight"), "^roles is 'weight': pass a list"),
        (lambda g: g.draws.select(chain=[0]), "^there is no condition 'chain'; choose .*chains"),
        (lambda g: g.draws.thin(0), "thinning"),
        (lambda g: g.draws.thin(1.5), "thinning"),
        (lambda g: g.draws.summary(X[:, :1]), "x .*rows of the shape"),
        (lambda g: g.draws.predict(WITHOUT), "x .*not finite"),
        (lambda g: g.draws.plot_trace(["layer9"]), "layer9"),
        (lambda g: g.draws.plot_pair(["layer0.bias"]), "2 to 6"),
        (lambda g: g.draws.plot_reliability(X, Y[:3]), "y .*3 targets"),
        (lambda g: g.draws.plot_bands(), "one input"),
        (lambda g: g.draws.save(Path(__file__).parent), "exists already: name a new folder"),
        (lambda g: g.draws.save(__file__), "exists already"),
        (lambda g: g.draws.save(Path(__file__) / "new"), "is a file or in one"),
        (lambda g: g.draws.save(3), "folder is a int"),
        (lambda g: g.draws.select(parameters=["layer0.bias"]).save("nowhere"), "1 of 3 parameters"),
    ],
    "open_pool": [
        (lambda g: open_pool(3), "int"),
        (lambda g: open_pool("nowhere/pool.json"), "nowhere"),
        (lambda g: open_pool(Path(__file__)), "test_arrays_given"),
        (lambda g: open_pool(Path(__file__).parent), "a folder without a pool.json: .*`save`"),
    ],
    "open_reference": [
        (lambda g: open_reference("nowhere.zip"), "nowhere"),
        (lambda g: open_reference(3), "int"),
        (lambda g: open_reference(__file__), "test_arrays_given"),
    ],
    "Symmetry": [
        (lambda g: Symmetry({"w": ("h",)}), "group 'h' indexes .*alone"),
        (lambda g: Symmetry({"w": 3}), r"axes\['w'\]"),
        (lambda g: Symmetry(3), "axes maps"),
        (lambda g: Symmetry.of(network), "x is missing|start is missing"),
    ],
    "align": [
        (lambda g: align(g.draws, by="weight"), "by is 'weight': choose weights"),
        (lambda g: align(g.draws, 3), "symmetry is a int"),
        (lambda g: align(g.draws, posterior=3), "posterior is a int"),
        (lambda g: align([{"w": RAGGED}] * 2, {"w": ("h", None), "v": (None, "h")}), r"draws\[0\]\['w'\] is a list"),
        (lambda g: align([{"w": "text"}], {"w": ("h", None), "v": (None, "h")}), r"draws\[0\]"),
        (lambda g: align(g.draws, {"v": ("h", None), "w": (None, "h")}), "'v'"),
    ],
    "configure": [
        (lambda g: configure(threads=0), "threads"),
        (lambda g: configure(threads=True), "threads"),
        (lambda g: configure(device="tpu"), "device"),
        (lambda g: configure(float64="yes"), "float64"),
    ],
    "AtlasRegressor": [
        (lambda g: estimator(x=WITHOUT), "NaN"),
        (lambda g: estimator(x=RAGGED, y=Y[:2]), "inhomogeneous|shape"),
        (lambda g: estimator(hidden=(0,)), "hidden"),
        (lambda g: estimator(hidden=3), "hidden"),
        (lambda g: estimator(hidden="16"), "^hidden is '16': pass the widths"),
        (lambda g: estimator(validation_fraction=0.99), "^validation_fraction is 0.99 and takes all 40 rows"),
        (lambda g: estimator(chains=0), "chains"),
        (lambda g: estimator(network=3), "network is a int"),
        (lambda g: estimator(validation_fraction="x"), "validation_fraction"),
        (lambda g: estimator(method={"kind": "mclmc", "step": 3}), "step"),
        (lambda g: AtlasRegressor().predict(X), "not fitted"),
        (lambda g: AtlasRegressor.load("nowhere"), "nowhere"),
    ],
    "AtlasClassifier": [
        (lambda g: estimator(AtlasClassifier, y=np.zeros(40)), "one class"),
        (lambda g: estimator(AtlasClassifier, y=Y), "continuous"),
        (lambda g: estimator(AtlasClassifier, y=LABELS[:3]), "inconsistent"),
        (lambda g: estimator(AtlasClassifier, y=LABELS, prior="normall"), "normall"),
    ],
}


def test_every_public_name_refuses_something() -> None:
    assert set(REFUSED) | NOT_CALLED == set(bnn_atlas.__all__)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(call, words, id=f"{name}-{number}")
        for name, calls in REFUSED.items()
        for number, (call, words) in enumerate(calls)
    ],
)
def test_public_functions_say_what_is_wrong_and_where(call: Callable[[Given], Any], words: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError, FileExistsError, TraceError), match=words):
        call(sound())
