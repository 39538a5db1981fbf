"""The rules that judge claims and pool tables, on tables written by hand."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from bnn_atlas.metrics.tables.measurement import Row
from bnn_atlas.metrics.tables.parquet import write_table

from .workspace import STUDY, add_to_functions, planned, small_workspace, snakemake

TABLES = Path("results/demo/tables")
CLAIMS = Path("config/claims/sampling_perspective.yaml")
TARGETS = ("claims", "tables", "uci_table")
ALLOWED = ("--allowed-rules", *TARGETS, "sampling_perspective_uci_table", "summary", "runs_table", "--")
COMMON = {"read_in": "table", "place": "Table 1", "runs": ["first"], "basis": "half", "figure": "fireball"}
STATED = {
    "paper": "Nobody, 2000",
    "steps": {"evaluate": {"takes": "seconds", "scale": "demo"}},
    "claims": {
        "error": COMMON | {"statement": "a", "metric": "rmse", "relation": "at_most", "bound": 0.9, "step": "evaluate"},
        "density": COMMON | {"statement": "b", "metric": "lppd", "relation": "equals", "value": 0.5, "size": 0.1},
        "chains": COMMON | {"statement": "c", "metric": "rmse", "relation": "at_most", "bound": 0.5, "chains": 100},
    },
}


def rows(run: str, rmse: float) -> list[Row]:
    return [
        Row("sampling_perspective", run, "demo", 0, "diabetes", "mlp", "mclmc", 4, 20, metric, value)
        for metric, value in (("rmse", rmse), ("lppd", -rmse))
    ]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study with claims, a LaTeX table and hand-written metrics, and all that is made of them."""
    folder = small_workspace(tmp_path_factory.mktemp("claims"))
    study = yaml.safe_load((folder / STUDY).read_text())
    study["figures"]["uci_table"] = {"runs": ["second"], "labels": {"second": "HMC"}}
    study["runs"]["first"] |= {"chains": 100, "scales": {"demo": {"chains": 2, "chains_per_block": 2}}}
    (folder / STUDY).write_text(yaml.safe_dump(study, sort_keys=False))
    (folder / CLAIMS).parent.mkdir()
    (folder / CLAIMS).write_text(yaml.safe_dump(STATED, sort_keys=False))
    own = rows("second", 0.6)
    write_table(
        folder / TABLES / "sampling_perspective.parquet", rows("first-seed1", 0.4) + rows("first-seed2", 0.6) + own
    )
    for run in (rows("first-seed1", 0.4), rows("first-seed2", 0.6), own):
        write_table(folder / f"results/demo/sampling_perspective/{run[0].run}/split0/metrics/metrics.parquet", run)
    picture = folder / "results/demo/figures/sampling_perspective/fireball.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes((folder / "docs/images/fireball.png").read_bytes())
    run = snakemake(folder, *ALLOWED, *TARGETS)
    assert run.returncode == 0, run.stdout
    return folder


def test_claims_are_judged(workspace: Path) -> None:
    found = pd.read_parquet(workspace / "results/demo/claims.parquet").set_index("claim")
    assert found["verdict"].to_dict() == {
        "error": "holds", "density": "differs", "chains": "to run",
    }  # fmt: skip
    assert found.loc["error", ["value", "repetitions", "sd"]].tolist() == [0.5, 2, pytest.approx(0.02**0.5)]
    assert found.loc["error", "reductions"].tolist() == ["first: chains: 100 -> 2"]


@pytest.mark.parametrize(("statement", "jobs"), [('"""In other words."""', {}), ("edited = True", {"claims": 1})])
@pytest.mark.parametrize("module", ["claims/verdict", "config/claims/claim"])
def test_claims_are_judged_again_by_other_code_alone(
    workspace: Path, module: str, statement: str, jobs: dict[str, int]
) -> None:
    path = workspace / f"src/bnn_atlas/{module}.py"
    before = path.read_bytes()
    add_to_functions(path, statement)
    plan = planned(workspace, *ALLOWED, "claims")
    path.write_bytes(before)
    assert plan == jobs


def test_runs_are_pooled_and_listed(workspace: Path) -> None:
    summary = pd.read_csv(workspace / TABLES / "sampling_perspective-summary.csv")
    assert summary[["entry", "metric", "n", "mean"]].values.tolist() == [
        ["first", "rmse", 2, 0.5], ["first", "lppd", 2, -0.5], ["second", "rmse", 1, 0.6], ["second", "lppd", 1, -0.6],
    ]  # fmt: skip
    pd.testing.assert_frame_equal(
        pd.read_parquet(workspace / TABLES / "sampling_perspective-summary.parquet")[["entry", "n", "mean", "sd"]],
        summary[["entry", "n", "mean", "sd"]],
        check_dtype=False,
    )
    runs = pd.read_csv(workspace / TABLES / "sampling_perspective-runs.csv")
    assert runs["run"].tolist() == ["first-seed1", "first-seed2", "second", "images", "ensemble", "compact"]
    assert runs["seed"].tolist()[:2] == [1, 2]


def test_the_latex_table_is_made(workspace: Path) -> None:
    text = (workspace / "results/demo/figures/sampling_perspective/uci_table.tex").read_text()
    assert r"HMC & $\mathbf{-0.600}$ & 1.00 \\" in text
    assert "Reduced setting" not in text, "this run is the same at every scale"


def test_the_site_is_made_from_what_there_is(workspace: Path) -> None:
    figures = workspace / "results/demo/figures/sampling_perspective"
    for name in ("fireball", "cumulative_lppd", "marginal_densities"):
        for kind in ("pdf", "csv", "png"):
            (figures / f"{name}.{kind}").write_bytes((figures / "fireball.png").read_bytes())
    run = snakemake(workspace, "--allowed-rules", "site", "write_site", *ALLOWED[1:-1], "--", "site")
    assert run.returncode == 0, run.stdout
    folder = workspace / "results/demo/site/sampling_perspective"
    assert {"README.md", "claims.csv", "fireball.png", "summary.csv", "uci_table.tex", "index.html"} <= {
        path.name for path in folder.iterdir()
    }
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "**3 statements in words: 3 on other problems (1 holds, 1 differs, 1 to run).**" in text
    machines = (folder / "machines.md").read_text(encoding="utf-8")
    assert "\nsnakemake --cores 2 keep --config scale=demo 'studies=[sampling_perspective]'\n" in machines
    assert "| sample |" not in machines, "no job of this study has run"
    figures_page = (folder / "figures.md").read_text(encoding="utf-8")
    assert "\n\nW*l*[*i*,*j*] is the weight of layer *l* from unit *j* to unit *i*" in figures_page
    assert "commit" in (folder / "figure-fireball.html").read_text(encoding="utf-8"), "where the picture comes from"
    start = (workspace / "results/demo/site/index.html").read_text(encoding="utf-8")
    assert 'href="sampling_perspective/index.html"' in start


def test_an_edited_claim_is_judged_again_and_nothing_else(workspace: Path) -> None:
    assert planned(workspace, *ALLOWED, *TARGETS) == {}
    kept = (workspace / CLAIMS).read_text()
    (workspace / CLAIMS).write_text(kept.replace("bound: 0.5", "bound: 0.4"))
    try:
        assert planned(workspace, *ALLOWED, *TARGETS) == {"claims": 1}
    finally:
        (workspace / CLAIMS).write_text(kept)


def test_the_claims_of_one_study_are_a_target(workspace: Path) -> None:
    target = "sampling_perspective_claims"
    run = snakemake(workspace, *ALLOWED[:-1], target, "--", target)
    assert run.returncode == 0, run.stdout
    line = "  results/demo/claims/sampling_perspective.parquet  (1 holds, 1 differs, 1 to run)"
    assert line in run.stdout.splitlines()
    one = pd.read_parquet(workspace / "results/demo/claims/sampling_perspective.parquet")
    assert one.equals(pd.read_parquet(workspace / "results/demo/claims.parquet"))


def test_what_has_been_run_so_far_is_judged_and_nothing_is_run(workspace: Path) -> None:
    shutil.rmtree(workspace / "results/demo/sampling_perspective/first-seed2")
    run = snakemake(workspace, "so_far")
    assert run.returncode == 0, run.stdout
    assert "1 of 1 steps (100%) done" in run.stdout
    page = "results/demo/so_far/sampling_perspective"
    assert f"  {page}/README.md  (3 to run)" in run.stdout
    claims = pd.read_csv(workspace / page / "claims.csv").set_index("claim")
    assert claims.loc["error", "needed"] == "snakemake --cores 2 first --config scale=demo"
    assert planned(workspace, "first") == {
        "first": 1, "metrics": 2, "pool": 2, "predict": 2, "prepare": 1, "sample": 2, "split": 1, "warmstart": 2,
    }, "the command makes the runs of this claim, and no other"  # fmt: skip


def test_a_step_ends_with_verdicts_on_the_console(workspace: Path) -> None:
    write_table(
        workspace / "results/demo/sampling_perspective/first-seed2/split0/metrics/metrics.parquet",
        rows("first-seed2", 0.6),
    )
    run = snakemake(workspace, "--allowed-rules", "evaluate", "--", "evaluate")
    assert run.returncode == 0, run.stdout
    told = run.stdout.partition("Made in ")[2]
    assert "  holds (another problem), nothing expected: a\n      error: here 0.50 ± 0.10, limit ≤ 0.9; " in told
    assert "1 further claim: nothing expected yet" in told
    refused = snakemake(workspace, "evaluate", "--config", "scale=laptop")
    assert refused.returncode != 0
    assert "evaluate is at scale demo: leave out scale=laptop, or say scale=demo" in refused.stdout
