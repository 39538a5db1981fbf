"""Configuration folders with one small study, for tests that change one thing in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.runs.studies import Scale, Study
from bnn_atlas.config.settings import load_studies

REPOSITORY = Path(__file__).parents[2]

RUN: dict[str, Any] = {
    "description": "a small run",
    "dataset": "diabetes",
    "split": {"test": 0.2, "validation": 0.1},
    "model": {"kind": "mlp", "hidden": [4, 4]},
    "likelihood": {"kind": "gaussian", "sigma": 0.5},
    "warmstart": {"max_epochs": 5},
    "method": {"kind": "mclmc", "warmup": 1000, "steps": 100, "thinning": 10},
    "chains": 4,
}
STUDY: dict[str, Any] = {
    "title": "A study",
    "paper": "Nobody, 2000",
    "runs": {"one": RUN},
    "figures": {"curve": {"runs": ["one"], "labels": {"one": "First"}}},
}
CLAIM: dict[str, Any] = {
    "read_in": "table",
    "place": "Table 1",
    "statement": "RMSE is small",
    "metric": "rmse",
    "runs": ["one"],
    "relation": "at_most",
    "bound": 0.5,
    "basis": "half",
}
REGISTRY: dict[str, Any] = {
    name: {"task": "regression", "target": "y", "bundled": "diabetes", "rows": 442, "inputs": 10, "licence": "public"}
    for name in ("diabetes", "other")
}
REGISTRY["words"] = REGISTRY["other"] | {"task": "classification", "classes": ["no", "yes"]}
DATASETS = {name: DatasetEntry.model_validate(entry) for name, entry in REGISTRY.items()}

HMC = {"kind": "hmc", "step_size": 0.1, "trajectory_length": 1.0}
Edit = Callable[[dict[str, Any]], None]


@contextmanager
def refused(*parts: object) -> Iterator[pytest.ExceptionInfo[ConfigError]]:
    """What is done within it is refused with a message that has all these parts."""
    with pytest.raises(ConfigError) as caught:
        yield caught
    missing = [part for part in parts if str(part) not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def nothing(data: dict[str, Any]) -> None:
    """Leave everything as it is."""


def study_file(folder: Path, edit: Edit = nothing) -> Path:
    """Write the study `small`, changed by `edit`, and give its path."""
    data = deepcopy(STUDY)
    edit(data)
    path = folder / "studies" / "small.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def run_edit(**changes: Any) -> Edit:
    """Replace keys of the run `one`; None deletes a key."""

    def edit(study: dict[str, Any]) -> None:
        run = study["runs"]["one"]
        for key, value in changes.items():
            if value is None:
                del run[key]
            else:
                run[key] = value

    return edit


def nested(section: str, **changes: Any) -> Edit:
    """Change keys of one section of the run `one`."""
    return run_edit(**{section: {**RUN[section], **changes}})


def figure(**changes: Any) -> Edit:
    """Change the figure `curve`."""
    return lambda study: study["figures"]["curve"].update(changes)


def figures(**entries: Any) -> Edit:
    """Add figures."""
    return lambda study: study["figures"].update(entries)


def studies(
    folder: Path, runs: dict[str, Any], scale: Scale = "paper", figures: Any = None, **others: Any
) -> dict[str, Study]:
    """The study `small` with these runs and figures, and other studies with theirs, at one scale."""
    paths = []
    for name, own in {"small": runs, **others}.items():
        paths.append(folder / f"{name}.yaml")
        written = STUDY | {"runs": own, "figures": (figures or {}) if name == "small" else {}}
        paths[-1].write_text(yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    return load_studies(paths, DATASETS)[scale]


def config_folder(folder: Path, edit: Edit = nothing) -> Path:
    """Write a whole configuration folder: registry, the study `small`, and claims."""
    study_file(folder, edit)
    (folder / "datasets.yaml").write_text(yaml.safe_dump(REGISTRY), encoding="utf-8")
    (folder / "claims").mkdir(exist_ok=True)
    claims = {"paper": "Nobody, 2000", "claims": {"small_error": CLAIM}}
    (folder / "claims" / "small.yaml").write_text(yaml.safe_dump(claims), encoding="utf-8")
    return folder
