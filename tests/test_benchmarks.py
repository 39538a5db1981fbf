"""Every benchmark at its smallest setting, as a program; and the tables made from what they write."""

import subprocess
import sys
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bnn_atlas.data.dataset import Dataset

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import alignment_methods  # noqa: E402
import mile_vs_bde  # noqa: E402
import report  # noqa: E402
from compile import covered  # noqa: E402
from gpu_chains import End, stretches  # noqa: E402
from mile_estimators import scores  # noqa: E402

MACHINE = {"processor": "P", "cores": 2, "versions": "v"}


def run(script: str, *arguments: str | Path) -> str:
    """Standard output of a benchmark; its standard error goes to that of the test."""
    command = [sys.executable, BENCHMARKS / script, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


@pytest.mark.slow
def test_chains(tmp_path: Path) -> None:
    output = tmp_path / "chains.csv"
    arguments = ["--work", "4", "50", "2", "--depth", "1", "--rounds", "1", "--seconds", "0.01"]
    arguments += ["--call-flop", "1e5", "--output", output]
    only = ["--only", "atlas mclmc chains", "blackjax mclmc pmap of map", "numpyro hmc vectorized"]
    run("chains.py", *arguments, *only, "--cache", tmp_path / "cache")
    table = pd.read_csv(output)
    assert sorted(table.package) == ["atlas", "blackjax", "numpyro"]
    assert (table.gradients_per_second > 0).all()
    assert run("chains.py", *arguments, *only).startswith("0 works"), "what is there is not measured again"


@pytest.mark.slow
def test_kernel(tmp_path: Path) -> None:
    output = tmp_path / "kernel.csv"
    run("kernel.py", "--rounds", "1", "--flop", "1e6", "--works", "2", "--output", output)
    table = pd.read_csv(output)
    assert list(table.way) == ["whole", "pieces", "flax", "compiled"] * 2
    assert (table.microseconds > 0).all()


@pytest.mark.slow
def test_implicit(tmp_path: Path) -> None:
    output = tmp_path / "implicit.csv"
    run("implicit.py", "--repeats", "1", "--works", "toy", "--output", output)
    table = pd.read_csv(output)
    assert len(table) == 8, "four forms, two of them with a learned spread, too, mean field and IVON"
    assert (table.milliseconds > 0).all()
    assert table.jacobian_mb.to_numpy() == pytest.approx(4e-6 * 105 * table.noise, abs=1e-3)
    assert table.noise.tolist() == [60] * 6 + [0] * 2


def test_cost_of_an_entropy_beside_the_published_one() -> None:
    times = {"exact": (2.0, 1.0, 3.0), "as published, 5 iterations": (4.0, 4.0, 4.0)}
    table = pd.DataFrame(
        {
            "repeat": n, "work": "w", "weights": 1000, "noise": 20, "form": form, "milliseconds": value,
            "temporary_mb": 0.5, "jacobian_mb": 0.08, **MACHINE,
        }
        for form, values in times.items()
        for n, value in enumerate(values)
    )  # fmt: skip
    assert "| w, D = 1,000, d = 20 | exact | 2 (1 to 3) | 0.50 x | 0.5 | 0.08 |" in report.implicit(table)


def test_how_many_times_as_fast_the_kernel_is() -> None:
    times = {"whole": (8.0, 4.0, 6.0), "pieces": (4.0, 4.0, 4.0), "flax": (5.0, 5.0, 5.0), "compiled": (2.0, 2.0, 2.0)}
    table = pd.DataFrame(
        {"work": "w", "repeat": n, "way": way, "microseconds": value, "flop": 100e3, "matmul_gflops": 100.0, **MACHINE}
        for way, values in times.items()
        for n, value in enumerate(values)
    )
    assert "| w | 6 | 4 (1.50 x) | 5 (1.20 x) | 2 (3.00 x) | 50% |" in report.kernel(table)


@pytest.mark.slow
def test_compile(tmp_path: Path) -> None:
    network = "784-256-256-10 classification"
    run("compile.py", "--rounds", "1", "--networks", network, "--methods", "hmc", "--output", tmp_path / "compile.csv")
    table = pd.read_csv(tmp_path / "compile.csv").set_index("job")
    assert table.programs["first"] == table.compiled["first"] > 0, "the first job finds an empty cache"
    assert table.programs["same"] == table.programs["first"]
    assert table.compiled["same"] < table.compiled["first"]


@pytest.mark.slow
def test_alignment(tmp_path: Path) -> None:
    small = ["--wide", "3", "--narrow", "5", "--units", "8", "--rows", "20", "--rounds", "1"]
    run("alignment.py", *small, "--output", tmp_path / "alignment.csv")
    table = pd.read_csv(tmp_path / "alignment.csv")
    assert list(table.draws) == [*["near"] * 3, *["unrelated"] * 3, "near", "unrelated"]
    assert (table.per_second > 0).all()
    assert "| 784-8-10 | weights | near |" in report.alignment(table)


def test_alignment_methods(tmp_path: Path) -> None:
    small = ["--seeds", "2", "--width", "6", "--epochs", "2", "--swaps", "5", "--points", "3"]
    run("alignment_methods.py", *small, "--output", tmp_path)
    table = pd.read_csv(tmp_path / "alignment_methods.csv").set_index("method")
    assert (table.objective.drop("as trained") > table.objective["as trained"]).sum() >= 6
    assert table.objective["ours: weights, 6 orders"] >= table.objective["ours: weights"]
    assert (table[["barrier", "barrier_repaired"]] >= 0).all(axis=None)
    assert (tmp_path / "alignment_methods.png").stat().st_size > 10_000
    assert "| as trained |" in report.alignment_methods(table.reset_index())


def test_cycle_consistent_orders_find_planted_ones() -> None:
    """Three copies of a network of random weights in planted orders have one function and are equal in the space."""
    generator = np.random.default_rng(0)
    sizes = (40, 7, 6, 20)
    whole = [(generator.normal(size=(n, m)), generator.normal(size=n)) for m, n in pairwise(sizes)]
    planted = [[generator.permutation(7), generator.permutation(6)] for _ in range(3)]
    copies = [alignment_methods.permuted(whole, orders) for orders in planted]
    found = alignment_methods.cycle_consistent(copies)
    ends = [alignment_methods.permuted(one, orders) for one, orders in zip(copies, found, strict=True)]
    for other in ends[1:]:
        np.testing.assert_allclose(alignment_methods.flat(other), alignment_methods.flat(ends[0]))
    again = alignment_methods.git_re_basin(copies[0], copies[1], 0)
    np.testing.assert_allclose(
        alignment_methods.flat(alignment_methods.permuted(copies[1], again)), alignment_methods.flat(copies[0])
    )


@pytest.mark.slow
def test_traces(tmp_path: Path) -> None:
    small = ["--steps", "20", "--segments", "1", "--shape", "4", "20", "--block", "2"]
    run("traces.py", "--rounds", "1", *small, "--folder", tmp_path, "--output", tmp_path)
    writing = pd.read_csv(tmp_path / "trace_writing.csv")
    assert sorted(zip(writing.thinning, writing.trace, strict=True)) == [
        (1, "not written"),
        (1, "written"),
        (10, "not written"),
        (10, "written"),
    ]
    reading = pd.read_csv(tmp_path / "trace_reading.csv")
    assert (reading.megabytes == round(4 * 20 * 272 * 4 / 1e6, 1)).all(), "plain reads are of as many bytes"
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.slow
def test_memory(tmp_path: Path) -> None:
    output = tmp_path / "memory.csv"
    run("memory.py", "--rows", "4000", "--micro-batches", "1", "--budgets", "4", "--output", output)
    table = pd.read_csv(output)
    assert table.measured_mb[0] >= table.temporary_mb[0] > 5
    assert table.micro_batches[1] > 1
    assert table.temporary_mb[1] <= table.budget_mb[1]


@pytest.mark.slow
def test_gpu_chains(tmp_path: Path) -> None:
    small = ["--chains", "2", "--rounds", "1", "--seconds", "0.01", "--call-flop", "1e7"]
    part = ["--run-chains", "2", "--run-part", "200", "40", "--network-rows", "4"]
    run("gpu_chains.py", "--device", "cpu", *small, *part, "--folder", tmp_path, "--output", tmp_path)
    assert pd.read_csv(tmp_path / "gpu_values.csv").difference.between(0, 1e-3).all()
    assert (pd.read_csv(tmp_path / "gpu_rates.csv").gradients_per_second > 0).all()
    stretches = pd.read_csv(tmp_path / "gpu_run.csv").set_index("stretch").seconds
    assert stretches["sampling"] > 0
    assert (pd.read_csv(tmp_path / "gpu_networks.csv").seconds > 0).all()


def test_scores_of_draws() -> None:
    """One normal has its own density; two of equal weight have the mean of both and the variance between them."""
    y = np.array([0.0, 1.0])
    one = scores(np.zeros((1, 2)), np.full((1, 2), 2.0), y)
    assert one["rmse"] == pytest.approx(0.5**0.5)
    assert one["nll"] == pytest.approx(-norm(0, 2).logpdf(y).mean())
    assert one["lppd"] == pytest.approx(norm(0, 2).logpdf(y).mean())
    two = scores(np.array([[-1.0, -1.0], [1.0, 1.0]]), np.ones((2, 2)), y)
    assert two["nll"] == pytest.approx(-norm(0, 2**0.5).logpdf(y).mean())
    assert two["lppd"] == pytest.approx(np.log((norm(-1, 1).pdf(y) + norm(1, 1).pdf(y)) / 2).mean())


@pytest.mark.slow
def test_mile_on_our_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = Dataset(rng.normal(size=(60, 5)), rng.normal(size=60), tuple("abcde"), "y", "regression", ())
    monkeypatch.setattr(mile_vs_bde, "download", lambda file, path, mirror: path)
    monkeypatch.setattr(mile_vs_bde, "prepare", lambda name, entry, raw: rows)
    base = tmp_path / "base"
    options = Namespace(pairs=1, epochs=1, warmup=200, mirror=None)
    (work,) = mile_vs_bde.lay_out(base, options).values()
    for side in ("atlas", "estimator"):
        measured = mile_vs_bde.measure(tmp_path, base, side, "cold", 1, work)
        assert measured["seconds"] > 0
        assert np.isfinite([measured[score] for score in ("rmse", "nll", "lppd")]).all()
    plan = mile_vs_bde.command("snakemake", work)
    plan.insert(plan.index("--"), "--dry-run")
    done = subprocess.run(plan, cwd=base, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_ratios_are_those_within_rounds() -> None:
    rates = {
        ("atlas", "gradient", "chains"): (500, 600, 700),
        ("atlas", "hmc", "chains"): (450, 570, 630),
        ("blackjax", "hmc", "vmap"): (100, 100, 100),
        ("numpyro", "hmc", "vectorized"): (90, 114, 126),
        ("blackjax", "hmc", "pmap of vmap"): (300, 285, 315),
    }
    table = pd.DataFrame(
        {
            **{"width": 16, "depth": 4, "rows": 1202, "chains": 10, "share": 0.3, "gflops": 1.0},
            **{"package": package, "method": method, "arrangement": arrangement},
            **{"repeat": repeat, "gradients_per_second": rate, **MACHINE},
        }
        for (package, method, arrangement), found in rates.items()
        for repeat, rate in enumerate(found)
    )
    (line,) = report.summary(table)
    assert line[4:] == ("0.90", "5.00", "2.00", "BlackJAX, pmap of vmap")
    assert report.chains(table).startswith("P, 2 cores; v; 3 rounds.")
    assert [line[-1] for line in report.contestants(table)] == ["1.00", "1.00", "5.70", "5.00", "2.00"]


def test_what_the_writer_costs() -> None:
    seconds = {"written": (1.03, 2.02, 1.0), "not written": (1.0, 2.0, 1.1)}
    table = pd.DataFrame(
        {"thinning": 10, "repeat": repeat, "trace": trace, "seconds": value, "megabytes_per_second": 1.0, **MACHINE}
        for trace, values in seconds.items()
        for repeat, value in enumerate(values)
    )
    assert "| every 10th draw | 1.03 | 1.10 | +1.0% | 1.0 |" in report.trace_writing(table)


def test_tables_have_their_places_in_the_readme(tmp_path: Path) -> None:
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    for name in report.TABLES:
        assert text.count(f"<!-- {name} -->\n") == text.count(f"<!-- end of {name} -->") == 1, name
    assert report.fill(text, tmp_path) == text, "nothing has been measured"
    assert report.fill(text, BENCHMARKS / "results") == text, "run python benchmarks/report.py"
    (tmp_path / "memory.csv").write_text(
        "rows,budget_mb,micro_batches,temporary_mb,measured_mb,data_mb,seconds,processor,cores,versions\n"
        "60000,64,8,50.1,60,190,0.5,P,1,v\n60000,,1,400,410,190,1.5,P,1,v\n"
    )
    filled = report.fill(text, tmp_path)
    assert "| 64 | 8 | 50.1 | 60.0 | 0.50 |\n|  | 1 | 400.0 | 410.0 | 1.50 |\n\n<!-- end of memory -->" in filled
    assert report.fill(filled, tmp_path) == filled
    with pytest.raises(ValueError, match="no place for the table 'memory'"):
        report.fill("", tmp_path)


def test_spans_that_overlap_count_once() -> None:
    assert covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)]) == 4.0


def test_a_run_is_estimated_from_a_part() -> None:
    class Phase(NamedTuple):
        name: str
        steps: int
        keep: bool = False

    part, whole = ([Phase("tuning", 30 * n), Phase("probe", 20 * n, True), Phase("sampling", 20)] for n in (1, 10))
    # 3 s of compilation, 0.1 s a step, 1 s of ending on the host after the first two phases.
    ends = [("tuning", 4.0), ("tuning", 5.0), ("tuning", 6.0), ("probe", 8.0), ("probe", 9.0)]
    ends += [("sampling", 11.0), ("sampling", 12.0)]
    found = {name: seconds for name, _, seconds in stretches([End(name, 10, when) for name, when in ends], part, whole)}
    assert found == pytest.approx(
        {
            "start and compilation": 3.0,
            "tuning": 30.0,
            "ending of 'tuning'": 1.0,
            "probe": 20.0,
            "ending of 'probe'": 10.0,
            "sampling": 2.0,
        }
    )
