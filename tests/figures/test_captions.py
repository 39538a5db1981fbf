from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
from docutils.core import publish_parts

CAPTIONS = Path(__file__).parents[2] / "workflow" / "report"


@pytest.mark.parametrize("figure", sorted(path.stem for path in CAPTIONS.glob("*.rst")))
def test_captions_are_valid_and_say_the_scale(figure: str) -> None:
    template = jinja2.Template((CAPTIONS / f"{figure}.rst").read_text(), undefined=jinja2.StrictUndefined)
    text = template.render(snakemake=SimpleNamespace(config={"scale": "laptop"}))
    page = publish_parts(text, writer="html", settings_overrides={"halt_level": 2, "report_level": 2})["fragment"]
    assert page.startswith("<p><strong>")
    assert "laptop" in page
