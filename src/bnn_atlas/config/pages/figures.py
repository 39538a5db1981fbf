"""The page of all kinds of figures: what each shows and takes, which runs it fits, and a small picture."""

from pathlib import Path

from bnn_atlas.config.checks.figures import conditions
from bnn_atlas.config.parts.figures import Kind, kinds

PICTURES = Path("docs/images/kinds")
"""Folder with `<kind>.png` for each kind that the demo draws."""
HEAD = """# Kinds of figures

Any study can draw any of these kinds ([how](add_a_figure.md)). A figure takes runs (`runs:`), and some kinds take a
section of their own; runs that a kind does not fit are refused when the configuration is read. The small pictures come
from the demo.

Made from the `KIND` of each module in `src/bnn_atlas/figures/` and the captions in `workflow/report/` by
`python -m bnn_atlas.config.pages.schema`.
"""


def page(repository: Path = Path()) -> str:
    """Text of docs/figures.md."""
    return "\n".join([HEAD, *(_entry(kind, repository) for _, kind in sorted(kinds().items()))])


def _entry(kind: Kind, repository: Path) -> str:
    """A heading, the first sentence of the caption, the picture, and what the kind takes and fits."""
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
