"""Kinds of figures that only the tests of config/ ask for."""

from collections.abc import Iterator

import pytest

from bnn_atlas.config.checks import figures as figure_checks
from bnn_atlas.config.claims import load
from bnn_atlas.config.parts.figures import Kind, kinds

KINDS = {
    name: Kind.model_validate({"name": name, "module": "small", "columns": "c kind", **needs})
    for name, needs in {
        "curve": {"files": ["table"]},
        "cloud": {"sections": ["grid"], "runs": "one"},
        "bumps": {"sections": ["subset"], "runs": "one"},
        "values": {"sections": ["functions"]},
        "line": {"runs": "none"},
        "evidence": {"files": ["e_values"]},
    }.items()
}


@pytest.fixture(scope="package", autouse=True)
def _kinds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (figure_checks, load):
            patch.setattr(module, "kinds", lambda: KINDS | kinds())
        yield
