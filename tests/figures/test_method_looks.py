"""Methods are told apart by colour, dash, marker and fill."""

import pytest

from bnn_atlas.figures import style
from bnn_atlas.figures.method_looks import method_looks, paler
from tests.figures.shown import shown

METHODS = ("hmc", "sgld", "sghmc", "sghmc_clr", "sghmc_clr_prec", "map", "mean_field")


def test_methods_of_a_family_share_a_colour_and_differ_in_all_else() -> None:
    looks = method_looks([shown(method, method=method) for method in METHODS])
    assert [looks[name].colour for name in ("sghmc", "sghmc_clr", "sghmc_clr_prec")] == [style.GREEN] * 3
    for field in ("marker", "fill"):
        assert len({getattr(look, field) for look in looks.values()}) == len(METHODS)
    assert len({(look.colour, str(look.dash)) for look in looks.values()}) == len(METHODS)


def test_splits_of_a_label_share_a_look_and_a_second_optimum_has_its_own() -> None:
    runs = [shown("a", split=0, label="SGD", method="map"), shown("a", split=1, label="SGD", method="map")]
    looks = method_looks([*runs, shown("b", label="ensemble", method="map")])
    assert list(looks) == ["SGD", "ensemble"]
    assert looks["SGD"].colour != looks["ensemble"].colour


def test_too_many_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="13 labels: at most 12 fit in one figure"):
        method_looks([shown(f"run{number}") for number in range(13)])


def test_paler_mixes_with_white() -> None:
    assert paler("#000000", 0.5) == "#808080"
    assert paler(style.BLUE, 1.0) == "#ffffff"
