"""Kinds of figures that only the tests of config/ ask for."""

from collections.abc import Iterator

import pytest

from bnn_atlas.config.checks import figures as figure_checks
from bnn_atlas.config.claims import load
from bnn_atlas.config.parts.figures import Kind, kinds

KINDS = {
    kind.name: kind
    for kind in (
        Kind.model_validate({"name": "curve", "module": "small", "files": ["table"], "columns": "c kind"}),
        Kind(name="cloud", module="small", sections=("grid",), runs="one"),
        Kind(name="bumps", module="small", sections=("subset",), runs="one"),
        Kind(name="values", module="small", sections=("functions",)),
        Kind(name="line", module="small", runs="none"),
        Kind(name="evidence", module="small", files=("e_values",)),
    )
}


@pytest.fixture(scope="package", autouse=True)
def _kinds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (figure_checks, load):
            patch.setattr(module, "kinds", lambda: KINDS | kinds())
        yield
