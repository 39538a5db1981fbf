"""The kinds of figures and what each needs, read from their modules without importing them."""

import ast
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from bnn_atlas.config.language.base import ConfigError, Model, did_you_mean, near_or_all, validated

FIGURES = Path(__file__).parents[2] / "figures"
"""Its folders hold the kinds, each in a file of its name: `kinds` those of all studies, others those of one study."""
LITERAL = "KIND"
"""What a kind's module assigns at its top level: a literal with the fields of `Kind` that are not left out."""

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
    "norms": "metrics/norms.parquet",
    "pruning_curves": "metrics/pruning_curves.parquet",
    "aligned": "alignment/{alignment}/metrics.parquet",
    "aligned_draws": "alignment/{alignment}/draws.npz",
    "frames": "alignment/{alignment}/frame.npz",
}
"""Name under which a figure asks for files of its runs -> path below a run and split. Where it holds `{reference}` or
`{alignment}` there is one file for each reference or alignment of the run; `predictive_sets` is a folder with
`<set>.npz` for each further set."""
OF_SETS = ("sets", "predictive_sets")
"""Those that a run without further sets does not have."""

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
    """What a kind of figure needs."""

    name: str
    """Name of the kind, of its file and of the function that draws it."""
    module: str
    sections: tuple[Section, ...] = ()
    """Sections that an entry must give; the figure gets a file for each."""
    files: tuple[FileName, ...] = ()
    """Further files of each run and split, by their names in `FILES`."""
    files_if_any: tuple[OptionalName, ...] = ()
    """The same of those of further sets and references, which a run need not have."""
    runs: Literal["some", "one", "none"] = "some"
    """How many runs it shows; `none` is for formulas."""
    generated: str | None = None
    """Kind of the generator that the data sets of its runs must have, where it draws the function behind their rows."""
    claims: bool = False
    """Whether it reads the table of the study's judged claims; no claim can name such a figure."""
    output: Literal["picture", "table"] = "picture"

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of its files; the report shows the last one."""
        return ("tex", "csv") if self.output == "table" else ("pdf", "csv", "png")


@cache
def kinds(folder: Path = FIGURES) -> dict[str, Kind]:
    """Every kind in the subfolders of `folder`, by name.

    Raises ConfigError where two files have one name, and for a literal that is wrong or has no function beside it.
    """
    by_name: dict[str, Kind] = {}
    for file in sorted(folder.glob("*/*.py")):
        needs = _needs(file)
        if needs is None:
            continue
        if file.stem in by_name:
            raise ConfigError(
                f"{file}: {by_name[file.stem].module} is already a kind of figure with this name; rename one of them"
            )
        module = f"bnn_atlas.figures.{file.parent.name}.{file.stem}"
        by_name[file.stem] = validated(Kind, {**needs, "name": file.stem, "module": module}, f"{file}: {LITERAL}")
    return by_name


def _needs(file: Path) -> dict[str, Any] | None:
    """The literal of a kind's module; None for a module that is not a kind."""
    source = file.read_text(encoding="utf-8")
    if f"\n{LITERAL} = " not in source:
        return None
    body = ast.parse(source).body
    needs = next((node.value for node in body if isinstance(node, ast.Assign) and LITERAL in _names(node)), None)
    if needs is None:
        return None
    try:
        literal = ast.literal_eval(needs)
    except ValueError:
        literal = None
    if not isinstance(literal, dict):
        raise ConfigError(f"{file}: {LITERAL} is read without running the code; write a literal dictionary")
    defined = [name for node in body for name in _names(node)]
    if file.stem not in defined:
        public = [name for name in defined if not name.startswith("_")]
        raise ConfigError(
            f"{file}: no function '{file.stem}': a kind of figure is drawn by the function with the name of its "
            f"file{did_you_mean(file.stem, public)}; rename one of them"
        )
    return literal


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
