"""The worked example of docs/add_a_metric.md runs as it is written."""

import re
from pathlib import Path

import numpy as np

from bnn_atlas.metrics.formulas import classification

PAGE = Path(__file__).parents[2] / "docs" / "add_a_metric.md"


def test_the_formula_and_its_test_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    formula, test = blocks[0], blocks[-1]
    names = vars(classification).copy()
    exec(formula, names)
    exec(test.replace("classification.", ""), names)
    names["test_spherical_score_by_hand"]()
    assert np.isfinite(names["spherical_rows"](np.array([[0.5, 0.5]]), np.array([0]))).all()


def test_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:src|tests|docs)/[\w/.]+)`", PAGE.read_text(encoding="utf-8")))
    assert len(named) == 5
    assert all((PAGE.parents[1] / name).is_file() for name in named)
    rooms = re.findall(r"`((?:formulas|gathering|judgement)/\w+\.py)", PAGE.read_text(encoding="utf-8"))
    assert all((PAGE.parents[1] / "src/bnn_atlas/metrics" / name).is_file() for name in rooms)
