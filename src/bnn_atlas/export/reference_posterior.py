"""Write a reference posterior as one archive, and read the archive back with checks."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas import arrays
from bnn_atlas.config.language.base import MOST, validated
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.parts.posterior import CategoricalLikelihood, PosteriorConfig
from bnn_atlas.data.dataset import fingerprint as data_fingerprint
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.export.archive import (
    ArchiveError,
    array_parts,
    arrays_parts,
    as_json,
    first_line,
    read_archive,
    read_array,
    write_archive,
)
from bnn_atlas.export.readme import readme
from bnn_atlas.metrics.gathering.summary import PredictiveSummary
from bnn_atlas.models.layout import Layout
from bnn_atlas.provenance import fingerprint
from bnn_atlas.traces.draws import ArrayDraws, Draws

FORMAT = "bnn-atlas reference posterior 1"
WHAT = "an archive of a reference posterior"
ABOUT, README, METRICS, DRAWS = "about.json", "README.md", "metrics.csv", "draws.npy"
FOLDERS = ("statistics", "predictions", "rows", "targets", "scaling")
"""Folders of arrays."""
PARTS, SCALES = ("train", "test"), ("x_mean", "x_scale", "y_mean", "y_scale")
REQUIRED = (
    README, ABOUT, METRICS, DRAWS, "chains.npy", "draw_numbers.npy",
    *(f"{folder}/{part}.npy" for folder in ("rows", "targets") for part in PARTS),
    *(f"scaling/{name}.npy" for name in SCALES),
)  # fmt: skip
"""Files that every archive has."""
OTHERS = r"(statistics|predictions)/\w+\.npy"
"""Names of the other files of an archive."""
DAMAGE = (KeyError, IndexError, AttributeError, TypeError, ValueError, ArithmeticError, EOFError, RecursionError)
"""Errors raised by contents whose checksums are correct but which this package did not write."""
PREDICTIONS = ("mean", "second_moment", "noise_variance")
"""Arrays of a regression's predictions that are kept; a classification has its class probabilities."""
NUMBERS, TEXTS = ("value", "standard_error", "monte_carlo_error"), ("metric", "at", "over", "note", "dataset")
ROUNDING = 1e-3
"""Largest allowed difference between 1 and a sum of probabilities."""
COLUMNS = (*TEXTS, *NUMBERS, "chains", "draws")
"""Columns of the metric table that are kept."""


class Reference(NamedTuple):
    """Draws of a posterior, with everything that a comparison needs."""

    draws: Draws
    """Chains x draws x parameters, in memory, with the sampler's statistics of each draw."""
    about: dict[str, Any]
    """Study, run, scale, reductions, data set, classes, layout, `settings` and their hash, and how draws were made."""
    predictions: dict[str, np.ndarray]
    """`probabilities` [chain, test row, class], averaged over the draws of a chain; for a regression `mean`,
    `second_moment` and `noise_variance` [chain, test row] in units of the scaled target."""
    rows: dict[str, np.ndarray]
    """Row indices in the data set, in the order used, for `train` (all rows of the likelihood) and `test`."""
    targets: dict[str, np.ndarray]
    """Class numbers, or scaled targets, of the rows `train` and `test`."""
    scaling: dict[str, np.ndarray]
    """`x_mean`, `x_scale`, `y_mean`, `y_scale`: the scaling of inputs and targets."""
    metrics: pd.DataFrame
    """Scores and convergence of the run."""
    readme: str

    def __repr__(self) -> str:
        """The draws, and the names of the other contents."""
        return f"Reference({self.draws!r}, {', '.join(self._fields[1:])})"

    @property
    def posterior_settings(self) -> dict[str, Any]:
        """The settings with which `build_posterior` builds the same posterior from the rows."""
        return dict(self.about["settings"]["posterior"])


class Exported(NamedTuple):
    """The contents of an archive to write."""

    draws: Draws
    split: SplitData
    summary: PredictiveSummary
    metrics: pd.DataFrame
    """Rows of the run in the metric table."""
    settings: Mapping[str, Any]
    """The run's settings in plain values."""
    run: Mapping[str, Any]
    """Study, title, paper, run, scale, split, description, reductions and marks."""


def save_reference(path: str | Path, given: Exported) -> None:
    """Write the archive (atomic); equal inputs give equal bytes. Draws are copied in pieces of bounded size."""
    write_archive(path, FORMAT, _files(given))


def open_reference(path: str | Path) -> Reference:
    """Read an archive of a reference posterior, made by the target `export`, with every checksum verified.

    Draws, predictions and rows are arrays in memory; `reference.draws` can be passed to `predict` and `score` together
    with a posterior that `build_posterior` makes from `reference.posterior_settings` and the data.

    Raises:
        ArchiveError: the file is damaged, not such an archive, or its parts do not match; the message names the file.
        FileNotFoundError: the file does not exist.
    """
    contents = read_archive(path, FORMAT, WHAT, REQUIRED, OTHERS)
    try:
        return _checked(_reference(Path(path), contents))
    except (*DAMAGE, MemoryError) as error:
        raise ArchiveError(f"{path}: not {WHAT} ({first_line(error)}); export the run again") from None


def _files(given: Exported) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Names and contents, in order."""
    draws, split = given.draws, given.split
    about = _about(given)
    metrics = given.metrics[[*COLUMNS]]
    yield README, [readme(about, metrics).encode("utf-8")]
    yield ABOUT, [as_json(about)]
    yield METRICS, [metrics.to_csv(index=False, lineterminator="\n").encode("utf-8")]
    kept = {
        "chains": draws.chain_ids,
        "draw_numbers": draws.draw_ids,
        **{f"statistics/{name}": draws.statistic(name) for name in draws.statistics},
        **{f"predictions/{name}": array for name, array in _predictions(given.summary).items()},
        "rows/train": _fitted(split),
        "rows/test": split.split.test,
        "targets/train": split.y_fit,
        "targets/test": split.y_test,
        **{f"scaling/{name}": np.asarray(getattr(split, name)) for name in SCALES},
    }
    for name, array in kept.items():
        yield f"{name}.npy", array_parts(array)
    yield DRAWS, arrays_parts(draws.shape, draws.dtype, (values for _, _, values in draws.batches()))


def _fitted(split: SplitData) -> np.ndarray:
    """Indices of the rows on which the posterior is conditioned."""
    parts = split.split[:2] if split.validation_in_likelihood else split.split[:1]
    return np.concatenate(parts)


def _predictions(summary: PredictiveSummary) -> dict[str, np.ndarray]:
    if summary.task == "classification":
        return {"probabilities": summary.probabilities.astype(np.float32)}
    return {name: getattr(summary, name) for name in PREDICTIONS}


def _about(given: Exported) -> dict[str, Any]:
    dataset, settings = given.split.dataset, dict(given.settings)
    return {
        **given.run,
        "settings": settings,
        "settings_sha256": fingerprint(settings),
        "data": {
            "kind": dataset.kind,
            "task": dataset.task,
            "classes": list(dataset.classes),
            "shape": list(given.split.shape),
            "features": given.split.features,
            "sha256": data_fingerprint(dataset),
            "published_train": dataset.published_train,
            "rows": len(dataset.x),
            "vocabulary": dataset.vocabulary,
        },
        "layout": given.draws.layout.to_dict(),
        "excluded_chains": given.draws.chain_ids[given.summary.divergent].tolist(),
        "attributes": dict(given.draws.attributes),
    }


def _reference(path: Path, contents: Mapping[str, bytes]) -> Reference:
    about = json.loads(contents[ABOUT])
    if about["settings_sha256"] != fingerprint(about["settings"]):
        raise ValueError("its settings do not match their hash")
    found: dict[str, dict[str, np.ndarray]] = {folder: {} for folder in FOLDERS}
    for name, content in contents.items():
        folder, _, file = name.rpartition("/")
        if folder in found:
            found[folder][file.removesuffix(".npy")] = read_array(content)
    # Settings of the draws, for archives of pools that did not record them.
    provenance = about["attributes"].get("provenance", {})
    of_run = {name: about["settings"][name] for name in ("posterior", "method")}
    provenance = {**provenance, "settings": {**of_run, **provenance.get("settings", {})}}
    draws = ArrayDraws(
        path,
        Layout.from_dict(about["layout"]),
        read_array(contents[DRAWS]),
        found["statistics"],
        read_array(contents["chains.npy"]),
        read_array(contents["draw_numbers.npy"]),
        {**about["attributes"], "provenance": provenance},
    )
    table = pd.read_csv(
        io.BytesIO(contents[METRICS]),
        dtype=dict.fromkeys(TEXTS, str),
        keep_default_na=False,
        na_values={name: [""] for name in NUMBERS},
    )
    return Reference(
        draws,
        about,
        found["predictions"],
        found["rows"],
        found["targets"],
        found["scaling"],
        table,
        contents[README].decode("utf-8"),
    )


def _checked(reference: Reference) -> Reference:
    """The reference; ValueError for contents whose kind, range or length `save_reference` would not write."""
    draws, data = reference.draws, reference.about["data"]
    _check_whole("chain numbers", draws.chain_ids, MOST)
    _check_whole("draw numbers", draws.draw_ids, MOST)
    if (np.diff(draws.chain_ids) < 0).any() or (np.diff(draws.draw_ids) < 0).any():
        raise ValueError("chain or draw numbers that are not in order")
    excluded = reference.about["excluded_chains"]
    if not isinstance(excluded, list) or any(type(one) is not int or one not in draws.chain_ids for one in excluded):
        raise ValueError(f"excluded chains {excluded!r:.80} that are not a list of its chain numbers")
    kept = ~np.isin(draws.chain_ids, excluded)
    for chain in np.flatnonzero(kept).tolist():
        _check_real("draws", draws.read([chain]))
    for name, kind in draws.statistics.items():
        if kind.kind not in "biuf":
            raise ValueError(f"statistic '{name}' of type {kind}")
        values = draws.statistic(name)
        if name.startswith("log_") and np.isnan(values[kept]).any():
            raise ValueError(f"statistic '{name}' that is not a number")
        if kind.kind == "i" and (values < 0).any():
            raise ValueError(f"statistic '{name}' below 0")
    if type(data.get("rows")) is not int:
        raise ValueError(f"{data.get('rows')!r:.80} as the number of rows of its data set")
    _check_whole("row numbers", np.concatenate([reference.rows[part] for part in PARTS]), data["rows"])
    config = validated(PosteriorConfig, reference.posterior_settings, "posterior")
    recorded = draws.attributes["provenance"]["settings"]
    validated(PosteriorConfig, recorded["posterior"], "posterior of the draws")
    method = recorded["method"]
    if not isinstance(method, dict) or method.get("kind") not in METHODS:
        raise ValueError(f"draws of the method {method!r:.80}, which this version does not have")
    labels = isinstance(config.likelihood, CategoricalLikelihood)
    if labels != (data["task"] == "classification") or labels != bool(data["classes"]):
        raise ValueError(f"likelihood '{config.likelihood.kind}' for the task {data['task']!r}")
    if len(set(data["classes"])) != len(data["classes"]):
        raise ValueError("classes that occur twice")
    for part, rows in reference.rows.items():
        given = reference.targets[part]
        if not len(rows):
            raise ValueError(f"no {part} rows")
        if given.shape != rows.shape:
            raise ValueError(f"{len(rows)} {part} rows and targets of shape {given.shape}")
        if given.dtype.kind not in ("iu" if labels else "f"):
            raise ValueError(f"{part} targets of type {given.dtype}")
        arrays.targets(given, config.likelihood, len(data["classes"]), np.float64, f"targets/{part}", count=len(rows))
    _check_predictions(reference, kept)
    for name, values in reference.scaling.items():
        _check_real(name, values)
        if name.endswith("_scale") and (values <= 0).any():
            raise ValueError(f"{name} is not positive")
        inputs = 1 if data["kind"] == "tokens" else data["shape"][-1]
        if values.shape != ((inputs,) if name[0] == "x" else ()):
            raise ValueError(f"{name} of shape {values.shape}")
    found = list(reference.metrics.columns)
    if found != list(COLUMNS) or any(reference.metrics[name].dtype.kind not in "iuf" for name in NUMBERS):
        raise ValueError(f"{METRICS} with other columns than {', '.join(COLUMNS)}")
    return reference


def _check_predictions(reference: Reference, kept: np.ndarray) -> None:
    """Raise ValueError unless the predictions fit the task and exist for every chain and test row."""
    classes = len(reference.about["data"]["classes"])
    shape = (reference.draws.chains, len(reference.rows["test"]), *([classes] if classes else []))
    if reference.predictions.keys() != ({"probabilities"} if classes else {*PREDICTIONS}):
        raise ValueError(f"predictions {', '.join(sorted(reference.predictions)) or 'missing'}")
    for name, values in reference.predictions.items():
        if values.shape != shape:
            raise ValueError(f"predictions '{name}' of shape {values.shape}")
        _check_real(f"predictions '{name}'", values[kept])
        if name != "mean" and (values[kept] < 0).any():
            raise ValueError(f"predictions '{name}' below 0")
    if classes and (np.abs(reference.predictions["probabilities"][kept].sum(axis=2) - 1) > ROUNDING).any():
        raise ValueError("probabilities that do not add up to 1")


def _check_real(name: str, values: np.ndarray) -> None:
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        raise ValueError(f"{name} of type {values.dtype} that are not all finite numbers")


def _check_whole(name: str, values: np.ndarray, below: int) -> None:
    """Raise ValueError unless the values are different whole numbers from 0 to `below` - 1."""
    if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size or values.min() < 0:
        raise ValueError(f"{name} of type {values.dtype} and shape {values.shape} that do not count from 0")
    if len(np.unique(values)) != len(values):
        raise ValueError(f"{name} that occur twice")
    if values.max() >= below:
        raise ValueError(f"{name} up to {values.max()}, but the largest can be {below - 1}")
