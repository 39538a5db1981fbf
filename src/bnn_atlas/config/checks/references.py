"""What the predictions of runs are compared with: which references fit, and what has to be said of them."""

from collections.abc import Mapping

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.language.base import ConfigError, near_or_all
from bnn_atlas.config.parts.priors import standard_deviation
from bnn_atlas.config.runs.studies import Run, Study

POSTERIOR = ("model", "likelihood", "prior", "temperature")
"""Fields of a run that say which posterior of its rows it is about."""


def check_references(study: Study, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse references that do not exist, or that are not for the rows of the run that names them.

    Those are its test rows and, where it is known for published predictions, the number of training rows: agreement
    with a posterior of more data would be a number about the data.
    """
    alike: dict[tuple[str, SplitConfig], dict[str, Run]] = {}
    for run in study.runs.values():
        alike.setdefault((run.config.dataset, run.config.split), {})[run.name] = run
    for run in study.runs.values():
        if run.config.evaluate.references:
            place = f"{where}: runs.{run.entry}.evaluate.references"
            _check_references(run, alike[run.config.dataset, run.config.split], datasets, place)


def remark(run: Run, name: str, study: Study, datasets: Mapping[str, DatasetEntry]) -> str:
    """What has to stand beside a comparison of a run with a reference: whether both are about one posterior.

    Of published predictions it says the number of training rows, as far as it is known, and the run's rows and prior.
    """
    if name in study.runs:
        other = study.runs[name].config
        fields = [field for field in POSTERIOR if getattr(run.config, field) != getattr(other, field)]
        return f"another posterior than {name}: {', '.join(fields)}" if fields else f"same posterior as {name}"
    known = datasets[name].training_rows
    theirs = f"{known:,} training rows" if known else "training rows not published"
    prior, deviation = run.config.prior.kind, standard_deviation(run.config.prior)
    width = "" if deviation is None else f" of variance {deviation**2:.3g}"
    return (
        f"{name}: {theirs}, prior not published with it, here {training_rows(run, datasets):,} rows, "
        f"{prior} prior{width}, T = {run.config.temperature:g}"
    )


def training_rows(run: Run, datasets: Mapping[str, DatasetEntry]) -> int:
    """Rows that the posterior of a run on a published split is conditioned on."""
    split = run.config.split
    rows = split.first or datasets[run.config.dataset].published_train or 0
    return rows if split.validation_in_likelihood else rows - round(split.validation * rows)


def _check_references(run: Run, same: Mapping[str, Run], datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """The same for one run; `same` are the runs with its data set and split."""
    published = [n for n, e in datasets.items() if e.kind == "predictions" and e.of == run.config.dataset]
    for name in run.config.evaluate.references:
        if run.config.likelihood.kind != "categorical" and name not in same:
            raise ConfigError(
                f"{where} = '{name}': published predictions are for classification; a regression is compared with runs"
            )
        if name in published and run.config.split.kind != "published":
            raise ConfigError(f"{where} = '{name}': published predictions need split.kind 'published'")
        if name == run.name or (name not in published and (name in datasets or name not in same)):
            others = [n for n in (*published, *same) if n != run.name]
            raise ConfigError(
                f"{where} = '{name}': no predictions for the same test rows"
                f"{near_or_all(name, 'published ones and runs with the same data set and split are', others)}"
            )
        theirs = datasets[name].training_rows if name in published else None
        if theirs and theirs != (ours := training_rows(run, datasets)):
            raise ConfigError(
                f"{where} = '{name}': it is of {theirs:,} training rows and run '{run.name}' is conditioned on "
                f"{ours:,}, so they are posteriors of different data; set split.first to {theirs} or leave the "
                "reference out"
            )
