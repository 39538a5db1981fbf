"""Settings of figures, and the table of the figures that there are."""

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from bnn_atlas.config.base import Model


class SubsetConfig(Model):
    """Chosen parameters and draws of a pooled trace."""

    layers: tuple[int, ...] | None = None
    roles: tuple[Literal["weight", "bias", "gain", "threshold", "scale"], ...] | None = None
    pattern: str | None = None
    """Pattern over scalar names with `*` and `?`, such as `layer*.weight[0,*]`."""
    parameters: tuple[str, ...] | None = None
    """Names of whole arrays (`layer0.weight`) or of scalars (`layer0.weight[3,2]`)."""
    per_layer: PositiveInt | None = None
    """At most so many scalars of each layer and role, the first ones."""
    chains: PositiveInt | None = None
    """The first so many chains, or all where there are fewer; null takes all."""
    draws: tuple[NonNegativeInt, PositiveInt] | None = None
    """First draw and the one after the last; null takes all."""
    thinning: PositiveInt = 1


class GridConfig(Model):
    """Where bivariate marginal densities are accumulated."""

    bins: Annotated[int, Field(ge=10, le=4000)] = 350
    limit: PositiveFloat | None = None
    """Half-width of the square in parameter units; null takes the 0.1 % and 99.9 % quantiles of the draws."""
    per_layer: PositiveInt = 2
    """Scalars of each layer's weights and biases that enter pairs."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Names of scalars for x and y, such as (`layer1.weight[0,0]`, `layer1.weight[0,1]`), instead of `per_layer`."""


class FunctionsConfig(Model):
    """The functions that draws of a run stand for, at some inputs in standardised units."""

    inputs: Literal["test", "line"]
    """`test`: test rows; `line`: an even grid over the only input, for data sets of one input."""
    rows: PositiveInt | None = 300
    """`test`: at most so many rows, evenly chosen; null takes all."""
    low: float = -3.0
    """`line`: where the grid begins."""
    high: float = 3.0
    """`line`: where the grid ends."""
    points: Annotated[int, Field(ge=2)] = 200
    """`line`: its number of points."""
    chains: PositiveInt | None = 4
    """The first so many chains, or all where there are fewer; null takes all."""
    draws: PositiveInt | None = 50
    """So many draws of each chain, evenly spaced, or all where there are fewer; null takes all."""

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low ({self.low}) must be below high ({self.high})")
        return self


class FigureConfig(Model):
    """What one figure shows."""

    runs: tuple[str, ...] = ()
    """Names of runs or of grids (all their runs)."""
    labels: dict[str, str] = Field(default_factory=dict)
    """A name among `runs` -> text in the legend."""
    subset: SubsetConfig | None = None
    grid: GridConfig | None = None
    functions: FunctionsConfig | None = None


class FigureEntry(FigureConfig):
    """A figure as it stands in a study's file, with what the smaller scales change."""

    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Fields that a scale replaces, each as a whole; null: not made there."""


Section = Literal["subset", "grid", "functions"]


class FigureRule(NamedTuple):
    """How a figure is made, by a function of its own name."""

    module: str
    """Below `bnn_atlas.figures`."""
    inputs: dict[str, str]
    """Name in `Shown.files` -> file of a run and split, below its folder; empty for a figure that shows no runs."""
    sections: tuple[Section, ...] = ()
    """Sections that the study's file must give."""
    one_run: bool = False
    r: tuple[str, ...] = ()
    """R files beside theme.R and draw.R; none for a figure by matplotlib."""
    latex: bool = False
    """A table, written as .tex and .csv."""

    @property
    def endings(self) -> tuple[str, ...]:
        """Of its files."""
        return ("tex", "csv") if self.latex else ("pdf", "png", "csv")


TABLE = {"table": "metrics/metrics.parquet"}


def _draws(figure: str) -> dict[str, str]:
    return {"draws": f"subset/{figure}.parquet"}


def _functions(figure: str) -> dict[str, str]:
    return {"functions": f"functions/{figure}.npz"}


FIGURES: dict[str, dict[str, FigureRule]] = {
    "sampling_perspective": {
        "cumulative_lppd": FigureRule("sampling_perspective.lppd", TABLE),
        "sampling_vs_ensemble": FigureRule("sampling_perspective.ensembles", TABLE),
        "prior_depth": FigureRule("sampling_perspective.prior_depth", TABLE),
        "uci_table": FigureRule("sampling_perspective.uci_table", TABLE, latex=True),
        "fireball": FigureRule(
            "sampling_perspective.fireballs", {"grid": "grid/fireball.npz"}, sections=("grid",), one_run=True
        ),
        "fireball_teaser": FigureRule(
            "sampling_perspective.teaser",
            {"grid": "grid/fireball_teaser.npz", **_draws("fireball_teaser")},
            sections=("grid", "subset"),
            one_run=True,
        ),
        "permuted_warmstarts": FigureRule(
            "sampling_perspective.permuted",
            {"predictive": "predictive/test.npz", **_functions("permuted_warmstarts")},
            sections=("functions",),
        ),
        "wasserstein": FigureRule(
            "sampling_perspective.wasserstein", _functions("wasserstein"), sections=("functions",)
        ),
        "functional_diversity": FigureRule(
            "sampling_perspective.diversity", _functions("functional_diversity"), sections=("functions",)
        ),
        "under_over": FigureRule("sampling_perspective.under_over", _functions("under_over"), sections=("functions",)),
        "nuts_vs_mean_field": FigureRule(
            "sampling_perspective.two_weights", _draws("nuts_vs_mean_field"), sections=("subset",)
        ),
        "product_weights": FigureRule(
            "sampling_perspective.products", _draws("product_weights"), sections=("subset",), one_run=True
        ),
        "weight_covariance": FigureRule(
            "sampling_perspective.weight_covariance", _draws("weight_covariance"), sections=("subset",)
        ),
        "stopping_rule": FigureRule("sampling_perspective.stopping", {"e_values": "metrics/e_values.parquet"}),
        "marginal_densities": FigureRule(
            "sampling_perspective.densities",
            _draws("marginal_densities"),
            sections=("subset",),
            r=("kernel", "marginal_densities"),
        ),
        "one_m_one": FigureRule(
            "sampling_perspective.one_m_one", _draws("one_m_one"), sections=("subset",), r=("one_m_one",)
        ),
        "bias_ridges": FigureRule(
            "sampling_perspective.ridges", _draws("bias_ridges"), sections=("subset",), r=("kernel", "bias_ridges")
        ),
        "rescaling_curve": FigureRule("sampling_perspective.rescaling", {}, r=("rescaling_curve",)),
    },
}
"""Study -> name of a figure, which is its target -> how it is made."""
