"""Claims of a file: families and published numbers, and the mistakes in them."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.claims.claim import Claim, cannot_agree, cannot_fail
from bnn_atlas.config.claims.load import ClaimEntry, ClaimsConfig, Families, load_claims
from bnn_atlas.config.language.reading import read_yaml
from bnn_atlas.config.runs.studies import Study, by_name
from bnn_atlas.config.settings import load_atlas, load_study
from bnn_atlas.published import COLUMNS, FOLDER, read_published
from tests.config.folders import CLAIM, DATASETS, refused, run_edit, study_file
from tests.copies import PUBLISHED, REPOSITORY

NUMBERS = """
table,one,1,rmse,0.1250,0.01,4,,Table 1
table,one,4,rmse,0.0750,,,0.002,Table 1
"""
EQUALS = {key: value for key, value in CLAIM.items() if key != "bound"} | {"relation": "equals", "size": 0.01}
THAN = {"than": {"dataset": "other"}}
BELOW, ALIKE = {"relation": "below", "bound": None}, {"relation": "alike", "bound": None, "than": {"chains": 3}}
IN_FIGURE = {"metric": None, "runs": [], "figure": "curve", "in_figure": {"column": "c", "where": {"kind": "zero"}}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(study_file(tmp_path_factory.mktemp("study")), "paper", DATASETS)


def load(folder: Path, study: Study, claims: dict[str, Any], **sections: Any) -> ClaimsConfig:
    """A file with these claims, beside published numbers."""
    for name in ("claims", "published"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "published" / "small.csv").write_text(",".join(COLUMNS) + NUMBERS, encoding="utf-8")
    path = folder / "claims" / "small.yaml"
    path.write_text(yaml.safe_dump({"paper": "p", "claims": claims} | sections, sort_keys=False), encoding="utf-8")
    return load_claims(path, study)


def one(folder: Path, study: Study, **changes: Any) -> Claim:
    """The claim `error` with some changes."""
    return load(folder, study, {"error": CLAIM | changes}).claims["error"]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"runs": ["one", "two"]}, ["error.runs: no run 'two' in study 'small'", "it has one"]),
        ({"runs": []}, ["error: nothing to measure", "give metric and runs, or figure and in_figure"]),
        ({"metric": None}, ["error: nothing to measure"]),
        ({"relation": "less"}, ["error.relation = 'less'", "'equals'", "'alike'"]),
        ({"relation": "atmost"}, ["error.relation = 'atmost': must be 'equals', ", "did you mean 'at_most'?"]),
        ({"bound": None}, ["error: relation 'at_most' needs bound"]),
        ({"bound": "low"}, ["error.bound = 'low'", "must be a number"]),
        ({"bond": 3.0}, ["error: unknown key 'bond'", "did you mean 'bound'?"]),
        ({"size": 0.1}, ["error: relation 'at_most' needs bound, and takes no size"]),
        ({"relation": "equals"}, ["error: relation 'equals' needs", "published or value"]),
        ({"relation": "equals", "bound": None, "value": 1.0, "size": 0.0}, ["'equals' needs a size above 0"]),
        ({"value": 1.0}, ["error: relation 'at_most' takes no value"]),
        ({"basis": None}, ["error: basis is missing"]),
        ({"place": None}, ["error: place is missing"]),
        ({"read_in": "own"}, ["error: place is missing", "read_in 'own'"]),
        ({"read_in": "memory"}, ["error.read_in = 'memory'", "'text'", "'own'"]),
        ({"read_in": "own", "place": None, "published": "table/one/1/rmse"}, ["has no published number; give `value`"]),
        ({"erratum": "a digit"}, ["error: erratum: there is no published number"]),
        ({"cause": {"cause": "x", "certainty": "likely"}}, ["error.cause: a cause that is likely needs decided_by"]),
        ({"figure": "cruve"}, ["error.figure: no figure 'cruve' in study 'small'", "'curve'?); it has curve"]),
        ({"metric": "rsme"}, ["error.metric = 'rsme': there is no such metric (did you mean 'rmse'?)", "(line"]),
        ({"metric": "zzz"}, ["error.metric = 'zzz': there is no such metric; docs/metrics.md lists all"]),
        ({"metric": "coverage"}, ["error.at = '': 'coverage' needs one, its nominal level"]),
        ({"at": 0.9}, ["error.at = '0.9': 'rmse' has no level; leave `at` out"]),
        ({"chains": 10**9}, ["error.chains = 1000000000: must be less than or equal to 100000"]),
        ({"chains": 5}, ["error.chains = 5: run 'one' has 4 chains"]),
        ({"dataset": "diabetis"}, ["error.dataset = 'diabetis': run 'one' has no such set", "; it has diabetes"]),
        (BELOW, ["error: relation 'below' needs than"]),
        (BELOW | {"than": {}}, ["error: than is the claim's own value"]),
        (BELOW | {"than": {"runs": ["one", "one"]}}, ["error.than: these are the claim's own runs"]),
        (BELOW | {"than": {"draws": 11}}, ["error.than.draws = 11: run 'one' has 10 draws"]),
        (BELOW | {"than": {"chains": 5}}, ["error.than.chains = 5: run 'one' has 4 chains"]),
        (BELOW | {"than": {"metric": "rmsee"}}, ["error.than.metric = 'rmsee': there is no such metric", "'rmse'?"]),
        (BELOW | {"than": {"runs": ["two"]}}, ["error.than.runs: no run 'two' in study 'small'", "it has one"]),
        (BELOW | {"than": {"chains": 3}, "size": -1.0}, ["error.size = -1.0: must be greater than or equal to 0"]),
        (ALIKE, ["error: relation 'alike' needs a size above 0"]),
        (ALIKE | {"bound": 1}, ["error: relation 'alike' takes no bound; give size"]),
        ({"given": "error"}, ["error.given: no claim 'error' before this one; these are none"]),
        ({"leans_on": ["two"]}, ["error.leans_on: the claim does not name the run 'two'", "there are one"]),
        (IN_FIGURE | {"leans_on": ["ones"]}, ["error.leans_on: 'curve' does not show the run 'ones'", "mean 'one'?"]),
        (IN_FIGURE | {"figure": None}, ["give figure"]),
        (IN_FIGURE | {"in_figure": {"column": "kin"}}, ["error.in_figure.column = 'kin': curve.csv has no", "'kind'?"]),
        (IN_FIGURE | {"in_figure": {"column": "c", "where": {"d": 1}}}, ["error.in_figure.where.d = 'd': curve.csv"]),
        (IN_FIGURE | {"than": {"in_figure": {"column": "d"}}, "basis": "a guess"}, ["than.in_figure.column = 'd'"]),
        (IN_FIGURE | {"metric": "rmse"}, ["leave out metric and runs"]),
        (IN_FIGURE | THAN, ["both sides of a comparison need in_figure"]),
        (BELOW | {"than": {"in_figure": {"column": "c"}}, "figure": "curve"}, ["both sides of a comparison need"]),
        (IN_FIGURE | {"than": {"in_figure": IN_FIGURE["in_figure"]}}, ["than is the claim's own value"]),
    ],
)  # fmt: skip
def test_mistakes_in_claims(tmp_path: Path, study: Study, changes: dict[str, Any], parts: list[str]) -> None:
    with refused(f"{tmp_path}/claims/small.yaml: claims.", *parts):
        one(tmp_path, study, **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"for": []}, "claims.error_{n}.for: give rows, such as [{ set: airfoil, bound: 0.1 }"),
        ({"for": {"n": 3}}, "claims.error_{n}.for: give rows"),
        ({"for": [{"m": 3}]}, "claims.error_{n}: {n} is not a known placeholder; known are m"),
        ({"for": [{"n": 1}, {"n": 1}]}, "claims.error_{n}: two claims have the name 'error_1': put a key of `for` in"),
        ({"for": [{"n": 1, "bond": 3}]}, "claims.error_{n}.for: 'bond' is not a key of a claim (did you mean 'bound'?"),
        *(({"for": [{"n": 1, key: 3}], "published": "x"}, f"claims.error_{{n}}.for: '{key}' stands for the publ")
          for key in ("value", "by", "error")),
        ({"statement": "{set}"}, "claims.error_{n}: {set} is not a known placeholder; known are n (line 3)"),
        ({"for": [{"n": 1}, {"n": 2, "bound": "x"}]}, "claims.error_2.bound = 'x': must be a number"),
        ({"runs": ["two"]}, "claims.error_1.runs: no run 'two' in study 'small'"),
        ({"published": "table/one/2/rmse"}, "claims.error_{n}.published: no number 'table/one/2/rmse' in config/publ"),
        ({"published": 3}, "claims.error_{n}.published = 3: give the key of a published number, as text"),
        (EQUALS | {"bound": None, "published": "table/one/1/rmse"}, "claims.error_1.published: only runs of the paper"),
    ],
)  # fmt: skip
def test_mistakes_in_families(tmp_path: Path, study: Study, changes: dict[str, Any], expected: str) -> None:
    with refused(f"{tmp_path}/claims/small.yaml: {expected}", "(line "):
        load(tmp_path, study, {"error_{n}": CLAIM | {"for": [{"n": 1}]} | changes})


def test_a_mistake_in_a_row_has_its_line(tmp_path: Path, study: Study) -> None:
    with refused("claims.error_2.chains = 9: run 'one' has 4 chains (line 7)"):
        load(tmp_path, study, {"error_{n}": {"for": [{"n": 1}, {"n": 2, "chains": 9}]} | CLAIM})


def test_rows_set_fields_and_fill_texts(tmp_path: Path, study: Study) -> None:
    rows = [{"chains": 1, "bound": 0.5}, {"chains": 4, "bound": 0.4, "statement": "All of them"}]
    entry = CLAIM | {"for": rows, "statement": "{chains:,} of {chains}"}
    found = load(tmp_path, study, {"error_{chains}": entry}).claims
    assert list(found) == ["error_1", "error_4"]
    assert [(claim.chains, claim.bound, claim.statement) for claim in found.values()] == [
        (1, 0.5, "1 of 1"),
        (4, 0.4, "All of them"),
    ]


def test_lists_are_combined_in_order_and_words_have_spaces(tmp_path: Path, study: Study) -> None:
    lists = {"set": ["wine_red", "yacht"], "number": [1, 10000]}
    entry = CLAIM | {"for": lists, "statement": "{set:words} {number:,}", "basis": "{set}"}
    found = load(tmp_path, study, {"{set}_{number}": entry}).claims
    assert list(found) == ["wine_red_1", "wine_red_10000", "yacht_1", "yacht_10000"]
    assert found["wine_red_10000"].statement == "wine red 10,000"
    assert found["wine_red_10000"].basis == "wine_red"


def test_braces_of_other_claims_are_text(tmp_path: Path, study: Study) -> None:
    assert one(tmp_path, study, statement="{x}").statement == "{x}"


def test_a_published_number_a_difference_and_those_of_a_family(tmp_path: Path) -> None:
    study = load_study(study_file(tmp_path, run_edit(problem="as_published")), "paper", DATASETS)
    equals = EQUALS | {"size": 0.022}
    entries = {
        "one": equals | {"published": "table/one/1/rmse", "statement": "{value} (sd {error})"},
        "two": equals
        | {
            "published": "table/one/4/rmse - table/one/1/rmse",
            "than": {"chains": 1},
            "statement": "{value}: {by}",
        },
        "rmse_{chains}": equals | {"for": [{"chains": 1}, {"chains": 4}], "published": "table/one/{chains}/rmse"},
    }
    first, second, *family = load(tmp_path, study, entries).claims.values()
    printed = [claim.published for claim in (first, second, *family)]
    assert [one and (one.value, one.of_mean, one.reading, one.text) for one in printed] == [
        (0.125, 0.005, None, "0.1250 (sd 0.01)"),
        (-0.05, 0.005, 0.002, "~−0.0500 (sd 0.0100)"),
        (0.125, 0.005, None, "0.1250 (sd 0.01)"),
        (0.075, None, 0.002, "~0.0750"),
    ]
    assert (first.statement, second.statement) == ("0.1250 (sd 0.01)", "-0.0500: 0.0500")
    with refused("claims.one: the published number has an error of 0.005", "give a size of 0.02 or more"):
        load(tmp_path, study, entries | {"one": entries["one"] | {"size": 0.018}})


FINDING = {"statement": "Errors are small"}
BOTH = {name: CLAIM | {"finding": "small"} for name in ("error", "other")}


@pytest.mark.parametrize(
    ("claims", "changes", "parts"),
    [
        (
            BOTH | {"error": CLAIM | {"finding": "smal"}}, {},
            ["claims.error.finding: no finding 'smal' in this file (did you mean 'small'?)", "(line 13)"],
        ),
        ({"error": CLAIM}, {}, ["findings.small: no claim supports it; write `finding: small` in a claim (line 14)"]),
        (BOTH, {"main": "errors"}, ["findings.small.main: 'errors' is not one of its claims (did you mean 'error'?)"]),
        (BOTH, {"cause": "x"}, ["findings.small: unknown key 'cause'; allowed keys: statement, main, "]),
    ],
)  # fmt: skip
def test_mistakes_in_findings(
    tmp_path: Path, study: Study, claims: dict[str, Any], changes: dict[str, Any], parts: list[str]
) -> None:
    with refused(f"{tmp_path}/claims/small.yaml", *parts):
        load(tmp_path, study, claims, findings={"small": FINDING | changes})


def test_the_main_claim_of_a_finding_is_first(tmp_path: Path, study: Study) -> None:
    for main, claims in ((None, ("error", "other")), ("other", ("other", "error"))):
        config = load(tmp_path, study, BOTH, findings={"small": FINDING | {"main": main}})
        assert config.findings[0].claims == claims


def test_runs_of_a_claim_are_repetitions(tmp_path: Path) -> None:
    grid = {"seed": [1, 2], "split.seed": [0, 1], "likelihood.sigma": [0.5, 1.0]}
    study = load_study(study_file(tmp_path, run_edit(grid=grid)), "paper", DATASETS)
    with refused("claims.error.runs", "differ in likelihood.sigma;", "seed and split.seed only"):
        one(tmp_path, study)
    samples = dict.fromkeys(("rows_1", "rows_2"), DATASETS["diabetes"])
    both = load_study(study_file(tmp_path, run_edit(grid={"dataset": [*samples]})), "paper", DATASETS | samples)
    assert len(both.runs) == 2
    assert one(tmp_path, both).runs == ("one",), "two samples of the same rows"
    runs = [name for name in study.runs if name.endswith("sigma0.5")]
    for names in (runs, runs[1:2]):
        assert one(tmp_path, study, runs=names).runs == tuple(names)


def test_runs_of_a_claim_that_differ_at_the_papers_scale_only(tmp_path: Path) -> None:
    """A smaller scale cuts the grid to one value, where nothing differs."""
    edit = run_edit(grid={"likelihood.sigma": [0.5, 1.0]}, scales={"demo": {"grid": {"likelihood.sigma": [0.5]}}})
    with refused("differ in likelihood.sigma;"):
        one(tmp_path, load_study(study_file(tmp_path, edit), "demo", DATASETS))


@pytest.mark.parametrize("overlay", [None, {"grid": {"seed": [1]}}])
def test_claims_may_name_runs_that_a_smaller_scale_leaves_out(tmp_path: Path, overlay: dict[str, Any] | None) -> None:
    def edit(study: dict[str, Any]) -> None:
        study["runs"]["two"] = {**study["runs"]["one"], "grid": {"seed": [1, 2]}, "scales": {"demo": overlay}}

    path = study_file(tmp_path, edit)
    for study in [load_study(path, scale, DATASETS) for scale in ("demo", "laptop", "paper")]:
        for name in ("two", "two-seed2"):
            assert one(tmp_path, study, runs=[name]).runs == (name,)
        for name, close in (("tow-seed2", "two-seed2"), ("two-seed3", "two-seed"), ("two-sede1", "two-seed1")):
            with refused(f"no run '{name}' in study 'small' (did you mean '{close}", "; it has one, two"):
                one(tmp_path, study, runs=[name])


@pytest.mark.parametrize("others", [["one-seed2", "one-seed1"], ["one", "one-seed1"]])
def test_a_grid_is_not_compared_with_its_own_runs(tmp_path: Path, others: list[str]) -> None:
    study = load_study(study_file(tmp_path, run_edit(grid={"seed": [1, 2]})), "paper", DATASETS)
    with refused("claims.error.than: these are the claim's own runs"):
        one(tmp_path, study, **BELOW, than={"runs": others})


def equal(**changes: Any) -> Claim:
    number = {"published": {"value": 1.0, "text": "1.0"}}
    return Claim.model_validate(EQUALS | number | {"size": 0.1} | changes)


@pytest.mark.parametrize(
    ("value", "size", "changes", "why"),
    [
        (1.0, 0.5, {}, "half of the published value (1) or more"),
        (1.0, 0.49, {}, ""),
        (0.0, 0.1, {}, ""),
        (0.0163, 0.014, THAN, "published difference (0.0163)"),
        (-0.0163, 0.0079, THAN, ""),
    ],
)
def test_sizes_that_cannot_fail(value: float, size: float, changes: dict[str, Any], why: str) -> None:
    found = cannot_fail(equal(published={"value": value, "text": "x"}, size=size, **changes))
    assert why in found if why else found == ""


@pytest.mark.parametrize(
    ("size", "errors", "sound"),
    [
        (0.1, {}, True),
        (0.1, {"reading": 0.025}, True),
        (0.1, {"reading": 0.03}, False),
        (0.1, {"of_mean": 0.02, "reading": 0.02}, False),
        (0.1, {"of_mean": 0.017, "reading": 0.017}, True),
    ],
)
def test_a_number_whose_own_error_is_as_large_as_the_size_is_refused(
    size: float, errors: dict[str, float], sound: bool
) -> None:
    found = cannot_agree(equal(published={"value": 1.0, "text": "x", **errors}, size=size))
    assert (found == "") if sound else ("four times that is more than the size 0.1" in found)


AT_MOST, AT_LEAST, CHANGES = ({"relation": name} for name in ("at_most", "at_least", "changes_less_than"))
ACCURACY, FIGURE = {"metric": "accuracy"}, {"figure": "curve", "metric": None, "runs": []}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (AT_LEAST | ACCURACY | {"bound": -1}, "accuracy lies between 0 and 1, so it cannot fail"),
        (AT_LEAST | ACCURACY | {"bound": 0}, "cannot fail"),
        (AT_LEAST | ACCURACY | {"bound": 1.5}, "accuracy lies between 0 and 1, so it cannot hold"),
        (AT_LEAST | ACCURACY | {"bound": 1}, ""),
        (AT_MOST | {"bound": -1}, "rmse lies between 0 and inf, so it cannot hold"),
        (AT_MOST | {"bound": 0}, ""),
        (AT_MOST | {"metric": "brier", "bound": 2}, "cannot fail"),
        (EQUALS | ACCURACY | {"value": 1.2, "size": 0.1}, "cannot hold"),
        (AT_LEAST | ACCURACY | THAN | {"bound": -1}, "the difference of two values of accuracy lies between -1 and 1"),
        ({"relation": "above"} | ACCURACY | THAN | {"size": 1}, "cannot hold"),
        ({"relation": "below"} | ACCURACY | THAN | {"size": 0.5}, ""),
        ({"relation": "alike", "size": 1} | ACCURACY | THAN, "cannot fail"),
        ({"relation": "below", "than": {"metric": "accuracy"}, "size": 1}, "cannot hold"),
        (AT_LEAST | {"metric": "crps", "bound": 0}, "cannot fail"),
        (AT_LEAST | {"metric": "interval_score", "bound": -1}, "cannot fail"),
        (AT_LEAST | {"metric": "sce_uppal", "bound": 1.1}, "cannot hold"),
        (AT_LEAST | {"metric": "barrier_error_max", "bound": -1}, "cannot fail"),
        (AT_LEAST | {"metric": "pair_transpositions_change_max", "bound": 0}, "cannot fail"),
        (EQUALS | ACCURACY | {"value": 0, "size": 1}, "cannot fail"),
        (EQUALS | ACCURACY | THAN | {"value": 0, "size": 1}, "cannot fail"),
        (AT_LEAST | {"metric": "lppd", "bound": 0}, ""),
        (FIGURE | AT_LEAST | {"in_figure": {"column": "c", "take": "share_given"}, "bound": 1.5}, "cannot hold"),
        (FIGURE | AT_LEAST | {"in_figure": {"column": "c"}, "bound": 1.5}, ""),
        (EQUALS | {"value": 0, "size": 0.5}, "natural scale of rmse (1)"),
        (EQUALS | THAN | {"metric": "lppd", "value": 0, "size": 20}, "natural scale of lppd (1)"),
        (EQUALS | ACCURACY | THAN | {"value": 0, "size": 0.5}, "natural scale of accuracy (1)"),
        ({"relation": "alike", "size": 50} | THAN, "natural scale of rmse (1)"),
        (AT_LEAST | THAN | {"metric": "lppd", "bound": -50}, "natural scale of lppd (1)"),
        (AT_MOST | THAN | {"bound": 50}, "natural scale of rmse (1)"),
        (AT_MOST | THAN | {"bound": -50}, ""),
        ({"relation": "alike", "metric": "log_likelihood", "size": 50} | THAN, ""),
        (EQUALS | {"metric": "rmse_original_units", "value": 0, "size": 5}, ""),
        (EQUALS | FIGURE | {"in_figure": {"column": "c"}, "value": 0, "size": 5}, ""),
    ],
)
def test_limits_outside_of_what_the_numbers_can_be(changes: dict[str, Any], why: str) -> None:
    found = cannot_fail(Claim.model_validate({k: v for k, v in CLAIM.items() if k != "bound"} | changes))
    assert why in found if why else found == ""


def test_densities_of_classes_are_below_one() -> None:
    claim = Claim.model_validate(CLAIM | AT_MOST | {"metric": "lppd", "bound": 0})
    assert cannot_fail(claim) == ""
    assert "lppd lies between -inf and 0, so it cannot fail" in cannot_fail(claim, classes=True)


@pytest.mark.parametrize("key", ["statement", "place", "basis"])
def test_texts_for_readers_are_not_empty(key: str, tmp_path: Path, study: Study) -> None:
    with refused(f"claims.error.{key} = ' ': must not be blank"):
        one(tmp_path, study, **{key: " "})


def test_a_file_with_such_a_claim_is_refused_with_all_of_them(tmp_path: Path, study: Study) -> None:
    wide = EQUALS | ACCURACY | {"metric": "coverage", "at": 0.9, "value": 0.9, "size": 2.0}
    with refused("claims.a: coverage lies", "claims.c: coverage lies") as error:
        load(tmp_path, study, {"a": wide, "b": wide | {"size": 0.1}, "c": wide})
    assert "claims.b" not in str(error.value)


def without_claim(numbers: dict[str, Any], claims: dict[str, Any], no_claim: dict[str, str]) -> list[str]:
    """Published numbers that no claim names and for whose absence the file gives no reason."""
    claimed = Families(claims, tuple(ClaimEntry.model_fields), numbers, "").published
    return [key for key in numbers if key not in claimed and not any(fnmatch(key, one) for one in no_claim)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_number_has_a_claim_or_a_reason_why_it_has_none(name: str) -> None:
    numbers = read_published(FOLDER / f"{name}.csv")
    file = read_yaml(REPOSITORY / "config" / "claims" / f"{name}.yaml")
    no_claim = file.get("no_claim", {})
    assert without_claim(numbers, file["claims"], no_claim) == []
    named = next(iter(numbers))
    bare = {key: claim for key, claim in file["claims"].items() if "published" not in claim}
    assert named in without_claim(numbers, bare, {}), "without claims, numbers are missing"


def test_a_number_has_a_claim_or_a_reason_why_it_has_none_but_not_both(tmp_path: Path, study: Study) -> None:
    claims = {"one": CLAIM | {"relation": "at_most", "published": "table/one/1/rmse"}}
    assert load(tmp_path, study, claims, no_claim={"table/one/4/*": "no run"}).no_claim == {"table/one/4/*": "no run"}
    with refused("no_claim.table/two/4/*: no such number in config/published"):
        load(tmp_path, study, claims, no_claim={"table/two/4/*": "no run"})
    with refused("no_claim.table/one/*: a claim is about 'table/one/1/rmse'; take it out of no_claim"):
        load(tmp_path, study, claims, no_claim={"table/one/*": "no run"})


def counted_twice(claims: ClaimsConfig, study: Study) -> list[list[str]]:
    """Claims that ask the same measurement against the same limit, or for the same number, whatever their relation."""
    paper = by_name(study.runs_at["paper"])
    found: dict[Any, list[str]] = {}
    for name, claim in claims.claims.items():
        sides = [
            str(side._replace(runs=tuple(sorted({run.name for each in side.runs for run in paper.get(each, ())}))))
            for side in claim.sides.values()
        ]
        limit = claim.target if claim.relation == "equals" else abs(claim.size or claim.bound or 0.0)
        found.setdefault((*sorted(sides), claim.relation == "equals", limit), []).append(name)
    return [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_measurement_is_counted_twice(name: str) -> None:
    atlas = load_atlas({"scale": "paper", "studies": [name]}, REPOSITORY / "config")
    assert counted_twice(atlas.claims[name], atlas.studies[name]) == []


def test_a_measurement_asked_in_two_ways_is_found(tmp_path: Path, study: Study) -> None:
    alike = CLAIM | ALIKE | {"size": 0.1}
    turned = {"chains": 3, "than": {"chains": 4}, "relation": "at_least", "bound": -0.1}
    claims = {"a": alike, "b": CLAIM | {"chains": 4} | ALIKE | {"size": 0.1}, "c": alike | {"size": 0.2}}
    claims |= {"d": CLAIM | turned, "e": alike | {"statement": "in words"}}
    assert counted_twice(load(tmp_path, study, claims), study) == [["a", "e"], ["b", "d"]]


def test_a_number_of_a_figure_takes_the_place_of_metric_and_runs() -> None:
    found = equal(**IN_FIGURE)
    assert found.measures == "curve.csv: c where kind = zero"
    assert found.own.in_figure == found.in_figure
    compared = equal(**IN_FIGURE, than={"in_figure": {"column": "c", "where": {"kind": "other"}}})
    assert compared.other is not None
    assert compared.other.metric == "curve.csv: c where kind = other"
    assert compared.other != compared.own
