"""Whether the runs of a study fit the data sets of the registry, and what has to be said of their rows."""

from collections.abc import Mapping

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.shift import OF_COLOURS, PUBLISHED_SHIFTS
from bnn_atlas.config.data.splits import SCALINGS, TFDS_ORDERED, check_parts, published_rows, standard_split_count
from bnn_atlas.config.language.base import ConfigError, near_or_all
from bnn_atlas.config.runs.studies import Run

LIKELIHOODS = {
    "regression": ("gaussian", "learned_noise", "heteroscedastic"),
    "classification": ("categorical",),
}
"""Task of a data set -> kinds of likelihood that fit it."""


def check_data(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse an unknown data set, and a likelihood, splits or an order that do not fit the data set."""
    name, likelihood, split = run.config.dataset, run.config.likelihood.kind, run.config.split
    if name not in datasets:
        raise ConfigError(
            f"{where}.dataset = '{name}': no such data set"
            f"{near_or_all(name, 'config/datasets.yaml has', sorted(datasets))}"
        )
    entry = datasets[name]
    if entry.of is not None:
        raise ConfigError(
            f"{where}.dataset = '{name}': these are published {entry.kind} for '{entry.of}', not a data set"
        )
    if entry.pixel_divisor is not None:
        raise ConfigError(
            f"{where}.dataset = '{name}': its pixels are divided once too often; it is for "
            "evaluate.out_of_distribution only"
        )
    task = entry.task
    if likelihood not in LIKELIHOODS[task]:
        allowed = ", ".join(f"'{kind}'" for kind in LIKELIHOODS[task])
        raise ConfigError(
            f"{where}.likelihood.kind = '{likelihood}': the data set '{name}' is for {task}; allowed are {allowed}"
        )
    if split.kind == "standard" and split.count > standard_split_count(name):
        raise ConfigError(
            f"{where}.split.count = {split.count}: of the data set '{name}', at most {standard_split_count(name)} "
            "standard splits are allowed"
        )
    if split.kind != "published" and not (split.kind == "mile" and entry.published_test):
        try:
            check_parts(entry.rows, split)
        except ConfigError as error:
            raise ConfigError(f"{where}: the data set '{name}': {error}") from None
    if split.kind == "published":
        if entry.published_train is None:
            raise ConfigError(f"{where}.split.kind = 'published': the data set '{name}' has no published split")
        if split.order == "tfds" and name not in TFDS_ORDERED:
            raise ConfigError(
                f"{where}.split.order = 'tfds': this order of the data set '{name}' is not known, only that of "
                f"{', '.join(TFDS_ORDERED)}; use 'file'"
            )
        try:
            published_rows(entry.published_train, split.first, "first", "training")
            published_rows(entry.published_test, split.first_test, "first_test", "test")
        except ConfigError as error:
            raise ConfigError(f"{where}: the data set '{name}': {error}") from None
    if split.features != "inputs" and entry.kind != "table":
        raise ConfigError(
            f"{where}.split.features = '{split.features}': the data set '{name}' has rows of the kind '{entry.kind}', "
            "and only tables have features"
        )
    if split.targets != "standardised" and task != "regression":
        raise ConfigError(
            f"{where}.split.targets = '{split.targets}': the data set '{name}' is for {task}, and only targets of a "
            "regression can be standardised or not"
        )
    if getattr(run.config.likelihood, "orbit", None) is not None and entry.kind != "image":
        raise ConfigError(
            f"{where}.likelihood.orbit: the data set '{name}' has rows of the kind '{entry.kind}', and only images "
            "can be flipped and moved; leave it out"
        )
    if getattr(run.config.method, "augmentation", None) is not None and entry.kind != "image":
        raise ConfigError(
            f"{where}.method.augmentation: the data set '{name}' has rows of the kind '{entry.kind}', and only images "
            "can be flipped and cropped; leave it out"
        )
    if split.kind == "mile":
        if split.first_test is not None and not entry.published_test:
            raise ConfigError(f"{where}.split.first_test: the data set '{name}' has no published test rows")
        if split.limit is not None and entry.published_test:
            raise ConfigError(f"{where}.split.limit: the data set '{name}' has its own published test rows")
        if split.first_test is not None:
            try:
                published_rows(entry.published_test, split.first_test, "first_test", "test")
            except ConfigError as error:
                raise ConfigError(f"{where}: the data set '{name}': {error}") from None
    scalings = [s for s in SCALINGS[entry.kind] if s != "published" or entry.published_scaling is not None]
    if split.scaling is not None and split.scaling not in scalings:
        raise ConfigError(
            f"{where}.split.scaling = '{split.scaling}': for the data set '{name}' ({entry.kind}), allowed are "
            f"{', '.join(scalings)}"
        )


def check_sets(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse shifts of rows that are not images or not published, and out-of-distribution sets that do not fit."""
    entry, evaluate = datasets[run.config.dataset], run.config.evaluate
    if not evaluate.sets:
        return
    if evaluate.intervals and (entry.task != "regression" or entry.shape != (1,)):
        raise ConfigError(
            f"{where}.intervals: they are of the input of a regression of one input; '{run.config.dataset}' is a "
            f"{entry.task} whose rows have the shape {list(entry.shape)}: leave them out"
        )
    if evaluate.shifts and entry.kind != "image":
        raise ConfigError(f"{where}.shifts: '{run.config.dataset}' has rows of the kind '{entry.kind}', not images")
    for shift in evaluate.shifts:
        if shift.kind in OF_COLOURS and entry.shape[-1] != 3:
            raise ConfigError(
                f"{where}.shifts: '{shift.name}' changes colours, and the images of '{run.config.dataset}' have "
                f"{entry.shape[-1]} channel; leave it out"
            )
        if shift.published and run.config.dataset != datasets[PUBLISHED_SHIFTS].of:
            raise ConfigError(
                f"{where}.shifts: '{shift.name}' is for '{datasets[PUBLISHED_SHIFTS].of}', not '{run.config.dataset}'"
            )
        if shift.published and run.config.split.kind != "published":
            raise ConfigError(
                f"{where}.shifts: '{shift.name}' is made of the publisher's test rows: it needs split.kind "
                f"'published', not '{run.config.split.kind}'"
            )
    rows = (entry.kind, entry.shape, entry.vocabulary)
    alike = [name for name, other in datasets.items() if (other.kind, other.shape, other.vocabulary) == rows]
    fitting = [name for name in alike if origin_of(name) != origin_of(run.config.dataset)]
    others = ", ".join(fitting) or "none"
    for name in evaluate.out_of_distribution:
        if run.config.likelihood.kind != "categorical":
            raise ConfigError(
                f"{where}.out_of_distribution: '{name}' can be told apart with likelihood.kind 'categorical' only, not "
                f"'{run.config.likelihood.kind}'; leave it out"
            )
        if name in alike and name not in fitting:
            raise ConfigError(
                f"{where}.out_of_distribution: '{name}' has the same rows as the run's data '{run.config.dataset}'; "
                f"there are {others}"
            )
        if name not in fitting:
            raise ConfigError(
                f"{where}.out_of_distribution: '{name}' is not a data set with rows like those of "
                f"'{run.config.dataset}'; there are {others}"
            )


def origin_of(name: str) -> str:
    """Part of a data set's name before the first underscore, which classification sets made of the same rows share.

    In the registry these are cifar10, cifar10_jpeg and cifar10_first4000; digits and digits_images; ionosphere and
    ionosphere_mile.
    """
    return name.partition("_")[0]


DEPENDENT = "rows are dependent"
"""Begins the mark of a data set whose rows are not independent."""


def marks(run: Run, datasets: Mapping[str, DatasetEntry]) -> list[str]:
    """Marks of the run's split, and that errors over the rows of its data set are too small, where they are."""
    found = list(run.config.split.marks)
    if why := datasets[run.config.dataset].dependent_rows:
        found.append(f"{DEPENDENT} ({why}): errors over rows are too small")
    return found
