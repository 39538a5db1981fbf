"""How long a plan takes, by records of jobs."""

import json
from pathlib import Path

import pytest

from bnn_atlas.pipeline.estimate import JUDGING, JUDGING_SECONDS, Estimate, Times, estimate


def recorded(folder: Path, name: str, seconds: float, cpu: float) -> None:
    file = folder / f"{name}.tsv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:01\t{cpu}\n")


def kept(folder: Path, scale: str) -> Path:
    page = folder / "docs" / "study" / "kept"
    page.mkdir(parents=True)
    (page / "kept.json").write_text(json.dumps({"scale": scale}))
    rows = [
        "sample,study/run/split0/block0,50,100",
        "sample,study/run/split1/block0,200,",
        "sample,study/other/split0,9,9",
    ]
    (page / "jobs.csv").write_text("rule,job,seconds,cpu_seconds\n" + "\n".join(rows) + "\n")
    return folder / "docs"


@pytest.mark.parametrize(
    ("name", "seconds", "is_known"),
    [
        ("sample/study/run/split2/block0", 7.0, True),  # in the results
        ("sample/study/run/split0/block0", 100.0, True),  # kept: of the same job
        ("sample/study/run/split5/block0", 150.0, True),  # of the same run
        ("sample/study/new/split0/block0", 7.0, False),  # of the same rule, in the results first
        ("predict/study/run/split0/test", 103.0, False),  # of any rule
        (JUDGING, JUDGING_SECONDS, False),
    ],
)
def test_the_nearest_record_counts(tmp_path: Path, name: str, seconds: float, is_known: bool) -> None:
    recorded(tmp_path / "benchmarks", "sample/study/run/split2/block0", 7, 3)
    assert Times(tmp_path / "benchmarks", kept(tmp_path, "laptop"), "laptop")(name) == (seconds, is_known)


def test_sentences(tmp_path: Path) -> None:
    names = ["sample/study/run/split0/block0", "sample/study/new/split0/block0", None]
    jobs = [(number, name, 1, ()) for number, name in enumerate(names)]
    page = kept(tmp_path, "laptop")
    by_scale = {scale: str(estimate(jobs, Times(tmp_path / "none", page, scale), 2)) for scale in ("laptop", "paper")}
    assert by_scale["laptop"] == "About 2 min on 2 cores, by the recorded times of 1 of 2 jobs."
    assert by_scale["paper"].startswith("More than 2 min on 2 cores")
    assert "without recorded times" in str(estimate(jobs, Times(tmp_path / "none", page, "demo"), 1))
    times = [str(Estimate({1: seconds}, 1, 1, False)).split(" on ")[0] for seconds in (44, 5000, 40000, 4e5)]
    assert times == ["About 44 s", "About 83 min", "About 11 h", "About 5 days"]


@pytest.mark.parametrize(
    ("threads", "before", "cores", "seconds"),
    [
        (1, {}, 1, 17),  # the sum
        (1, {}, 64, 10),  # the longest job
        (1, {2: (1,), 3: (2,)}, 64, 17),  # a chain, with a job between that has no record
        (2, {2: (1,), 3: (2,)}, 64, 8.5),  # each job on two cores
    ],
)
def test_jobs_that_wait_for_each_other_take_no_less_on_more_cores(
    tmp_path: Path, threads: int, before: dict[int, tuple[int, ...]], cores: int, seconds: float
) -> None:
    names = {1: "sample/study/run/split0", 2: None, 3: "predict/study/run/split0"}
    for name, recorded_seconds in zip((names[1], names[3]), (10, 7), strict=True):
        recorded(tmp_path, str(name), recorded_seconds, 0)
    jobs = [(number, name, threads, before.get(number, ())) for number, name in names.items()]
    plan = estimate(jobs, Times(tmp_path, tmp_path / "docs", "demo"), cores)
    assert plan is not None
    assert plan.seconds == seconds


def test_nothing_is_said_of_jobs_that_are_never_recorded(tmp_path: Path) -> None:
    assert estimate([(1, None, 1, ())], Times(tmp_path, tmp_path / "docs", "laptop"), 1) is None
