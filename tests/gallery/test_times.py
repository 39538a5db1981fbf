"""Times of a study's jobs, and the machines that they ran on."""

import json
from pathlib import Path

from bnn_atlas.gallery.machines import NOT_RECORDED, by_machine, machines_of_runs, made_on
from bnn_atlas.gallery.times import Times, by_rule, by_run, study_jobs
from tests.gallery.making import benchmark, timing


def test_jobs_of_settings_that_have_changed_do_not_count(tmp_path: Path) -> None:
    counted = {
        "sample/small/mile/split0/block0.tsv": 4, "sample/small/mile/split1/block1.tsv": 6,
        "subset/small/mile/split0/1234abcd.tsv": 2, "predict/small/mile/split0/test.tsv": 3,
        "figures/small/few.tsv": 5, "figures/small/diagnostics/mile-split1.tsv": 7,
        "table/small-runs.tsv": 30, "table/small.tsv": 1, "warmstart/airfoil-12.tsv": 8,
    }  # fmt: skip
    old = (
        "sample/small/mile/split2/block0.tsv", "sample/small/mile/split0/block2.tsv", "split/small/gone/split0.tsv",
        "subset/small/mile/split0/gone.tsv", "figures/small/gone.tsv", "figures/small/diagnostics/mile-split2.tsv",
        "figures/small/diagnostics/gone-split0.tsv", "sample/smaller/mile/split0/block0.tsv", "claims.tsv",
        "warmstart/airfoil-34.tsv",
    )  # fmt: skip
    for file, seconds in counted.items():
        benchmark(tmp_path / file, seconds)
    for file in old:
        benchmark(tmp_path / file, 1000)
    jobs = study_jobs(tmp_path, "small", {"mile": [2, 2]}, ["few"], ["1234abcd"], ["warmstart/airfoil-12"])
    assert by_rule(jobs) == [
        Times("table", 2, 31, 15.5), Times("figures", 2, 12, 6), Times("sample", 2, 10, 5),
        Times("warmstart", 1, 8, 4), Times("predict", 1, 3, 1.5), Times("subset", 1, 2, 1),
    ]  # fmt: skip
    assert by_run(jobs) == {"mile": Times("mile", 4, 15, 7.5)}, "without what runs share"


def test_seconds_that_snakemake_could_not_measure_count_as_none(tmp_path: Path) -> None:
    file = tmp_path / "sample/small/mile/split0/block0.tsv"
    benchmark(file, 4)
    file.write_text(file.read_text() + "2\t0:00:02\tNA\n3\t0:00:03\tnan\n")
    assert by_rule(study_jobs(tmp_path, "small", {"mile": [1, 1]}, [], [], [])) == [Times("sample", 3, 9, 2)]


def test_each_run_has_the_machines_that_sampled_it(tmp_path: Path) -> None:
    sizes = {"a": [1, 1], "b": [2, 1], "c": [1, 1], "d": [1, 2], "gone": [1, 1]}
    for run, block in (("a", "split0/block0"), ("b", "split0/block0"), ("b", "split1/block0"), ("b", "split2/block0")):
        timing(tmp_path / run / block / "timing.json", cores=64 if block == "split2/block0" else 2)
    (tmp_path / "c/split0/block0").mkdir(parents=True)
    (tmp_path / "c/split0/block0/timing.json").write_text(json.dumps({"device": "cpu cpu"}))
    timing(tmp_path / "d/split0/block0/timing.json", device="gpu a GPU", processor="another", cores=8)
    timing(tmp_path / "d/split0/block1/timing.json")
    machines = machines_of_runs(tmp_path, sizes)
    assert machines == {
        "a": "a processor, 2 cores",
        "b": "a processor, 2 cores",
        "c": NOT_RECORDED,
        "d": "a GPU (host: another, 8 cores) and a processor, 2 cores",
    }
    entries = {"a": "first", "b": "first", "c": "second", "d": "first"}
    made = made_on(
        machines, entries, {"a": Times("a", 2, 60, 30), "b": Times("b", 1, 10, 10), "d": Times("d", 1, 99, 1)}
    )
    assert [tuple(one) for one in made] == [
        ("first", 2, machines["a"], 3, 70, 40), ("second", 1, NOT_RECORDED, 0, 0, 0),
        ("first", 1, machines["d"], 1, 99, 1),
    ]  # fmt: skip
    assert [(one["machine"], one["runs"], one["entries"], one["wall"]) for one in by_machine(made)] == [
        (machines["d"], 1, ["first"], 99), (machines["a"], 2, ["first"], 70), (NOT_RECORDED, 1, ["second"], 0),
    ]  # fmt: skip
