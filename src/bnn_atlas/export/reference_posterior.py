"""A reference posterior as one archive: writing it, and reading it back with checks."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.data.dataset import fingerprint as data_fingerprint
from bnn_atlas.data.split_data import SplitData
from bnn_atlas.export.archive import (
    ArchiveError,
    array_parts,
    arrays_parts,
    as_json,
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
REQUIRED = (README, ABOUT, METRICS, DRAWS, "chains.npy", "draw_numbers.npy", "rows/train.npy", "rows/test.npy")
"""Files that every archive has."""
PREDICTIONS = ("mean", "second_moment", "noise_variance")
"""Arrays of a regression's predictions that are kept; a classification has its class probabilities."""
NUMBERS, TEXTS = ("value", "standard_error", "monte_carlo_error"), ("metric", "at", "over", "note", "dataset")
COLUMNS = (*TEXTS, *NUMBERS, "chains", "draws")
"""Columns of the metric table that are kept."""


class Reference(NamedTuple):
    """Draws of a posterior, with everything that a comparison needs."""

    draws: Draws
    """Chains x draws x parameters, in memory, with the sampler's statistics of each draw."""
    about: dict[str, Any]
    """Study, run, scale, reductions, data set, classes, layout, `settings` and their hash, and what made the draws."""
    predictions: dict[str, np.ndarray]
    """`probabilities` [chain, test row, class], averaged over the draws of a chain; for a regression `mean`,
    `second_moment` and `noise_variance` [chain, test row] in units of the scaled target."""
    rows: dict[str, np.ndarray]
    """`train` (all that the posterior is conditioned on) and `test`: row numbers of the data set, in the order used."""
    targets: dict[str, np.ndarray]
    """`train` and `test`: class numbers, or scaled targets, of these rows."""
    scaling: dict[str, np.ndarray]
    """`x_mean`, `x_scale`, `y_mean`, `y_scale`: the scaling of inputs and targets."""
    metrics: pd.DataFrame
    """Scores and convergence of the run."""
    readme: str

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
        ArchiveError: the file is something else or damaged, or its parts do not match; the message names it.
        FileNotFoundError: the file does not exist.
    """
    contents = read_archive(path, FORMAT, WHAT)
    if missing := [name for name in REQUIRED if name not in contents]:
        raise ArchiveError(f"{path}: not {WHAT} (missing: {', '.join(missing)}); export the run again")
    try:
        return _checked(_reference(Path(path), contents))
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(f"{path}: not {WHAT} ({error}); export the run again") from None


def _files(given: Exported) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Names and contents, in order."""
    draws, split = given.draws, given.split
    about = _about(given)
    metrics = given.metrics[[*COLUMNS]]
    yield README, [readme(about, metrics).encode("utf-8")]
    yield ABOUT, [as_json(about)]
    yield METRICS, [metrics.to_csv(index=False, lineterminator="\n").encode("utf-8")]
    arrays = {
        "chains": draws.chain_ids,
        "draw_numbers": draws.draw_ids,
        **{f"statistics/{name}": draws.statistic(name) for name in draws.statistics},
        **{f"predictions/{name}": array for name, array in _predictions(given.summary).items()},
        "rows/train": _fitted(split),
        "rows/test": split.split.test,
        "targets/train": split.y_fit,
        "targets/test": split.y_test,
        **{f"scaling/{name}": np.asarray(getattr(split, name)) for name in ("x_mean", "x_scale", "y_mean", "y_scale")},
    }
    for name, array in arrays.items():
        yield f"{name}.npy", array_parts(array)
    yield DRAWS, arrays_parts(draws.shape, draws.dtype, (values for _, _, values in draws.batches()))


def _fitted(split: SplitData) -> np.ndarray:
    """Numbers of the rows on which the posterior is conditioned."""
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
        },
        "layout": given.draws.layout.to_dict(),
        "excluded_chains": given.draws.chain_ids[given.summary.divergent].tolist(),
        "attributes": dict(given.draws.attributes),
    }


def _reference(path: Path, contents: Mapping[str, bytes]) -> Reference:
    about = json.loads(contents[ABOUT])
    if about["settings_sha256"] != fingerprint(about["settings"]):
        raise ValueError("its settings do not match their hash")
    arrays: dict[str, dict[str, np.ndarray]] = {folder: {} for folder in FOLDERS}
    for name, content in contents.items():
        folder, _, file = name.rpartition("/")
        if folder in arrays:
            arrays[folder][file.removesuffix(".npy")] = read_array(content)
    draws = ArrayDraws(
        path,
        Layout.from_dict(about["layout"]),
        read_array(contents[DRAWS]),
        arrays["statistics"],
        read_array(contents["chains.npy"]),
        read_array(contents["draw_numbers.npy"]),
        about["attributes"],
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
        arrays["predictions"],
        arrays["rows"],
        arrays["targets"],
        arrays["scaling"],
        table,
        contents[README].decode("utf-8"),
    )


def _checked(reference: Reference) -> Reference:
    """The reference; ValueError if rows do not match targets or predictions."""
    for part, rows in reference.rows.items():
        if reference.targets[part].shape != rows.shape:
            raise ValueError(f"{len(rows)} {part} rows and targets of shape {reference.targets[part].shape}")
    for name, values in reference.predictions.items():
        if values.shape[:2] != (reference.draws.chains, len(reference.rows["test"])):
            raise ValueError(f"predictions '{name}' of shape {values.shape}")
    return reference
