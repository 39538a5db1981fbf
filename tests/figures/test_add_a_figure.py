"""docs/add_a_figure.md works as it is written."""

import re
import textwrap
from pathlib import Path
from types import ModuleType

import yaml

from bnn_atlas.config.parts.figures import FigureEntry, kinds
from tests.figures.set_files import scored

PAGE = (Path(__file__).parents[2] / "docs" / "add_a_figure.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    return textwrap.dedent(text)


def test_the_new_kind_is_found_and_draws(tmp_path: Path) -> None:
    file = tmp_path / "figures" / "kinds" / "error_bars.py"
    file.parent.mkdir(parents=True)
    file.write_text(block("python"), encoding="utf-8")
    assert kinds(tmp_path / "figures")["error_bars"].files == ("table",)
    module = ModuleType("error_bars")
    exec(compile(block("python"), str(file), "exec"), module.__dict__)
    runs = [scored(tmp_path, name, lppd, 0.5) for name, lppd in (("mile", 0.4), ("hmc", 0.3))]
    table = module.error_bars(runs).numbers
    assert table["value"].tolist() == [0.4, 0.3]
    assert table["standard_error"].tolist() == [0.04, 0.04]


def test_the_entries_are_accepted() -> None:
    entries = yaml.safe_load(block("yaml"))["figures"]
    for entry in entries.values():
        assert FigureEntry.model_validate(entry).draw in kinds()
