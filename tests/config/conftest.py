"""Kinds of figures that only the tests of config/ ask for."""

from collections.abc import Iterator

import pytest

from bnn_atlas.config.checks import figures as figure_checks
from bnn_atlas.config.parts.figures import Kind, kinds

KINDS = {
    kind.name: kind
    for kind in (
        Kind(name="curve", module="small", files=("table",)),
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
        patch.setattr(figure_checks, "kinds", lambda: KINDS | kinds())
        yield
