"""Settings of a study: its runs and figures, as in its file and at one scale."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.language.base import MOST_JOBS, Chains, Model, Seed, Text
from bnn_atlas.config.methods.base import KindOfDraws
from bnn_atlas.config.methods.gaussian import CompactConfig
from bnn_atlas.config.methods.hmc import LeapfrogSettings
from bnn_atlas.config.methods.registry import MethodConfig, RefereeMethod
from bnn_atlas.config.parts.evaluation import AlignmentConfig, AlignmentEntry, EvaluationConfig, PublishedBy
from bnn_atlas.config.parts.figures import FigureConfig, FigureEntry
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.priors import NORMAL, NormalPrior, StandardNormalPrior, standard_deviation
from bnn_atlas.config.parts.starts import InitialConfig, StartConfig, StoppingConfig, WarmStartConfig
from bnn_atlas.provenance import fingerprint

Scale = Literal["demo", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
REPETITION = ("seed", "split.seed")
"""Fields in which repetitions of one setting differ; the splits of a run are repetitions too."""

Problem = Literal["as_published", "settings_unknown", "own"]
"""Whether a run solves the paper's problem: with all settings as published; on its data, with settings that were not
published; or not, if it is a problem of this project."""

REFEREE = "-referee"
"""Ending of the name of a run's referee, and of its entry."""


class RunConfig(PosteriorConfig):
    """One setting of a study, as the paper has it; `scales` says what smaller scales change."""

    description: Text
    """One line for readers of the results."""
    problem: Annotated[Problem, Field(exclude=True)] = "own"
    """Whether the run solves the paper's problem. `as_published`: it does, with the published settings;
    `settings_unknown`: it has the paper's data, but the settings were never published; `own`: it is another problem.
    The study's `problem` is the default. This is only a label: nothing is made again when it changes."""
    dataset: str
    """A name in config/datasets.yaml."""
    split: SplitConfig = SplitConfig()
    """Training, validation and test rows; left out, 20 % are test rows and 10 % of the others validation rows."""
    evaluate: EvaluationConfig = EvaluationConfig()
    """What the run is scored on and compared with, besides its test rows."""
    seed: Seed = 0
    """Seed of initialisation, training and chains; further splits get their own, derived from it."""
    warmstart: WarmStartConfig | None = None
    """How the networks that the chains start from are optimised; null leaves them as they are initialised."""
    initial: Annotated[InitialConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """How these networks are drawn if they are not optimised; null takes the layers' own initialisers."""
    start: StartConfig | None = None
    """Positions of another run from which the chains start; only without a warm start."""
    method: MethodConfig
    """How draws are made."""
    chains: Chains
    """Number of chains, or of members of an ensemble."""
    chains_per_block: Chains | None = None
    """Chains that one job runs; null puts all into one job."""
    stopping: StoppingConfig | None = None
    """When a block of chains may end before its last draw; null takes all draws."""
    referee: RefereeMethod | None = None
    """A method with a Metropolis test. It makes a further run, `<run>-referee`, which continues this run's chains from
    their last draws on the same posterior. The tables then say how far from the posterior this run was."""

    def _contradictions(self) -> Iterator[str]:
        method, prior, likelihood = self.method, self.prior.kind, self.likelihood.kind
        warmstart, start, size = self.warmstart, self.start, self.block_size
        if self.chains % size:
            fits = _largest_divisor(self.chains, size)
            must = f"chains ({self.chains}) must be a multiple of chains_per_block ({size})"
            yield f"{must}; for example chains_per_block: {fits}"
        if (jobs := self.split.count * self.blocks) > MOST_JOBS:
            product = (
                f"split.count ({self.split.count:,}) times the blocks of chains ({self.blocks:,}) gives {jobs:,} jobs"
            )
            yield f"{product}; at most {MOST_JOBS:,} are allowed: raise chains_per_block"
        if warmstart and start:
            yield "start and warmstart both say where chains start: set warmstart: null or leave start out"
        if warmstart and warmstart.patience is not None and self.split.validation == 0:
            yield "warmstart.patience needs validation rows: set split.validation above 0 or patience: null"
        if warmstart and warmstart.permuted is not None and not getattr(self.model, "hidden", ()):
            yield (
                f"warmstart.permuted ({warmstart.permuted}) needs hidden units to permute: it is for model.kind 'mlp' "
                f"with at least one hidden layer, not '{self.model.label}'; leave it out or set it to null"
            )
        if self.initial is not None and (warmstart or start):
            yield (
                "initial says how networks are drawn from which chains start without training: set warmstart: null and "
                "leave start out, or leave initial out"
            )
        if isinstance(method, CompactConfig) and (start is None or start.draw != "last"):
            yield (
                "method.kind 'compact' is a Gaussian of the draws of another run: name it in start.run, and leave "
                "start.draw out"
            )
        if isinstance(method, CompactConfig) and method.form == "mean" and self.chains != 1:
            yield f"method.form 'mean' is one network: set chains to 1, not {self.chains}"
        if prior == "empirical_covariance" and self.model.kind == "cnn_lstm":
            yield (
                f"prior.kind '{prior}' is for networks whose first layer is dense or a convolution of pixels, and "
                "words have no covariance: use 'normal'"
            )
        if prior == "empirical_covariance" and method.kind == "laplace":
            yield (
                f"prior.kind '{prior}' correlates parameters, which method.kind 'laplace' does not allow for: choose "
                "another method, or the prior 'normal'"
            )
        if prior == "normal_gamma_noise" and likelihood != "learned_noise":
            yield (
                f"prior.kind '{prior}' is a prior of the noise of likelihood.kind 'learned_noise', not of "
                f"'{likelihood}': use 'normal'"
            )
        if getattr(method, "noise", None) == "point" and likelihood != "learned_noise":
            of = "the noise of likelihood.kind 'learned_noise'"
            yield f"method.noise 'point' is for {of}, not of '{likelihood}': leave it out"
        if method.kind == "ivon" and prior not in NORMAL:
            takes = "takes its weight decay from a normal prior"
            yield f"method.kind 'ivon' {takes}, not from '{prior}': use one of {', '.join(NORMAL)}"
        if self.referee and method.kind_of_draws is KindOfDraws.POINT:
            yield (
                "referee measures shifts in standard deviations of a chain's draws, and a chain of method.kind "
                f"'{method.kind}' is one point: leave referee out"
            )
        if self.stopping and (why := self.no_e_values()):
            yield f"stopping: {why}, or leave stopping out"
        if self.stopping and self.blocks > 1:
            depends = "would make the number of draws depend on them"
            yield f"stopping with {self.blocks} blocks {depends}: set chains_per_block: null"
        if self.initial is not None:
            yield from self.initial.misfits(self.model, self.chains)
        if self.evaluate.barriers:
            yield from self.evaluate.barriers.misfits(self.chains, bool(getattr(self.model, "hidden", True)))
        self.resolved()

    def resolved(self) -> Self:
        """A copy in which trajectory lengths that are relative to the prior have become numbers.

        Raises:
            ValueError: the lengths are quarter periods of a prior that has none, or do not go together.
        """
        found = {
            name: section.resolved(standard_deviation(self.prior), self.temperature)
            for name in ("method", "referee")
            if isinstance(section := getattr(self, name), LeapfrogSettings)
        }
        return self.model_copy(update=found) if found else self

    def seed_of(self, split: int) -> int:
        """Seed of initialisation, training and chains on one split, so that splits are independent repetitions.

        A run that starts from positions of another run has other random numbers than that run, whatever their seeds:
        otherwise the noise that has led a chain to its position would push it the same way again.
        """
        source = [] if self.start is None else [int(fingerprint(self.start.run)[:8], 16)]
        if split == 0 and not source:
            return self.seed
        import numpy as np  # a tenth of a second, and most plans need no further split

        return int(np.random.SeedSequence([self.seed, split, *source]).generate_state(1)[0] >> 1)

    def no_e_values(self) -> str | None:
        """Why E-values of draws against the warm start would say nothing about this run; None if they would."""
        if not self.method.kind_of_draws.are_chain:
            return f"E-values are for Markov chains, and method.kind '{self.method.kind}' runs none: choose another"
        if self.warmstart is None:
            return "E-values compare chains with their warm starts: give the section warmstart"
        if self.split.validation == 0 or self.split.validation_in_likelihood:
            return (
                "E-values need validation rows that the posterior is not conditioned on: set split.validation above 0 "
                "and split.validation_in_likelihood: false"
            )
        if self.likelihood.kind == "learned_noise":
            return (
                "E-values compare predictive densities, and a warm start has not learned the noise of likelihood.kind "
                "'learned_noise': use 'heteroscedastic' or 'gaussian'"
            )
        return None

    @property
    def e_value_level(self) -> float:
        """Level of the stopping rule; the default if the run has none and its E-values are only shown."""
        return (self.stopping or StoppingConfig()).alpha

    @property
    def posterior(self) -> PosteriorConfig:
        """The settings of the posterior alone."""
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


def _columns(rows: Any) -> Any:
    """The rows of `zipped` as dotted field -> values.

    Raises:
        ValueError: this is not a list of rows, or a row does not give the same fields as the first one.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("must be a list of rows, such as [{ seed: 1, chains: 4 }, { seed: 2, chains: 8 }]")
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            first, other = (", ".join(each) or "none" for each in (rows[0], row))
            raise ValueError(f"all rows give the same fields, but row 1 gives {first}, and row {number} gives {other}")
    return {field: [row[field] for row in rows] for field in (rows[0] if rows else ())}


class RunEntry(RunConfig):
    """A run as written in a study's file, with its grid and what the smaller scales change."""

    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """Dotted field -> values; each combination of values is a run, which is named after them."""
    zipped: Annotated[
        dict[str, list[Any]], BeforeValidator(_columns, list[Annotated[dict[str, Any], Field(min_length=1)]])
    ] = Field(default_factory=dict)
    """Rows of dotted field -> value, for fields that vary together: a run for each row, named after its first value. If
    there is a `grid`, too, every row is combined with every point of the grid."""
    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that it replaces, nested as in the run (it may also shorten `grid` and `zipped`). Empty braces:
    the run takes part unchanged; null: it does not take part; left out: the study's `scales` decide."""


def _with_paper(scales: tuple[Scale, ...]) -> tuple[Scale, ...]:
    """Refuse a study without its own settings, which are those of the scale paper."""
    if "paper" not in scales:
        raise ValueError(f"add paper: what is written outside `scales` is its setting; all are {', '.join(SCALES)}")
    return scales


class StudyConfig(Model):
    """One file in config/studies."""

    title: Text
    """Name of the study, on pages and in texts."""
    paper: Text
    """Citation."""
    differences: tuple[Text, ...] = ()
    """What is done differently from the paper at every scale, in one sentence each, for readers of results."""
    problem: Problem = "own"
    """The `problem` of runs that do not state their own."""
    published: tuple[PublishedBy, ...] = ()
    """First authors of papers whose variants of some metrics are measured as well, for all runs of the study."""
    scales: Annotated[tuple[Scale, ...], AfterValidator(_with_paper)] = SCALES
    """Scales at which runs, alignments and figures take part unless they say otherwise under their own `scales`."""
    export: tuple[str, ...] = ()
    """Runs, or grids (all their runs), that the target `export` packs into archives for others to use."""
    runs: dict[str, RunEntry]
    """Name -> run."""
    alignments: dict[str, AlignmentEntry] = Field(default_factory=dict)
    """Name -> alignment, a common frame for the draws of a run."""
    figures: dict[str, FigureEntry] = Field(default_factory=dict)
    """Name -> figure."""

    def taking_part(self, entries: Mapping[str, RunEntry | AlignmentEntry | FigureEntry], scale: Scale) -> list[str]:
        """Names of the entries that take part at a scale."""
        usual = scale in self.scales
        return [
            name for name, of in entries.items() if (of.scales.get(scale) is not None if scale in of.scales else usual)
        ]


class Run(NamedTuple):
    """A run at one scale, ready for the rules."""

    study: str
    name: str
    entry: str
    """The entry of the study's file from which the run was expanded."""
    scale: Scale
    point: dict[str, Any]
    """Field of the entry's `grid` or `zipped` -> value in this run."""
    config: RunConfig
    reductions: tuple[str, ...]
    """What this scale changes in the paper's setting, as `field: paper value -> value here`."""

    @property
    def draws(self) -> int:
        """Draws per chain."""
        return int(getattr(self.config.method, "draws", 1))

    @property
    def referee(self) -> str | None:
        """Name of the run that continues from this one's last draws with a Metropolis test; None without one."""
        return self.name + REFEREE if self.config.referee else None


class Study(NamedTuple):
    """A study at one scale: all its runs by name, and its figures."""

    name: str
    config: StudyConfig
    runs: dict[str, Run]
    figures: dict[str, FigureConfig]
    runs_at: dict[Scale, dict[str, Run]]
    """All runs of every scale by name."""
    alignments: dict[str, AlignmentConfig]
    """All alignments that are made at this scale."""

    def runs_of(self, names: tuple[str, ...]) -> list[Run]:
        """Runs with these names, or from the entries with these names, in order of the names, each once."""
        runs = (run for name in names for run in self.runs.values() if name in (run.name, run.entry))
        return list({run.name: run for run in runs}.values())


def by_name(runs: Mapping[str, Run]) -> dict[str, list[Run]]:
    """Name of each run and of each entry -> the runs that it stands for, in order."""
    found: dict[str, list[Run]] = {}
    for run in runs.values():
        for name in dict.fromkeys((run.name, run.entry)):
            found.setdefault(name, []).append(run)
    return found


def shown_runs(studies: Mapping[str, Study], study: str, names: Iterable[str]) -> dict[str, Run]:
    """Runs that a figure of `study` names, in order, each once, under the names that they have in the figure.

    That is the run's name, or `study/run` for a run of another study. Names that no run has are passed over.
    """
    runs: dict[str, Run] = {}
    found: dict[str, dict[str, list[Run]]] = {}
    for name in names:
        other, slash, rest = name.rpartition("/")
        source = other if slash else study
        if source in studies and source not in found:
            found[source] = by_name(studies[source].runs)
        for run in found.get(source, {}).get(rest, ()):
            runs[run.name if run.study == study else f"{run.study}/{run.name}"] = run
    return runs


def legend_texts(figure: FigureConfig, runs: Mapping[str, Run]) -> dict[str, str]:
    """Name of each run in a figure -> its text in the legend: its label, that of its entry, or its name."""
    texts = {}
    for name, run in runs.items():
        folder = name.removesuffix(run.name)
        texts[name] = figure.labels.get(name, figure.labels.get(folder + run.entry, name))
    return texts


def _largest_divisor(number: int, limit: int) -> int:
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)
