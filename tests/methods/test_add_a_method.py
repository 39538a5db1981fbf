"""docs/add_a_method.md works as it is written."""

import re
import sys
from pathlib import Path
from types import ModuleType

from bnn_atlas.figures import style
from bnn_atlas.methods.contract import build_method

from .harness import assert_moments
from .problems import linear
from .running import run

PAGE = Path(__file__).parents[2] / "docs" / "add_a_method.md"


def test_the_example_samples_its_target(tmp_path, monkeypatch):
    settings, kernel = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    modules = {}
    for name, code in (("config.methods", settings), ("methods", kernel)):
        full = f"bnn_atlas.{name}.random_walk"
        module = modules[name] = ModuleType(full)
        monkeypatch.setitem(sys.modules, full, module)
        exec(compile(code, full, "exec"), module.__dict__)
    settings_class = modules["config.methods"].RandomWalkConfig
    assert style.look(settings_class.family, settings_class.variant) not in style.METHODS.values()
    exact = linear(chains=4)
    config = settings_class(steps=40_000, thinning=10, step_size=0.12)
    method = build_method(config, exact.problem.posterior, exact.problem.data)
    trace = run(method, exact.problem, tmp_path / "trace.zarr", checkpoint_every=50_000)
    assert 0.1 < trace.statistic("accepted").mean() < 0.8
    assert_moments(trace.read(), exact.mean, exact.covariance)


def test_the_page_is_short_and_names_all_files():
    text = PAGE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    files = set(re.findall(r"`((?:src|tests|workflow|docs)/\S+\.(?:py|json|md))`", text))
    assert len(files) == 8
