"""Claims about metrics that the tables of their runs can never have are refused when they are read."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.load import DETECTION, LPPD_SOMMER, TASKS, load_claims
from bnn_atlas.config.settings import load_study
from bnn_atlas.metrics.judgement.measure import SOMMER
from tests.config.folders import CLAIM, DATASETS, RUN, refused, study_file
from tests.config.parts.test_evaluation import load

ENSEMBLE = RUN | {"method": {"kind": "deep_ensemble"}}
REGRESSIONS = {
    "regression": RUN,
    "ensemble": ENSEMBLE,
    "noise per row": ENSEMBLE | {"likelihood": {"kind": "heteroscedastic"}},
}
OOD = {"evaluate": {"out_of_distribution": ["photos"], "shifts": ["rotated30"], "references": ["one"]}}


def read(folder: Path, kind: str, published: list[str], changes: dict[str, Any]) -> None:
    """Read one claim about the run `two`: a regression, or a classification with further sets and a reference."""
    if kind in REGRESSIONS:
        study = load_study(study_file(folder, lambda s: s["runs"].update(two=REGRESSIONS[kind])), "paper", DATASETS)
    else:
        study = load(folder, one={}, two=OOD)
    study = study._replace(config=study.config.model_copy(update={"published": tuple(published)}))
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": {"error": CLAIM | {"runs": ["two"]} | changes}}))
    load_claims(path, study)


@pytest.mark.parametrize(
    ("kind", "changes", "why"),
    [
        ("regression", {"metric": "accuracy"}, "measured only for a classification, and run 'two' is a regression"),
        ("classification", {"metric": "rmse"}, "measured only for a regression, and run 'two' is a classification"),
        ("classification", {"metric": "noise_sd"}, "measured only for a regression"),
        ("regression", {"metric": "ece_uppal"}, "measured only for a classification"),
        ("classification", {"metric": "ece_uppal"}, "only in studies with `published: [uppal]`"),
        ("regression", {"metric": "lppd_sommer"}, "`published: [sommer]`; add that to config/studies/small.yaml"),
        ("regression", {"metric": "elpd_diff", "at": "one"}, "run 'two' has none, not 'one'"),
        ("classification", {"metric": "agreement", "at": "oen"}, "run 'two' has one, not 'oen'"),
        ("classification", {"metric": "auroc_entropy"}, "set `dataset` to such a set; 'two' has cifar10/ood-photos"),
        ("classification", {"metric": "accuracy", "dataset": "cifar10/ood-photos"}, "it is not measured on out-of"),
        ("regression", {"metric": "function_sd"}, "set `dataset` to an interval; 'two' has none: give it evaluate"),
    ],
)
def test_a_metric_that_can_never_be_measured_is_refused(
    tmp_path: Path, kind: str, changes: dict[str, Any], why: str
) -> None:
    with refused(f"claims.error.metric = '{changes['metric']}': ", why):
        read(tmp_path, kind, [], changes)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("regression", "only for deep_ensemble, laplace, mean_field, and the method of run 'two' is mclmc"),
        ("noise per row", "one noise level for all rows, but run 'two' learns"),
    ],
)
def test_the_published_lppd_needs_a_method_and_a_noise_that_it_gets_wrong(tmp_path: Path, kind: str, why: str) -> None:
    with refused(why):
        read(tmp_path, kind, ["sommer"], {"metric": "lppd_sommer"})


def test_its_methods_are_those_that_are_measured() -> None:
    assert set(LPPD_SOMMER) == set(SOMMER)


def test_the_other_side_is_checked_too(tmp_path: Path) -> None:
    changes = {"relation": "below", "bound": None, "than": {"metric": "brier"}}
    with refused("claims.error.than.metric = 'brier': it is measured only for a classification"):
        read(tmp_path, "regression", [], changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("regression", {"metric": "lppd"}),
        ("regression", {"metric": "rmse_linear"}),
        ("ensemble", {"metric": "lppd_sommer"}),
        ("classification", {"metric": "accuracy", "dataset": "cifar10/rotated30"}),
        ("classification", {"metric": "ece_uppal"}),
        ("classification", {"metric": "agreement", "at": "one"}),
        ("classification", {"metric": "elpd_diff", "at": "one"}),
        ("classification", {"metric": "fpr95_entropy_uppal", "dataset": "cifar10/ood-photos"}),
        ("classification", {"metric": "predictive_entropy_ood", "dataset": "cifar10/ood-photos"}),
    ],
)
def test_a_metric_that_can_be_measured_is_read(tmp_path: Path, kind: str, changes: dict[str, Any]) -> None:
    read(tmp_path, kind, ["sommer", "uppal"], changes)


def test_groups() -> None:
    assert {
        *(f"{size}_{by}" for size in ("auroc", "fpr95") for by in ("confidence", "entropy")),
        *("fpr95_confidence_uppal", "fpr95_entropy_uppal", "mean_maximum_confidence_ood", "predictive_entropy_ood"),
    } == DETECTION
    assert TASKS["ece_izmailov"] == "classification"
    assert "elpd_diff" not in TASKS
