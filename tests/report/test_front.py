"""The picture at the head of the README is the figure as it is drawn today."""

from pathlib import Path

import numpy as np
from PIL import Image

from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.report import front
from tests.config.folders import REPOSITORY
from tests.copies import copy_config


def test_the_picture_is_of_todays_settings_and_code() -> None:
    path = REPOSITORY / front.PICTURE
    with Image.open(path) as image:
        drawn_from = image.info.get(front.CHUNK)
    assert drawn_from == front.origin(REPOSITORY / "config"), "it is out of date: make picture"
    settings = read_provenance(path).settings
    assert (settings["study"], settings["figure"], settings["scale"]) == (front.STUDY, front.FIGURE, front.SCALE)


def test_a_setting_that_shows_changes_the_origin(tmp_path: Path) -> None:
    config = copy_config(tmp_path / "config")
    study = config / "studies" / "sampling_perspective.yaml"
    text = study.read_text(encoding="utf-8")
    before = front.origin(config)
    study.write_text(text.replace("Compare with the teaser and the marginal", "See the marginal"), encoding="utf-8")
    assert front.origin(config) == before, "a caption is not in the picture"
    assert text.count("bins: 300, limit: 4") == 1
    study.write_text(text.replace("bins: 300, limit: 4", "bins: 300, limit: 3"), encoding="utf-8")
    assert front.origin(config) != before


def test_small_pictures_have_few_bytes(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (900, 1200, 3), dtype=np.uint8)
    with Image.open(REPOSITORY / front.PICTURE) as drawn:
        for image, width in ((drawn, 320), (Image.fromarray(noise), 160)):
            front.write_small(image, tmp_path / "small.png")
            with Image.open(tmp_path / "small.png") as small:
                assert (small.width, small.mode) == (width, "P")
            assert (tmp_path / "small.png").stat().st_size < front.LARGEST


def test_each_kind_of_the_results_has_a_picture(tmp_path: Path) -> None:
    source = tmp_path / "results" / "figures" / front.STUDY / f"{front.FIGURE}.png"
    source.parent.mkdir(parents=True)
    source.write_bytes((REPOSITORY / front.PICTURE).read_bytes())
    front.write_kinds(tmp_path / "results", tmp_path / "kinds", REPOSITORY / "config")
    assert [file.name for file in (tmp_path / "kinds").iterdir()] == ["fireball.png"]
