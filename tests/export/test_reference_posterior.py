"""Archives of runs: what is packed comes back, checked, and can be used like the pipeline's own draws."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import bnn_atlas
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.data.dataset import Dataset, fingerprint, load, save
from bnn_atlas.data.splitting import Split, load_split, save_split
from bnn_atlas.export.archive import MANIFEST, ArchiveError, array_parts, as_json, read_array, write_archive
from bnn_atlas.export.reference_posterior import ABOUT, DRAWS, FORMAT, METRICS, Reference, open_reference
from bnn_atlas.metrics.gathering import summary as summaries
from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import build_network
from bnn_atlas.pipeline.steps.archives import pack
from bnn_atlas.pipeline.steps.predict import predict
from bnn_atlas.posterior.likelihoods import LOG_SIGMA
from bnn_atlas.traces.draws import Draws
from bnn_atlas.traces.pool import open_pool, pool_traces
from tests.pipeline.steps.making import LAYOUT, POSTERIOR, make_run
from tests.test_library import examples
from tests.traces.making import write_trace

METHOD = {"kind": "hmc", "burn_in": 5, "steps": 8, "step_size": 0.1, "trajectory_length": 1.0}
RUN = {
    "study": "s", "title": "A study", "paper": "Nobody, 2000", "run": "r", "scale": "demo", "split": 0,
    "description": "a small run", "reductions": ["chains: 10 -> 3"], "marks": [],
}  # fmt: skip


class Made(NamedTuple):
    """The files of a run and its archive."""

    dataset: Path
    split: Path
    pool: Path
    predictions: Path
    metrics: Path
    archive: Path
    settings: dict[str, Any]

    def again(self, destination: Path, **changes: Any) -> Path:
        settings = self.settings | changes
        files = self.dataset, self.split, self.pool, self.predictions, self.metrics
        pack(*files, destination, settings=settings, about=RUN)
        return destination


def finished(
    folder: Path, dataset: Path, split: Path, draws: np.ndarray, layout: Layout, posterior: dict[str, Any]
) -> Made:
    """Two blocks of draws with random statistics, their predictions, a table of values, and the archive."""
    numbers = np.random.default_rng(2)
    statistics = {
        name: numbers.standard_normal(draws.shape[:2]).astype("float32") for name in ("log_likelihood", "log_prior")
    }
    statistics["divergent"] = np.zeros(draws.shape[:2], bool)
    for number, part in enumerate((slice(1, 3), slice(0, 1))):
        taken, chains = {name: values[part] for name, values in statistics.items()}, [*range(*part.indices(3))]
        recorded = {"method": METHOD, "posterior": posterior, "chains": chains}
        write_trace(
            folder / f"trace{number}", draws[part], taken, chain_ids=chains, layout=layout,
            attributes={"fingerprint": "f", "provenance": {"commit": "c", "config": number, "settings": recorded}},
        )  # fmt: skip
    pool = folder / "pooled.json"
    pool_traces([folder / "trace0", folder / "trace1"], pool)
    predictions, metrics = folder / "predictions.npz", folder / "metrics.parquet"
    further = folder / "virial.npz", folder / "exchange.npz"
    predict(dataset, split, pool, predictions, *further, posterior=posterior)
    identity = ("s", "r", "demo", 0, "small", "linear", "hmc", 3, 8)
    values = [
        ("chains_excluded", 0.0),
        ("rhat_function_max", 1.02),
        ("ess_bulk_function_min", 450.0),
        ("acceptance_mean", 0.8),
    ]
    rows = [Row(*identity, metric, value, note="a note" if value > 100 else "") for metric, value in values]
    fit = Row(*identity, "reference_fit", 0.0, note="reference not converged: ESS 3; a mark")
    write_table(
        metrics,
        [*rows, fit, Row(*identity, "coverage", 0.9, 0.01, at="0.9", over="rows"), Row(*identity, "bfmi_min", np.nan)],
    )
    settings = {"posterior": posterior, "dataset": "small", "split": {"kind": "random"}, "seed": 4, "method": METHOD}
    made = Made(dataset, split, pool, predictions, metrics, folder / "export" / "r-split0.zip", settings)
    made.again(made.archive)
    return made


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("images")
    run = make_run(folder)
    return finished(folder, run.dataset, run.split, run.draws.astype("float32"), LAYOUT, POSTERIOR)


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, numbers = tmp_path_factory.mktemp("curve"), np.random.default_rng(0)
    x = numbers.uniform(-4, 6, 30)
    dataset = Dataset(x[:, None], np.sin(x) + 2, ("x",), "y", "regression", ())
    save(folder / "prepared.npz", dataset)
    order = numbers.permutation(30)
    save_split(folder / "split.npz", dataset, Split(order[:15], order[15:20], order[20:]))
    settings = {"model": {"hidden": [4], "activation": "tanh"}, "likelihood": {"kind": "learned_noise"}}
    config = PosteriorConfig.model_validate(settings)
    layout = Layout((*build_network(config.model, (1,), 1).layout.parameters, LOG_SIGMA))
    draws = numbers.standard_normal((3, 8, layout.size)).astype("float32")
    files = folder / "prepared.npz", folder / "split.npz"
    return finished(folder, *files, draws, layout, config.model_dump(mode="json"))


def assert_same_draws(found: Draws, expected: Draws) -> None:
    np.testing.assert_array_equal(found.read(), expected.read())
    np.testing.assert_array_equal(found.chain_ids, expected.chain_ids)
    np.testing.assert_array_equal(found.draw_ids, expected.draw_ids)
    assert found.layout == expected.layout
    assert found.statistics == expected.statistics
    for name in expected.statistics:
        np.testing.assert_array_equal(found.statistic(name), expected.statistic(name))
    assert found.attributes == expected.attributes
    assert found.parameter_names == expected.parameter_names


@pytest.mark.parametrize("name", ["images", "curve"])
def test_all_that_a_comparison_needs_comes_back(name: str, request: pytest.FixtureRequest) -> None:
    made: Made = request.getfixturevalue(name)
    found = bnn_atlas.open_reference(made.archive)
    split, summary = load_split(made.dataset, made.split), summaries.load(made.predictions)
    assert_same_draws(found.draws, open_pool(made.pool))
    np.testing.assert_array_equal(found.rows["train"], np.concatenate(split.split[:2]))
    np.testing.assert_array_equal(found.rows["test"], split.split.test)
    np.testing.assert_array_equal(found.targets["train"], split.y_fit)
    np.testing.assert_array_equal(found.targets["test"], split.y_test)
    np.testing.assert_array_equal(found.scaling["x_mean"], split.x_mean)
    assert found.scaling["y_scale"] == split.y_scale
    if name == "images":
        assert found.predictions["probabilities"].shape == (3, 6, 3)
        np.testing.assert_allclose(found.predictions["probabilities"], summary.probabilities, rtol=1e-6)
    else:
        assert found.predictions.keys() == {"mean", "second_moment", "noise_variance"}
        np.testing.assert_array_equal(found.predictions["mean"], summary.mean)
    assert found.about["settings"] == made.settings
    assert found.about["data"]["sha256"] == fingerprint(load(made.dataset))
    assert found.posterior_settings == made.settings["posterior"]
    recorded = {"method": METHOD, "posterior": made.settings["posterior"]}
    assert found.draws.attributes["provenance"] == {"commit": "c", "settings": recorded}
    values = found.metrics.set_index("metric")["value"]
    assert values["rhat_function_max"] == 1.02
    assert np.isnan(values["bfmi_min"])
    assert found.metrics["at"].tolist() == ["", "", "", "", "", "0.9", ""]
    assert found.metrics["note"].tolist()[2] == "a note"


def test_the_text_says_what_it_is_and_whether_to_trust_it(images: Made, curve: Made) -> None:
    text = open_reference(images.archive).readme
    assert text.startswith("# s/r: draws of a Bayesian neural network's posterior\n")
    assert "- chains: 10 -> 3" in text
    assert f"{LAYOUT.size:,} parameters" in text
    assert (
        "| `rhat_function_max` | rank-normalised split R-hat of function values at test rows, largest | 1.02 |  |"
        in text
    )
    assert "By the limits of this package: **" in text
    assert "As a reference for other methods: **reference not converged: ESS 3**." in text
    assert "`layer0.weight` 3x48, `layer0.bias` 3" in text or "`layer0.bias` 3, `layer0.weight` 3x48" in text
    assert "indices count the publisher's 8 training rows, then the test rows" in text
    assert "indices count the rows of the data set's file" in open_reference(curve.archive).readme


def test_numpy_alone_reads_it(images: Made) -> None:
    with zipfile.ZipFile(images.archive) as archive:
        draws = np.load(archive.open("draws.npy"))
        labels = np.load(archive.open("targets/test.npy"))
        about = json.loads(archive.read(ABOUT))
    np.testing.assert_array_equal(draws, open_pool(images.pool).read())
    assert labels.shape == (6,)
    assert about["settings_sha256"]


def test_its_draws_predict_and_score_like_those_of_the_pool(images: Made) -> None:
    reference, split = open_reference(images.archive), load_split(images.dataset, images.split)
    posterior = bnn_atlas.build_posterior(split.x_fit, split.y_fit, reference.posterior_settings, classes=3)
    pool = open_pool(images.pool)
    ours = bnn_atlas.predict(posterior, reference.draws, split.x_test, reference.targets["test"])
    theirs = bnn_atlas.predict(posterior, pool, split.x_test, split.y_test)
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    np.testing.assert_allclose(ours.probabilities, reference.predictions["probabilities"], atol=1e-6)
    pd.testing.assert_frame_equal(
        bnn_atlas.score(posterior, reference.draws, split.x_test, reference.targets["test"]),
        bnn_atlas.score(posterior, pool, split.x_test, split.y_test),
    )


@pytest.mark.parametrize("name", ["images", "curve"])
def test_the_call_of_the_documentation_scores_it(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Made = request.getfixturevalue(name)
    shutil.copy(made.archive, tmp_path / "mile-split0.zip")
    monkeypatch.chdir(tmp_path)
    (call,) = examples("docs/archives.md")
    split = load_split(made.dataset, made.split)
    names: dict[str, Any] = {"atlas": bnn_atlas, "x": split.x_fit, "y": split.y_fit, "x_test": split.x_test}
    exec(call.replace("atlas.score(", "scores = atlas.score("), names)
    pool = bnn_atlas.score(names["posterior"], open_pool(made.pool), split.x_test, split.y_test)
    pd.testing.assert_frame_equal(names["scores"], pool)


def test_an_archive_of_draws_without_a_record_has_that_of_the_run(images: Made, tmp_path: Path) -> None:
    found = open_reference(packed_with(images, tmp_path / "old.zip", with_about(attributes={})))
    recorded = {"method": METHOD, "posterior": images.settings["posterior"]}
    assert found.draws.attributes == {"provenance": {"settings": recorded}}


def test_parts_of_the_draws(images: Made) -> None:
    draws, pool = open_reference(images.archive).draws, open_pool(images.pool)
    part = {"chains": [2, 0], "draws": slice(1, 7, 2), "parameters": [5, 3, 8]}
    np.testing.assert_array_equal(draws.read(**part), pool.read(**part))
    np.testing.assert_array_equal(draws.statistic("log_prior", [1], [4, 2]), pool.statistic("log_prior", [1], [4, 2]))
    with pytest.raises(KeyError, match="has no statistic 'energy'; it has log_likelihood, log_prior, divergent"):
        draws.statistic("energy")
    with pytest.raises(IndexError, match="no chain at position 3"):
        draws.read([3])


def test_equal_runs_give_equal_bytes_and_another_setting_another_hash(images: Made, tmp_path: Path) -> None:
    assert images.again(tmp_path / "a.zip").read_bytes() == images.archive.read_bytes()
    other = open_reference(images.again(tmp_path / "b.zip", seed=5))
    assert other.about["settings_sha256"] != open_reference(images.archive).about["settings_sha256"]


def packed_with(made: Made, path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The archive with other contents, and a manifest that fits them."""
    with zipfile.ZipFile(made.archive) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
    change(contents)
    write_archive(path, FORMAT, ((name, [content]) for name, content in contents.items()))
    return path


def with_about(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda contents: contents.update({ABOUT: as_json(json.loads(contents[ABOUT]) | changes)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop(DRAWS), r"missing: draws\.npy"),
        (lambda c: c.update({DRAWS: c["chains.npy"]}), r"draws of shape \(3,\), but there are 3 chains, 8 draws"),
        (lambda c: c.update({"statistics/log_prior.npy": c["chains.npy"]}), r"statistic 'log_prior' has shape \(3,\)"),
        (lambda c: c.update({"targets/test.npy": c["targets/train.npy"]}), r"6 test rows and targets of shape \(8,\)"),
        (lambda c: c.update({"predictions/probabilities.npy": c["chains.npy"]}), r"predictions 'probabilities'"),
        (lambda c: c.update({"chains.npy": b"words"}), r"not an archive of a reference posterior \("),
        (lambda c: c.update({METRICS: b""}), r"not an archive of a reference posterior \("),
        (lambda c: c.pop("targets/test.npy"), r"missing: targets/test\.npy"),
        (lambda c: c.update({"more.npy": b""}), r"unknown: more\.npy"),
        (with_about(settings={"seed": 7}), r"settings do not match their hash"),
        (with_about(layout=[]), r"draws of shape .* and 0 parameters"),
        (lambda c: c.update({ABOUT: b"{}"}), r"not an archive of a reference posterior \('settings_sha256'\)"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together_are_refused(
    images: Made, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = packed_with(images, tmp_path / "odd.zip", change)
    with pytest.raises(ArchiveError, match=rf"odd\.zip: .*{message}"):
        open_reference(path)


def with_array(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, Any]], None]:
    def changed(contents: dict[str, Any]) -> None:
        contents[f"{name}.npy"] = b"".join(array_parts(np.asarray(change(read_array(contents[f"{name}.npy"])))))

    return changed


def with_recorded(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return with_about(attributes={"provenance": {"settings": changes}})


def with_data(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def changed(contents: dict[str, Any]) -> None:
        with_about(data=json.loads(contents[ABOUT])["data"] | changes)(contents)

    return changed


def with_inputs(values: np.ndarray) -> Callable[[dict[str, Any]], None]:
    """Mean and scale of the inputs."""

    def changed(contents: dict[str, Any]) -> None:
        for name in ("x_mean", "x_scale"):
            with_array(f"scaling/{name}", lambda a: values)(contents)

    return changed


def without_test_rows(contents: dict[str, Any]) -> None:
    for name in ("rows/test", "targets/test"):
        with_array(name, lambda a: a[:0])(contents)


def with_header(header: bytes) -> Callable[[dict[str, Any]], None]:
    """Draws whose .npy header says something else than what follows."""
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64
    return lambda contents: contents.update({DRAWS: content})


def set_at(index: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def changed(array: np.ndarray) -> np.ndarray:
        array[index] = value
        return array

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_array("draws", lambda a: a.astype(str)), "draws of type"),
        (with_array("draws", lambda a: a.astype(int)), "draws of type"),
        (with_array("draws", lambda a: a.astype(complex)), "draws of type"),
        (with_array("draws", set_at((0, 1, 2), np.nan)), "draws of type"),
        (with_array("chains", lambda a: a * 0), "chain numbers"),
        (with_array("chains", lambda a: a - 1), "chain numbers"),
        (with_array("chains", lambda a: a + 0.5), "chain numbers"),
        (with_array("draw_numbers", lambda a: a * 0), "draw numbers"),
        (with_array("statistics/log_prior", lambda a: a.astype(str)), "statistic 'log_prior'"),
        (with_array("chains", lambda a: a.astype(np.uint64) + np.uint64(2**64 - 3)), "chain numbers up to 1844"),
        (with_array("chains", lambda a: a[::-1]), "not in order"),
        (with_array("draw_numbers", lambda a: a[::-1]), "not in order"),
        (with_array("statistics/log_prior", lambda a: a * np.nan), "'log_prior' that is not a number"),
        (with_array("statistics/divergent", lambda a: a.astype(int) - 7), "'divergent' below 0"),
        *((with_about(excluded_chains=chains), "excluded chains") for chains in ([9], ["0"], [True], None, {})),
        *((with_recorded(method=made_by), "draws of the method") for made_by in ({}, "hmc", {"kind": "zzz"}, None)),
        (with_recorded(posterior=None), "posterior of the draws"),
        (with_data(classes=["a", "a", "b"]), "classes that occur twice"),
        *((with_data(rows=rows), "number of rows") for rows in (None, "60", 14.0)),
        (with_inputs(np.ones(7)), r"x_\w+ of shape \(7,\)"),
        (with_inputs(np.ones(())), r"x_\w+ of shape \(\)"),
        (without_test_rows, "no test rows"),
        (with_array("rows/test", set_at(0, 10**9)), "row numbers up to 1000000000"),
        (with_array("rows/test", set_at(0, -1)), "row numbers"),
        (with_array("rows/test", lambda a: a + 0.5), "row numbers"),
        (with_array("rows/test", set_at(0, 0)), "row numbers that occur twice"),
        (with_array("targets/test", lambda a: a.astype(str)), "test targets of type"),
        (with_array("targets/test", set_at(0, 99)), "targets/test has 99"),
        (with_array("targets/train", lambda a: a * np.nan), "train targets of type"),
        (with_array("predictions/probabilities", lambda a: -a), "'probabilities' below 0"),
        (with_array("predictions/probabilities", lambda a: 5 * a), "do not add up to 1"),
        (with_array("predictions/probabilities", lambda a: a * np.nan), "'probabilities' of type"),
        (with_array("predictions/probabilities", lambda a: np.repeat(a, 2, axis=2)), "'probabilities' of shape"),
        (lambda c: c.pop("predictions/probabilities.npy"), "predictions missing"),
        (with_array("scaling/x_scale", lambda a: a * 0), "x_scale is not positive"),
        (with_array("scaling/y_scale", lambda a: np.ones(3)), "y_scale of shape"),
        (lambda c: c.update({METRICS: b"a,b\n1,2\n"}), r"metrics\.csv with other columns"),
        (lambda c: c.update({DRAWS: b""}), "not an archive"),
        (lambda c: c.update({ABOUT: b"[" * 100_000}), "recursion"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,)}\n"), "header says"),
        (with_header(b"(" * 2000), "header"),
    ],
)  # fmt: skip
def test_contents_of_another_kind_or_range_are_refused_in_one_line(
    images: Made, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = packed_with(images, tmp_path / "odd.zip", change)
    with pytest.raises(ArchiveError, match=rf"odd\.zip: .*{message}") as refused:
        open_reference(path)
    assert "\n" not in str(refused.value)


def test_chains_that_were_excluded_need_no_finite_numbers(images: Made, tmp_path: Path) -> None:
    def change(contents: dict[str, Any]) -> None:
        with_about(excluded_chains=[1])(contents)
        with_array("draws", set_at(1, np.nan))(contents)
        with_array("predictions/probabilities", set_at(1, np.nan))(contents)

    assert open_reference(packed_with(images, tmp_path / "kept.zip", change)).draws.chains == 3


def test_damaged_and_foreign_archives_are_refused(images: Made, tmp_path: Path) -> None:
    content, path = images.archive.read_bytes(), tmp_path / "odd.zip"
    middle = content.index(b"NUMPY", content.index(b"draws.npy")) + 400
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    with pytest.raises(ArchiveError, match=r"odd\.zip: .*get the file again"):
        open_reference(path)
    with pytest.raises(ArchiveError, match=r"prepared\.npz: not an archive of a reference posterior"):
        open_reference(images.dataset)
    with pytest.raises(FileNotFoundError):
        open_reference(tmp_path / "none.zip")
    for other in (tmp_path, None, 3):
        with pytest.raises(ArchiveError, match="give the path of an archive of a reference posterior"):
            open_reference(other)


def test_reading_needs_no_jax(images: Made) -> None:
    code = f"import sys, bnn_atlas; bnn_atlas.open_reference({str(images.archive)!r}); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_its_type_is_public() -> None:
    assert bnn_atlas.Reference is Reference


def test_its_draws_are_objects_of_arviz_like_those_of_the_pool(images: Made) -> None:
    ours, theirs = open_reference(images.archive).draws.to_arviz(), open_pool(images.pool).to_arviz()
    assert ours.posterior.equals(theirs.posterior)
    assert ours.sample_stats.equals(theirs.sample_stats)
