"""docs/add_a_study.md works as it is written."""

import re

import pytest

from bnn_atlas.config.claims.claim import Claim
from bnn_atlas.config.settings import load_atlas
from tests.copies import REPOSITORY, copy_config

PAGE, CLAIMS = ((REPOSITORY / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("add_a_study", "claims"))


@pytest.mark.parametrize("scale", ["demo", "laptop", "paper"])
def test_the_study_and_its_claim_are_accepted(tmp_path, scale):
    folder = copy_config(tmp_path / "config")
    study, claims = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "studies" / "temperatures.yaml").write_text(study, encoding="utf-8")
    (folder / "claims" / "temperatures.yaml").write_text(claims, encoding="utf-8")
    atlas = load_atlas({"scale": scale, "studies": ["temperatures"]}, folder)
    runs = {f"{method}-temperature{value}" for method in ("mile", "hmc") for value in ("1", "0.1")}
    assert atlas.studies["temperatures"].runs.keys() == runs
    assert atlas.claims["temperatures"].claims.keys() == {"cold_rmse"}


def test_the_first_example_needs_no_other_study() -> None:
    command = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[0]
    assert "--config 'studies=[temperatures]'" in command


def test_the_fields_of_claims_are_explained() -> None:
    for name in Claim.model_fields:
        assert f"`{name}`" in CLAIMS, name


def test_the_page_is_short():
    assert len(PAGE.splitlines()) < 100
