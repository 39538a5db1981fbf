from pathlib import Path

import pytest

from bnn_atlas import sources
from bnn_atlas.sources import code_digest, code_of

CODE = {
    "__init__.py": "from bnn_atlas.other import x\n",
    "figures/__init__.py": "",
    "figures/one.py": "from bnn_atlas.figures import look\nimport numpy\nfrom bnn_atlas.metrics.scores import a\n",
    "figures/look.py": "from bnn_atlas.figures.parts import lines\nfrom bnn_atlas.files import atomic\n",
    "figures/parts/__init__.py": "",
    "figures/parts/lines.py": "def f():\n    import bnn_atlas.figures.one\n",
    "metrics/__init__.py": "",
    "metrics/scores.py": "from bnn_atlas.metrics.tables import b\n",
    "metrics/tables.py": "",
    "files.py": "from bnn_atlas.other import y\n",
    "other.py": "",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in CODE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sources, "PACKAGE", tmp_path)
    sources._imported.cache_clear()
    yield tmp_path
    sources._imported.cache_clear()


def test_imports_are_followed_through_packages_and_functions(package: Path) -> None:
    found = {str(file.relative_to(package)) for file in code_of("bnn_atlas.figures.one")}
    assert found == set(CODE) - {"__init__.py", "files.py", "other.py"}


def test_what_is_left_out_is_not_followed_either(package: Path) -> None:
    found = {str(f.relative_to(package)) for f in code_of("bnn_atlas.figures.one", without=["bnn_atlas.metrics"])}
    assert found == {"figures/__init__.py", "figures/one.py", "figures/look.py", "figures/parts/__init__.py",
                     "figures/parts/lines.py", "files.py", "other.py"}  # fmt: skip


def test_a_module_that_is_not_there_is_an_error_that_names_it(package: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"bnn_atlas\.figures\.two"):
        code_of("bnn_atlas.figures.two")


def test_the_digest_changes_with_the_code_and_with_nothing_else(package: Path) -> None:
    before = code_digest("bnn_atlas.figures.one")
    (package / "other.py").write_text("z = 1\n")
    assert code_digest("bnn_atlas.figures.one") == before
    (package / "metrics" / "tables.py").write_text("z = 1\n")
    assert code_digest("bnn_atlas.figures.one") != before
