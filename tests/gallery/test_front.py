"""The picture at the head of the README is the figure as it is drawn today."""

from pathlib import Path

from PIL import Image

from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.gallery import front
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
