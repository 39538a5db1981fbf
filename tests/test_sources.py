import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from bnn_atlas import sources
from bnn_atlas.sources import code_digest, code_of, forget

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
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "package"
    monkeypatch.setattr(sources, "PACKAGE", folder)
    monkeypatch.setenv("BNN_ATLAS_CACHE", str(tmp_path / "cache"))
    write(folder, CODE)
    yield folder
    forget()


def write(package: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(textwrap.dedent(text))
    forget()


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


KERNEL = {
    "methods/__init__.py": "",
    "methods/kernel.py": '''
        """A kernel."""
        import jax
        from bnn_atlas.config.priors import Laplace, Normal
        from bnn_atlas.methods import steps
        from bnn_atlas.methods.steps import kick
        LOG = 1.5
        def build(config, x: int) -> float:
            """Build it."""
            if x < 0:
                name = f"x ({x})"
                raise ValueError(f"{name} must be positive")
            if x > 1e9:
                log.warning("x is large")
            y: float = steps.drift(x) + LOG
            match config:
                case Normal(scale=scale):
                    return kick(y) * config.doubled
                case Laplace():
                    return heavy(y)
            return 1.0 if isinstance(config, Laplace) else y
        def heavy(y):
            return abs(y)
        def unused(y):
            return y
    ''',
    "methods/steps.py": """
        import jax
        @jax.custom_jvp
        def kick(y):
            return y + 1  # a comment
        @kick.defjvp
        def _slope(primals, tangents):
            return 2.0
        def drift(x):
            return again(x) if x else 3
        def again(x):
            return drift(x - 1)
        def other(x):
            return 4
        jax.config.update("flag", True)
    """,
    "config/__init__.py": "",
    "config/priors.py": '''
        class Normal:
            """Settings of a normal."""
            scale: float = 1.0
            """Its scale."""
            @property
            def doubled(self):
                return 2 * self.scale
            @property
            def label(self):
                return "normal"
            @field_validator("scale")
            def _positive(cls, value):
                return value
        class Laplace:
            scale: float = 1.0
    ''',
}
NORMAL, LAPLACE = (type(name, (), {"__module__": "bnn_atlas.config.priors"}) for name in ("Normal", "Laplace"))
"""Classes of the places and names of the settings above."""


@pytest.fixture
def kernel(package: Path) -> Path:
    write(package, KERNEL)
    return package


def digest(cls: type = NORMAL, root: str = "bnn_atlas.methods.kernel:build") -> str:
    forget()
    return code_digest(root, classes=[cls])


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/kernel.py", "Build it.", "Make it."),
        ("methods/kernel.py", "A kernel.", "The kernel."),
        ("methods/steps.py", "  # a comment", ""),
        ("methods/kernel.py", "must be positive", "is negative"),
        ("methods/kernel.py", 'f"x ({x})"', 'f"the number {x}"'),
        ("methods/kernel.py", "x is large", "x is too large"),
        ("methods/kernel.py", '    if x > 1e9:\n        log.warning("x is large")\n', ""),
        ("methods/kernel.py", "x: int) -> float", "x: float) -> int"),
        ("methods/kernel.py", "y: float = ", "y = "),
        ("methods/kernel.py", "def unused(y):\n    return y\n", ""),
        ("methods/kernel.py", "return abs(y)", "return 2 * abs(y)"),
        ("methods/kernel.py", "        case Laplace():\n            return heavy(y)\n", ""),
        ("methods/kernel.py", "return heavy(y)", "return -heavy(y)"),
        ("methods/kernel.py", "return 1.0 if isinstance(config, Laplace) else y", "return y"),
        ("methods/steps.py", "return 4", "return 5"),
        ("config/priors.py", "Settings of a normal.", "A normal."),
        ("config/priors.py", "scale: float = 1.0", "scale: float = 2.0"),
        ("config/priors.py", 'return "normal"', 'return "a normal"'),
        ("config/priors.py", "return value", "return abs(value)"),
    ],
)
def test_what_changes_no_number_leaves_the_digest(kernel: Path, file: str, old: str, new: str) -> None:
    before = digest()
    edit(kernel / file, old, new)
    assert digest() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("methods/kernel.py", "LOG = 1.5", "LOG = 1.25"),
        ("methods/kernel.py", "+ LOG", "- LOG"),
        ("methods/kernel.py", "x < 0", "x <= 0"),
        ("methods/kernel.py", "return kick(y)", "return -kick(y)"),
        ("methods/kernel.py", "else y", "else -y"),
        ("methods/steps.py", "y + 1", "y + 2"),
        ("methods/steps.py", "return 2.0", "return 3.0"),
        ("methods/steps.py", "drift(x - 1)", "drift(x - 2)"),
        ("methods/steps.py", "import jax\n", "import numpy as jax\n"),
        ("methods/steps.py", '"flag", True', '"flag", False'),
        ("config/priors.py", "2 * self.scale", "3 * self.scale"),
    ],
)
def test_what_computes_changes_the_digest(kernel: Path, file: str, old: str, new: str) -> None:
    before = digest()
    edit(kernel / file, old, new)
    assert digest() != before


def test_a_module_may_move(kernel: Path) -> None:
    before = digest()
    (kernel / "engine").mkdir()
    (kernel / "engine" / "__init__.py").touch()
    shutil.move(kernel / "methods", kernel / "engine" / "methods")
    for file in kernel.rglob("*.py"):
        file.write_text(file.read_text().replace("bnn_atlas.methods", "bnn_atlas.engine.methods"))
    assert digest(root="bnn_atlas.engine.methods.kernel:build") == before


def test_modules_may_be_merged(kernel: Path) -> None:
    write(kernel, {"methods/b.py": "def g(x):\n    return 2 * x\n"})
    write(kernel, {"methods/a.py": "from bnn_atlas.methods.b import g\ndef f(x):\n    return g(x)\n"})
    before = digest(root="bnn_atlas.methods.a:f")
    write(kernel, {"methods/a.py": "def f(x):\n    return g(x)\ndef g(x):\n    return 2 * x\n"})
    assert digest(root="bnn_atlas.methods.a:f") == before


def test_a_branch_counts_for_the_settings_that_take_it(kernel: Path) -> None:
    normal, laplace = digest(), digest(LAPLACE)
    edit(kernel / "methods" / "kernel.py", "return abs(y)", "return 2 * abs(y)")
    assert digest() == normal
    assert digest(LAPLACE) != laplace


def test_a_root_that_is_not_there_is_an_error_that_names_it(kernel: Path) -> None:
    with pytest.raises(ValueError, match=r"bnn_atlas\.methods\.kernel:bild"):
        digest(root="bnn_atlas.methods.kernel:bild")
    with pytest.raises(ModuleNotFoundError, match=r"bnn_atlas\.methods\.two"):
        digest(root="bnn_atlas.methods.two")


def test_another_process_takes_a_digest_from_the_cache_until_a_source_changes(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = digest()
    with monkeypatch.context() as patch:
        patch.delattr(sources, "_follow")
        assert digest() == computed
        with pytest.raises(NameError):
            digest(LAPLACE)
        edit(kernel / "other.py", "", "x = 1\n")
        with pytest.raises(NameError):
            digest()
    assert digest() == computed


def test_digests_that_were_half_written_or_cannot_be_kept_are_computed(kernel: Path, tmp_path: Path) -> None:
    computed = digest()
    (kept,) = (tmp_path / "cache" / "digests").iterdir()
    kept.write_bytes(kept.read_bytes()[:100] + b"\xff\n")
    assert digest() == computed
    forget()
    assert sources._kept(), "the next line is whole"
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("no folder")
    assert digest() == computed


def test_digests_need_no_home(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(sources, "cache_folder", no_home)
    assert digest() == digest()


def test_digests_are_of_the_sources_that_were_read_first(kernel: Path) -> None:
    computed = digest()
    forget()
    sources.read_sources()
    edit(kernel / "methods/kernel.py", "LOG = 1.5", "LOG = 2.5")
    moved = (kernel / "methods/steps.py").rename(kernel / "methods/moved.py")
    assert code_digest("bnn_atlas.methods.kernel:build", classes=[NORMAL]) == computed
    moved.rename(kernel / "methods/steps.py")
    assert digest() != computed


def test_what_an_editor_leaves_beside_a_module_is_no_module(kernel: Path) -> None:
    computed = digest()
    (kernel / "methods/.#kernel.py").symlink_to("nowhere")
    (kernel / "methods/.kernel.py").write_text("half a line (")
    assert digest() == computed
    assert not any("/." in path for path in sources.read_sources())
