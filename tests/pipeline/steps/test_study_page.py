"""The page of a study in several sittings, from a few small tables."""

import hashlib
import json
import shutil
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bnn_atlas.export.results import unpack
from bnn_atlas.files import TableError, save_arrays
from bnn_atlas.metrics.tables.measurement import RunIdentity
from bnn_atlas.metrics.tables.parquet import write_table
from bnn_atlas.pipeline.paths import in_metadata
from bnn_atlas.pipeline.steps import study_page as steps
from bnn_atlas.pipeline.steps.study_page import study_page
from bnn_atlas.records import PUBLISHED, digest, environment, name_of, record_of, write
from bnn_atlas.report.console import read_rows
from bnn_atlas.runner.segments import COMPANIONS
from tests.claims.making import CLAIM, planned, row

from .test_reduce import NOISY, REDUCED, posterior, sampled

CHANGE = {"metric": "lppd", "relation": "alike", "size": 5.0, "published": None}
IN_FIGURE = {"figure": "curve", "in_figure": {"column": "c"}, "metric": None, "runs": []}
CLAIMS = {
    "error": CLAIM | {"runs": ["one"]},
    "compared": CLAIM | CHANGE | {"runs": ["one"], "than": {"runs": ["two"]}},
    "number": CLAIM | IN_FIGURE,
}
STUDY = {
    "name": "small",
    "title": "A study",
    "scale": "laptop",
    "claims": {"paper": "Nobody, 2000", "claims": CLAIMS},
    "runs": {name: planned(name) for name in ("one", "two")},
    "figures": {"curve": {"runs": ["one"]}},
    "scales": {},
}
SETTINGS = {"seed": 1}
DRAWN_FROM = [["a: reduces", "b"], ["a: reduces", "c"], ["curve: bins", "10"]]
DRAWN = ["{'curve: bins': '10'}", "{'src/x.py': 'hash'}", "{'a: reduces': 'c'}", "{'a: reduces': 'b'}"]


SHOWN = {
    "study": "small", "dataset": "airfoil", "dataset_title": "Airfoil", "task": "regression", "model": "mlp",
    "point": {}, "hidden": [], "method": "mclmc", "likelihood": "gaussian", "prior_sd": 1.0, "energy_variance": None,
    "split": 0, "chains": 10, "files": {"table": "not there"}, "parts": {}, "set_titles": {}, "published": [],
}  # fmt: skip
CUMULATIVE = {
    "study": "small", "figure": "cumulative", "kind": "cumulative_lppd", "caption": "", "scale": "laptop",
    "module": "bnn_atlas.figures.kinds.cumulative_lppd", "reductions": {}, "runs": ["one", "two"], "own": {},
    "of_runs": {"one": {}, "two": {}},
    "shown": [SHOWN | {"run": run, "entry": run, "label": run} for run in ("one", "two")],
}  # fmt: skip


class Results:
    """Made-up results of the runs `one` and `two`, and of a figure."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder / "results", folder / "docs" / "small"
        self.plan = {
            "name": "small",
            "about": {
                "study": {
                    "name": "small", "title": "A study", "paper": "Nobody, 2000", "differences": [], "findings": [],
                    "cites": "Nobody, 2000", "could_be_read": "", "families": {}, "no_claim": {},
                },
                "scale": "laptop",
                "rows": [{"run": run, "entry": run, "dataset": "airfoil", "reductions": ""} for run in ("one", "two")],
                "captions": {},
                "entries": {"one": "one", "two": "two"},
                "datasets": {},
                "steps": [],
                "shown": {"curve": ["one"], "cumulative": ["one", "two"]},
                "diagnostics": str(self.folder / "diagnostics"),
            },
            "metadata": str(self.folder / "records"),
            "benchmarks": str(self.folder / "benchmarks"),
            "claims": STUDY,
            "runs": {run: self._run(run) for run in ("one", "two")},
            "points": {run: {"entry": run, "point": {}} for run in ("one", "two")},
            "figures": {
                "curve": {
                    "files": [str(self.folder / f"curve.{end}") for end in ("csv", "png")], "settings": "f", "set": {},
                    "drawn_from": DRAWN_FROM, "inputs": [str(self.table("one"))], "of_claims": None,
                    "of_rows": None,
                },
                "cumulative": {
                    "files": [str(self.folder / f"cumulative.{end}") for end in ("csv", "png")], "settings": "g",
                    "set": {},
                    "drawn_from": [], "inputs": [str(self.table(run)) for run in ("one", "two")], "of_claims": None,
                    "of_rows": {
                        "described": CUMULATIVE, "outputs": [f"cumulative.{end}" for end in ("pdf", "csv", "png")],
                    },
                },
            },
            "predictions": {f"small/{run}/split0": str(self.predictions(run)) for run in ("one", "two")},
            "jobs": {
                "study": "small", "sizes": {"one": [1, 1], "two": [1, 1]}, "figures": ["curve"], "sections": [],
                "shared": [],
            },
        }  # fmt: skip

    def table(self, run: str) -> Path:
        return self.folder / run / "metrics.parquet"

    def predictions(self, run: str) -> Path:
        return self.folder / run / "test.npz"

    def trace(self, run: str) -> str:
        return str(self.folder / run / "trace.zarr")

    def make(self, run: str, value: float) -> None:
        """Results of a run: scores, densities of four rows, a job's time, and what they were made from."""
        write_table(self.table(run), [row(run, value), row(run, -value, metric="lppd"), row(run, np.nan, metric="ess")])
        densities = np.random.default_rng(sum(map(ord, run))).normal(size=(10, 4))
        arrays = {"log_density_by_chain": densities - value, "divergent": np.zeros(10, bool)}
        save_arrays(self.predictions(run), arrays)
        job = self.folder / f"benchmarks/sample/small/{run}/split0/block0.tsv"
        job.parent.mkdir(parents=True, exist_ok=True)
        job.write_text(f"s\tcpu_time\n{100 * value}\t-\n")
        self.record(self.trace(run), params=[repr(SETTINGS), "{'code': 'now'}"], input=["data"], endtime=1.0)
        self.record(str(self.table(run)), params=[], input=[], endtime=2.0)

    def draw(self, value: float) -> None:
        """The figure."""
        csv, png = self.plan["figures"]["curve"]["files"]  # type: ignore[index]
        Path(csv).parent.mkdir(exist_ok=True)
        Path(csv).write_text(f"c\n{value}\n")
        Image.new("RGB", (20, 10), "red").save(png)
        for file in (csv, png):
            self.record(file, params=DRAWN, input=[], endtime=3.0)

    def record(self, path: str, **values: Any) -> None:
        folder = self.folder / "records"
        name = urlsafe_b64encode(in_metadata(path, str(self.folder)).encode()).decode()
        assert len(name) < 254
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(values))

    def page(self, destination: Path | None = None) -> dict[str, dict[str, str]]:
        """Write the page; its claims by name."""
        study_page(destination or self.kept, plan=self.plan, command="snakemake", kept=self.kept)
        return {one["claim"]: dict(one) for one in read_rows((destination or self.kept) / "claims.csv")}

    def verdicts(self) -> dict[str, str]:
        return {name: one["verdict"] for name, one in self.page().items()}

    def _run(self, run: str) -> dict[str, Any]:
        split = {"tables": [str(self.table(run))], "settings": SETTINGS, "traces": {self.trace(run): ["data"]}}
        return {"settings": f"hash of {run}", "set": {"steps": 9}, "code": "now", "reductions": "", "splits": [split]}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path)


def test_without_results_there_is_a_page_with_commands(results: Results) -> None:
    claims = results.page()
    assert {one["verdict"] for one in claims.values()} == {"to run"}
    assert claims["compared"]["needed"] == "snakemake --cores 2 one two --config scale=laptop"
    assert claims["number"]["needed"] == "snakemake --cores 2 curve --config scale=laptop"
    assert (
        "**2 published numbers: 2 to run; 1 statement in words: 1 to run.**" in (results.kept / "README.md").read_text()
    )


def test_texts_of_claims_may_have_numbers_of_runs_that_no_claim_names(results: Results) -> None:
    results.plan["claims"] = STUDY | {
        "claims": {"paper": "Nobody, 2000", "claims": {"error": CLAIMS["error"] | {"statement": "{=two/rmse}"}}},
        "runs": {"one": planned("one")},
    }
    results.make("one", 0.5)
    results.make("two", 0.75)
    assert results.page()["error"]["statement"] == "0.7500"


def test_a_campaign_in_three_sittings(results: Results) -> None:
    """Each sitting begins without the results of the one before; the page has all of them."""
    results.make("one", 0.5)
    assert results.verdicts() == {"error": "agrees", "compared": "to run", "number": "to run"}
    shutil.rmtree(results.folder)
    results.draw(0.6)
    assert results.verdicts() == {"error": "agrees", "compared": "to run", "number": "agrees"}
    shutil.rmtree(results.folder)
    results.make("two", 0.75)
    claims = results.page()
    assert {name: one["verdict"] for name, one in claims.items()} == {
        "error": "agrees", "compared": "holds", "number": "agrees"
    }  # fmt: skip
    assert claims["number"]["value"] == "0.6"
    assert claims["compared"]["difference"] == "0.25"
    assert json.loads((results.kept / "kept/settings.json").read_text())["hash of one"] == {"steps": 9}

    page, jobs = (results.kept / "README.md").read_text(), pd.read_csv(results.kept / "kept/jobs.csv")
    assert "![curve](curve.png)" in (results.kept / "figures.md").read_text()
    assert "**2 published numbers: 2 agree; 1 statement in words: 1 holds.**" in page
    assert jobs["seconds"].tolist() == [50.0, 75.0]
    assert not [path for path in results.kept.parent.iterdir() if path.name.startswith(".")], "nothing is left behind"


def test_a_figure_of_metric_tables_is_drawn_once_all_its_runs_are_kept(results: Results) -> None:
    curves = {"one": [-1.0, -0.5, -0.25], "two": [-1.5, -0.75, -0.5]}
    drawn = []
    for run, values in curves.items():
        results.make(run, 0.5)
        points = zip((1, 2, 5), values, strict=True)
        rows = [row(run, value, metric="lppd_cumulative_chains", chains=n) for n, value in points]
        rows += [row(run, values[-1], metric="lppd_cumulative_draws", draws=n) for n in (10, 100)]
        write_table(results.table(run), [row(run, 0.5), row(run, -0.5, metric="lppd"), *rows])
        results.page()
        drawn.append((results.kept / "cumulative.png").is_file())
        shutil.rmtree(results.folder)
    assert drawn == [False, True]
    numbers = pd.read_csv(results.kept / "cumulative.csv", comment="#")
    by_chains = numbers[numbers["kind"] == "run"].groupby("label")["mean"]
    assert {label: values.tolist() for label, values in by_chains} == curves
    assert "![cumulative](cumulative.png)" in (results.kept / "figures.md").read_text()
    picture = (results.kept / "cumulative.png").read_bytes()
    (results.kept / "cumulative.png").write_bytes(b"a picture that earlier code drew")
    results.page()
    assert (results.kept / "cumulative.png").read_bytes() == picture


def test_a_table_of_comparisons_with_a_reference_is_drawn_from_kept_rows(results: Results) -> None:
    kind = "bnn_atlas.figures.permutation_symmetry.compact_agreement"
    shown = [one | {"parts": {"against": {"two": "not there"}}} for one in CUMULATIVE["shown"]]
    of_rows = results.plan["figures"]["cumulative"]["of_rows"]  # type: ignore[index]
    of_rows["described"] = CUMULATIVE | {"kind": "compact_agreement", "module": kind, "shown": shown}
    of_rows["outputs"] = ["cumulative.csv", "cumulative.tex"]
    for run in ("one", "two"):
        results.make(run, 0.5)
        scores = [row(run, 0.9, metric="accuracy"), row(run, 0.8, metric="agreement", at="two")]
        write_table(results.table(run), [row(run, 0.5), *scores])
    results.page()
    numbers = pd.read_csv(results.kept / "cumulative.csv").set_index(["label", "metric"])["value"]
    assert numbers["one", "agreement"] == 0.8
    assert numbers["two", "accuracy"] == 0.9


def test_runs_without_the_points_of_curves_are_not_drawn(results: Results) -> None:
    """As those that were kept before these points were."""
    for run in ("one", "two"):
        results.make(run, 0.5)
    results.page()
    assert not (results.kept / "cumulative.png").exists()


def test_a_difference_is_paired_by_row_whenever_its_runs_were_made(results: Results) -> None:
    for run in ("one", "two"):
        results.make(run, 0.5)
    together = float(results.page()["compared"]["difference_standard_error"])
    shutil.rmtree(results.kept)
    for run in ("one", "two"):
        shutil.rmtree(results.folder)
        results.make(run, 0.5)
        apart = results.page()["compared"]
    assert together > 0.01
    assert float(apart["difference_standard_error"]) == pytest.approx(together, abs=1e-3)


def test_a_page_made_again_of_what_is_kept_is_the_same(results: Results) -> None:
    results.make("one", 0.5)
    results.draw(0.6)
    results.page()
    before = {path: path.read_bytes() for path in results.kept.rglob("*") if path.is_file()}
    shutil.rmtree(results.folder)
    results.page()
    assert {path: path.read_bytes() for path in results.kept.rglob("*") if path.is_file()} == before


def test_fresh_results_replace_kept_ones(results: Results) -> None:
    results.make("one", 0.9)
    assert results.verdicts()["error"] == "differs"
    results.make("one", 0.5)
    assert results.verdicts()["error"] == "agrees"


def test_kept_results_of_other_settings_are_left_out(results: Results, caplog: pytest.LogCaptureFixture) -> None:
    results.make("one", 0.5)
    results.draw(0.6)
    results.page()
    shutil.rmtree(results.folder)
    results.plan["runs"]["one"]["settings"] = results.plan["figures"]["curve"]["settings"] = "changed"  # type: ignore[index]
    assert set(results.verdicts().values()) == {"to run"}
    assert "have changed are left out: one, figure curve" in caplog.text
    assert pd.read_csv(results.kept / "kept/jobs.csv").empty
    assert not (results.kept / "curve.png").exists()


def test_results_that_are_there_with_other_settings_are_left_out(
    results: Results, caplog: pytest.LogCaptureFixture
) -> None:
    for change in ({"params": ["{'seed': 2}"]}, {"input": ["other"]}, {"endtime": 9.0}):
        results.make("one", 0.5)
        fields = {"params": [repr(SETTINGS)], "input": ["data"], "endtime": 1.0}
        results.record(results.trace("one"), **(fields | change))
        caplog.clear()
        assert results.verdicts()["error"] == "to run", change
        assert "small: results of other settings than today's are left out: one" in caplog.text
    results.make("one", 0.5)
    results.draw(0.6)
    results.record(results.plan["figures"]["curve"]["files"][0], params=["{'curve: bins': '20'}"])  # type: ignore[index]
    assert results.verdicts() == {"error": "agrees", "compared": "to run", "number": "to run"}


def test_the_draws_of_a_run_are_named_by_their_digest(results: Results) -> None:
    results.make("one", 0.5)
    record = record_of(results.trace("one"))
    made = {"kernel": "xla", "vector_bits": 256, "draws": "ab" * 32, "commit": "cd" * 20, "dirty": True}
    record.write_text(json.dumps(made))
    results.page()
    (row,) = pd.read_csv(results.kept / "kept/runs.csv", dtype=str).to_dict("records")
    first = hashlib.sha256(b"ab" * 32).hexdigest()[:16]
    assert (row["kernel"], row["vector_bits"], row["draws"], row["commit"]) == ("xla", "256", first, "cd" * 6 + "+")


def test_results_of_earlier_code_count_and_are_named(results: Results, caplog: pytest.LogCaptureFixture) -> None:
    results.make("one", 0.5)
    results.page()
    assert not caplog.text
    shutil.rmtree(results.folder)
    results.plan["runs"]["one"]["code"] = "later"  # type: ignore[index]
    assert results.verdicts()["error"] == "agrees"
    assert "small: results of earlier code, still used: one (kept/runs.csv)" in caplog.text
    assert pd.read_csv(results.kept / "kept/runs.csv")["code"].tolist() == ["now"]


def test_a_claim_says_where_its_results_come_from(results: Results, tmp_path: Path) -> None:
    """Made here, kept by an earlier page, of earlier code, or from a published archive; the farthest counts."""
    elsewhere = tmp_path / "elsewhere"

    def origins() -> dict[str, str]:
        return {name: one["origin"] for name, one in results.page(elsewhere).items()}

    results.make("one", 0.5)
    results.draw(0.6)
    assert origins() == {"error": "made here", "compared": "", "number": "made here"}
    assert {one["origin"] for one in results.page().values()} == {"came with the clone", ""}
    shutil.rmtree(results.folder)
    results.make("two", 0.75)
    assert origins() == dict.fromkeys(CLAIMS, "came with the clone")
    study_page(elsewhere, plan=results.plan, command="", kept=results.kept, count_here=True)
    text = (elsewhere / "README.md").read_text()
    assert "**No claim is answered by results made here.**" in text
    assert "3 from results in the repository. Only those from runs made here are counted." in text
    results.plan["runs"]["one"]["code"] = "later"  # type: ignore[index]
    assert origins() == dict.fromkeys(CLAIMS, "of earlier code")
    results.make("one", 0.5)
    assert origins()["error"] == "of earlier code", "its record says so, wherever it was made"
    results.plan["runs"]["one"]["code"] = "now"  # type: ignore[index]
    trace = results.trace("one")
    unpacked = {"outputs": {name_of(trace, results.folder): ""}, PUBLISHED: "ab" * 32}
    record_of(trace).write_text(json.dumps(unpacked))
    assert origins() | {"number": ""} == {
        "error": "from a published archive", "compared": "from a published archive", "number": "",
    }  # fmt: skip


def test_results_of_another_scale_are_not_replaced(results: Results, tmp_path: Path) -> None:
    results.make("one", 0.5)
    results.page()
    results.plan["about"]["scale"] = "paper"  # type: ignore[index]
    with pytest.raises(TableError, match="keeps results of scale laptop, but these are of scale paper"):
        results.page()
    assert results.page(tmp_path / "elsewhere").keys() == CLAIMS.keys()
    assert read_rows(results.kept / "claims.csv")[0]["verdict"] == "agrees"


def test_finished_blocks_of_a_run_count_and_come_with_the_clone(results: Results, tmp_path: Path) -> None:
    """Of four chains in two blocks, the second block is there."""
    sampled(results.folder / "one", **REDUCED)
    folder = results.folder / "one" / "run"
    trace = folder / "trace.zarr"
    made = {name_of(path, results.folder): digest(path) for path in (trace, *map(folder.joinpath, COMPANIONS))}
    write(record_of(trace), {"rule": "sample", "settings": [SETTINGS], "inputs": {}, "outputs": made, **environment()})
    of = posterior(NOISY)
    scores = {
        "identity": row("one", 0.0)._asdict() | {}, "marks": [], "published": (), "prior_sd": 1.0, "model": of["model"],
        "temperature": 1.0, "batch_rows": None,
    }  # fmt: skip
    scores["identity"] = {name: scores["identity"][name] for name in RunIdentity._fields}
    files = {"dataset": str(folder / "prepared.npz"), "split": str(folder / "split.npz"), "posterior": of}
    results.plan["runs"]["one"]["splits"] = [
        {
            "tables": [str(results.table("one"))],
            "settings": SETTINGS,
            "traces": {str(results.folder / "one" / "other" / "trace.zarr"): [], str(trace): []},
            "so_far": files | {"chains": 4, "scores": scores},
        }
    ]
    results.plan["archive"] = {"target": "small", "papers": {}, "data": {}}
    claim = results.page()["error"]
    assert (claim["identity"], claim["value"] != "") == ("reduced", True)
    table, runs = pd.read_parquet(results.kept / "kept/metrics.parquet"), pd.read_csv(results.kept / "kept/runs.csv")
    assert set(table.loc[table["metric"] == "lppd", "chains"]) == {2}
    assert table["note"].str.contains("so far 2 of 4 chains").all()
    assert runs["reductions"].tolist() == ["chains: 4 -> 2"]

    archive = results.kept / "kept" / "blocks" / "one-hash of one.zip"
    there = tmp_path / "there" / results.folder.name
    unpack(archive, there, only_missing=True)
    assert {name: digest(there / name) for name in made} == made
    (there / "one" / "run" / "timing.json").write_text("made there")
    unpack(archive, there, only_missing=True)
    assert (there / "one" / "run" / "timing.json").read_text() == "made there"

    shutil.rmtree(results.folder)
    again = results.page(tmp_path / "from_what_is_kept")["error"]
    assert (again["identity"], again["value"]) == ("reduced", claim["value"])


def test_blocks_beyond_the_limit_are_named(results: Results, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    trace = results.folder / "one" / "run" / "trace.zarr"
    sampled(results.folder / "one", **REDUCED)
    results.plan["runs"]["one"]["splits"] = [{"settings": SETTINGS, "traces": {str(trace): []}, "so_far": {}}]
    monkeypatch.setattr(steps, "MOST_BYTES", 1000)
    steps.write_blocks(results.folder, results.plan)
    assert "small: 0 of 1 finished blocks of one are kept" in caplog.text
    assert not (results.folder / "blocks").exists()
