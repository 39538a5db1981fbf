"""docs/add_a_method.md shows the code of a method as it is, and names every file that a method needs."""

import re
from pathlib import Path

import pytest

from bnn_atlas.config.methods.registry import METHODS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add_a_method.md").read_text(encoding="utf-8")
FILES = ("config/methods/hmc.py", "methods/baoab.py", "methods/integrators.py")


@pytest.mark.parametrize("number", range(3))
def test_the_code_of_the_page_is_that_of_the_files(number):
    """It is tested in the shared harness (`test_targets.py`), in `test_runs.py` and in `test_baoab.py`."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == len(FILES)
    source = (ROOT / "src" / "bnn_atlas" / FILES[number]).read_text(encoding="utf-8")
    assert blocks[number] in source
    assert f"`{METHODS['baoab'].builder.split(':')[0].rpartition('.')[2]}`" in PAGE


def test_the_page_is_short_and_names_all_files():
    assert len(PAGE.splitlines()) <= 120
    files = set(re.findall(r"`((?:src|tests|workflow|docs)/\S+\.(?:py|json|md))`", PAGE))
    assert len(files) == 8
    assert not [file for file in files if not (ROOT / file).exists()]
