"""Times of a study's jobs, and the machines that they ran on."""

import json
from pathlib import Path

from bnn_atlas.kept.jobs import JOB_COLUMNS, NOT_RECORDED, RuleTime, machine_of, made_on, rule_times
from tests.report.making import benchmark, study_jobs, timing


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
        benchmark(tmp_path / "benchmarks" / file, seconds)
    for file in old:
        benchmark(tmp_path / "benchmarks" / file, 1000)
    found = study_jobs(tmp_path, {"mile": [2, 2]}, sections=["1234abcd"], shared=["warmstart/airfoil-12"])
    assert rule_times(found) == [
        RuleTime("table", 2, 31, 15.5), RuleTime("figures", 2, 12, 6), RuleTime("sample", 2, 10, 5),
        RuleTime("warmstart", 1, 8, 4), RuleTime("predict", 1, 3, 1.5), RuleTime("subset", 1, 2, 1),
    ]  # fmt: skip
    (made,) = made_on(found, "small", {"mile": "entry"})
    assert tuple(made) == ("entry", 1, NOT_RECORDED, 4, 15, 7.5), "without what runs share"


def test_seconds_that_snakemake_could_not_measure_count_as_none(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks/sample/small/mile/split0/block0.tsv"
    benchmark(file, 4)
    file.write_text(file.read_text() + "2\t0:00:02\tNA\n3\t0:00:03\tnan\n")
    assert rule_times(study_jobs(tmp_path, {"mile": [1, 1]})) == [RuleTime("sample", 1, 9, 2)]


def test_a_study_without_jobs(tmp_path: Path) -> None:
    found = study_jobs(tmp_path, {"mile": [1, 1]})
    assert list(found.columns) == list(JOB_COLUMNS)
    assert (rule_times(found), made_on(found, "small", {"mile": "mile"})) == ([], [])


def test_the_machine_of_a_block_of_chains(tmp_path: Path) -> None:
    file = tmp_path / "timing.json"
    assert machine_of(file) == ""
    for about, expected in (
        ({}, "a processor, 2 cores"),
        ({"cores": 64}, "a processor, 64 cores"),
        ({"device": "gpu a GPU"}, "a GPU (host: a processor, 2 cores)"),
    ):
        timing(file, **about)
        assert machine_of(file) == expected
    for device, expected in (("cpu cpu", NOT_RECORDED), ("gpu a GPU", "a GPU")):
        file.write_text(json.dumps({"device": device}))
        assert machine_of(file) == expected


def test_each_run_has_the_machines_that_sampled_it(tmp_path: Path) -> None:
    blocks = {"a/split0/block0": 60, "b/split0/block0": 10, "b/split1/block0": 5, "c/split0/block0": 1}
    blocks |= {"d/split0/block0": 90, "d/split0/block1": 9}
    for block, seconds in blocks.items():
        benchmark(tmp_path / f"benchmarks/sample/small/{block}.tsv", seconds)
    for block in ("a/split0/block0", "b/split0/block0", "b/split1/block0", "d/split0/block1"):
        timing(tmp_path / f"small/{block}/timing.json")
    timing(tmp_path / "small/d/split0/block0/timing.json", device="gpu a GPU")
    benchmark(tmp_path / "benchmarks/metrics/small/a/split0.tsv", 2)
    found = study_jobs(tmp_path, {"a": [1, 1], "b": [2, 1], "c": [1, 1], "d": [1, 2]})
    here, both = "a processor, 2 cores", "a GPU (host: a processor, 2 cores) and a processor, 2 cores"
    made = made_on(found, "small", {"d": "first", "a": "first", "b": "first", "c": "second", "gone": "second"})
    assert [tuple(one) for one in made] == [
        ("first", 1, both, 2, 99, 49.5), ("first", 2, here, 4, 77, 38.5), ("second", 1, NOT_RECORDED, 1, 1, 0.5),
    ]  # fmt: skip
