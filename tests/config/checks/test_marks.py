"""What results have to say of their rows."""

from bnn_atlas.config.checks.runs import DEPENDENT, marks
from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.config.data.splits import SCALED_WITH_TEST_ROWS
from bnn_atlas.config.settings import load_study
from tests.config.folders import REPOSITORY


def test_dependent_rows_and_scaling_are_named_where_they_are_so() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    study = load_study(REPOSITORY / "config" / "studies" / "sampling_perspective.yaml", "paper", registry)

    def said(run: str) -> list[str]:
        return marks(study.runs[run], registry)

    assert said("airfoil_mile-seed1") == [
        f"{DEPENDENT} (spectra of the same blade sections): errors over rows are too small"
    ]
    assert said("bikesharing_scale")[0] == SCALED_WITH_TEST_ROWS
    assert "hours of the same days" in said("bikesharing_scale")[1]
    assert said("fmnist_scale") == []


def test_a_description_of_rows_makes_no_data_again() -> None:
    registry = load_registry(REPOSITORY / "config" / "datasets.yaml")
    assert "dependent_rows" not in registry["airfoil"].recipe
