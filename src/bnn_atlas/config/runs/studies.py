"""Settings of a study: its runs and figures, as written in the file and at one scale."""

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
from bnn_atlas.config.parts.starts import InitialConfig, KeptDraws, StartConfig, StoppingConfig, WarmStartConfig
from bnn_atlas.provenance import fingerprint

Scale = Literal["demo", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
REPETITION = ("seed", "split.seed")
"""Fields that differ between repetitions of one setting; the splits of a run are repetitions too."""

Problem = Literal["as_published", "settings_unknown", "own"]
"""How a run relates to the paper's problem: all settings as published; the paper's data with unpublished settings; or a
problem of this project."""

REFEREE = "-referee"
"""Ending of the names of referees and their entries."""


class RunConfig(PosteriorConfig):
    """One setting of a study, as in the paper; `scales` gives the changes at smaller scales."""

    description: Text
    """One-line description for readers of the results."""
    problem: Annotated[Problem, Field(exclude=True)] = "own"
    """How the run relates to the paper's problem. `as_published`: the paper's problem with the published settings;
    `settings_unknown`: the paper's data, but the settings were never published; `own`: a different problem. The study's
    `problem` is the default. This is only a label: changing it makes nothing run again."""
    dataset: str
    """Name of a data set in config/datasets.yaml."""
    split: SplitConfig = SplitConfig()
    """Training, validation and test rows; by default, 20 % are test rows, and 10 % of the others are validation
    rows."""
    evaluate: EvaluationConfig = EvaluationConfig()
    """Further sets and references for scoring the run, in addition to its test rows."""
    seed: Seed = 0
    """Seed of initialisation, training and chains; seeds of further splits are derived from it."""
    warmstart: WarmStartConfig | None = None
    """Optimisation of the networks from which the chains start; null starts from the initial networks."""
    initial: Annotated[InitialConfig | None, Field(exclude_if=lambda value: value is None)] = None
    """Distribution of the initial networks, if they are not optimised; null takes the layers' own initialisers."""
    start: StartConfig | None = None
    """Positions of another run as starting points of the chains; only without a warm start."""
    method: MethodConfig
    """Method that makes the draws."""
    chains: Chains
    """Number of chains or ensemble members."""
    chains_per_block: Chains | None = None
    """Number of chains per job; null runs all chains in one job."""
    stopping: StoppingConfig | None = None
    """When a block of chains may end before its last draw; null takes all draws."""
    keep_draws: KeptDraws = "all"
    """Draws that stay on disk. With `none`, or `every: n` for every n-th draw, each job reduces the draws of its block
    to what the run's scores and figures need, and deletes the others (docs/running.md)."""
    referee: RefereeMethod | None = None
    """A method with a Metropolis test. It adds the run `<run>-referee`, which continues this run's chains from their
    last draws on the same posterior. The tables then show how far this run was from the posterior."""

    def _contradictions(self) -> Iterator[str]:
        method, prior, likelihood = self.method, self.prior.kind, self.likelihood.kind
        warmstart, start, size = self.warmstart, self.start, self.block_size
        if self.chains % size:
            fits = _largest_divisor(self.chains, size)
            must = f"chains ({self.chains}) must be a multiple of chains_per_block ({size})"
            yield f"{must}; for example chains_per_block: {fits}"
        if (jobs := self.split.count * self.blocks) > MOST_JOBS:
            product = (
                f"split.count ({self.split.count:,}) times the blocks of chains ({self.blocks:,}) makes {jobs:,} jobs"
            )
            yield f"{product}; at most {MOST_JOBS:,} are allowed: raise chains_per_block"
        if warmstart and start:
            yield "start and warmstart both set where chains start: set warmstart: null or leave start out"
        if warmstart and warmstart.patience is not None and self.split.validation == 0:
            yield "warmstart.patience needs validation rows: set split.validation above 0 or patience: null"
        if warmstart and warmstart.permuted is not None and not getattr(self.model, "hidden", ()):
            yield (
                f"warmstart.permuted ({warmstart.permuted}) needs hidden units to permute: it is for model.kind 'mlp' "
                f"with at least one hidden layer, not '{self.model.label}'; leave it out or set it to null"
            )
        if self.initial is not None and (warmstart or start):
            yield (
                "initial is for chains that start from untrained networks: set warmstart: null and "
                "leave start out, or leave initial out"
            )
        if isinstance(method, CompactConfig) and (start is None or start.draw != "last"):
            yield (
                "method.kind 'compact' is a Gaussian of another run's draws: name that run in start.run, and leave "
                "start.draw out"
            )
        if isinstance(method, CompactConfig) and method.form == "mean" and self.chains != 1:
            yield f"method.form 'mean' is a single network: set chains to 1, not {self.chains}"
        if prior == "empirical_covariance" and self.model.kind == "cnn_lstm":
            yield (
                f"prior.kind '{prior}' is for networks whose first layer is dense or a convolution of pixels, not for "
                "words: use 'normal'"
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
                "referee measures shifts in standard deviations of a chain's draws, but a chain of method.kind "
                f"'{method.kind}' is one point: leave referee out"
            )
        if self.stopping and (why := self.no_e_values()):
            yield f"stopping: {why}, or leave stopping out"
        if self.reduces_draws and (why := self._needs_draws()):
            yield f"keep_draws: {why}, or keep_draws: all"
        if self.stopping and self.blocks > 1:
            depends = "would make the number of draws depend on them"
            yield f"stopping with {self.blocks} blocks {depends}: set chains_per_block: null"
        if self.initial is not None:
            yield from self.initial.misfits(self.model, self.chains)
        if self.evaluate.barriers:
            yield from self.evaluate.barriers.misfits(self.chains, bool(getattr(self.model, "hidden", True)))
        self.resolved()

    def resolved(self) -> Self:
        """A copy in which trajectory lengths relative to the prior are replaced by numbers.

        Raises:
            ValueError: the prior has no common standard deviation to define quarter periods, or the lengths are
            incompatible.
        """
        found = {
            name: section.resolved(standard_deviation(self.prior), self.temperature)
            for name in ("method", "referee")
            if isinstance(section := getattr(self, name), LeapfrogSettings)
        }
        return self.model_copy(update=found) if found else self

    def seed_of(self, split: int) -> int:
        """Seed of initialisation, training and chains on one split, so that splits are independent repetitions.

        A run that starts from positions of another run uses different random numbers from that run, whatever the two
        seeds: otherwise, the noise that led a chain to its position would push it the same way again.
        """
        source = [] if self.start is None else [int(fingerprint(self.start.run)[:8], 16)]
        if split == 0 and not source:
            return self.seed
        import numpy as np  # takes a tenth of a second, and most plans need no further split

        return int(np.random.SeedSequence([self.seed, split, *source]).generate_state(1)[0] >> 1)

    def _needs_draws(self) -> str | None:
        """Why this run needs its draws after they have been sampled, and what to do; None if it does not."""
        needed: dict[str, tuple[object, str]] = {
            f"method.kind '{self.method.kind}' runs no Markov chains": (
                not self.method.kind_of_draws.are_chain, "choose another"
            ),
            "one chain": (self.chains == 1, "set chains to at least 2"),
            "a stopping rule reads all draws": (self.stopping, "leave stopping out"),
            "a referee continues from the last draws": (self.referee, "leave referee out"),
            "evaluate has further sets, which all draws predict": (self.evaluate.sets, "leave them out"),
            "evaluate.barriers are between draws": (self.evaluate.barriers, "leave it out"),
            "evaluate.pruning is of draws": (self.evaluate.pruning, "leave it out"),
            "its data are shared by several devices": (self.data_shards > 1, "set data_shards: 1"),
        }  # fmt: skip
        return next((f"{what}: {advice}" for what, (found, advice) in needed.items() if found), None)

    def no_e_values(self) -> str | None:
        """Why E-values of draws against the warm start are meaningless for this run; None if they are meaningful."""
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
        """Level of the stopping rule; the default level if the run has no such rule and its E-values are only shown."""
        return (self.stopping or StoppingConfig()).alpha

    @property
    def posterior(self) -> PosteriorConfig:
        """Only the settings of the posterior."""
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
    def reduces_draws(self) -> bool:
        """Whether the draws are reduced while the run is sampled, and then deleted."""
        return self.keep_draws != "all"

    @property
    def block_size(self) -> int:
        """Chains per block."""
        return self.chains_per_block or self.chains

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.chains // self.block_size

    def chain_ids(self, block: int) -> range:
        """Indices of a block's chains within the run."""
        return range(block * self.block_size, (block + 1) * self.block_size)


def _columns(rows: Any) -> Any:
    """The rows of `zipped` as dotted field -> values.

    Raises:
        ValueError: `rows` is not a list of rows, or a row has other fields than the first one.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("must be a list of rows, such as [{ seed: 1, chains: 4 }, { seed: 2, chains: 8 }]")
    for number, row in enumerate(rows, 1):
        if row.keys() != rows[0].keys():
            first, other = (", ".join(each) or "none" for each in (rows[0], row))
            raise ValueError(f"all rows must have the same fields, but row 1 has {first}, and row {number} has {other}")
    return {field: [row[field] for row in rows] for field in (rows[0] if rows else ())}


class RunEntry(RunConfig):
    """A run as written in a study's file, with its grid and the changes at smaller scales."""

    grid: dict[str, list[Any]] = Field(default_factory=dict)
    """Dotted field -> values; each combination of values is a run, named after these values."""
    zipped: Annotated[
        dict[str, list[Any]], BeforeValidator(_columns, list[Annotated[dict[str, Any], Field(min_length=1)]])
    ] = Field(default_factory=dict)
    """Rows of dotted field -> value, for fields that vary together: each row is a run, named after the row's first
    value. If there is also a `grid`, every row is combined with every point of the grid."""
    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that this scale replaces, nested as in the run (a scale may also shorten `grid` and `zipped`).
    Empty braces:
    the run takes part unchanged; null: it does not take part; left out: the study's `scales` decide."""


def _with_paper(scales: tuple[Scale, ...]) -> tuple[Scale, ...]:
    """Raise ValueError if `scales` lacks `paper`, the scale of the settings written outside `scales`."""
    if "paper" not in scales:
        raise ValueError(f"add paper: settings written outside `scales` belong to it; scales are {', '.join(SCALES)}")
    return scales


class StudyConfig(Model):
    """One file in config/studies."""

    title: Text
    """Name of the study on pages and in texts."""
    paper: Text
    """Citation."""
    differences: tuple[Text, ...] = ()
    """Differences from the paper at every scale, in one sentence each, for readers of the results."""
    problem: Problem = "own"
    """Default for the `problem` of runs."""
    published: tuple[PublishedBy, ...] = ()
    """First authors of papers whose variants of metrics are also computed for all runs of the study."""
    scales: Annotated[tuple[Scale, ...], AfterValidator(_with_paper)] = SCALES
    """Scales at which runs, alignments and figures take part, unless their own `scales` override this."""
    export: tuple[str, ...] = ()
    """Runs, or entries with a grid (all their runs), that the target `export` packs into archives for others to use."""
    runs: dict[str, RunEntry]
    """Name -> run."""
    alignments: dict[str, AlignmentEntry] = Field(default_factory=dict)
    """Name -> alignment, a common frame for the draws of a run."""
    figures: dict[str, FigureEntry] = Field(default_factory=dict)
    """Name -> figure."""

    def taking_part(self, entries: Mapping[str, RunEntry | AlignmentEntry | FigureEntry], scale: Scale) -> list[str]:
        """Names of the entries that take part at this scale."""
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
    """Changes that this scale makes to the paper's setting, as `field: paper value -> value here`."""

    @property
    def draws(self) -> int:
        """Draws per chain."""
        return int(getattr(self.config.method, "draws", 1))

    @property
    def referee(self) -> str | None:
        """Name of the referee, which continues from this run's last draws with a Metropolis test; None without one."""
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
        """Runs with these names or of entries with these names, in the order of the names, without duplicates."""
        runs = (run for name in names for run in self.runs.values() if name in (run.name, run.entry))
        return list({run.name: run for run in runs}.values())


def by_name(runs: Mapping[str, Run]) -> dict[str, list[Run]]:
    """Name of each run and of each entry -> the runs that this name refers to, in order."""
    found: dict[str, list[Run]] = {}
    for run in runs.values():
        for name in dict.fromkeys((run.name, run.entry)):
            found.setdefault(name, []).append(run)
    return found


def shown_runs(studies: Mapping[str, Study], study: str, names: Iterable[str]) -> dict[str, Run]:
    """Runs that a figure of `study` names, in order and without duplicates, keyed by their names in the figure.

    The name in a figure is the run's name, or `study/run` for a run of another study. Unknown names are ignored.
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
    """Name of each run in a figure -> its text in the legend: its own label, its entry's label, or its name."""
    texts = {}
    for name, run in runs.items():
        folder = name.removesuffix(run.name)
        texts[name] = figure.labels.get(name, figure.labels.get(folder + run.entry, name))
    return texts


def _largest_divisor(number: int, limit: int) -> int:
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)
