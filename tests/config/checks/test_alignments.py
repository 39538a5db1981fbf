"""Alignments of a study: which runs they are of, at which scales, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bnn_atlas.config.checks.figures import alignments_of, reference_run
from bnn_atlas.config.claims.load import never_measured
from bnn_atlas.config.settings import load_atlas, load_study
from bnn_atlas.pipeline.figures import Figures
from bnn_atlas.pipeline.inputs import Inputs
from bnn_atlas.pipeline.paths import Paths
from tests.config.folders import DATASETS, RUN, Edit, config_folder, refused, study_file

TANH = {"kind": "mlp", "hidden": [4], "activation": "tanh"}
RUNS: dict[str, Any] = {
    "fit": RUN | {"method": {"kind": "mean_field", "epochs": 5}, "chains": 2},
    "linear": RUN | {"model": {"kind": "mlp", "hidden": []}},
    "tanh": RUN | {"model": TANH},
    "point": RUN | {"method": {"kind": "map", "epochs": 5}, "chains": 1},
    "cold": RUN | {"temperature": 0.5},
    "rows": RUN | {"split": {"test": 0.3, "validation": 0.1}},
    "seeds": RUN | {"grid": {"seed": [1, 2]}},
}


def with_alignments(alignments: dict[str, Any], **figures: Any) -> Edit:
    def edit(study: dict[str, Any]) -> None:
        study["runs"] |= RUNS
        study["alignments"] = alignments
        study["figures"] |= figures

    return edit


def load(folder: Path, alignments: dict[str, Any], scale: Any = "paper") -> Any:
    return load_study(study_file(folder, with_alignments(alignments)), scale, DATASETS)


@pytest.mark.parametrize(
    ("alignments", "parts"),
    [
        ({"a": {"run": "none"}}, ("alignments.a.run = 'none': no such run at this scale", "one")),
        ({"a": {"run": "linear"}}, ("alignments.a.run = 'linear'", "no hidden units")),
        ({"a": {"run": "point"}}, ("it has 1 draw in all, and an alignment needs",)),
        ({"a": {"run": "one", "criterion": "cosine"}}, ("alignments.a.criterion = 'cosine'", "one hidden layer")),
        ({"a": {"run": "one", "signs": True}}, ("alignments.a.signs = True", "only tanh units have signs")),
        ({"a": {"run": "tanh", "unit_scales": True}}, ("alignments.a.unit_scales = True", "only relu units have")),
        ({"a": {"run": "tanh", "balanced": True}}, ("alignments.a", "'balanced' is called 'unit_scales'")),
        ({"a": {"run": "one", "scales": True}}, ("alignments.a", "for scales of units give 'unit_scales'")),
        ({"a": {"run": "one", "reference": "frist"}}, ("alignments.a.reference = 'frist'", "did you mean 'first'")),
        ({"a": {"run": "one", "reference": "a"}}, ("alignments.a.reference = 'a': no such reference",)),
        (
            {"a": {"run": "one"}, "b": {"run": "one", "reference": "a"}, "c": {"run": "fit", "reference": "b"}},
            ("alignments.c.reference = 'b': the frame of 'b' is itself that of 'a'; name 'a'",),
        ),
        (
            {"a": {"run": "one"}, "b": {"run": "cold", "reference": "a"}},
            ("alignments.b.reference = 'a' ('one'): its temperature differs from that of 'cold'", "another posterior"),
        ),
        ({"a": {"run": "one"}, "b": {"run": "rows", "reference": "a"}}, ("its split differs", "another posterior")),
        ({"a": {"run": "one"}, "b": {"run": "tanh", "reference": "a"}}, ("its model differs",)),
        ({"a": {"run": "seeds"}, "b": {"run": "one", "reference": "a"}}, ("alignments.b.reference = 'a'", "2 runs")),
        (
            {"a": {"run": "one"}, "b": {"run": "one", "reference": "a", "frame": "a"}},
            ("alignments.b.frame = 'a'", "'a' already gives the frame"),
        ),
        ({"a": {"run": "one", "frame": "c"}}, ("alignments.a.frame = 'c': no such frame",)),
        (
            {"a": {"run": "one"}, "b": {"run": "one", "frame": "a"}, "c": {"run": "one", "frame": "b"}},
            ("alignments.c.frame = 'b': the frame of 'b' is itself that of 'a'",),
        ),
        ({"a": {"run": "one"}, "b": {"run": "cold", "frame": "a"}}, ("alignments.b.frame = 'a' ('one'): its temper",)),
        ({"a": {"run": "fit", "chains": 3}}, ("alignments.a.chains = 3", "the run has 2")),
        (
            {"a": {"run": "one", "criterion": "centred", "dead_inputs": "masked"}},
            ("alignments.a.dead_inputs = 'masked'", "activations do not depend on inputs that never vary"),
        ),
        ({"mean": {"run": "one"}}, ("alignments.mean: a name is made of",)),
        ({"a b": {"run": "one"}}, ("a name is made of letters",)),
        ({"a": {"run": "one", "rows": 0}}, ("alignments.a.rows = 0",)),
        ({"a": {"run": "one", "unit": "layer"}}, ("alignments.a.unit = 'layer'", "'draw' or 'chain'")),
        ({"a": {"run": "one", "criteria": "weights"}}, ("unknown key 'criteria'", "criterion")),
        ({"a": {}}, ("alignments.a.run: this key is missing",)),
    ],
)  # fmt: skip
def test_wrong_alignments_are_refused(tmp_path: Path, alignments: dict[str, Any], parts: tuple[str, ...]) -> None:
    with refused(*parts):
        load(tmp_path, alignments)


def test_scales_change_alignments_and_leave_them_out(tmp_path: Path) -> None:
    alignments = {
        "a": {"run": "one", "rows": 500, "scales": {"demo": {"rows": 50}}},
        "b": {"run": "fit", "reference": "a", "unit": "chain", "scales": {"laptop": None}},
    }
    assert load(tmp_path, alignments, "paper").alignments["a"].rows == 500
    assert load(tmp_path, alignments, "demo").alignments["a"].rows == 50
    assert list(load(tmp_path, alignments, "laptop").alignments) == ["a"]
    with refused("at scale laptop: alignments.b.reference = 'a': no such alignment"):
        load(tmp_path, {"a": {"run": "one", "scales": {"laptop": None}}, "b": {"run": "fit", "reference": "a"}})


def test_an_entry_stands_for_its_runs_and_frames_follow_the_grid(tmp_path: Path) -> None:
    alignments = {"a": {"run": "seeds"}, "b": {"run": "seeds", "reference": "a"}, "c": {"run": "one"}}
    study = load(tmp_path, alignments)
    first, second = study.runs["seeds-seed1"], study.runs["seeds-seed2"]
    assert list(alignments_of(study, first)) == ["a", "b"]
    assert list(alignments_of(study, study.runs["one"])) == ["c"]
    assert reference_run(study, study.alignments["b"], second) is second
    assert reference_run(study, study.alignments["a"], second) is None


def test_files_of_an_alignment_and_of_figures_of_it(tmp_path: Path) -> None:
    edit = with_alignments(
        {
            "a": {"run": "one"},
            "b": {"run": "fit", "reference": "a", "unit": "chain"},
            "c": {"run": "one", "draws": 3},
            "d": {"run": "one", "frame": "a"},
        },
        aligned_rhat={"runs": ["one"], "alignments": ["c"]},
    )

    def alone(study: dict[str, Any]) -> None:
        edit(study)
        del study["figures"]["curve"]

    atlas = load_atlas({"studies": ["small"], "scale": "paper"}, config_folder(tmp_path, alone))
    inputs, folder = Inputs(atlas, Paths("r")), "r/small/one/split0/alignment"
    wildcards = SimpleNamespace(study="small", run="fit", split="0", alignment="b")
    assert inputs.of_alignment(wildcards) == {
        "reference": f"{folder}/a/frame.npz",
        "fits": ["r/small/fit/split0/block0/fit.npz"],
    }
    wildcards = SimpleNamespace(study="small", run="one", split="0", alignment="a")
    assert inputs.of_alignment(wildcards) == {}
    wildcards = SimpleNamespace(study="small", run="one", split="0", alignment="d")
    assert inputs.of_alignment(wildcards) == {"reference": f"{folder}/a/frame.npz"}
    assert inputs.aligned_by(wildcards)["reference"] == "barycentre"
    with refused("none of 'one' is called 'b'"):
        inputs.alignment(SimpleNamespace(study="small", run="one", split="0", alignment="b"))
    tables = inputs.tables_of(atlas.studies["small"].runs["one"])
    assert f"{folder}/a/metrics.parquet" in tables
    assert f"{folder}/c/metrics.parquet" in tables
    (figure,) = (each for each in Figures(atlas, Paths("r"), False).all if each.name == "aligned_rhat")
    assert figure.inputs == {
        "table": ["r/small/one/split0/metrics/metrics.parquet"],
        "aligned_draws": [f"{folder}/c/draws.npz"],
    }


@pytest.mark.parametrize(
    ("figure", "part"),
    [
        ({"draw": "aligned_rhat", "runs": ["one"], "alignments": ["d"]}, "'d': no alignment of the figure's runs"),
        ({"draw": "aligned_rhat", "runs": ["cold"]}, "'cold' has no alignment"),
        ({"draw": "calibration_curves", "runs": ["one"], "alignments": ["a"]}, "shows no alignments; leave it out"),
    ],
)
def test_figures_without_their_alignments_are_refused(tmp_path: Path, figure: dict[str, Any], part: str) -> None:
    with refused(part):
        load_study(study_file(tmp_path, with_alignments({"a": {"run": "one"}}, drawn=figure)), "paper", DATASETS)


def test_claims_name_the_alignment(tmp_path: Path) -> None:
    study = load(tmp_path, {"a": {"run": "one"}})
    run = study.runs["one"]
    assert not never_measured("aligned_rhat_median", "a/scrambled", None, run, study)
    assert "has a, not 'b/aligned'" in never_measured("aligned_rhat_median", "b/aligned", None, run, study)


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ({"alignment": "b"}, "method.alignment = 'b': no alignment of 'one'"),
        ({"alignment": "a", "rank": 50}, "method.rank = 50: the alignment 'a' keeps 20 directions"),
        ({"alignment": "a", "source_chains": 1}, "method.source_chains = 1: which chains count is said by the align"),
    ],
)
def test_compact_representations_that_an_alignment_does_not_give_are_refused(
    tmp_path: Path, method: dict[str, Any], part: str
) -> None:
    def compact(study: dict[str, Any]) -> None:
        with_alignments({"a": {"run": "one"}})(study)
        own = {"warmstart": None, "start": {"run": "one"}, "method": {"kind": "compact", **method}, "chains": 8}
        study["runs"]["compact"] = RUN | own

    with refused(part):
        load_study(study_file(tmp_path, compact), "paper", DATASETS)
