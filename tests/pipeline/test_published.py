"""Which numbers of the papers a picture of a run shows."""

from pathlib import Path

import pytest

from bnn_atlas.config.settings import Atlas, load_atlas
from bnn_atlas.pipeline.claims import published_of

CONFIG = Path(__file__).parents[2] / "config"


def loaded(scale: str) -> Atlas:
    return load_atlas({"studies": ["sampling_perspective"], "scale": scale}, CONFIG)


def test_a_run_has_the_numbers_that_claims_state_of_it() -> None:
    atlas = loaded("laptop")
    runs = atlas.studies["sampling_perspective"].runs
    found = published_of(atlas, runs["airfoil_scale"])
    curve = {one["chains"]: (one["value"], one["sd"]) for one in found if one["metric"] == "lppd_cumulative_chains"}
    assert curve[1] == (0.61391, 0.03919)
    assert curve[10000] == (0.80504, None)
    # A growth from 1 to 10 chains is no number of 10 chains.
    assert len(found) == len({(one["metric"], one["chains"], one["at"]) for one in found})
    seed = published_of(atlas, runs["airfoil_mile-seed1"])
    assert (0.1215, 0.0042) in [(one["value"], one["sd"]) for one in seed]
    assert not published_of(atlas, runs["jacobian"])


@pytest.mark.parametrize("entry", ["airfoil_mile", "airfoil_ensemble"])
def test_a_run_on_other_data_has_none(entry: str) -> None:
    atlas = loaded("demo")
    runs = [run for run in atlas.studies["sampling_perspective"].runs.values() if run.entry == entry]
    assert runs
    assert not [one for run in runs for one in published_of(atlas, run)]
