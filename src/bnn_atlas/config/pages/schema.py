"""JSON schemas of the configuration files, for editors and validators, and the pages about them for readers.

`python -m bnn_atlas.config.pages.schema` writes workflow/schemas, docs/configuration and docs/figures.md.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from bnn_atlas.config.claims.load import ClaimsFile
from bnn_atlas.config.data.datasets import RegistryFile
from bnn_atlas.config.pages import figures
from bnn_atlas.config.pages.configuration import Reference
from bnn_atlas.config.runs.studies import StudyConfig
from bnn_atlas.config.settings import Settings
from bnn_atlas.files import atomic

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
        file.write_text(figures.page(), encoding="utf-8")
