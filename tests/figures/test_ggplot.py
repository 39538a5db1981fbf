import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bnn_atlas.figures import ggplot
from bnn_atlas.figures.ggplot import RDrawing, RError, RWarning
from bnn_atlas.figures.page import FigureOutputs
from bnn_atlas.figures.r_setup import PACKAGES, RCODE, available, r_files
from bnn_atlas.provenance import Provenance
from tests.figures.needs_r import needs_r

Outputs = Callable[[str], FigureOutputs]


@needs_r
def test_data_keep_their_meaning_in_r() -> None:
    frame = pd.DataFrame({"i": [1, 2], "x": [0.5, np.nan], "t": ["a", "µ"], "b": [True, False]}, index=[7, 7])
    frame["f"] = pd.Categorical(["z", "a"], ["z", "a", "unused"])
    converted = ggplot.to_r(frame)
    assert list(converted.names) == ["i", "x", "t", "b", "f"]
    assert list(converted.rx2("i")) == [1, 2]
    assert np.isnan(converted.rx2("x")[1])
    assert list(converted.rx2("t")) == ["a", "µ"]
    assert list(converted.rx2("f").levels) == ["z", "a", "unused"]
    assert list(converted.rx2("f")) == [1, 2]
    pd.testing.assert_frame_equal(ggplot.from_r(converted), frame.reset_index(drop=True), check_dtype=False)


@needs_r
def test_r_does_not_mislead_programs_started_later() -> None:
    before = os.environ.get("LD_LIBRARY_PATH")
    ggplot.to_r(pd.DataFrame({"x": [1.0]}))
    assert os.environ.get("LD_LIBRARY_PATH") == before


@needs_r
def test_what_is_missing_in_r_is_missing_here() -> None:
    robjects, _ = ggplot._bridge()
    made = robjects.r("data.frame(i = c(1L, NA), x = c(NA, 2), t = c('a', NA), f = factor(c(NA, 'b')))")
    back = ggplot.from_r(made)
    assert back.isna().to_dict("list") == {
        "i": [False, True],
        "x": [True, False],
        "t": [False, True],
        "f": [True, False],
    }
    assert back["i"][0] == 1


def run(tmp_path: Path, code: str, outputs: FigureOutputs, provenance: Provenance, **settings: object) -> None:
    for name in ("theme.R", "draw.R"):
        shutil.copy(RCODE / name, tmp_path)
    (tmp_path / "mine.R").write_text(f"#' @include theme.R draw.R\n{code}")
    RDrawing("mine", pd.DataFrame({"x": [1.0, 2.0]}), settings, tmp_path).write(outputs, (), provenance)


SMALL = """mine <- function(data, shift = 0, word = "", flag = NULL) {
  data$x <- data$x + shift
  data$word <- word
  data$null <- is.null(flag)
  %s
  list(plot = ggplot2::ggplot(data, ggplot2::aes(x, x)) + ggplot2::geom_point(), data = data, width = 2, height = 1)
}"""


@needs_r
def test_settings_reach_r(tmp_path: Path, outputs: Outputs, provenance: Provenance) -> None:
    run(tmp_path, SMALL % "", outputs("a"), provenance, shift=1.5, word=["a", "b"], flag=None)
    assert outputs("a").csv.read_text() == "x,word,null\n2.5,a,True\n3.5,b,True\n"
    with pytest.raises(TypeError, match="setting 'flag'"):
        run(tmp_path, SMALL % "", outputs("a"), provenance, flag={"a": 1})


@needs_r
def test_r_errors_come_back_with_their_place(tmp_path: Path, outputs: Outputs, provenance: Provenance) -> None:
    code = "check <- function(data) stop('the data are too small')\n" + SMALL % "check(data)"
    with pytest.raises(RError, match=r"'mine' \(mine\.R\): the data are too small \(in check\(data\)\)"):
        run(tmp_path, code, outputs("a"), provenance)
    with pytest.raises(RError, match=r"(?s)'mine' \(mine\.R\): .*object 'nowhere' not found"):
        run(tmp_path, SMALL.replace("(x, x)", "(x, nowhere)") % "", outputs("a"), provenance)
    with pytest.raises(RError, match=r"(?s)mine\.R: R cannot load it: .*unexpected"):
        run(tmp_path, "mine <- function( {", outputs("a"), provenance)
    with pytest.raises(RError, match="no function 'mine'"):
        run(tmp_path, "yours <- 1", outputs("a"), provenance)
    assert list(outputs("a").pdf.parent.iterdir()) == []


@needs_r
def test_r_warnings_come_back(tmp_path: Path, outputs: Outputs, provenance: Provenance) -> None:
    with pytest.warns(RWarning, match="mind the gap"):
        run(tmp_path, SMALL % "warning('mind the gap')", outputs("a"), provenance)
    assert outputs("a").png.exists()


def fake(folder: Path, name: str, says: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{says}\n")
    (folder / name).chmod(0o755)


def test_missing_r_is_one_line_with_the_command(
    tmp_path: Path, outputs: Outputs, provenance: Provenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = available()
    assert missing is not None
    assert missing.reason == "there is no R on the PATH"
    assert "apt-get install" in str(missing)
    assert "\n" not in str(missing)
    with pytest.raises(RError, match=r"there is no R on the PATH; the R figures need it: apt-get install .*ggplot2"):
        run(tmp_path, SMALL % "", outputs("a"), provenance)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("echo ggplot2 ragg", "R has no package patchwork, systemfonts"),
        ("exit 3", "does not run"),
        (f"echo {' '.join(PACKAGES)}", None),
    ],
)
def test_missing_packages_are_named(
    says: str, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, "R", "exit 0")
    fake(tmp_path, "Rscript", says)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    missing = available()
    assert (missing is None) if reason is None else (missing is not None and reason in str(missing))


def test_r_files_come_after_those_that_they_need(tmp_path: Path) -> None:
    for name, needs in (("a", ""), ("b", "#' @include a.R\n"), ("mine", "# Mine.\n#' @include b.R a.R\n")):
        (tmp_path / f"{name}.R").write_text(f"{needs}\n{name} <- 1\n")
    assert [file.name for file in r_files("mine", tmp_path)] == ["a.R", "b.R", "mine.R"]
    assert [file.stem for file in r_files("bias_ridges")] == ["theme", "draw", "kernel", "bias_ridges"]


@needs_r
def test_lines_about_trust_leave_a_figure_its_own_subtitle() -> None:
    robjects, _ = ggplot._bridge()
    scope = robjects.baseenv["new.env"](parent=robjects.globalenv)
    for file in ("theme.R", "draw.R"):
        robjects.baseenv["sys.source"](str(RCODE / file), scope)
    own = robjects.r("patchwork::wrap_plots(ggplot2::ggplot()) + patchwork::plot_annotation(subtitle = 'own')")
    said = robjects.r("function(plot) unlist(plot$patches$annotation[c('title', 'subtitle')])")
    assert list(said(scope["with_note"](own, "", "not to be trusted"))) == ["not to be trusted", "own"]
