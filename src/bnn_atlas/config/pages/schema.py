"""JSON schemas of the configuration files, for editors and validators, and the documentation pages about these files.

`python -m bnn_atlas.config.pages.schema` writes workflow/schemas, docs/configuration and docs/figures.md.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from bnn_atlas.config.checks.figures import conditions
from bnn_atlas.config.claims.load import ClaimsFile
from bnn_atlas.config.data.datasets import RegistryFile
from bnn_atlas.config.pages.configuration import Reference
from bnn_atlas.config.parts.figures import Kind, kinds
from bnn_atlas.config.runs.studies import StudyConfig
from bnn_atlas.config.settings import Settings
from bnn_atlas.files import atomic

PICTURES = Path("docs/images/kinds")
"""Folder with `<kind>.png` for each kind of figure that the demo draws."""
HEAD = """# Kinds of figures

Any study can draw any of these kinds ([how](add_a_figure.md)). A figure takes runs (`runs:`), and some kinds need
further sections. Runs that do not suit a kind are rejected when the configuration is read. The small pictures come from
the demo.

Generated from the `KIND` of each module in `src/bnn_atlas/figures/` and the captions in `workflow/report/` by
`python -m bnn_atlas.config.pages.schema`.
"""


def figures_page(repository: Path = Path()) -> str:
    """Text of docs/figures.md."""
    return "\n".join([HEAD, *(_entry(kind, repository) for _, kind in sorted(kinds().items()))])


def _entry(kind: Kind, repository: Path) -> str:
    """A heading, the first sentence of the caption, the picture, and the sections and runs that suit the kind."""
    caption = (repository / "workflow/report" / f"{kind.name}.rst").read_text(encoding="utf-8")
    picture = PICTURES / f"{kind.name}.png"
    runs = {"some": "runs", "one": "one run", "none": "no runs"}[kind.runs]
    takes = [runs, *(f"the section `{name}`" for name in kind.sections)]
    lines = [f"## {kind.name}", "", " ".join(caption.partition("\n\n")[0].split()).strip("*"), ""]
    if (repository / picture).is_file():
        lines += [f"![{kind.name}]({picture.relative_to('docs')})", ""]
    lines.append(f"- Takes: {', '.join(takes)}{' (a table)' if kind.output == 'table' else ''}")
    if found := conditions(kind):
        lines.append(f"- Fits: {'; '.join(found)}")
    return "\n".join(lines) + "\n"


MODELS: dict[str, type[BaseModel]] = {
    "config": Settings,
    "datasets": RegistryFile,
    "study": StudyConfig,
    "claims": ClaimsFile,
}


def schema(name: str) -> str:
    """Text of one schema file."""
    return json.dumps(MODELS[name].model_json_schema(), indent=2, sort_keys=True) + "\n"


def write_schemas(folder: Path) -> None:
    """Write `<name>.schema.json` for every model into `folder`."""
    for name in MODELS:
        with atomic(folder / f"{name}.schema.json") as temporary:
            temporary.write_text(schema(name), encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path("workflow/schemas"))
    for name, page in Reference(Path("config")).pages().items():
        with atomic(Path("docs/configuration") / name) as file:
            file.write_text(page, encoding="utf-8")
    with atomic(Path("docs/figures.md")) as file:
        file.write_text(figures_page(), encoding="utf-8")
