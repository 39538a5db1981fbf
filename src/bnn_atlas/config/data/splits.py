"""How rows are split and inputs scaled: settings, and the splits that a data set's publishers allow."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from bnn_atlas.config.language.base import ConfigError, Count, Fraction, Model, Share, Splits

Scaling = Literal["columns", "all_rows", "channels", "published", "unit", "none"]
Features = Literal["inputs", "squares"]
Targets = Literal["standardised", "as_given"]
SCALINGS: dict[str, tuple[Scaling, ...]] = {
    "table": ("columns", "all_rows", "none"),
    "image": ("channels", "published", "unit", "none"),
    "tokens": ("none",),
}
"""Kind of data -> suitable scalings; the first one is the default."""
SCALED_WITH_TEST_ROWS = "scaled with all rows, test rows included"
"""Mark on results whose split has the scaling `all_rows`."""
RandomState = Annotated[int, Field(ge=0, lt=2**32)]
TFDS_ORDERED = ("cifar10", "cifar100", "mnist")
"""Data sets whose order in TensorFlow Datasets is known (`bnn_atlas.data.orders`)."""

ONLY = {
    "published": ("first", "first_test", "order"),
    "mile": ("rng", "loader"),
    "train_test_split": ("validation_seed",),
}
"""Kind of split -> settings that only this kind has (except `first_test`, which `mile` has too)."""


class SplitConfig(Model):
    """How rows are divided into training, validation and test rows, and how inputs are scaled."""

    kind: Literal["random", "standard", "train_test_split", "published", "mile", "bnn_hmc"] = "random"
    """`random`: seeded permutation; `standard`: the 20 splits of Hernandez-Lobato and Gal; `train_test_split`: as
    scikit-learn's function with `random_state = seed + split`; `published`: the publisher's test rows; `mile`: the rows
    of the published runs of MILE (Sommer et al. 2025), 70 % training, 10 % validation and 20 % test rows, or the
    publisher's test rows where there are any; `bnn_hmc`: 90 % training and 10 % test rows in the random order of the
    loader of Izmailov et al. (2021), whose sets `yacht_0`, `yacht_1`, ... have the seeds `seed + split`."""
    test: Fraction = 0.2
    """Fraction of test rows (fixed at 0.1 for `standard` and `bnn_hmc`, and at 0.2 for `mile`; `published` has the
    publisher's test rows)."""
    validation: Share = 0.1
    """Fraction of the other rows that early stopping uses, taken from the end (fixed at 0.1 of all rows for `mile`)."""
    validation_seed: RandomState | None = None
    """`train_test_split`: scikit-learn's function chooses the validation rows with this `random_state`, the same for
    every split, as in the package bde; null takes the last rows."""
    seed: RandomState = 0
    """Seed of the split, which is separate from the seed of the chains."""
    rng: RandomState | None = None
    """`mile`: the published seed, which determines the rows; further splits use the next seeds."""
    loader: Literal["trainer", "script"] = "trainer"
    """`mile`: the published code that divided the rows. The scripts of the Laplace and mean-field baselines begin with
    a different key from MILE's trainer, so the same `rng` yields different rows."""
    count: Splits = 1
    """Number of splits, each a repetition of the run."""
    limit: Count | None = None
    """Use only this many rows, chosen by the seed; for `mile`, the first ones in the published order."""
    order: Literal["file", "tfds"] = "file"
    """`published`: order of the rows, as in the publisher's file or as in TensorFlow Datasets
    (`bnn_atlas.data.orders`)."""
    first: Count | None = None
    """`published`: use only this many training rows, from the start in that order."""
    first_test: Count | None = None
    """`published`, and `mile` if there are published test rows: use only this many test rows, from the start in that
    order."""
    scaling: Scaling | None = None
    """Statistics used to scale the inputs: `columns`, `all_rows` or `none` (tables), `channels`, `published`, `unit` or
    `none` (images); null takes the first one for the kind of data. `columns`: statistics of the rows that the posterior
    is conditioned on; `all_rows`: statistics of the inputs and regression targets of all rows in the split, test rows
    included, which is only for reproducing a published result and is marked in every table and figure."""
    features: Features = "inputs"
    """Tables: input of the network. `inputs`: the inputs x; `squares`: x and their squares, [x, x^2]. Scaling
    statistics are computed from these features; with the scaling `none`, the network sees x and x^2 unscaled."""
    targets: Targets = "standardised"
    """Regression. `standardised`: the mean of the targets is subtracted, and they are divided by their standard
    deviation; `as_given`: targets, noise and scores stay in the original units."""
    validation_in_likelihood: bool = True
    """Whether the posterior is conditioned on validation rows as well as on training rows; the warm start holds
    validation rows out either way."""

    def _contradictions(self) -> Iterator[str]:
        kind, given = self.kind, {key for key in self.model_fields_set if getattr(self, key) != _DEFAULTS[key]}
        for only, keys in ONLY.items():
            others = [key for key in keys if key in given and kind != only and (key, kind) != ("first_test", "mile")]
            if others:
                yield f"{', '.join(others)}: only for kind '{only}', not '{kind}'"
        if kind == "published" and self.limit is not None:
            yield "limit is not for kind 'published'; use first and first_test"
        if kind == "published" and self.count != 1:
            yield f"count = {self.count}: kind 'published' has only one split"
        if kind == "mile" and self.rng is None:
            yield "kind 'mile' needs the seed of the published run: set rng, for example 42"
        if kind == "mile" and (changed := [key for key in ("test", "validation", "seed") if key in given]):
            yield f"{', '.join(changed)}: not for kind 'mile', whose rows follow from rng"
        if kind == "bnn_hmc" and self.limit is not None:
            yield "limit: not for kind 'bnn_hmc', whose order is over all rows"
        if kind == "bnn_hmc" and "test" in given:
            yield f"test = {self.test}: kind 'bnn_hmc' always has a test share of 0.1; leave test out"
        for key, of in (("rng", "mile"), ("seed", "bnn_hmc")):
            if kind == of and getattr(self, key) + self.count > 2**32:
                yield f"{key} = {getattr(self, key)}: the seeds of {self.count} splits do not fit into 32 bits"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the job that makes the split, as plain values; later additions only if they are given."""
        later = {name for name in ("features", "targets") if getattr(self, name) == _DEFAULTS[name]}
        return self.model_dump(mode="json", exclude={"count"} | later)

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks that every table and figure must show on results with this split."""
        return (SCALED_WITH_TEST_ROWS,) if self.scaling == "all_rows" else ()


_DEFAULTS = {name: field.default for name, field in SplitConfig.model_fields.items()}


def published_rows(available: int, wanted: int | None, key: str, part: str) -> int:
    """Number of the publisher's rows of a part to use; ConfigError if there are none, or fewer than requested."""
    if not available:
        raise ConfigError(
            f"split.kind = 'published': there are no published {part} rows; use another kind of split, or use the data "
            "as an out-of-distribution set only"
        )
    if wanted is not None and wanted > available:
        raise ConfigError(f"split.{key} = {wanted}: there are {available} published {part} rows")
    return available if wanted is None else wanted


def standard_split_count(name: str) -> int:
    """Number of standard splits published for a data set: 5 for protein, else 20."""
    return 5 if name == "protein" else 20


MILE_SHARE = 0.7 + 0.1
"""Fraction of training and validation rows, summed as in the published code: a rounding error makes it less than 0.8,
which changes the part of one row of concrete."""


def parts(rows: int, split: SplitConfig) -> tuple[int, int, int]:
    """Numbers of training, validation and test rows in a split of `rows` rows without published test rows.

    The numbers are the same as in `bnn_atlas.data.splitting.make_split`.
    """
    n = rows if split.limit is None else min(split.limit, rows)
    if split.kind == "mile":
        train = int(n * 0.7)
        return train, int(n * MILE_SHARE) - train, n - int(n * MILE_SHARE)
    tests = {
        "standard": n - round(0.9 * n),
        "bnn_hmc": n - int(0.9 * n),
        "train_test_split": math.ceil(split.test * n),
    }
    test = tests.get(split.kind, round(split.test * n))
    held_out = round(split.validation * (n - test))
    if split.validation_seed is not None and held_out:
        held_out = math.ceil(split.validation * (n - test))
    return n - test - held_out, held_out, test


def check_parts(rows: int, split: SplitConfig) -> None:
    """Raise ConfigError if a split of `rows` rows without published test rows leaves a part empty."""
    n = rows if split.limit is None else min(split.limit, rows)
    train, held_out, test = parts(rows, split)
    validation = 0.1 if split.kind == "mile" else split.validation
    for part, number, wanted in (("training", train, 1.0), ("validation", held_out, validation), ("test", test, 1.0)):
        if wanted > 0 and number < 1:
            free = split.kind in ("random", "train_test_split")
            shares = f", or change the shares (test {split.test}, validation {split.validation})" if free else ""
            raise ConfigError(f"of {n} rows, split.kind '{split.kind}' leaves no {part} rows; use more rows{shares}")
