"""The README of an archive: its contents and how to use them."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bnn_atlas.config.metrics import CONVERGENCE, METRICS, SAMPLER
from bnn_atlas.metrics.judgement.trust import FIT, trust

SCORES = ("accuracy", "lppd", "rmse", "ece", "agreement_ceiling", "total_variation_ceiling")
"""Scores of the test rows that are listed first."""
ARRAYS = """\
| file | contents |
|---|---|
| `draws.npy` | [chain, draw, parameter], the draws in the order in which they were made |
| `chains.npy`, `draw_numbers.npy` | indices of the chains and of the draws |
| `statistics/*.npy` | [chain, draw], the sampler's statistics; log-likelihood and log-prior are not tempered |
| `predictions/*.npy` | {predictions} |
| `rows/train.npy`, `rows/test.npy` | indices of the rows, from 0, in the order used; {rows} |
| `targets/train.npy`, `targets/test.npy` | {targets} |
| `scaling/*.npy` | {scaling} |
| `about.json` | settings and their hash, layout of the parameters, how the draws were made |
| `metrics.csv` | scores and convergence, a row per value |
| `manifest.json` | SHA-256 and length of every other file |
"""
USE = """\
```python
import numpy as np, zipfile

with zipfile.ZipFile("{file}") as archive:  # needs only NumPy
    draws = np.load(archive.open("draws.npy"))

import bnn_atlas as atlas

reference = atlas.open_reference("{file}")  # checks every file
reference.draws.read(chains=[0])  # [1, draw, parameter]
```
"""


def readme(about: Mapping[str, Any], metrics: pd.DataFrame) -> str:
    """The text, from the contents of `about.json` and the run's rows in the metric table."""
    data, settings = about["data"], about["settings"]
    size = sum(math.prod(array["shape"]) for array in about["layout"])
    is_class = data["task"] == "classification"
    sections = [
        f"# {about['study']}/{about['run']}: draws of a Bayesian neural network's posterior",
        f"{about['description'][:1].upper()}{about['description'][1:]}. Study: {_study(about)}; "
        f"scale `{about['scale']}`, split {about['split']}.",
        _reductions(about),
        f"- data: `{settings['dataset']}`, {data['task']}, rows of shape {data['shape']} (not included), SHA-256 of "
        f"all numbers `{data['sha256']}`\n"
        f"- network: {_plain(settings['posterior']['model'])}; {size:,} parameters\n"
        f"- likelihood: {_plain(settings['posterior']['likelihood'])}\n"
        f"- prior: {_plain(settings['posterior']['prior'])}; temperature {settings['posterior']['temperature']:g}\n"
        f"- method: {_plain(settings['method'])}; seed {settings['seed']}\n"
        f"- SHA-256 of all settings: `{about['settings_sha256']}`",
        "## Can it be trusted?",
        _trust(about, metrics),
        _table(metrics),
        "## Files",
        ARRAYS.format(
            predictions="[chain, test row, class] class probabilities, averaged over the draws of a chain"
            if is_class
            else "[chain, test row] mean and mean square of the mean function, and variance of the noise",
            rows=_order(data),
            targets="class numbers" if is_class else "targets, scaled",
            scaling=_scaling(data),
        ).rstrip("\n"),
        f"A parameter vector holds these arrays in this order, each in row-major order: {_layout(about)}. To check "
        "that you read rows, scaling and network correctly, compare your log-likelihood of a draw, summed over the "
        "training rows, with the value in `statistics/log_likelihood.npy`.",
        "## Reading it",
        USE.format(file=f"{about['run']}-split{about['split']}.zip").rstrip("\n"),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _study(about: Mapping[str, Any]) -> str:
    """The paper of the study, or the study's title if there is no paper."""
    return str(about["title"] if about["paper"] == "none" else about["paper"])


def _scaling(data: Mapping[str, Any]) -> str:
    """How inputs, and the targets of a regression, were scaled."""
    if data["kind"] == "tokens":
        return "nothing is scaled"
    what = {"image": " of pixels as whole numbers", "table": ""}[data["kind"]]
    what = what if data["features"] == "inputs" else f" of the features `{data['features']}`"
    targets = "" if data["task"] == "classification" else ", targets (y - y_mean) / y_scale"
    return f"inputs are (x - x_mean) / x_scale{what}{targets}"


def _reductions(about: Mapping[str, Any]) -> str:
    texts = [*about["reductions"], *about["marks"]]
    if not texts:
        return ""
    return "Differences from the paper's setting:\n\n" + "\n".join(f"- {text}" for text in texts)


def _trust(about: Mapping[str, Any], metrics: pd.DataFrame) -> str:
    own = metrics[metrics["dataset"] == about["settings"]["dataset"]]
    words = trust(own.assign(method=about["settings"]["method"]["kind"])).words
    text = f"By the limits of this package: **{words}**."
    for note in own.loc[own["metric"] == FIT, "note"]:
        text += f" As a reference for other methods: **{note.split('; ')[0]}**."
    if about["excluded_chains"]:
        numbers = ", ".join(map(str, about["excluded_chains"]))
        text += f" Left out of all scores because they are not finite or never moved: chains {numbers}."
    return text


def _table(metrics: pd.DataFrame) -> str:
    """Table of the scores, then convergence and the sampler's statistics, as far as the run has them."""
    wanted = [*SCORES, *(metric.name for metric in (*CONVERGENCE, *SAMPLER))]
    plain = metrics[metrics["at"] == ""].drop_duplicates("metric").set_index("metric")
    lines = ["| metric | meaning | value | standard error |", "|---|---|---|---|"]
    for name in wanted:
        if name in plain.index:
            row = plain.loc[name]
            error: str = "" if pd.isna(row["standard_error"]) else f"{row['standard_error']:.2g}"
            lines.append(f"| `{name}` | {METRICS[name].about} | {row['value']:.5g} | {error} |")
    return "\n".join(lines)


def _order(data: Mapping[str, Any]) -> str:
    if data["published_train"] is None:
        return "indices count the rows of the data set's file"
    return (
        f"indices count the publisher's {data['published_train']:,} training rows, then the test rows, as in the files"
    )


def _layout(about: Mapping[str, Any]) -> str:
    shapes = (f"`{array['name']}` {'x'.join(map(str, array['shape'])) or 'a number'}" for array in about["layout"])
    return ", ".join(shapes)


def _plain(section: Mapping[str, Any]) -> str:
    """A section of settings in one line."""
    rest = ", ".join(f"{key} {value}" for key, value in section.items() if key != "kind" and value is not None)
    return f"{section['kind']} ({rest})" if rest else str(section["kind"])
