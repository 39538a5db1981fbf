"""One row per run of a study: its values in the grid and its main settings."""

from typing import Any

from bnn_atlas.config.runs.expansion import leaves
from bnn_atlas.config.runs.studies import Run, Study

SECTIONS = ("split", "likelihood", "prior", "method", "warmstart", "stopping", "referee")
"""Sections whose settings get a column each."""


def run_rows(study: Study) -> list[dict[str, Any]]:
    """Column -> value for each run of a study at its scale; settings that a run does not have are left out of its row.

    Columns are named as in the study's file (`prior.scale`, `method.step_size`); fields of the grid that are not
    among them come after the name of the run.
    """
    fields = list(dict.fromkeys(field for run in study.runs.values() for field in run.point))
    return [_row(run, fields) for run in study.runs.values()]


def _row(run: Run, fields: list[str]) -> dict[str, Any]:
    config = run.config
    settings = {
        "dataset": config.dataset,
        "model": config.model.label,
        "temperature": config.temperature,
        "seed": config.seed,
        "chains": config.chains,
    }
    dump = config.model_dump(mode="json", include=set(SECTIONS))
    for section in SECTIONS:
        settings |= {f"{section}.{key}": _text(value) for key, value in leaves(dump[section] or {})}
    point = {field: _text(run.point.get(field)) for field in fields if field not in settings}
    return {
        "study": run.study,
        "run": run.name,
        "entry": run.entry,
        "scale": run.scale,
        **point,
        **settings,
        "reductions": "; ".join(run.reductions),
    }


def _text(value: Any) -> Any:
    """Lists as `16x16`, all else as it is."""
    return "x".join(map(str, value)) if isinstance(value, list) else value
