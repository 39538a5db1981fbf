"""One look for all figures, and the files that they are written to."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from bnn_atlas.config.methods.base import Family
from bnn_atlas.figures import page, style
from bnn_atlas.figures.latex import TableOutputs
from bnn_atlas.figures.metadata import read_provenance
from bnn_atlas.figures.page import Drawing, FigureOutputs
from bnn_atlas.figures.subsets import parameter_label
from bnn_atlas.provenance import Provenance

Outputs = Callable[[str], FigureOutputs]


def draw(outputs: FigureOutputs, provenance: Provenance) -> None:
    data = pd.DataFrame({"x": [0.1, 1 / 3], "y": np.array([1, 1e-9], dtype="float32"), "name": ["a", "b,c"]})
    with style.context():
        figure = Figure(figsize=(style.COLUMN_WIDTH, 2))
        ax = figure.subplots()
        ax.plot(data["x"], data["y"], label="σ²")
        ax.set_xlabel("x")
        page.legend_below(figure, {"σ²": Line2D([], [])})
        Drawing(figure, data).write(outputs, (), provenance)


def test_bytes_depend_on_no_user_setting_or_hash_seed(outputs: Outputs, provenance: Provenance, tmp_path: Path) -> None:
    draw(outputs("a"), provenance)
    assert sorted(path.name for path in outputs("a").csv.parent.iterdir()) == ["figure.csv", "figure.pdf", "figure.png"]
    (tmp_path / "matplotlibrc").write_text("font.size: 22\naxes.facecolor: red\nsavefig.bbox: tight\nbackend: svg\n")
    files = [str(path) for path in outputs("b")]
    code = (
        "from test_style import draw, FigureOutputs, Provenance\n"
        f"draw(FigureOutputs.of({files}), Provenance.from_json('{provenance.to_json()}'))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "MPLCONFIGDIR": str(tmp_path),
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    for first, second in zip(outputs("a"), outputs("b"), strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_files_have_the_width_of_a_column_and_no_date(outputs: Outputs, provenance: Provenance) -> None:
    draw(outputs("a"), provenance)
    with Image.open(outputs("a").png) as image:
        assert image.size[0] == round(style.COLUMN_WIDTH * style.DPI)
    pdf = outputs("a").pdf.read_bytes()
    assert b"CreationDate" not in pdf
    assert b"/Subtype /Type3" not in pdf  # fonts as outlines that editors and checkers take


def test_the_csv_reads_back_to_the_plotted_numbers(outputs: Outputs, provenance: Provenance) -> None:
    draw(outputs("a"), provenance)
    assert outputs("a").csv.read_text() == 'x,y,name\n0.1,1.0,a\n0.3333333333333333,1e-09,"b,c"\n'


def test_a_note_names_any_scale_but_the_papers(provenance: Provenance) -> None:
    def note(**reductions: list[str]) -> str:
        settings = {"scale": "demo", "reductions": reductions}
        return page.scale_note(Provenance(**{**vars(provenance), "settings": settings}))

    assert note(a=["chains: 10 -> 4"], b=[]) == "reduced setting: scale demo"
    assert note(a=[], b=[]) == "", "where nothing is reduced, a small scale is the paper's setting"
    assert page.scale_note(Provenance(**{**vars(provenance), "settings": {}})) == ""
    marked = {"marks": ["scaled with all rows"]}
    assert page.scale_note(Provenance(**{**vars(provenance), "settings": marked})) == "scaled with all rows"
    assert (
        page.scale_note(
            Provenance(**{**vars(provenance), "settings": marked | {"scale": "demo", "reductions": {"a": ["b"]}}})
        )
        == "reduced setting: scale demo; scaled with all rows"
    )


def test_nothing_to_plot_is_an_error_and_leaves_no_file(outputs: Outputs, provenance: Provenance) -> None:
    with style.context(), pytest.raises(ValueError, match="nothing to plot"):
        Drawing(Figure(), pd.DataFrame({"x": []})).write(outputs("a"), (), provenance)
    assert list(outputs("a").csv.parent.iterdir()) == []


def test_the_look_ends_with_its_context() -> None:
    before = dict(mpl.rcParams)
    with style.context():
        assert mpl.rcParams["pdf.fonttype"] == 42
    assert dict(mpl.rcParams) == before


def test_provenance_is_refused_where_there_is_none(tmp_path: Path) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    (tmp_path / "c.pdf").write_bytes(b"no document")
    for name, says in (("a.png", "holds no provenance"), ("b.png", "not a readable"), ("c.pdf", "not a readable")):
        with pytest.raises(ValueError, match=f"{name}: {says}"):
            read_provenance(tmp_path / name)
    with pytest.raises(ValueError, match=r"not in '\.svg'"):
        read_provenance(tmp_path / "d.svg")


def test_outputs_are_told_apart_by_their_endings() -> None:
    assert FigureOutputs.of(["a.csv", "a.pdf", "a.png"]) == (Path("a.pdf"), Path("a.png"), Path("a.csv"))
    for files in (["a.pdf"], ["a.pdf", "b.pdf", "a.png", "a.csv"]):
        with pytest.raises(ValueError, match=r"one \.pdf, one \.png and one \.csv"):
            FigureOutputs.of(files)


def test_a_method_keeps_its_look() -> None:
    hmc, mile, other, unknown = style.lines(["hmc", "mclmc", "mclmc", "something"])
    assert hmc == style.METHODS["hmc"]
    assert mile == style.METHODS["mclmc"]
    assert len({line.colour.upper() for line in (hmc, mile, other, unknown)}) == 4
    assert len(set(style.METHODS.values())) == len(style.METHODS)
    with pytest.raises(ValueError, match="cannot be told apart"):
        style.lines(["x"] * (len(style.CYCLE) + 1))


@pytest.mark.parametrize("family", style.FAMILIES)
def test_a_family_has_a_look_for_any_number_of_methods(family: Family) -> None:
    looks = [style.look(family, variant) for variant in range(20)]
    assert len(set(looks)) == 20
    assert len({one.marker for one in looks[: len(style.MARKERS)]}) == len(style.MARKERS)


def test_numbers_and_names_are_readable() -> None:
    assert style.thousands(10_000_000) == "10,000,000"
    assert [style.short_count(n) for n in (1, 500, 1000, 2500, 1e6, 2e9)] == ["1", "500", "1k", "2.5k", "1M", "2G"]
    names = ["layer0.weight[3,2]", "layer4.bias[1]", "log_sigma", "layer1.weight[0,1,2,3]", "gate.scale[0]"]
    assert [parameter_label(n) for n in names] == ["W1[4,3]", "b5[2]", "log sigma", "W2[1,2,3,4]", "gate scale[0]"]


def test_line_styles_never_run_out_and_all_differ() -> None:
    looks = [style.dash(variant) for variant in range(12)]
    assert looks[: len(style.DASHES)] == list(style.DASHES)
    assert len(set(looks)) == len(looks)
    for look in looks:
        assert Line2D([], [], ls=look).get_linestyle() in ("-", "--")


def test_a_long_note_stays_inside_the_figure() -> None:
    figure = Figure(figsize=(style.COLUMN_WIDTH, 2.4))
    page._add_note(figure, "; ".join(["rows are dependent (spectra of the same blade sections)"] * 3))
    (text,) = figure.texts
    assert text.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x0 >= 0
    assert "\n" in text.get_text()


def test_outputs_of_a_table_are_told_by_their_endings() -> None:
    assert TableOutputs.of(["a/b.csv", "a/b.tex"]) == TableOutputs(Path("a/b.tex"), Path("a/b.csv"))
    with pytest.raises(ValueError, match=r"one \.tex and one \.csv, not a\.pdf"):
        TableOutputs.of(["a.pdf"])
