from pathlib import Path

import pytest

from bnn_atlas.config.figures import FIGURES
from bnn_atlas.figures import sources
from bnn_atlas.figures.shown import figure_function
from bnn_atlas.figures.sources import figure_sources


@pytest.mark.parametrize("name", [f"{study}/{figure}" for study, figures in FIGURES.items() for figure in figures])
def test_each_figure_has_its_function_caption_and_r_files(name: str) -> None:
    study, figure = name.split("/")
    made = FIGURES[study][figure]
    assert callable(figure_function(made.module, figure))
    root = Path(__file__).parents[2]
    assert (root / "workflow" / "report" / f"{figure}.rst").exists()
    for file in made.r:
        assert (root / "Rcode" / f"{file}.R").exists()


def test_imports_are_followed_among_figures_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = {
        "figures/one.py": "from bnn_atlas.figures import look\nfrom bnn_atlas.metrics.scores import a\nimport numpy\n",
        "figures/look.py": "from bnn_atlas.figures.parts import lines\nfrom bnn_atlas.files import atomic\n",
        "figures/parts/__init__.py": "",
        "figures/parts/lines.py": "def f():\n    from bnn_atlas.figures.one import g\n",
        "figures/other.py": "",
        "metrics/scores.py": "from bnn_atlas.metrics.tables import b\n",
        "metrics/tables.py": "",
        "files.py": "",
    }
    for name, text in code.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    found = {str(file.relative_to(tmp_path)) for file in figure_sources("one")}
    assert found == set(code) - {"figures/parts/__init__.py", "figures/other.py", "files.py"}
