"""The picture at the head of the README: a figure of the demo, with what it was drawn from.

`make picture` draws it again, and `python -m bnn_atlas.gallery.front` copies it to docs/images.
"""

import ast
import hashlib
from pathlib import Path

from PIL import Image

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.runs.studies import Scale, shown_runs
from bnn_atlas.config.settings import load_study
from bnn_atlas.figures.metadata import stamp_png
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import PACKAGE, PLUMBING, code_of

STUDY, FIGURE = "sampling_perspective", "fireball"
SCALE: Scale = "demo"
SOURCE = Path(f"results/{SCALE}/figures/{STUDY}/{FIGURE}.png")
PICTURE = Path(f"docs/images/{FIGURE}.png")
CHUNK = "Drawn from"
"""Key of the PNG text chunk that holds `origin`."""


def origin(config: Path) -> str:
    """Hash of what the picture shows and of the code that draws it: equal on every machine.

    Of settings those count that differ from their defaults, and of code neither comments nor docstrings, so that a
    picture stays in step with edits that cannot change it. `config` is the folder config/.
    """
    study = load_study(config / "studies" / f"{STUDY}.yaml", SCALE, load_registry(config / "datasets.yaml"))
    figure = study.figures[FIGURE]
    runs = shown_runs({STUDY: study}, STUDY, figure.runs)
    of_figure = figure.model_dump(mode="json", exclude_defaults=True, exclude={"caption"})
    of_runs = {
        name: run.config.model_dump(mode="json", exclude_defaults=True, exclude={"description", "evaluate"})
        for name, run in runs.items()
    }
    drawing = code_of(f"bnn_atlas.figures.kinds.{figure.draw}", without=(*PLUMBING, "bnn_atlas.config"))
    code = {str(file.relative_to(PACKAGE)): _code(file) for file in drawing if "figures" in file.parts}
    return fingerprint({"figure": of_figure, "runs": of_runs, "code": code})


def write_picture(source: Path, destination: Path, config: Path) -> None:
    """Copy a figure with its text chunks and its origin beside them."""
    with Image.open(source) as image:
        text = {str(key): str(value) for key, value in image.info.items() if isinstance(value, str)}
    destination.write_bytes(source.read_bytes())
    stamp_png(destination, {**text, CHUNK: origin(config)})


def _code(file: Path) -> str:
    """Hash of the lines of a module that are neither empty nor comments nor part of a docstring."""
    text = file.read_text(encoding="utf-8")
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    kept = [line for number, line in lines if number not in described and line.strip() and line.strip()[0] != "#"]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


if __name__ == "__main__":
    write_picture(SOURCE, PICTURE, Path("config"))
