"""Settings of figures, and the needs of each kind, read from the kinds' modules without importing these."""

import ast
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from bnn_atlas.config.language.base import (
    MOST,
    ConfigError,
    Count,
    CountOrNone,
    Model,
    Number,
    Positive,
    Text,
    did_you_mean,
    near_or_all,
    validated,
)
from bnn_atlas.config.methods.base import KindOfDraws

FIGURES = Path(__file__).parents[2] / "figures"
"""Folder whose subfolders hold the kinds: `kinds` for all studies, and one subfolder for the kinds of each study."""
ONE, SEVERAL = "KIND", "KINDS"
"""Names that a module assigns at its top level. `KIND` is a literal dictionary with the given fields of `Kind`, for the
kind named after the module; `KINDS` is a dictionary with such a literal for each of several kinds."""

FILES = {
    "table": "metrics/metrics.parquet",
    "rates": "metrics/rates.parquet",
    "parameters": "metrics/parameters.parquet",
    "function_values": "metrics/functions.parquet",
    "chains": "metrics/chains.parquet",
    "samplers": "metrics/samplers.parquet",
    "curves": "metrics/curves.parquet",
    "e_values": "metrics/e_values.parquet",
    "entropies": "metrics/entropies.parquet",
    "fit": "block0/fit.npz",
    "predictive": "predictive/test.npz",
    "sets": "metrics/sets.parquet",
    "predictive_sets": "predictive/sets",
    "referee": "metrics/referee.parquet",
    "referee_chains": "metrics/referee_chains.parquet",
    "against": "metrics/against/{reference}.parquet",
    "barriers": "metrics/barriers.parquet",
    "lines": "metrics/lines.parquet",
    "matches": "metrics/matches.parquet",
    "pruning_curves": "metrics/pruning_curves.parquet",
    "aligned": "alignment/{alignment}/metrics.parquet",
    "aligned_draws": "alignment/{alignment}/draws.npz",
    "frames": "alignment/{alignment}/frame.npz",
}
"""Name by which a figure requests files of its runs -> path below a run and split. If the path contains `{reference}`
or `{alignment}`, there is one file for each reference or alignment of the run; `predictive_sets` is a folder with
`<set>.npz` for each further set."""
OF_SETS = ("sets", "predictive_sets")
"""Files that exist only for runs with further sets of rows."""

Need = Literal[
    "chains", "several draws", "several chains", "one split", "one input", "one hidden layer", "normal prior",
    "energy variance", "permuted copies", "points inside lines", "prior scale", "other data",
]  # fmt: skip
"""Conditions on the runs of a figure; `config.checks.figures.HAS` defines how each is checked."""
Section = Literal["subset", "grid", "functions", "surface"]


def _in_files(name: str) -> str:
    if name not in FILES:
        raise ValueError(f"no such file of a run{near_or_all(name, 'there are', FILES)}")
    return name


FileName = Annotated[str, AfterValidator(_in_files)]


def _need_not_be(name: str) -> str:
    if "{" not in FILES[name] and name not in OF_SETS:
        raise ValueError(f"every run has the file '{name}'; name it in files")
    return name


OptionalName = Annotated[FileName, AfterValidator(_need_not_be)]


class Kind(Model):
    """Requirements of a kind of figure."""

    name: str
    """Name of the kind, and of the function in the module that draws it."""
    module: str
    sections: tuple[Section, ...] = ()
    """Sections that an entry must give; the figure gets a file for each."""
    files: tuple[FileName, ...] = ()
    """Further files of each run and split that it reads, by their names in `FILES`."""
    files_if_any: tuple[OptionalName, ...] = ()
    """Files of further sets and references that it reads if a run has them."""
    runs: Literal["some", "one", "none"] = "some"
    """How many runs it shows; `none` is for figures of formulas."""
    task: Literal["regression", "classification"] | None = None
    """The task that its runs must have; null takes both."""
    methods: tuple[str, ...] = ()
    """Methods that its runs may have; if left out, any method."""
    needs: tuple[Need, ...] = ()
    """Conditions that every run must meet."""
    some: tuple[Need, ...] = ()
    """Conditions that at least one run must meet."""
    inputs: Literal["test", "line"] | None = None
    """Required value of `functions.inputs`."""
    alignments: tuple[Count, Count] | None = None
    """Smallest and largest number of alignments that it shows, counting each split."""
    along: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Settings along its axes -> allowed words, for settings that are not numbers; the runs must vary at least one of
    these settings."""
    levels: KindOfDraws | None = None
    """Runs with draws of this kind are shown as horizontal lines, without a position along an axis."""
    same: tuple[Literal["task", "dataset", "network"], ...] = ()
    """Properties that must be the same in all runs."""
    apart: tuple[Literal["label", "title", "dataset", "prior scale", "width", "method"], ...] = ()
    """Properties that distinguish its panels: no two combinations of run and split may have all of them in common. A
    `title` is label and split; if `method` is among these properties, each panel needs all methods."""
    reference: Literal["one", "at most one"] | None = None
    """`one`: those that have references need exactly one in common, or
    one that the figure shows; `at most one`: no run may have several."""
    least: Count = 1
    most: int | None = None
    """Smallest and largest number of runs that it shows, counting each split; null leaves this to the drawing code."""
    most_labels: int | None = None
    """Largest number of labels that it can distinguish; null leaves this to the drawing code."""
    ensemble: Literal["beside samplers", "beside one sampler"] | None = None
    """Whether sampled runs stand beside a deep ensemble: at least one of each, or one sampling method alone or with
    ensembles."""
    repeats: tuple[
        Literal[
            "figure", "label", "row", "column", "dataset", "method", "line", "place", "depth", "prior scale",
            "energy variance", "generator",
        ],
        ...,
    ] = ()  # fmt: skip
    """Runs that agree in these are repetitions of one setting, and may differ in seeds only; in a `figure` all runs do.
    A `row` is a label or, without one, the data set, network and likelihood; a `column` is a label or, without one, the
    data set; a `line` is a label or, without one, an entry; a `place` is what `along` names; a `generator` is that
    of an implicit run, with its entropies and the sigma of its noise."""
    shifts: tuple[Literal["rotations", "corruptions", "dead_pixels", "live_pixels"], ...] = ()
    """Kinds of shifts that its runs must have in evaluate.shifts; all runs need the same shifts."""
    most_other_data: int | None = None
    """Largest number of different out-of-distribution data sets among its runs."""
    most_datasets: int | None = None
    """Largest number of different data sets among its runs."""
    generated: str | None = None
    """Required kind of generator of its runs' data sets, if it draws the function that generated the rows."""
    claims: bool = False
    """Whether it reads the table of the study's judged claims; a claim cannot name such a figure."""
    diverged: Literal["left out", "panel"] = "left out"
    """What becomes of a run that diverged, if the kind reads the metric tables of its runs: it is left out, which a
    note says, or it has a panel of its own, which the kind leaves to `figures.page.not_shown`."""
    output: Literal["picture", "table"] = "picture"
    columns: Annotated[tuple[str, ...], BeforeValidator(lambda text: tuple(text.split()))]
    """Columns of its CSV file, in order, separated by blanks."""

    @property
    def endings(self) -> tuple[str, ...]:
        """File endings of its outputs; the report shows the last one."""
        return ("tex", "csv") if self.output == "table" else ("pdf", "csv", "png")


PERIODS, VARIANCE = "method.quarter_periods", "prior.variance"
"""Settings that are computed from other settings if a run does not give them."""


def setting(name: str, point: Mapping[str, Any], settings: Mapping[str, Any], prior_sd: float | None) -> Any:
    """The value of a setting such as `prior.scale` in a run; None if it has none.

    The value is taken from the run's grid point, or else from its settings, or else computed from them: the prior's
    variance is sd^2, and a trajectory length in quarter periods is length / (pi / 2 sd sqrt(T)), with sd the standard
    deviation of a normal prior and T the temperature.
    """
    if (value := point.get(name)) is None and (value := _inside(settings, name)) is None and prior_sd is not None:
        length = _inside(settings, "method.trajectory_length")
        if name == VARIANCE:
            return prior_sd**2
        if name == PERIODS and length is not None:
            temperature = float(settings.get("temperature") or 1.0)
            return round(float(length) / (math.pi / 2 * prior_sd * math.sqrt(temperature)), 6)
    return value


def _inside(settings: Mapping[str, Any], dotted: str) -> Any:
    found: Any = settings
    for part in dotted.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def common_references(references: Sequence[Collection[str]], shown: Collection[str]) -> list[str]:
    """References common to all runs that have references: only the ones that the figure shows, if any, or else all."""
    first, *others = filter(None, references)
    common = [name for name in first if all(name in each for each in others)]
    return [name for name in common if name in shown] or common


@cache
def kinds(folder: Path = FIGURES) -> dict[str, Kind]:
    """Every kind in the subfolders of `folder`, by name.

    Raises ConfigError if two kinds have the same name, or if a literal is wrong or has no function in its module.
    """
    by_name: dict[str, Kind] = {}
    for file in sorted(folder.glob("*/*.py")):
        module = f"bnn_atlas.figures.{file.parent.name}.{file.stem}"
        for name, needs in _needs(file).items():
            if name in by_name:
                raise ConfigError(
                    f"{file}: {by_name[name].module} already has a kind of figure '{name}'; rename one of them"
                )
            by_name[name] = validated(Kind, {**needs, "name": name, "module": module}, f"{file}: kind '{name}'")
    return by_name


def _needs(file: Path) -> dict[str, dict[str, Any]]:
    """Name of each kind in a module -> its literal; empty for a module without kinds."""
    source = file.read_text(encoding="utf-8")
    if not any(f"\n{literal} = " in source for literal in (ONE, SEVERAL)):
        return {}
    body = ast.parse(source).body
    assigned = {name: node.value for node in body if isinstance(node, ast.Assign) for name in _names(node)}
    literal = next(name for name in (ONE, SEVERAL) if name in assigned)
    try:
        value = ast.literal_eval(assigned[literal])
    except ValueError:
        value = None
    needs = {file.stem: value} if literal == ONE else value
    if not isinstance(needs, dict) or not all(isinstance(each, dict) for each in needs.values()):
        raise ConfigError(f"{file}: {literal} is read without running the code, so it must be a literal dictionary")
    defined = [name for node in body for name in _names(node)]
    for name in needs:
        if name not in defined:
            public = [each for each in defined if not each.startswith("_")]
            raise ConfigError(
                f"{file}: no function '{name}': a kind of figure is drawn by the function of the same name"
                f"{did_you_mean(name, public)}; rename one of them"
            )
    return needs


def _names(node: ast.stmt) -> list[str]:
    """Names that a statement at the top level of a module defines."""
    match node:
        case ast.FunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
    return []


class SubsetConfig(Model):
    """Chosen parameters and draws of a pooled trace."""

    layers: tuple[int, ...] | None = None
    """Indices of layers, from 0; null takes all."""
    roles: tuple[Literal["weight", "bias", "gain", "threshold", "scale"], ...] | None = None
    """Roles of parameters; null takes all."""
    pattern: str | None = None
    """Pattern over scalar names with `*` and `?`, such as `layer*.weight[0,*]`."""
    parameters: tuple[str, ...] | None = None
    """Names of whole arrays (`layer0.weight`) or of scalars (`layer0.weight[3,2]`)."""
    per_layer: Count | None = None
    """Take at most this many scalars of each layer and role, from the start."""
    chains: Count | None = None
    """Number of chains, taken from the start (all if there are fewer); null takes all."""
    draws: tuple[CountOrNone, Count] | None = None
    """Index of the first draw, and index after the last draw; null takes all."""
    thinning: Count = 1
    """Every n-th draw is kept."""

    def _contradictions(self) -> Iterator[str]:
        if self.draws is not None and self.draws[0] >= self.draws[1]:
            yield f"draws = {list(self.draws)}: the first number must be below the second"


class GridConfig(Model):
    """Grid on which bivariate marginal densities are computed."""

    bins: Annotated[int, Field(ge=10, le=4000)] = 350
    """Cells along each axis. A figure merges neighbouring cells if there are few draws or the panels are small."""
    limit: Positive | None = None
    """Half-width of the square in parameter units; null takes the 0.1 % and 99.9 % quantiles of the draws."""
    per_layer: Count = 2
    """Number of scalars from each layer's weights and biases that are combined into pairs."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Names of scalars for x and y, such as (`layer1.weight[0,0]`, `layer1.weight[0,1]`), instead of `per_layer`."""


class FunctionsConfig(Model):
    """Functions that draws of a run represent, evaluated at some inputs in standardised units."""

    inputs: Literal["test", "line"]
    """`test`: test rows; `line`: an even grid, for data sets with a single input."""
    rows: Count | None = 300
    """`test`: at most this many rows, evenly spaced; null takes all."""
    low: Number = -3.0
    """`line`: first point of the grid."""
    high: Number = 3.0
    """`line`: last point of the grid."""
    points: Annotated[int, Field(ge=2, le=1_000_000)] = 200
    """`line`: number of points of the grid."""
    chains: Count | None = 4
    """Number of chains, taken from the start (all if there are fewer); null takes all."""
    draws: Count | None = 50
    """Number of draws of each chain, evenly spaced (all if there are fewer); null takes all."""

    def _contradictions(self) -> Iterator[str]:
        if self.low >= self.high:
            yield f"low ({self.low}) must be below high ({self.high})"


PLACES = ("first", "middle", "last", "best")
"""Names for particular draws of a chain."""


def _number_or_place(draw: Any) -> Any:
    """Raise ValueError unless this is the index or the name of a draw."""
    is_number = isinstance(draw, int) and not isinstance(draw, bool) and 0 <= draw <= MOST
    if not is_number and draw not in PLACES:
        raise ValueError(f"must be a whole number from 0, or one of {', '.join(PLACES)}")
    return draw


class PointConfig(Model):
    """A point of parameter space: a draw of a run."""

    run: str | None = None
    """A run with the same posterior, data and splits (`study/run` for a run of another study); null takes the figure's
    own run."""
    chain: CountOrNone = 0
    """Index of the chain or ensemble member, from 0."""
    draw: Annotated[int | Literal["first", "middle", "last", "best"], BeforeValidator(_number_or_place)] = "last"
    """Index of the draw among the kept draws, from 0; `best` is the draw with the highest log posterior of its chain.
    An optimum is the only draw of its chain."""
    label: Text | None = None
    """Text in the legend; null takes the run, chain and draw."""


class PlaneConfig(Model):
    """A plane through three points of parameter space."""

    title: Text
    """Text above the panels of this plane."""
    points: Annotated[tuple[PointConfig, ...], Field(min_length=3, max_length=3)]
    """Three points that are not on one line; the line through the first and the second is horizontal."""

    def _contradictions(self) -> Iterator[str]:
        chosen = [(point.run, point.chain, point.draw) for point in self.points]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            if chosen[i] == chosen[j]:
                yield f"points {i + 1} and {j + 1} are the same draw, but a plane needs three points: change one"


class SurfaceConfig(Model):
    """Log-likelihood and log-prior over planes through three points of parameter space."""

    planes: Annotated[tuple[PlaneConfig, ...], Field(min_length=1, max_length=4)]
    """The planes, from top to bottom."""
    resolution: Annotated[int, Field(ge=5, le=1000)] = 50
    """Points along each side of a plane."""
    margin: Annotated[float, Field(ge=0, le=100)] = 0.25
    """How far a plane reaches beyond its three points: horizontally in units of the distance between the first two,
    vertically in units of the distance of the third point from the line through them."""

    def _contradictions(self) -> Iterator[str]:
        titles = [plane.title for plane in self.planes]
        if twice := [title for title in titles if titles.count(title) > 1]:
            yield f"two planes have the title '{twice[0]}'; give them different ones"


class FigureConfig(Model):
    """One figure of a study."""

    draw: str = ""
    """Kind of figure; if left out, the figure's name is the kind."""
    runs: tuple[str, ...] = ()
    """Names of runs, or of entries with a grid (all their runs); `study/run` for runs of another study."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Name from `runs` -> text in the legend."""
    title: Text | None = None
    """Heading on the page of results: what the figure shows, in a few words. Null takes the figure's name, with
    underscores replaced by spaces."""
    caption: Text | None = None
    """Text about this figure's runs, placed after the first sentence of the caption."""
    alignments: Annotated[tuple[str, ...], Field(exclude_if=lambda names: not names)] = ()
    """Alignments to show, if the kind shows alignments; if left out, all alignments of the runs."""
    files: tuple[FileName, ...] = ()
    """Files of each run that the figure reads in addition to the files that its kind needs."""
    subset: SubsetConfig | None = None
    """Parameters and draws that the figure shows."""
    grid: GridConfig | None = None
    """Bivariate marginal densities that the figure shows."""
    functions: FunctionsConfig | None = None
    """Functions of the draws that the figure shows."""
    surface: SurfaceConfig | None = None
    """Planes through parameter space that the figure shows."""


class FigureEntry(FigureConfig):
    """A figure as written in a study's file, with the changes at smaller scales."""

    scales: dict[Literal["laptop", "demo"], dict[str, Any] | None] = Field(default_factory=dict)
    """Scale -> fields that this scale replaces, each as a whole. Empty braces: the figure is made unchanged; null: it
    is not made; left out: the study's `scales` decide."""
