"""Whether the runs and figures of a study fit the data sets of the registry, and each other."""

from collections.abc import Mapping
from typing import get_args

from bnn_atlas.config.base import ConfigError
from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.config.figures import FIGURES, FigureConfig
from bnn_atlas.config.shift import PUBLISHED_SHIFTS
from bnn_atlas.config.studies import Run, Study
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.orders import TFDS_ORDERED
from bnn_atlas.data.published import published_rows, standard_split_count
from bnn_atlas.data.scaling import SCALINGS

LIKELIHOODS = {
    "regression": ("gaussian", "learned_noise", "heteroscedastic"),
    "classification": ("categorical",),
}
"""Task of a data set -> kinds of likelihood that fit it."""


def check_data(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse a data set that there is not, and a likelihood, splits or an order that it does not have."""
    name, likelihood, split = run.config.dataset, run.config.likelihood.kind, run.config.split
    if name not in datasets:
        raise ConfigError(
            f"{where}.dataset = '{name}': no such data set; config/datasets.yaml has {', '.join(sorted(datasets))}"
        )
    entry = datasets[name]
    if entry.of is not None:
        raise ConfigError(f"{where}.dataset = '{name}': these are published {entry.kind} for '{entry.of}', no data set")
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
    if split.kind == "published":
        if entry.published_train is None:
            raise ConfigError(f"{where}.split.kind = 'published': the data set '{name}' has no published division")
        if split.order == "tfds" and name not in TFDS_ORDERED:
            raise ConfigError(
                f"{where}.split.order = 'tfds': this order of the data set '{name}' is not known, only that of "
                f"{', '.join(TFDS_ORDERED)}; use 'file'"
            )
        try:
            published_rows(entry.published_train, split.first, "first", "training")
            published_rows(entry.published_test, split.first_test, "first_test", "test")
        except DataError as error:
            raise ConfigError(f"{where}: the data set '{name}': {error}") from None
    scalings = [s for s in SCALINGS[entry.kind] if s != "published" or entry.published_scaling is not None]
    if split.scaling is not None and split.scaling not in scalings:
        raise ConfigError(
            f"{where}.split.scaling = '{split.scaling}': for the data set '{name}' ({entry.kind}), allowed are "
            f"{', '.join(scalings)}"
        )


def check_sets(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse shifts of what is no image or of other rows, and out-of-distribution sets that do not fit."""
    entry, evaluate = datasets[run.config.dataset], run.config.evaluate
    if evaluate.shifts and entry.kind != "image":
        raise ConfigError(f"{where}.shifts: '{run.config.dataset}' has rows of the kind '{entry.kind}', not images")
    for shift in evaluate.shifts:
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
                f"{where}.out_of_distribution: '{name}' is no data set with rows like those of '{run.config.dataset}'; "
                f"there are {others}"
            )


def origin_of(name: str) -> str:
    """Part of a data set's name before the first underscore, which classification sets made of the same rows share.

    In the registry these are cifar10, cifar10_jpeg and cifar10_first4000; digits and digits_images; ionosphere and
    ionosphere_mile.
    """
    return name.partition("_")[0]


def check_references(run: Run, study: Study, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse references that there are not, or that are not for this run's test rows."""
    published = [n for n, e in datasets.items() if e.kind == "predictions" and e.of == run.config.dataset]
    same = [
        other.name
        for other in study.runs.values()
        if (other.config.dataset, other.config.split) == (run.config.dataset, run.config.split)
    ]
    for name in run.config.evaluate.references:
        if run.config.likelihood.kind != "categorical":
            raise ConfigError(f"{where} = '{name}': agreement is for classification")
        if name in published and run.config.split.kind != "published":
            raise ConfigError(f"{where} = '{name}': published predictions need split.kind 'published'")
        if name == run.name or (name in datasets and name not in published) or name not in (*published, *same):
            allowed = ", ".join(n for n in (*published, *same) if n != run.name) or "none"
            raise ConfigError(
                f"{where} = '{name}': no predictions for the same test rows; published ones and runs with the same "
                f"data set and split are {allowed}"
            )


def check_figure(study: Study, figure: str, where: str) -> None:
    """Refuse a figure that has no rule, or that lacks what its rule needs."""
    known, config = FIGURES.get(study.name, {}), study.figures[figure]
    if figure not in known:
        raise ConfigError(f"{where}: no such figure of this study; there are {', '.join(known) or 'none'}")
    rule = known[figure]
    if bool(config.runs) != bool(rule.inputs):
        wanted = "at least one run is needed" if rule.inputs else "this figure shows no runs; leave them out"
        raise ConfigError(f"{where}.runs = {list(config.runs)}: {wanted}")
    for name in config.runs:
        if not study.runs_of((name,)):
            names = sorted({run.entry for run in study.runs.values()} | set(study.runs))
            raise ConfigError(f"{where}.runs: no run '{name}'; there are {', '.join(names)}")
    for name, text in config.labels.items():
        if name not in (*config.runs, *(run.name for run in study.runs_of(config.runs))):
            raise ConfigError(
                f"{where}.labels.{name} = '{text}': not among the figure's runs; those are {', '.join(config.runs)}"
            )
    for section in rule.sections:
        if getattr(config, section) is None:
            (kind,) = (k for k in get_args(FigureConfig.model_fields[section].annotation) if k is not type(None))
            raise ConfigError(
                f"{where}.{section}: this figure needs the section; its keys are {', '.join(kind.model_fields)}"
            )
    runs = study.runs_of(config.runs)
    if rule.one_run and len(runs) > 1:
        raise ConfigError(
            f"{where}.runs = {list(config.runs)}: this figure shows one run; choose one of "
            f"{', '.join(run.name for run in runs)}"
        )
    for run in runs if "e_values" in rule.inputs else ():
        if why := run.config.no_e_values():
            raise ConfigError(f"{where}.runs: '{run.name}': {why}, or leave the run out")


def check_functions(study: Study, figure: str, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse functions on a line for runs whose data have more than one input."""
    config = study.figures[figure]
    if config.functions is None or config.functions.inputs != "line":
        return
    for run in study.runs_of(config.runs):
        if datasets[run.config.dataset].shape != (1,):
            raise ConfigError(
                f"{where}.functions.inputs = 'line': a line is for data of one input, and a row of "
                f"'{run.config.dataset}' (run {run.name}) has the shape {list(datasets[run.config.dataset].shape)}; "
                "use 'test'"
            )
