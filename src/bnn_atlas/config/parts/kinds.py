"""The kinds of figures and what each needs, read from their modules without importing them."""

import ast
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from bnn_atlas.config.language.base import ConfigError, Model, did_you_mean, near_or_all, validated

FIGURES = Path(__file__).parents[2] / "figures"
"""Its folders hold the kinds: `kinds` those of all studies, others those of one study."""
ONE, SEVERAL = "KIND", "KINDS"
"""What a module assigns at its top level: a literal with the fields of `Kind` that are not left out, for the kind of
its name, or a dictionary with such a literal for each of several kinds."""

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
    """Name of the kind, and of the function of the module that draws it."""
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

    Raises ConfigError where two kinds have one name, and for a literal that is wrong or has no function beside it.
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
    """Name of a kind of a module -> its literal; empty for a module without kinds."""
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
        raise ConfigError(f"{file}: {literal} is read without running the code; write a literal dictionary")
    defined = [name for node in body for name in _names(node)]
    for name in needs:
        if name not in defined:
            public = [each for each in defined if not each.startswith("_")]
            raise ConfigError(
                f"{file}: no function '{name}': a kind of figure is drawn by the function of its name"
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
