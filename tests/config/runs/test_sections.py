"""Mistakes in permuted warm starts and in a figure's section `functions`, where a run or a data set shows them."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS, RUN, Edit, nothing, run_edit, study_file

LINE = {"inputs": "line", "chains": None}


def network(**model: Any) -> Edit:
    """Permuted warm starts of member 9 for another network."""
    return run_edit(model=model, warmstart={**RUN["warmstart"], "permuted": 9})


def functions(**section: Any) -> Edit:
    """The figure `curve` with the section."""
    return lambda study: study["figures"]["curve"].update(draw="values", functions=section)


def load(folder: Path, edit: Edit, inputs: int = 10) -> Any:
    datasets = {name: entry.model_copy(update={"inputs": inputs}) for name, entry in DATASETS.items()}
    return load_study(study_file(folder, edit), "paper", datasets)


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (network(kind="mlp", hidden=[]), ("runs.one", "permuted (9) needs hidden units", "not 'mlp linear relu'")),
        (network(kind="lenetti"), ("runs.one", "for model.kind 'mlp'", "not 'lenetti sigmoid'", "set it to null")),
        (run_edit(warmstart={"permuted": -1}), ("runs.one.warmstart.permuted = -1", "greater than or equal to 0")),
        (functions(**LINE), ("figures.curve.functions.inputs = 'line'", "'diabetes' (run one)", "[10]", "use 'test'")),
        (functions(inputs="line", low=2, high=1), ("figures.curve.functions", "low (2.0) must be below high (1.0)")),
        (functions(inputs="grid"), ("figures.curve.functions.inputs = 'grid'", "'test' or 'line'")),
        (functions(), ("figures.curve.functions.inputs: this key is missing",)),
        (
            lambda study: study["figures"]["curve"].update(draw="toy_bands", functions=LINE),
            ("figures.curve.runs", "'one' is on 'diabetes'", "'toy_bands'", "generate.kind 'sinusoids'"),
        ),
    ],
)
def test_mistake_is_named(tmp_path: Path, edit: Edit, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, edit)
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def test_right_settings_pass(tmp_path: Path) -> None:
    run = load(tmp_path, network(kind="mlp", hidden=[3])).runs["one"]
    assert run.config.warmstart.permuted == 9
    assert load(tmp_path, nothing).runs["one"].config.warmstart.permuted is None
    section = load(tmp_path, functions(**LINE), inputs=1).figures["curve"].functions
    assert (section.inputs, section.chains, section.draws, section.points) == ("line", None, 50, 200)
    assert load(tmp_path, functions(inputs="test")).figures["curve"].functions.rows == 300
