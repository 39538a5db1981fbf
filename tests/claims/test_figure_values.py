"""Claims about numbers of figures."""

from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.claims.answer import figure_value
from bnn_atlas.claims.plan import ClaimedStudy
from bnn_atlas.claims.rules import Verdict
from bnn_atlas.claims.sides import ClaimError
from bnn_atlas.claims.verdict import Judgement, judge_all
from bnn_atlas.config.claims.claim import FigureValue
from bnn_atlas.metrics.tables.parquet import write_table
from bnn_atlas.records import digests, held

from .making import claimed, planned, printed, row

SOURCE: dict[str, Any] = {"metric": None, "runs": [], "figure": "curve"}
ZERO = SOURCE | {"in_figure": {"column": "c", "where": {"kind": "zero"}}}
CLAIM = ZERO | {"published": printed(0.777), "size": 0.001}
RUNS = {"one": planned("one", reductions=["chains: 10 -> 4"]), "two": planned("two")}
NO_RUNS = {"curve": {"runs": []}}
WORD = "reference not converged: ESS of the log posterior 4 (at least 100)"


def judged(folder: Path, study: ClaimedStudy) -> Judgement:
    (folder / "curve.csv").write_text("kind,c,chain\nzero,0.7770,\ncurve,0.6,2\ncurve,0.8,\n")
    diagnostics = {"chains_excluded": 0.0, "rhat_function_max": 3.0, "ess_bulk_function_min": 500.0}
    write_table(folder / "small.parquet", [row("one", v, metric=metric) for metric, v in diagnostics.items()])
    (found,) = judge_all([study], {"small": folder / "small.parquet"}, {"small/curve": folder / "curve.png"})
    return found


def test_a_number_of_a_figure_is_judged_and_has_the_trust_and_reductions_of_its_runs(tmp_path: Path) -> None:
    free = judged(tmp_path, claimed(CLAIM, figures=NO_RUNS))
    assert (free.verdict, free.own and free.own.value, free.trust) == (Verdict.AGREES, 0.777, None)
    shown = judged(tmp_path, claimed(CLAIM, runs=RUNS, figures={"curve": {"runs": ["one"]}}))
    assert (shown.verdict, shown.reductions) == (Verdict.AGREES, {"one": ("chains: 10 -> 4",)})
    assert shown.trust is not None
    assert shown.trust.words == "do not trust: R-hat of function values up to 3.00"
    wrong = claimed(CLAIM | {"published": printed(0.7775), "size": 0.0001}, figures=NO_RUNS)
    assert judged(tmp_path, wrong).verdict == Verdict.DIFFERS
    largest = {"in_figure": {"column": "c", "where": {"kind": "curve"}, "take": "max"}}
    than = {"relation": "below", "published": None, "size": None, "than": largest}
    compared = judged(tmp_path, claimed(CLAIM | than, figures=NO_RUNS))
    assert compared.difference is not None
    assert compared.difference.value == pytest.approx(-0.023)


def test_only_the_runs_with_the_label_of_a_number_answer_for_it(tmp_path: Path) -> None:
    plan = {"curve": {"runs": ["one", "two"], "labels": {"one": "first", "two": "second"}}}
    for label, reductions in (("first", {"one": ("chains: 10 -> 4",)}), ("second", {})):
        (tmp_path / "curve.csv").write_text(f"label,c\n{label},0.777\n")
        in_figure = {"in_figure": {"column": "c", "where": {"label": label}}}
        write_table(tmp_path / "small.parquet", [
            row("one", v, metric=metric) for metric, v in {"chains_excluded": 0.0, "rhat_function_max": 3.0}.items()
        ])  # fmt: skip
        study = claimed(CLAIM | in_figure, runs=RUNS, figures=plan)
        (found,) = judge_all([study], {"small": tmp_path / "small.parquet"}, {"small/curve": tmp_path / "curve.png"})
        assert found.reductions == reductions
        assert (found.trust is not None and found.trust.words.startswith("do not trust")) == (label == "first")


def test_a_number_of_a_figure_at_full_size_needs_the_whole_figure(tmp_path: Path) -> None:
    found = judged(tmp_path, claimed(CLAIM | {"full_size": True}, runs=RUNS, figures={"curve": {"runs": ["one"]}}))
    assert found.needed == "scale paper: snakemake --cores 2 curve --config scale=paper"


def test_a_figure_that_is_missing_or_shows_something_else_does_not_answer(tmp_path: Path) -> None:
    runs = {"one": planned("one", other_data="dataset: airfoil -> diabetes")}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "does not draw the figure 'curve'"),
        ({"figures": {"curve": {"runs": [], "other": "it shows a in place of b"}}}, "it shows a in place of b"),
        ({"runs": runs, "figures": {"curve": {"runs": ["one"]}}}, "airfoil -> diabetes"),
    ]
    for changes, reason in cases:
        found = judged(tmp_path, claimed(CLAIM, **changes))
        assert found.verdict == Verdict.TO_RUN
        assert reason in found.reason
    absent = CLAIM | {"in_figure": {"column": "c", "where": {"kind": "z"}}}
    found = judged(tmp_path, claimed(absent, figures=NO_RUNS))
    assert (found.verdict, found.reason) == (Verdict.TO_RUN, "curve.csv: no row matches c where kind = z")
    study = claimed(CLAIM, figures=NO_RUNS)
    (tmp_path / "curve.csv").unlink()
    (unmade,) = judge_all([study], {}, {"small/curve": tmp_path / "curve.png"})
    assert unmade.verdict == Verdict.TO_RUN
    assert "no CSV file" in unmade.reason


def beside_reference(folder: Path, fit: float, **changes: Any) -> Judgement:
    """A claim about a figure that shows a reference, `one`, and a run of chains that nobody is compared with, `two`."""
    runs = {"one": planned("one", chained=True, reference=True), "two": planned("two", chained=True)}
    (folder / "curve.csv").write_text("kind,c\nzero,0.7770\n")
    rows = [row(name, value, metric="reference_fit", note=WORD) for name, value in (("one", fit), ("two", 0.0))]
    write_table(folder / "small.parquet", rows)
    study = claimed(CLAIM | changes, runs=runs, figures={"curve": {"runs": ["one", "two"]}})
    (found,) = judge_all([study], {"small": folder / "small.parquet"}, {"small/curve": folder / "curve.png"})
    return found


def test_a_number_of_a_figure_leans_on_the_references_that_the_figure_shows(tmp_path: Path) -> None:
    found = beside_reference(tmp_path, 0.0)
    assert (found.verdict, found.reason) == (Verdict.CANNOT_TELL, f"chains: {WORD}")
    assert found.own is not None
    assert found.own.value == 0.777, "the number is kept, with that remark"
    assert beside_reference(tmp_path, 1.0).verdict == Verdict.AGREES, "nobody is compared with the other run"


def test_a_claim_says_on_which_runs_of_a_figure_it_leans(tmp_path: Path) -> None:
    assert beside_reference(tmp_path, 0.0, leans_on=[]).verdict == Verdict.AGREES
    assert beside_reference(tmp_path, 1.0, leans_on=["one"]).verdict == Verdict.AGREES
    found = beside_reference(tmp_path, 1.0, leans_on=["two"])
    assert (found.verdict, found.reason) == (Verdict.CANNOT_TELL, f"chains: {WORD}")


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ({"column": "c", "where": {"chain": 2}}, 3.0),
        ({"column": "c", "take": "mean"}, 2.0),
        ({"column": "c", "take": "median"}, 2.0),
        ({"column": "c", "take": "max", "where": {"kind": "a"}}, 2.0),
        ({"column": "stop", "take": "share_given"}, 1 / 3),
        ({"column": "c", "take": "min"}, 1.0),
        ({"column": "c", "where": {"chain": "2.0"}}, 3.0),
        ({"column": "c", "where": {"chain": "2"}, "percent": True}, 0.03),
    ],
)
def test_what_is_taken_of_the_rows(tmp_path: Path, wanted: dict[str, Any], value: float) -> None:
    (tmp_path / "f.csv").write_text("kind,chain,c,stop\na,0,1,\na,1,2,7\nb,2,3,\n")
    assert figure_value(tmp_path / "f.csv", FigureValue.model_validate(wanted))[0] == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "wanted", "error", "note"),
    [
        ("mean,sd,pairs\n7,3,9\n5,1,4\n", {"take": "max"}, 1.0, "mean of 9 pairs of networks"),
        ("mean,sd,pairs\n7,3,9\n", {}, 1.0, "mean of 9 pairs of networks"),
        ("mean,sd,pairs\n7,3,1\n", {}, None, ""),
        ("run,mean\na,1\nb,2\nc,3\n", {"take": "mean"}, 3**-0.5, "mean of 3 seeds"),
        ("chain,draw,mean\n0,1,1\n0,2,\n1,1,3\n1,2,3\n", {"take": "share_given"}, 0.25, "mean of 2 chains"),
        ("run,mean\na,1\na,2\na,3\n", {"take": "mean"}, None, ""),
    ],
)
def test_a_number_of_a_figure_has_the_error_over_its_repetitions(
    tmp_path: Path, text: str, wanted: dict[str, Any], error: float | None, note: str
) -> None:
    (tmp_path / "f.csv").write_text(text)
    found = figure_value(tmp_path / "f.csv", FigureValue.model_validate(wanted | {"column": "mean"}))
    assert found[1:] == (error if error is None else pytest.approx(error), note)


@pytest.mark.parametrize(("label", "value", "error"), [("one", 0.0, 0.0), ("two", -0.02, 0.003), ("three", -0.1, None)])
def test_a_difference_of_a_figure_has_its_own_error(
    tmp_path: Path, label: str, value: float, error: float | None
) -> None:
    """That of the first label from itself is exactly 0."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    csv = tmp_path / "a" / "b" / "curve.csv"
    csv.write_text("label,difference,error\none,0.0,\ntwo,-0.02,0.003\nthree,-0.1,\n")
    assert figure_value(csv, FigureValue(column="difference", where={"label": label})) == (value, error, "")


def test_a_difference_from_the_first_label_of_a_figure_is_exact_on_one_side(tmp_path: Path) -> None:
    """Its error is that of the difference, which needs no pairing."""
    (tmp_path / "curve.csv").write_text("label,difference,error\none,0.0,\ntwo,-0.02,0.003\n")
    of = {name: {"in_figure": {"column": "difference", "where": {"label": name}}} for name in ("one", "two")}
    claim = SOURCE | of["one"] | {"published": None, "relation": "above", "size": 0.01, "than": of["two"]}
    (found,) = judge_all([claimed(claim, figures=NO_RUNS)], {}, {"small/curve": tmp_path / "curve.png"})
    assert (found.verdict, found.d, found.error) == (Verdict.HOLDS, pytest.approx(0.02), pytest.approx(0.003))
    assert found.difference is not None
    assert found.difference.over != "rows, not paired"


def test_the_error_of_a_figure_enters_the_verdict(tmp_path: Path) -> None:
    pairs = CLAIM | {"in_figure": {"column": "mean"}, "published": printed(0.5), "size": 0.1}
    (tmp_path / "curve.csv").write_text("mean,sd,pairs\n0.5,0.2,4\n")
    study = claimed(pairs, figures=NO_RUNS)
    (found,) = judge_all([study], {}, {"small/curve": tmp_path / "curve.png"})
    assert (found.verdict, found.error) == (Verdict.CANNOT_TELL, pytest.approx(0.1))
    (tmp_path / "curve.csv").write_text("mean\n0.5\n")
    for chained, why in ((True, "one set of chains"), (False, "one fit")):
        of_runs = {"runs": {"one": planned("one", chained=chained)}, "figures": {"curve": {"runs": ["one"]}}}
        (one,) = judge_all([claimed(pairs, **of_runs)], {}, {"small/curve": tmp_path / "curve.png"})
        assert (one.verdict, one.reason) == (Verdict.AGREES, f"error not known ({why})")
    assert found.needed == "about 16 pairs of networks (now 4)"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"column": "d"}, "no column d; it has kind, c"),
        ({"column": "c", "where": {"kind": "z"}}, "no row matches c where kind = z"),
        ({"column": "c"}, "2 rows match c, but a claim needs one value"),
    ],
)
def test_numbers_that_are_not_there_or_not_one(tmp_path: Path, wanted: dict[str, Any], message: str) -> None:
    (tmp_path / "f.csv").write_text("kind,c\na,1\na,2\n")
    with pytest.raises(ClaimError, match=message):
        figure_value(tmp_path / "f.csv", FigureValue.model_validate(wanted))


def test_a_file_that_differs_from_its_record_gives_no_number(tmp_path: Path) -> None:
    csv = tmp_path / "figures" / "study" / "f.csv"
    csv.parent.mkdir(parents=True)
    csv.write_text("c\n1\n")
    with held(csv.with_suffix(".pdf")) as record:
        record.content = {"outputs": digests([csv], tmp_path)}
    assert figure_value(csv, FigureValue(column="c"))[0] == 1
    csv.write_text("c\n7\n")
    with pytest.raises(ClaimError, match=r"f\.csv: changed or damaged .* delete it"):
        figure_value(csv, FigureValue(column="c"))
