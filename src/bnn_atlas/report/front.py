"""Pictures of the documentation, from the demo: the README's, with a record of what it was drawn from, and small ones.

`make picture` draws them again, and `python -m bnn_atlas.report.front` copies them to docs/images.
"""

import itertools
from pathlib import Path

from PIL import Image

from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.pages.schema import PICTURES
from bnn_atlas.config.runs.studies import Scale, shown_runs
from bnn_atlas.config.settings import load_studies, load_study
from bnn_atlas.figures.metadata import stamp_png
from bnn_atlas.provenance import fingerprint
from bnn_atlas.sources import PACKAGE, code_digest

STUDY, FIGURE = "sampling_perspective", "fireball"
SCALE: Scale = "demo"
SOURCE = Path(f"results/{SCALE}/figures/{STUDY}/{FIGURE}.png")
PICTURE = Path(f"docs/images/{FIGURE}.png")
CHUNK = "Drawn from"
"""Key of the PNG text chunk with `origin`."""


def origin(config: Path) -> str:
    """Hash of what the picture shows and of the code that draws it: equal on every machine.

    It covers the settings that differ from their defaults, and the definitions in `figures` that draw the picture
    (`sources.code_digest`), so that edits which cannot change the picture leave its hash as it is. `config` is the
    folder config/.
    """
    study = load_study(config / "studies" / f"{STUDY}.yaml", SCALE, load_registry(config / "datasets.yaml"))
    figure = study.figures[FIGURE]
    runs = shown_runs({STUDY: study}, STUDY, figure.runs)
    of_figure = figure.model_dump(mode="json", exclude_defaults=True, exclude={"caption"})
    of_runs = {
        name: run.config.model_dump(mode="json", exclude_defaults=True, exclude={"description", "evaluate"})
        for name, run in runs.items()
    }
    others = [f"bnn_atlas.{file.stem}" for file in PACKAGE.iterdir() if file.stem != "figures"]
    code = code_digest(f"bnn_atlas.figures.kinds.{figure.draw}:{figure.draw}", without=others)
    return fingerprint({"figure": of_figure, "runs": of_runs, "code": code})


def write_picture(source: Path, destination: Path, config: Path) -> None:
    """Copy a figure with its text chunks, and add its origin."""
    with Image.open(source) as image:
        text = {str(key): str(value) for key, value in image.info.items() if isinstance(value, str)}
    destination.write_bytes(source.read_bytes())
    stamp_png(destination, {**text, CHUNK: origin(config)})


WIDTHS, COLOURS, LARGEST = (320, 240, 160), (32, 16, 8), 11_000
"""Widths of a small picture in pixels and its numbers of colours, of which the first that fit into `LARGEST` bytes are
taken: all pictures together are then below 700 kB."""


def write_kinds(results: Path, destination: Path, config: Path) -> None:
    """Write a small `<kind>.png` for each kind of figure whose picture is among the results of the demo."""
    studies = load_studies(sorted((config / "studies").glob("*.yaml")), load_registry(config / "datasets.yaml"))[SCALE]
    destination.mkdir(parents=True, exist_ok=True)
    for study in studies.values():
        for name, figure in study.figures.items():
            source, picture = results / "figures" / study.name / f"{name}.png", destination / f"{figure.draw}.png"
            if source.is_file():
                with Image.open(source) as image:
                    write_small(image, picture)


def write_small(image: Image.Image, destination: Path) -> None:
    """Write an image with as many columns and colours as `LARGEST` bytes allow."""
    for width, colours in itertools.product(WIDTHS, COLOURS):
        size = width, max(1, round(image.height * width / image.width))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        small.quantize(colours, dither=Image.Dither.NONE).save(destination, optimize=True)
        if destination.stat().st_size < LARGEST:
            return


if __name__ == "__main__":
    write_picture(SOURCE, PICTURE, Path("config"))
    write_kinds(Path(f"results/{SCALE}"), PICTURES, Path("config"))
