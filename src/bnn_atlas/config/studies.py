"""Settings of a study: its runs and figures, as in its file and at one scale."""

from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from bnn_atlas.config.base import Model, Seed
from bnn_atlas.config.evaluation import EvaluationConfig
from bnn_atlas.config.figures import FigureConfig, FigureEntry
from bnn_atlas.config.methods import NOT_CHAINS, MethodConfig
from bnn_atlas.config.posterior import NormalPrior, PosteriorConfig, StandardNormalPrior
from bnn_atlas.config.stopping import StoppingConfig
from bnn_atlas.config.training import WarmStartConfig
from bnn_atlas.data.scaling import Scaling

Scale = Literal["demo", "laptop", "paper"]


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
        if why := self.no_e_values():
            raise ValueError(f"stopping: {why}, or leave stopping out")
        if self.blocks > 1:
            raise ValueError(
                f"stopping with {self.blocks} blocks would make the number of draws depend on them: set "
                "chains_per_block: null"
            )
        return self

    def seed_of(self, split: int) -> int:
        """Seed of initialisation, training and chains on one split, so that splits are independent repetitions."""
        return self.seed if split == 0 else int(np.random.SeedSequence([self.seed, split]).generate_state(1)[0] >> 1)

    def no_e_values(self) -> str | None:
        """Why E-values of draws against the warm start would say nothing of this run; None where they do."""
        if isinstance(self.method, NOT_CHAINS):
            return f"E-values are for Markov chains, which method.kind '{self.method.kind}' has not: choose another"
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
    differences: tuple[str, ...] = ()
    """What is done otherwise than in the paper at every scale, a sentence each, for readers of results."""
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
    runs_at: dict[Scale, dict[str, Run]]
    """All runs of every scale by name."""

    def runs_of(self, names: tuple[str, ...]) -> list[Run]:
        """Runs with these names, or from the entries with these names, in order of the names, each once."""
        found = [run for name in names for run in self.runs.values() if name in (run.name, run.entry)]
        return list({run.name: run for run in found}.values())

    def labels_of(self, figure: FigureConfig) -> dict[str, str]:
        """Name of each run of a figure -> its text in the legend: its label, that of its entry, or its name."""
        labels = figure.labels
        return {run.name: labels.get(run.name, labels.get(run.entry, run.name)) for run in self.runs_of(figure.runs)}


def _largest_divisor(number: int, limit: int) -> int:
    return max(d for d in range(1, min(number, limit) + 1) if number % d == 0)
