"""Settings of a study: its runs, grids of runs, scales and figures."""

import copy
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from bnn_atlas.config.base import ConfigError, Model, Seed, read_yaml, validated
from bnn_atlas.config.datasets import DatasetEntry
from bnn_atlas.config.evaluation import EvaluationConfig
from bnn_atlas.config.figures import FIGURES, FigureConfig, FigureEntry
from bnn_atlas.config.methods import NOT_CHAINS, MethodConfig
from bnn_atlas.config.posterior import NormalPrior, PosteriorConfig, StandardNormalPrior
from bnn_atlas.config.shift import PUBLISHED_SHIFTS
from bnn_atlas.config.stopping import StoppingConfig
from bnn_atlas.config.training import WarmStartConfig
from bnn_atlas.data.errors import DataError
from bnn_atlas.data.orders import TFDS_ORDERED
from bnn_atlas.data.scaling import SCALINGS, Scaling
from bnn_atlas.data.splits import published_rows, standard_split_count

Scale = Literal["demo", "laptop", "paper"]
NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
LIKELIHOODS = {
    "regression": ("gaussian", "learned_noise", "heteroscedastic"),
    "classification": ("categorical",),
}
"""Task of a data set -> kinds of likelihood that fit it."""


class SplitConfig(Model):
    """How rows are divided into training, validation and test rows, and how inputs are scaled."""

    kind: Literal["random", "standard", "train_test_split", "published"] = "random"
    """`random`: seeded permutation; `standard`: the 20 splits of Hernandez-Lobato and Gal; `train_test_split`: as
    scikit-learn's function with `random_state = seed + split`; `published`: the publisher's test rows."""
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of test rows (`standard` has 0.1 built in, `published` has the publisher's)."""
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the other rows that early stopping watches; the last ones."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the split; it is not the seed of the chains."""
    count: PositiveInt = 1
    """Number of splits, each a repetition of the run."""
    limit: PositiveInt | None = None
    """Use only so many rows, chosen by the seed."""
    order: Literal["file", "tfds"] = "file"
    """`published`: rows in order of the publisher's file, or of TensorFlow Datasets (`bnn_atlas.data.orders`)."""
    first: PositiveInt | None = None
    """`published`: only so many training rows, the first of that order."""
    first_test: PositiveInt | None = None
    """`published`: only so many test rows, the first of that order."""
    scaling: Scaling | None = None
    """Statistics of the inputs: `columns` (tables), `channels`, `published`, `unit` or `none` (images); null takes the
    first one for the kind of data (`bnn_atlas.data.scaling`)."""
    validation_in_likelihood: bool = True
    """The posterior conditions on training and validation rows; the warm start still holds validation rows out."""

    @model_validator(mode="after")
    def _published_only(self) -> Self:
        if self.kind == "published":
            if self.limit is not None:
                raise ValueError("limit is not for kind 'published'; use first and first_test")
            if self.count != 1:
                raise ValueError(f"count = {self.count}: of kind 'published' there is one split")
            return self
        given = [key for key in ("first", "first_test") if getattr(self, key) is not None]
        given += ["order"] if self.order != "file" else []
        if given:
            raise ValueError(f"{', '.join(given)}: only for kind 'published', not '{self.kind}'")
        return self


class RunConfig(PosteriorConfig):
    """One setting of a study, as the paper has it; `scales` says what smaller scales change."""

    description: str
    dataset: str
    split: SplitConfig = SplitConfig()
    evaluate: EvaluationConfig = EvaluationConfig()
    seed: Seed = 0
    """Seed of initialisation, training and chains; further splits get their own, derived from it."""
    warmstart: WarmStartConfig | None = None
    """How the networks that the chains start from are optimised; null leaves them as they are initialised."""
    method: MethodConfig
    chains: PositiveInt
    chains_per_block: PositiveInt | None = None
    """Chains that one job runs; null puts all into one job."""
    stopping: StoppingConfig | None = None
    """When a block of chains may end before its last draw; null takes all draws."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.chains % self.block_size:
            raise ValueError(
                f"chains ({self.chains}) must be a multiple of chains_per_block ({self.block_size}); "
                f"for example chains_per_block: {_largest_divisor(self.chains, self.block_size)}"
            )
        if self.warmstart and self.warmstart.patience is not None and self.split.validation == 0:
            raise ValueError("warmstart.patience needs validation rows: set split.validation above 0 or patience: null")
        if self.warmstart and self.warmstart.permuted is not None and not getattr(self.model, "hidden", ()):
            raise ValueError(
                f"warmstart.permuted ({self.warmstart.permuted}) needs hidden units to permute: it is for model.kind "
                f"'mlp' with at least one hidden layer, not '{self.model.label}'; leave it out or set it to null"
            )
        return self

    @model_validator(mode="after")
    def _can_stop(self) -> Self:
        if self.stopping is None:
            return self
        if isinstance(self.method, NOT_CHAINS):
            raise ValueError(f"stopping is for Markov chains; method.kind '{self.method.kind}' has none: leave it out")
        if self.warmstart is None:
            raise ValueError("stopping compares chains with their warm starts: it needs the section warmstart")
        if self.split.validation == 0 or self.split.validation_in_likelihood:
            raise ValueError(
                "stopping needs validation rows that the posterior is not conditioned on: set split.validation above 0 "
                "and split.validation_in_likelihood: false"
            )
        if self.likelihood.kind == "learned_noise":
            raise ValueError(
                "stopping compares predictive densities, and a warm start has not learned the noise of likelihood.kind "
                "'learned_noise': use 'heteroscedastic' or 'gaussian', or leave stopping out"
            )
        if self.blocks > 1:
            raise ValueError(
                f"stopping with {self.blocks} blocks would make the number of draws depend on them: set "
                "chains_per_block: null"
            )
        return self

    def seed_of(self, split: int) -> int:
        """Seed of initialisation, training and chains on one split, so that splits are independent repetitions."""
        return self.seed if split == 0 else int(np.random.SeedSequence([self.seed, split]).generate_state(1)[0] >> 1)

    @property
    def e_value_level(self) -> float:
        """Level of the stopping rule; the default one where the run has none and its E-values are only looked at."""
        return (self.stopping or StoppingConfig()).alpha

    @property
    def posterior(self) -> PosteriorConfig:
        """The posterior's settings without the rest."""
        return PosteriorConfig(**{name: getattr(self, name) for name in PosteriorConfig.model_fields})

    @property
    def prior_sd(self) -> float | None:
        """Standard deviation of a prior N(0, sd^2) that all parameters share; None for any other prior."""
        match self.prior:
            case StandardNormalPrior():
                return 1.0
            case NormalPrior(loc=0.0, scale=scale):
                return scale
            case _:
                return None

    @property
    def block_size(self) -> int:
        """Chains per block."""
        return self.chains_per_block or self.chains

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.chains // self.block_size

    def chain_ids(self, block: int) -> range:
        """Chains of a block, numbered through the run."""
        return range(block * self.block_size, (block + 1) * self.block_size)


class RunEntry(RunConfig):
    """A run as it stands in a study's file, with its grid and what the smaller scales change."""

    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """Dotted field -> values; the product of all lists gives named runs."""
    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Fields that a scale replaces, nested as in the run (a scale may also shorten `grid`); null: not run there."""


class StudyConfig(Model):
    """One file in config/studies."""

    title: str
    paper: str
    """Citation."""
    runs: dict[str, RunEntry]
    figures: dict[str, FigureEntry] = Field(default_factory=dict)


class Run(NamedTuple):
    """A run at one scale, ready for the rules."""

    study: str
    name: str
    entry: str
    """The entry of the study's file from which the run was expanded."""
    scale: Scale
    point: dict[str, Any]
    """Field of the entry's grid -> value of this run."""
    config: RunConfig
    reductions: tuple[str, ...]
    """What this scale changes against the paper's setting, as `field: paper value -> value here`."""


class Study(NamedTuple):
    """A study at one scale: all its runs by name, and its figures."""

    name: str
    config: StudyConfig
    runs: dict[str, Run]
    figures: dict[str, FigureConfig]
    paper_runs: dict[str, Run]
    """All runs of the scale `paper`, whichever scale this is."""

    def runs_of(self, names: tuple[str, ...]) -> list[Run]:
        """Runs with these names, or from the entries with these names, in order of the names, each once."""
        found = [run for name in names for run in self.runs.values() if name in (run.name, run.entry)]
        return list({run.name: run for run in found}.values())

    def labels_of(self, figure: FigureConfig) -> dict[str, str]:
        """Name of each run of a figure -> its text in the legend: its label, that of its entry, or its name."""
        labels = figure.labels
        return {run.name: labels.get(run.name, labels.get(run.entry, run.name)) for run in self.runs_of(figure.runs)}


def load_study(path: Path, scale: Scale, datasets: Mapping[str, DatasetEntry]) -> Study:
    """Read config/studies/<study>.yaml, check it at every scale and expand it for one.

    Raises ConfigError that names the file, the key, the value and what is allowed.
    """
    data = read_yaml(path)
    source = str(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected keys such as title and runs, found {type(data).__name__}")
    config = validated(StudyConfig, data, source)
    studies: dict[str, Study] = {}
    for each in ("paper", *(name for name in get_args(Scale) if name != "paper")):
        where = source if each == "paper" else f"{source} at scale {each}"
        runs: dict[str, Run] = {}
        for entry in config.runs:
            if not _at(data["runs"][entry], each):
                continue
            for run in _expand(path.stem, entry, data["runs"][entry], each, where):
                _check_data(run, datasets, f"{where}: runs.{entry}")
                _check_sets(run, datasets, f"{where}: runs.{entry}.evaluate")
                if run.name in runs:
                    raise ConfigError(
                        f"{where}: runs.{entry}: the run name '{run.name}' is made twice; rename one entry, or "
                        "remove a value that stands twice in its grid"
                    )
                runs[run.name] = run
        figures = {name: _figure(name, data["figures"][name], each, where) for name in config.figures}
        made = {name: figure for name, figure in figures.items() if figure}
        studies[each] = Study(path.stem, config, runs, made, studies["paper"].runs if studies else runs)
        for run in runs.values():
            _check_references(run, studies[each], datasets, f"{where}: runs.{run.entry}.evaluate.references")
        for figure in studies[each].figures:
            _check_figure(studies[each], figure, f"{where}: figures.{figure}")
            _check_functions(studies[each], figure, datasets, f"{where}: figures.{figure}")
    return studies[scale]


def _check_data(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
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


def _check_sets(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
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


def _check_references(run: Run, study: Study, datasets: Mapping[str, DatasetEntry], where: str) -> None:
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


def _check_figure(study: Study, figure: str, where: str) -> None:
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


def _check_functions(study: Study, figure: str, datasets: Mapping[str, DatasetEntry], where: str) -> None:
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


def _at(data: Any, scale: Scale) -> bool:
    """Whether an entry takes part at a scale."""
    scales = data.get("scales") or {}
    return scale not in scales or scales[scale] is not None


def _figure(name: str, data: dict[str, Any], scale: Scale, source: str) -> FigureConfig | None:
    """A figure at one scale; None where it is not made."""
    if not _at(data, scale):
        return None
    paper = {key: value for key, value in data.items() if key != "scales"}
    return validated(FigureConfig, paper | data.get("scales", {}).get(scale, {}), f"{source}: figures.{name}")


def _expand(study: str, entry: str, data: dict[str, Any], scale: Scale, source: str) -> list[Run]:
    """All runs of one entry: overlay the scale, then take the product of the grid's lists."""
    if not re.fullmatch(NAME, entry):
        raise ConfigError(f"{source}: runs.{entry}: a name is made of letters, digits, '_', '.', '-'")
    paper = {key: value for key, value in data.items() if key != "scales"}
    scaled = paper if scale == "paper" else merge(paper, data.get("scales", {}).get(scale, {}))
    where = f"{source}: runs.{entry}"
    full = validated(RunEntry, scaled, where)
    reductions = _reductions(validated(RunEntry, paper, where), full, [key for key, _ in leaves(scaled)])
    for field, choices in full.grid.items():
        if not choices:
            raise ConfigError(f"{where}.grid.{field}: an empty list gives no run")
    runs = []
    for values in itertools.product(*full.grid.values()):
        point = {key: value for key, value in scaled.items() if key != "grid"}
        for field, value in zip(full.grid, values, strict=True):
            point = merge(point, _nested(field, value))
        name = "-".join([entry, *(_label(f, v) for f, v in zip(full.grid, values, strict=True))])
        if not re.fullmatch(NAME, name):
            raise ConfigError(f"{where}: the run name '{name}' has characters that file names should not have")
        at = ", ".join(f"{field}: {value}" for field, value in zip(full.grid, values, strict=True))
        config = validated(RunConfig, point, f"{where} (grid {at})" if at else where)
        runs.append(Run(study, name, entry, scale, dict(zip(full.grid, values, strict=True)), config, reductions))
    return runs


JOB_KEYS = ("chains_per_block", "method.checkpoint_every")


def _reductions(paper: RunEntry, scaled: RunEntry, keys: list[str]) -> tuple[str, ...]:
    """What `scaled` changes at `keys`, with the models' defaults where the file leaves a value out.

    What only says how jobs are cut changes no result and is no reduction.
    """
    before, after = paper.model_dump(mode="json"), scaled.model_dump(mode="json")
    pairs = [(key, _get(before, key), _get(after, key)) for key in keys if key not in JOB_KEYS]
    return tuple(f"{key}: {old} -> {new}" for key, old, new in pairs if old != new)


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `overlay`, section by section; a section of another `kind` is replaced whole."""
    result = copy.deepcopy(dict(base))
    for key, value in overlay.items():
        old = result.get(key)
        same_kind = isinstance(value, Mapping) and _kind(old) in (None, value.get("kind", _kind(old)))
        result[key] = merge(old, value) if isinstance(old, dict) and same_kind else copy.deepcopy(value)
    return result


def leaves(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Dotted names and values of everything that is not a section."""
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found += leaves(value, f"{prefix}{key}.")
        else:
            found.append((prefix + key, value))
    return found


def _kind(section: Any) -> Any:
    return section.get("kind") if isinstance(section, Mapping) else None


def _get(tree: Any, dotted: str) -> Any:
    """Value at a dotted name, None where there is none; keys may hold dots (grids)."""
    if dotted in tree:
        return tree[dotted]
    head, _, rest = dotted.partition(".")
    section = tree.get(head)
    return _get(section, rest) if rest and isinstance(section, Mapping) else None


def _nested(dotted: str, value: Any) -> dict[str, Any]:
    head, _, rest = dotted.partition(".")
    return {head: _nested(rest, value) if rest else value}


def _label(field: str, value: Any) -> str:
    """Part of a run's name: `airfoil` for a word, `scale0.1` for a number, `hidden16x16` for a list."""
    if isinstance(value, Mapping):
        return "-".join(str(v) if isinstance(v, str) else _label(k, v) for k, v in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        value = "x".join(map(str, value))
    return field.rpartition(".")[2] + str(value)


def _largest_divisor(number: int, limit: int) -> int:
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)
