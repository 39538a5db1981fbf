"""What readers see of a judged study, from a few numbers."""

from pathlib import Path
from typing import get_args

import pytest

from bnn_atlas.claims.verdict import CHAINS, Verdict
from bnn_atlas.config.claims.claim import Relation
from bnn_atlas.report.page import write_page
from bnn_atlas.report.site import write_site
from bnn_atlas.report.text import KINDS, SIZES, duration, in_order
from bnn_atlas.report.view import ELSEWHERE, HERE, MOST_ROWS, Card, StudyView, _posterior
from tests.claims.making import row, table
from tests.report.making import (
    ANSWER,
    REDUCED,
    STUDY,
    benchmark,
    partly_made_here,
    study,
    study_jobs,
    write_claims,
    write_judged,
)


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> StudyView:
    return study(tmp_path_factory.mktemp("view"))


def test_claims_are_counted_by_kind_identity_and_place(view: StudyView) -> None:
    assert [(one.total, one.title, one.verdicts, one.read) for one in view.counts] == [
        (3, "published numbers", {"agrees": 1, "differs": 1, "to run": 1}, {"table": 2, "file": 1}),
        (1, "statement in words", {"does not hold": 1}, {"text": 1}),
        (1, "question of this project", {"cannot tell": 1}, {"own": 1}),
    ]
    assert view.counts[0].of == {
        "same": {"differs": 1}, "reduced": {"agrees": 1, "to run": 1}, "settings unknown": {}, "another problem": {},
    }  # fmt: skip
    assert view.sentence == (
        "3 published numbers: 1 agrees, 1 differs, 1 to run; 1 statement in words: 1 does not hold."
    )


def test_published_numbers_measured_at_a_reduction_are_counted_apart(tmp_path: Path) -> None:
    found = [
        study(tmp_path / name, claims=claims).counts[0].reduced
        for name, d in (("within", 0.2), ("beyond", -0.3))
        if (tmp_path / name).mkdir() is None
        for claims in [write_judged(tmp_path / f"{name}.parquet", gone={"d": d, "here": "0.7", "rows": []})]
    ]
    assert found == [
        f" (measured at a reduced setting: 1, of which {beyond} are off by more than their size)" for beyond in (0, 1)
    ]
    view = study(tmp_path, claims=tmp_path / "beyond.parquet")
    assert found[1] in view.sentence
    assert "gone" not in [mark.claim.name for rows in view.forest.values() for row in rows for mark in row], (
        "it is not judged"
    )


def test_findings_have_the_numbers_of_the_claim_that_decides(view: StudyView) -> None:
    first, second = view.cards
    assert (first.claim.name, first.behind) == ("error", "2 claims: 1 agrees, 1 does not hold")
    assert (first.claim.paper, first.claim.here, first.claim.at_infinity) == ("0.5", "0.52 ± 0.02", "0.515 ± 0.03")
    assert first.figure == "few"
    assert (second.claim.name, second.figure) == ("growth", "few"), "the nearest problem that was run"
    assert [card.statement for card in view.own] == ["None is small"]
    assert view.own[0].claim.where == "this project's own question"


def test_notes_about_the_number_reach_the_cards_and_errors_of_rows_that_are_not_paired_the_claims(
    tmp_path: Path,
) -> None:
    notes = "at the limit: outside 0.25 by 0.5 of its standard error; error not known (rows)"
    reason = f"by 0.26, 2.1 standard errors; up to 0.25 would agree; {notes}"
    claims = write_judged(tmp_path / "judged.parquet", error={"reason": reason, "difference_over": "rows, not paired"})
    view = study(tmp_path, claims=claims)
    write_page(tmp_path / "made", view)
    write_site(tmp_path / "made", view)
    page, every, site, table = (
        (tmp_path / "made" / name).read_text("utf-8")
        for name in ("README.md", "claims.md", "index.html", "claims.html")
    )
    assert f"at infinitely many draws); {notes}" in page
    assert f"at infinitely many draws); {notes}" in site
    for one in (page, every, site):
        assert "0.52 ± 0.02</b> (rows not paired)" in one or "0.52 ± 0.02 (rows not paired)" in one
    assert table.count("(rows not paired)") == 1
    claims = write_judged(tmp_path / "open.parquet", ours={"difference_over": "rows, not paired"})
    (tmp_path / "other").mkdir()
    write_page(tmp_path / "open", study(tmp_path / "other", claims=claims))
    assert "(rows not paired; asked" in (tmp_path / "open" / "README.md").read_text("utf-8")


def test_a_difference_without_a_known_cause_says_so(view: StudyView) -> None:
    ((growth,), (far,)), ((ours,),) = view.unsettled.values()
    assert (growth.why, far.why, ours.why) == ("another rule", "unknown", "too near")


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("agrees", "Agrees"), ("holds, smaller", "Agrees in part"), ("erratum", "Erratum"), ("to run", "To run")],
)
def test_an_erratum_is_no_difference_and_a_part_is_not_the_whole(tmp_path: Path, verdict: str, outcome: str) -> None:
    claims = write_judged(tmp_path / "judged.parquet", error={"verdict": verdict})
    findings = [{"statement": "One", "claims": ["error"]}]
    (card,) = study(tmp_path, claims=claims, study=STUDY | {"findings": findings}).cards
    assert card.outcome == outcome


def test_what_is_open_has_distance_cause_experiment_and_cost(view: StudyView) -> None:
    ((growth,), (far,)), ((ours,),) = view.unsettled.values()
    assert (growth.statement, growth.distance, growth.size) == ("It grows by −0.3", "0.01 ± 0.02", "> 0.25")
    assert (growth.cause, growth.certainty, growth.decided_by) == ("another rule", "proved", "a run")
    assert (far.cost, far.command) == ("2 min", "snakemake --cores 2 mile --config scale=laptop")
    assert ours.needed == "40 splits"
    assert {needed: [claim.name for claim in of] for needed, of in view.to_run.items()} == {
        "snakemake --cores 2 gone": ["gone"]
    }


def test_the_forest_shows_published_numbers_in_sizes_that_matter(view: StudyView) -> None:
    marks = {
        place: [[(m.claim.name, m.x, m.low, m.high, m.beyond) for m in row] for row in of]
        for place, of in view.forest.items()
    }
    assert marks == {
        "table": [[("error", pytest.approx(0.08), pytest.approx(-0.08), pytest.approx(0.24), False)]],
        "file": [[("far", -3, -3, -3, True)]],
    }


@pytest.mark.parametrize(("number", "rows"), [(MOST_ROWS, MOST_ROWS), (MOST_ROWS + 1, 1)])
def test_a_family_of_many_numbers_has_one_row_of_the_forest(tmp_path: Path, number: int, rows: int) -> None:
    names = [f"error_{n}" for n in range(number)]
    families = {"families": dict.fromkeys(names, "error_{n}"), "findings": []}
    claims = write_claims(tmp_path / "many.parquet", {name: {} for name in names})
    view = study(tmp_path, claims=claims, study=STUDY | families)
    assert [len(row) for row in view.forest["table"]] == [number // rows] * rows
    write_page(tmp_path / "made", view)
    told = f"{number} numbers: {number} agree" in (tmp_path / "made" / "forest.svg").read_text("utf-8")
    assert told == (rows == 1)


@pytest.mark.parametrize(
    ("below", "above", "text"),
    [
        (12, 0, "12 of 12 numbers lie below the published ones."),
        (1, 15, "15 of 16 numbers lie above the published ones."),
        (6, 0, ""),
        (9, 3, ""),
    ],
)
def test_a_finding_says_that_its_numbers_lie_on_one_side(tmp_path: Path, below: int, above: int, text: str) -> None:
    d = {f"error_{n}": -0.02 if n < below else 0.02 for n in range(below + above)}
    claims = write_claims(tmp_path / "sides.parquet", {name: {"d": value} for name, value in d.items()})
    findings = {"findings": [{"statement": "One", "claims": list(d)}]}
    view = study(tmp_path, claims=claims, study=STUDY | findings)
    assert view.cards[0].one_side == text
    write_page(tmp_path / "made", view)
    page = (tmp_path / "made" / "README.md").read_text("utf-8")
    assert (text in page, "the published ones." in page) == (True, bool(text))


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        ("same", "14 of 14 numbers lie below the published ones."),
        ("reduced", "14 of 14 numbers lie below the published ones."),
        ("settings unknown", ""),
        ("another problem", ""),
    ],
)
def test_only_numbers_of_the_published_problem_are_counted_on_a_side(tmp_path: Path, identity: str, text: str) -> None:
    of = {f"error_{n}": {"d": -0.02, "identity": identity if n < 12 else "same"} for n in range(14)}
    claims = write_claims(tmp_path / "sides.parquet", of)
    findings = {"findings": [{"statement": "One", "claims": list(of)}]}
    assert study(tmp_path, claims=claims, study=STUDY | findings).cards[0].one_side == text


def test_what_is_reduced_is_said_once(view: StudyView) -> None:
    assert view.reductions == [REDUCED]
    assert [claim.reduced for claim in view.claims] == [(1,), (1,), (), (1,), ()]


def test_one_sentence_says_whether_chains_sample_the_posterior(view: StudyView) -> None:
    assert view.posterior == "Convergence of 1 run: 0 fine, 0 look closer, 1 cannot be judged, 0 do not trust."


def test_times_are_those_of_the_jobs_behind_the_results(view: StudyView, tmp_path: Path) -> None:
    took = "jobs of this study: 2 min, one after another"
    assert [step.cost for step in view.steps] == ["1 s", f"ten minutes ({took})", took, "not measured yet"]
    benchmark(tmp_path / "benchmarks/sample/small/mile/split0/block0.tsv", 7500)
    longer = study(tmp_path, jobs=study_jobs(tmp_path, {"mile": [1, 1]}))
    assert longer.steps[1].cost == "ten minutes (jobs of this study: 2 h 05 min, one after another)"


def test_figures_have_what_was_measured_runs_and_the_command_that_makes_them(view: StudyView) -> None:
    assert {name: [claim.name for claim in of] for name, of in view.takeaways.items()} == {
        "few": ["error", "far", "gone"], "many": [], "uci": [],
    }  # fmt: skip
    assert view.remade["few"] == "snakemake --cores 2 small_few --config scale=laptop"
    assert view.runs[0].figures == ["few"]
    assert view.runs[0].scores["airfoil, split 0"][0] == ("rmse", "0.5 ± 0.02", "10")
    assert (view.runs[1].scores, view.runs[1].trust) == ({}, {})


def test_scores_of_a_run_that_diverged_are_not_shown(tmp_path: Path) -> None:
    rows = table(tmp_path, [row("mile", 13.2), row("mile", 0.0, metric="chains_excluded")])
    run = study(tmp_path, table=rows).runs[0]
    assert "diverged" in run.trust[0]
    assert run.scores == {}


def test_claims_on_further_sets_without_errors_over_chains_are_counted_once(view: StudyView, tmp_path: Path) -> None:
    assert view.rows_only == "", "errors of test rows are judged claim by claim"
    shifted = ANSWER | {"dataset": "airfoil/fog3"}
    whole, optimum = shifted | {"monte_carlo_error": 0.01}, shifted | {"chains": 1, "draws": 1}
    answers = {"error": [shifted, shifted], "growth": [whole], "far": [optimum], "ours": [whole, shifted]}
    claims = write_judged(tmp_path / "shifted.parquet", **{name: {"rows": rows} for name, rows in answers.items()})
    shown = study(tmp_path, claims=claims)
    assert shown.rows_only.startswith("2 claims about shifted rows or rows of other data have an error over rows only")
    write_page(tmp_path / "page", shown)
    assert (tmp_path / "page/claims.md").read_text(encoding="utf-8").count(shown.rows_only) == 1


def test_every_verdict_has_a_kind_and_every_relation_a_size() -> None:
    assert {str(verdict) for verdict in Verdict} == {*KINDS}
    assert {*get_args(Relation)} == {*SIZES}


def test_a_study_without_claims(tmp_path: Path) -> None:
    view = study(tmp_path, claims=None, study=STUDY | {"findings": []})
    assert (view.sentence, view.counts, view.cards, view.forest) == ("", [], [], {})
    assert not any(view.unsettled.values())


def test_only_questions_of_this_project(tmp_path: Path) -> None:
    others = {name: {"study": "other"} for name in ("error", "growth", "gone", "far")}
    claims = write_judged(tmp_path / "own.parquet", **others)
    view = study(tmp_path, claims=claims, study=STUDY | {"findings": []})
    assert view.sentence == "1 question of this project: 1 on other problems (1 cannot tell)."


def test_counts_tell_other_problems_from_the_papers(tmp_path: Path) -> None:
    both = write_judged(
        tmp_path / "both.parquet", far={"identity": "another problem"}, error={"identity": "settings unknown"}
    )
    counts = study(tmp_path, claims=both).counts
    assert counts[0].parts == {HERE: {"agrees": 1, "to run": 1}, ELSEWHERE: {"differs": 1}}
    assert counts[0].words == "2 on the paper's problem (1 agrees, 1 to run), 1 on other problems (1 differs)"
    assert counts[1].words == "1 does not hold", "where all are of the paper's problem, nothing is said"


@pytest.mark.parametrize(
    ("main", "others", "outcome"),
    [
        ("agrees", ["differs", "differs"], "Mixed"),
        ("holds, smaller", ["does not hold", "cannot tell", "to run"], "Mixed"),
        ("agrees", ["agrees", "differs", "cannot tell", "to run"], "Agrees in part"),
        ("agrees", ["agrees", "to run"], "Agrees in part"),
        ("does not hold", ["holds", "holds"], "Mixed"),
        ("cannot tell", ["does not hold", "cannot tell"], "Not decided"),
    ],
)
def test_a_finding_is_mixed_if_its_main_claim_speaks_for_less_than_half(
    view: StudyView, main: str, others: list[str], outcome: str
) -> None:
    claim = view.claims[0]._replace(verdict=main)
    assert Card("One", claim, in_order([main, *others]), "", "", "").outcome == outcome


def test_claims_of_other_papers_name_them_before_the_place(tmp_path: Path) -> None:
    papers = {"far": {"paper": "MILE, Somebody, ICLR"}, "ours": {"paper": "MILE, Somebody, ICLR"}}
    claims = study(tmp_path, claims=write_judged(tmp_path / "papers.parquet", **papers)).claims
    assert [claim.where for claim in claims] == [
        "Table 1", "section 2", "Table 1", "MILE, x.csv", "this project's own question"
    ]  # fmt: skip


def test_families_have_one_row_each(tmp_path: Path) -> None:
    alike = {name: {"verdict": "differs", "identity": "same"} for name in ("error", "growth", "far")}
    families = {"error": "one", "growth": "other", "far": "one"}
    view = study(
        tmp_path, claims=write_judged(tmp_path / "alike.parquet", **alike), study=STUDY | {"families": families}
    )
    assert [[claim.name for claim in of] for of in view.unsettled["What differs"]] == [["error", "far"], ["growth"]]
    write_page(tmp_path / "made", view)
    write_site(tmp_path / "made", view)
    assert "**differs** (same), and 1 more of this kind |" in (tmp_path / "made" / "README.md").read_text("utf-8")
    assert "<summary>1 more of this kind</summary>" in (tmp_path / "made" / "index.html").read_text("utf-8")


def test_only_what_was_made_here_counts_and_the_rest_is_marked(tmp_path: Path) -> None:
    view = partly_made_here(tmp_path)
    assert view.sentence == "2 published numbers: 1 agrees, 1 differs."
    assert view.answers == (
        "4 of 5 claims were answered: 2 from runs made here, 2 from results in the repository. "
        "Only those from runs made here are counted."
    )
    few, gone = view.cards
    assert (few.statement, few.outcome, few.verdicts) == ("Few errors are made", "Agrees", {"agrees": 1})
    assert few.behind == "1 of 2 claims, by results made here: 1 agrees"
    assert (gone.outcome, gone.left_out) == ("Agrees", 2), "the claim of the clone, which does not hold, is not counted"
    assert view.own == []
    assert [(card.statement, card.claim.mark) for card in view.elsewhere] == [("None is small", "came with the clone")]
    assert {claim.name: claim.mark for claim in view.claims} == {
        "error": "", "growth": "came with the clone", "gone": "", "far": "", "ours": "came with the clone",
    }  # fmt: skip
    assert [[one.name for one in of] for of in view.unsettled["What differs"]] == [["far"]]
    assert view.unsettled["What is open"] == []
    assert view.figure_marks == {"many": "of earlier code"}
    assert view.extent == "made here: 2 of 3 figures, 1 of 2 runs"
    assert [run.marks for run in view.runs] == [{}, {0: "came with the clone"}]
    assert "Convergence of 1 run:" in view.posterior


def test_the_head_says_how_many_claims_lack_chains_that_have_converged(view: StudyView) -> None:
    runs = [run._replace(trust={0: "do not trust: R-hat 4"}) for run in view.runs]
    claims = [*view.claims, view.claims[0]._replace(reason=f"{CHAINS}R-hat 4")]
    assert "1 claim could not be decided without" in _posterior(runs, claims)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (3570, "1 h 00 min"), (7500, "2 h 05 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_one_run_of_an_entry_is_counted_in_good_english(view: StudyView) -> None:
    made = [run.made for run in view.runs if run.made]
    assert any("runs of this entry: 1, " in text for text in made)
