"""Planes of a figure: which points of which runs they may go through."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.config.checks.figures import other_runs
from bnn_atlas.config.settings import load_atlas, load_study
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from tests.config.folders import DATASETS, RUN, Edit, config_folder, refused, study_file

MAP = {"kind": "map", "epochs": 2, "optimiser": {"kind": "sgd", "learning_rate": 1e-6}}
OTHERS: dict[str, Any] = {
    "optimum": RUN | {"method": MAP, "chains": 2},
    "narrow": RUN | {"prior": {"kind": "normal", "scale": 0.5}},
    "cold": RUN | {"temperature": 0.5},
    "wide": RUN | {"model": {"kind": "mlp", "hidden": [4, 5]}},
    "rows": RUN | {"split": {"test": 0.3, "validation": 0.1}},
    "seeds": RUN | {"grid": {"seed": [1, 2]}},
}
THREE: list[dict[str, Any]] = [{"draw": 0}, {"draw": 9}, {"chain": 3}]


def surface(*points: dict[str, Any], **section: Any) -> Edit:
    """A figure with one plane through these points of the run `one`, beside the other runs."""

    def edit(study: dict[str, Any]) -> None:
        study["runs"] |= OTHERS
        plane = {"title": "A plane", "points": list(points)}
        study["figures"] = {
            "hills": {"draw": "posterior_surface", "runs": ["one"], "surface": {"planes": [plane], **section}}
        }

    return edit


def load(folder: Path, edit: Edit) -> Any:
    return load_study(study_file(folder, edit), "paper", DATASETS)


@pytest.mark.parametrize(
    ("points", "parts"),
    [
        ([*THREE[:2], {"run": "none"}], ("surface.planes.0.points.2.run = 'none': no such run at scale paper",)),
        ([*THREE[:2], {"run": "narrow"}], ("points.2.run = 'narrow': its prior differs from that", "another post")),
        ([*THREE[:2], {"run": "cold"}], ("its temperature differs from that of 'one' (0.5; 1.0)",)),
        ([*THREE[:2], {"run": "wide"}], ("its model differs",)),
        ([*THREE[:2], {"run": "rows"}], ("its split differs",)),
        ([*THREE[:2], {"run": "seeds"}], ("2 runs of this entry; name one of seeds-seed1, seeds-seed2",)),
        ([*THREE[:2], {"run": "optimum", "chain": 2}], ("points.2.chain = 2: run 'optimum' has 2 chains",)),
        ([*THREE[:2], {"run": "optimum", "draw": 1}], ("points.2.draw = 1: run 'optimum' keeps 1 draws",)),
        ([{"chain": 4}, *THREE[:2]], ("points.0.chain = 4: run 'one' has 4 chains",)),
        ([{"draw": 10}, *THREE[:2]], ("points.0.draw = 10: run 'one' keeps 10 draws of each chain",)),
        ([{"draw": -1}, *THREE[:2]], ("points.0.draw = -1: must be a whole number from 0, or one of first, middle",)),
        (
            [{"draw": "lst"}, *THREE[:2]],
            ("points.0.draw = 'lst': must be a whole number from 0, or one of first, middle",),
        ),
        ([{"draw": True}, *THREE[:2]], ("points.0.draw = True: must be a whole number from 0",)),
        ([{}, {"draw": "last"}, THREE[0]], ("points 1 and 2 are the same draw",)),
        (THREE[:2], ("planes.0.points", "must have at least 3 items")),
        ([*THREE, {"chain": 2}], ("planes.0.points", "at most 3 items")),
    ],
)
def test_wrong_points_are_refused(tmp_path: Path, points: list[dict[str, Any]], parts: tuple[str, ...]) -> None:
    with refused(*parts):
        load(tmp_path, surface(*points))


@pytest.mark.parametrize(
    ("section", "part"),
    [
        ({"planes": []}, "planes = []: must have at least 1 item"),
        ({"planes": [{"title": "A", "points": THREE}] * 2}, "two planes have the title 'A'"),
        ({"resolution": 4}, "surface.resolution = 4"),
        ({"margin": -0.1}, "surface.margin = -0.1"),
        ({"grid_size": 4}, "unknown key 'grid_size'"),
    ],
)
def test_wrong_sections_are_refused(tmp_path: Path, section: dict[str, Any], part: str) -> None:
    with refused(part):
        load(tmp_path, surface(*THREE, **section))


def test_a_figure_of_this_kind_needs_the_section_and_others_do_not_take_it(tmp_path: Path) -> None:
    def without(study: dict[str, Any]) -> None:
        study["figures"] = {"hills": {"draw": "posterior_surface", "runs": ["one"]}}

    with refused("figures.hills.surface: this figure needs the section; its keys are planes"):
        load(tmp_path, without)

    def elsewhere(study: dict[str, Any]) -> None:
        surface(*THREE)(study)
        study["figures"]["hills"]["draw"] = "curve"

    with refused("a figure of the kind 'curve' has no such section; it reads tables"):
        load(tmp_path, elsewhere)


def test_the_job_gets_the_pools_of_the_runs_that_the_points_name(tmp_path: Path) -> None:
    points = [{"run": "optimum", "chain": 1}, {"run": "small/seeds-seed2"}, {"draw": "middle"}]
    folder = config_folder(tmp_path, surface(*points))
    atlas = load_atlas({"studies": ["small"], "scale": "paper"}, folder)
    figure = atlas.studies["small"].figures["hills"]
    found = other_runs(atlas.studies, atlas.studies["small"].runs["one"], figure.surface)
    assert {name: run.name for name, run in found.items()} == {
        "optimum": "optimum", "small/seeds-seed2": "seeds-seed2",
    }  # fmt: skip

    class Wildcards:
        study, run, split = "small", "one", "0"

    pools = Inputs(atlas, Paths("results/paper")).other_pools(Wildcards, figure.surface.model_dump(mode="json"))
    assert pools == {
        "optimum": "results/paper/small/optimum/split0/pool/pool.json",
        "small/seeds-seed2": "results/paper/small/seeds-seed2/split0/pool/pool.json",
    }
