"""Whether runs fit their data sets, the runs from which they start, and the predictions they are compared with."""

from collections.abc import Iterator, Mapping
from typing import Any

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.shift import OF_COLOURS, PUBLISHED_SHIFTS
from bnn_atlas.config.data.splits import (
    SCALINGS,
    TFDS_ORDERED,
    SplitConfig,
    check_parts,
    published_rows,
    standard_split_count,
)
from bnn_atlas.config.language.base import ConfigError, did_you_mean, near_or_all, refuse
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.config.parts.priors import standard_deviation
from bnn_atlas.config.runs.expansion import frozen
from bnn_atlas.config.runs.studies import Run, Study, by_name

PROBLEM = ("dataset", "split", "model", "likelihood", "float64")
"""Fields of a run that decide which positions and rows there are."""
POSTERIOR = ("prior", "temperature")
"""Further fields that decide which posterior a run is about."""


def inherit_from_sources(studies: Mapping[str, Study]) -> None:
    """Append to the reductions of each run of these studies, all at one scale, those of the runs that it stands on.

    Raises ConfigError as `Sources.of` does, and for runs that start from each other in a circle.
    """
    sources = Sources(studies)
    inherited = {
        (study.name, run.name): tuple(f"{s.name}: {text}" for s in _chain(run, sources) for text in s.reductions)
        for study in studies.values()
        for run in study.runs.values()
    }
    for (study, name), reductions in inherited.items():
        run = studies[study].runs[name]
        studies[study].runs[name] = run._replace(reductions=run.reductions + reductions)


class Sources:
    """Looks up the run that a run stands on, in a time that does not grow with the number of runs."""

    def __init__(self, studies: Mapping[str, Study]) -> None:
        """`studies` are all that are loaded, at one scale."""
        self._studies = studies
        self._named: dict[str, dict[str, list[Run]]] = {}
        self._at: dict[tuple[str, str, tuple[str, ...]], dict[Any, list[Run]]] = {}

    def of(self, run: Run) -> Run | None:
        """The run that a run stands on, None for one that stands on its own.

        A name is that of a run of the same study, or `study/run`. An entry with a grid stands for its run with the same
        values of the fields that both grids have.

        Raises ConfigError where there is no such run, more than one, or one with another problem.
        """
        if run.config.start is None:
            return None
        name, where = run.config.start.run, f"{_entry(run)}.start"
        given, _, short = name.rpartition("/")
        study = given or run.study
        if study not in self._studies:
            raise ConfigError(
                f"{where}.run = '{name}': the study '{study}' is not among `studies` of config/config.yaml "
                f"({', '.join(self._studies)}); add it there"
            )
        if study not in self._named:
            self._named[study] = by_name(self._studies[study].runs)
        candidates = self._named[study].get(short)
        if not candidates:
            raise ConfigError(self._missing(run, study, short))
        matches = self._matching(study, short, candidates, run)
        if len(matches) != 1:
            runs = f"{len(matches)} runs of this entry have the grid values of '{run.name}'"
            names = ", ".join(one.name for one in candidates)
            raise ConfigError(f"{where}.run = '{name}': {runs}; name one of {names}")
        refuse(where, _misfits_of_source(run, matches[0]))
        return matches[0]

    def _missing(self, run: Run, study: str, short: str) -> str:
        """Why a name in a study that is loaded stands for no run at this scale."""
        assert run.config.start is not None
        file, key = f"config/studies/{run.study}.yaml", f"runs.{run.entry}.start.run = '{run.config.start.run}'"
        runs_at = self._studies[study].runs_at.values()
        if any(short in by_name(runs) for runs in runs_at):
            near = did_you_mean(short, self._studies[study].runs)
            return f"{file} at scale {run.scale}: {key}: no such run at this scale{near}"
        entries = sorted({one.entry for runs in runs_at for one in runs.values()})
        near = near_or_all(short, "there are", entries, [one for runs in runs_at for one in runs])
        return f"{file}: {key}: no such run{near}"

    def _matching(self, study: str, name: str, candidates: list[Run], run: Run) -> list[Run]:
        """The candidates that agree with `run` in the fields that both grids have."""
        shared = tuple(field for field in candidates[0].point if field in run.point)
        if (study, name, shared) not in self._at:
            at = self._at[study, name, shared] = {}
            for one in candidates:
                at.setdefault(_values(one, shared), []).append(one)
        return self._at[study, name, shared].get(_values(run, shared), [])


def _values(run: Run, fields: tuple[str, ...]) -> Any:
    return frozen([run.point.get(field) for field in fields])


def _entry(run: Run) -> str:
    return f"config/studies/{run.study}.yaml at scale {run.scale}: runs.{run.entry}"


def _chain(run: Run, sources: Sources) -> list[Run]:
    """The run that a run stands on, the one that this one stands on, and so on."""
    chain = [run]
    while (source := sources.of(chain[-1])) is not None:
        if any((source.study, source.name) == (one.study, one.name) for one in chain):
            names = " -> ".join(f"{one.study}/{one.name}" for one in [*chain, source])
            raise ConfigError(f"{_entry(run)}.start.run: runs start from each other in a circle, {names}")
        chain.append(source)
    return chain[1:]


def unequal(run: Run, other: Run, fields: tuple[str, ...], given: str, conclusion: str) -> Iterator[str]:
    """Fields in which another run differs, and that it has fewer splits; of the split, the number may be larger.

    `given` begins each text with the key that names the other run, and `conclusion` ends it.
    """
    for field in fields:
        own, theirs = getattr(run.config, field), getattr(other.config, field)
        if field == "split":
            own, theirs = (split.model_copy(update={"count": 1}) for split in (own, theirs))
        if own != theirs:
            differs = f"its {field} differs from that of '{run.name}' ({_text(theirs)}; {_text(own)})"
            yield f"{given}: {differs}, {conclusion}"
    if other.config.split.count < run.config.split.count:
        yield f"{given}: it has {other.config.split.count} splits and '{run.name}' has {run.config.split.count}"


def _misfits_of_source(run: Run, source: Run) -> Iterator[str]:
    """Why a run cannot stand on a source.

    Its draws are positions of another network or for other rows, or it lacks the position asked for, or a Gaussian
    cannot represent it: it is a Gaussian itself, has too few draws, or has another posterior.
    """
    method, given = run.config.method, f".run = '{source.name}'"
    if source.config.reduces_draws and (run.config.start is None or run.config.start.draw != "start"):
        yield f"{given}: it keeps no draws to start from; set its keep_draws: all"
    yield from unequal(run, source, PROBLEM, given, "so its draws are not positions of the same problem")
    if isinstance(method, CompactConfig):
        if isinstance(source.config.method, CompactConfig):
            yield f"{given}: it is compact itself; name the run whose draws it represents"
        yield from unequal(run, source, POSTERIOR, given, "so it is no representation of this posterior")
        chains = method.source_chains or source.config.chains
        if chains > source.config.chains:
            yield f"{given}: it has {source.config.chains} chains, and method.source_chains is {chains}"
        if (draws := chains * source.draws) < 2 and method.form != "mean":
            yield f"{given}: it has {draws} draw, and a spread needs at least two"
    if run.config.start and run.config.start.draw == "mean" and source.config.method.centre is None:
        fitted = " and ".join(f"'{kind}'" for kind, record in METHODS.items() if record.centre)
        yield (
            f".draw = 'mean': '{source.name}' is of method.kind '{source.config.method.kind}', and only {fitted} fit a "
            "mean; use 'last' or 'best'"
        )


def _text(value: object) -> str:
    dump = getattr(value, "model_dump", None)
    return str(dump(mode="json", exclude_defaults=False)) if dump else str(value)


LIKELIHOODS = {
    "regression": ("gaussian", "learned_noise", "heteroscedastic"),
    "classification": ("categorical",),
}
"""Task of a data set -> kinds of likelihood that fit it."""


def check_data(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse an unknown data set, and a likelihood, splits or an order that do not fit the data set."""
    name = run.config.dataset
    if name not in datasets:
        near = near_or_all(name, "config/datasets.yaml has", sorted(datasets))
        raise ConfigError(f"{where}.dataset = '{name}': no such data set{near}")
    refuse(where, _misfits(run, datasets[name]))


def _misfits(run: Run, entry: DatasetEntry) -> Iterator[str]:
    """Key and value of a run that do not fit its data set, why, and what to do."""
    name, likelihood, split = run.config.dataset, run.config.likelihood.kind, run.config.split
    task, published = entry.task, entry.published_test
    if entry.of is not None:
        yield f".dataset = '{name}': these are published {entry.kind} for '{entry.of}', not a data set"
    if entry.pixel_divisor is not None:
        yield f".dataset = '{name}': its pixels are divided once too often; it is for evaluate.out_of_distribution only"
    if likelihood not in LIKELIHOODS[task]:
        allowed = ", ".join(f"'{kind}'" for kind in LIKELIHOODS[task])
        yield f".likelihood.kind = '{likelihood}': the data set '{name}' is for {task}; allowed are {allowed}"
    if split.kind == "standard" and split.count > (most := standard_split_count(name)):
        yield f".split.count = {split.count}: of the data set '{name}', at most {most} standard splits are allowed"
    if split.kind == "published" and entry.published_train is None:
        yield f".split.kind = 'published': the data set '{name}' has no published split"
    if split.kind == "published" and split.order == "tfds" and name not in TFDS_ORDERED:
        known = f"only that of {', '.join(TFDS_ORDERED)}; use 'file'"
        yield f".split.order = 'tfds': this order of the data set '{name}' is not known, {known}"
    if split.features != "inputs" and entry.kind != "table":
        yield f".split.features = '{split.features}': {_rows_of(name, entry)}, and only tables have features"
    if split.targets != "standardised" and task != "regression":
        of = f"the data set '{name}' is for {task}, and only targets of a regression can be standardised or not"
        yield f".split.targets = '{split.targets}': {of}"
    for key, given, changed in (
        ("likelihood.orbit", getattr(run.config.likelihood, "orbit", None), "moved"),
        ("method.augmentation", getattr(run.config.method, "augmentation", None), "cropped"),
    ):
        if given is not None and entry.kind != "image":
            yield f".{key}: {_rows_of(name, entry)}, and only images can be flipped and {changed}; leave it out"
    if split.kind == "mile" and split.first_test is not None and not published:
        yield f".split.first_test: the data set '{name}' has no published test rows"
    if split.kind == "mile" and split.limit is not None and published:
        yield f".split.limit: the data set '{name}' has its own published test rows"
    try:
        if split.kind == "published":
            published_rows(entry.published_train or 0, split.first, "first", "training")
        elif not (split.kind == "mile" and published):
            check_parts(entry.rows, split)
        if split.kind == "published" or (split.kind == "mile" and split.first_test is not None):
            published_rows(published, split.first_test, "first_test", "test")
    except ConfigError as error:
        yield f": the data set '{name}': {error}"
    scalings = [s for s in SCALINGS[entry.kind] if s != "published" or entry.published_scaling is not None]
    if split.scaling is not None and split.scaling not in scalings:
        allowed = ", ".join(scalings)
        yield f".split.scaling = '{split.scaling}': for the data set '{name}' ({entry.kind}), use one of {allowed}"


def _rows_of(name: str, entry: DatasetEntry) -> str:
    return f"the data set '{name}' has rows of the kind '{entry.kind}'"


def check_sets(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse shifts of rows that are not images or not published, and out-of-distribution sets that do not fit."""
    refuse(where, _misfits_of_sets(run, datasets) if run.config.evaluate.sets else ())


def _misfits_of_sets(run: Run, datasets: Mapping[str, DatasetEntry]) -> Iterator[str]:
    """Key and value of further sets that do not fit the data set of a run, why, and what to do."""
    own, evaluate = run.config.dataset, run.config.evaluate
    entry, published = datasets[own], datasets[PUBLISHED_SHIFTS].of if PUBLISHED_SHIFTS in datasets else None
    if evaluate.intervals and (entry.task != "regression" or entry.shape != (1,)):
        is_a = f"'{own}' is a {entry.task} whose rows have the shape {list(entry.shape)}"
        yield f".intervals: they are of the input of a regression of one input; {is_a}: leave them out"
    if evaluate.shifts and entry.kind != "image":
        yield f".shifts: '{own}' has rows of the kind '{entry.kind}', not images"
    for shift in evaluate.shifts:
        start = f".shifts: '{shift.name}'"
        if shift.kind in OF_COLOURS and entry.shape[-1] != 3:
            yield f"{start} changes colours, and the images of '{own}' have {entry.shape[-1]} channel; leave it out"
        if shift.published and own != published:
            yield f"{start} is for '{published}', not '{own}'"
        if shift.published and run.config.split.kind != "published":
            needs = f"it needs split.kind 'published', not '{run.config.split.kind}'"
            yield f"{start} is made of the publisher's test rows: {needs}"
    rows = (entry.kind, entry.shape, entry.vocabulary)
    alike = [name for name, other in datasets.items() if (other.kind, other.shape, other.vocabulary) == rows]
    fitting = [name for name in alike if origin_of(name) != origin_of(own)]
    others = f"there are {', '.join(fitting) or 'none'}"
    for name in evaluate.out_of_distribution:
        start, likelihood = f".out_of_distribution: '{name}'", run.config.likelihood.kind
        if likelihood != "categorical":
            yield f"{start} can be told apart with likelihood.kind 'categorical' only, not '{likelihood}'; leave it out"
        if name in alike and name not in fitting:
            yield f"{start} has the same rows as the run's data '{own}'; {others}"
        if name not in fitting:
            yield f"{start} is not a data set with rows like those of '{own}'; {others}"


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


def check_references(study: Study, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse references that do not exist, or that are not for the rows of the run that names them.

    Those are its test rows and, where it is known for published predictions, the number of training rows: agreement
    with a posterior given more data would say something about the data, not about the run.
    """
    alike: dict[tuple[str, SplitConfig], dict[str, Run]] = {}
    for run in study.runs.values():
        alike.setdefault((run.config.dataset, run.config.split), {})[run.name] = run
    for run in study.runs.values():
        if run.config.evaluate.references:
            problems = _misfits_of_references(run, alike[run.config.dataset, run.config.split], datasets)
            refuse(f"{where}: runs.{run.entry}.evaluate.references", problems)


def remark(run: Run, name: str, study: Study, datasets: Mapping[str, DatasetEntry]) -> str:
    """The note on a comparison of a run with a reference: whether both are about one posterior.

    For published predictions, it gives their number of training rows, if known, and the run's rows and prior.
    """
    if name in study.runs:
        other = study.runs[name].config
        fields = [
            field
            for field in ("model", "likelihood", *POSTERIOR)
            if getattr(run.config, field) != getattr(other, field)
        ]
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


def _misfits_of_references(run: Run, same: Mapping[str, Run], datasets: Mapping[str, DatasetEntry]) -> Iterator[str]:
    """References that are not for the rows of a run; `same` are the runs with its data set and split."""
    published = [n for n, e in datasets.items() if e.kind == "predictions" and e.of == run.config.dataset]
    for name in run.config.evaluate.references:
        given = f" = '{name}'"
        if run.config.likelihood.kind != "categorical" and name not in same:
            yield f"{given}: published predictions are for classification; a regression is compared with runs"
        if name in published and run.config.split.kind != "published":
            yield f"{given}: published predictions need split.kind 'published'"
        if name == run.name or (name not in published and (name in datasets or name not in same)):
            others = [n for n in (*published, *same) if n != run.name]
            near = near_or_all(name, "published ones and runs with the same data set and split are", others)
            yield f"{given}: no predictions for the same test rows{near}"
        theirs = datasets[name].training_rows if name in published else None
        if theirs and theirs != (ours := training_rows(run, datasets)):
            yield (
                f"{given}: it is of {theirs:,} training rows and run '{run.name}' is conditioned on {ours:,}, so they "
                f"are posteriors of different data; set split.first to {theirs} or leave the reference out"
            )
