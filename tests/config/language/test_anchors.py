"""Settings that runs share through anchors."""

from pathlib import Path

from bnn_atlas.config.language.reading import shared_anchors
from bnn_atlas.config.settings import load_study
from tests.config.folders import DATASETS

STUDY = """
title: A study
paper: Nobody, 2000
runs:
  one: &one
    description: the first
    dataset: diabetes
    model: { hidden: [4] }
    likelihood: { kind: gaussian }
    prior: &wide { kind: normal, scale: 2.0 }
    warmstart: { max_epochs: &epochs 5 }
    method: { kind: hmc, step_size: 0.1, trajectory_length: 1.0 }
    chains: 2
  two: { <<: *one, description: the second, chains: 4 }
  three: { <<: *one, description: the third, prior: &alone { kind: standard_normal } }
  four:
    description: the fourth
    dataset: diabetes
    model: { hidden: [8] }
    likelihood: { kind: gaussian }
    prior: *wide
    method: { kind: mean_field, epochs: *epochs }
    chains: 2
figures: {}
"""


def study(folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_anchors_that_several_runs_have(tmp_path: Path) -> None:
    found = {anchor.name: anchor for anchor in shared_anchors(study(tmp_path))}
    assert {name: anchor.entries for name, anchor in found.items()} == {
        "one": ("one", "two", "three"),
        "wide": ("one", "two", "three", "four"),
        "epochs": ("one", "two", "three", "four"),
    }
    assert {"prior", "scale", "method", "hidden", "max_epochs"} <= found["one"].fields
    assert found["wide"].fields == {"prior", "kind", "scale"}
    assert found["epochs"].fields == {"max_epochs"}


def test_the_study_with_these_anchors_is_valid(tmp_path: Path) -> None:
    runs = load_study(study(tmp_path), "paper", DATASETS).runs
    assert runs["two"].config.prior == runs["one"].config.prior
    assert runs["four"].config.method.epochs == 5  # type: ignore[union-attr]
