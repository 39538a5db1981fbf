"""docs/your_own_data.md, followed to the letter, and the command that it begins with."""

import json
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bnn_atlas.__main__ import main
from bnn_atlas.config.data.datasets import load_registry
from bnn_atlas.figures.metadata import read_provenance
from tests.copies import REPOSITORY, copy_repository

from .workspace import planned, snakemake

PAGE = (REPOSITORY / "docs" / "your_own_data.md").read_text(encoding="utf-8")
FIGURES = Path("results/demo/figures/mine")
SHORTER = {
    "max_epochs: 5000": "max_epochs: 20",
    "warmup: 1000, steps: 4000": "warmup: 40, steps: 40",
    "warmup: 20000": "warmup: 300",
    "steps: 200000": "steps: 400",
    "thinning: 100": "thinning: 10",
}
"""What a study from `new` has, and what is enough to test it."""
STUDY = ("--config", "studies=[mine]", "--", "mine")


def block(number: int) -> str:
    return re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)[number]


def command(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.chdir(folder)
    return main(list(arguments))


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository after the page's first two commands."""
    folder = copy_repository(tmp_path_factory.mktemp("own"))
    script = "".join(block(i).replace("python -", f"'{sys.executable}' -") for i in (0, 1))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, check=True)
    return folder


def test_relative_paths_start_at_the_repository_wherever_snakemake_works(followed: Path, tmp_path: Path) -> None:
    clone = ["--snakefile", f"{followed}/Snakefile", "--configfile", f"{followed}/config/config.yaml"]
    (raw,) = load_registry(followed / "config" / "datasets.yaml")["mine"].files
    run = snakemake(tmp_path, *clone, "--directory", str(tmp_path), "--", f"results/demo/data/mine/raw/{raw.name}")
    assert run.returncode == 0, run.stdout
    assert (tmp_path / "results" / "demo" / "data" / "mine" / "raw" / raw.name).is_file()


@pytest.fixture(scope="module")
def made(followed: Path) -> Path:
    """The same after the last command, with a shorter study."""
    study = followed / "config" / "studies" / "mine.yaml"
    text = study.read_text(encoding="utf-8")
    for old, new in SHORTER.items():
        assert old in text
        text = text.replace(old, new)
    study.write_text(text, encoding="utf-8")
    words = shlex.split(block(2))
    assert words[:3] == ["snakemake", "--cores", "2"]
    run = snakemake(followed, *words[3:])
    assert run.returncode == 0, run.stdout
    assert re.search(r"RMSE in the target's units +trust\n +exact ", run.stdout), run.stdout
    return followed


@pytest.mark.slow
def test_two_commands_lead_to_figures_and_scores(made: Path) -> None:
    for name in ("scores_by_chains", "calibrated", "convergence"):
        for ending in ("pdf", "png", "csv"):
            assert (made / FIGURES / f"{name}.{ending}").stat().st_size > 100
    assert "rmse" in (made / "results/demo/tables/mine-summary.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_figures_record_the_checksum(made: Path) -> None:
    import hashlib

    checksum = hashlib.sha256((made / "data/mine.csv").read_bytes()).hexdigest()
    record = read_provenance(made / FIGURES / "calibrated.png")
    assert record.settings["own_data"] == {"mine": {"mine.csv": checksum}}
    assert str(made) not in json.dumps(record.settings)


@pytest.mark.slow
def test_an_edited_file_is_read_again(made: Path) -> None:
    assert planned(made, *STUDY) == {}
    file = made / "data" / "mine.csv"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "0.5,0.5,1.0\n", encoding="utf-8")
    jobs = planned(made, *STUDY)
    file.write_text(text, encoding="utf-8")
    assert {"download", "prepare", "split", "warmstart", "sample", "metrics", "mine_calibrated"} <= jobs.keys()
    assert planned(made, *STUDY) == {}  # a new time of the file alone changes nothing


@pytest.mark.slow
def test_the_tests_of_the_project_still_pass(followed: Path) -> None:
    """Those that read the whole of config/."""
    tests = [
        "tests/config/test_add_a_study.py::test_the_study_and_its_claim_are_accepted[demo]",
        "tests/config/test_repository.py::test_config_loads_at_every_scale[demo]",
        "tests/data/test_dataset_registry.py::test_registry_has_the_papers_data_sets",
        "tests/report/test_front.py::test_a_setting_that_shows_changes_the_origin",
        "tests/test_readme.py::test_targets_of_all_commands_exist",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(followed / "src")}
    run = subprocess.run(command, cwd=followed, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_page_fits_on_a_screen_or_two() -> None:
    assert len(PAGE.splitlines()) < 80
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (REPOSITORY / "docs" / target).is_file(), target


def messy(rows: int = 400) -> bytes:
    """A table as a German Excel writes it: BOM, CRLF, semicolons, decimal commas, an id, dates, words for no value."""
    numbers = random.Random(1)
    lines = ["Nr;Datum;Breite;Boden;Wert;"]
    for i in range(1, rows + 1):
        width = "" if i % 20 == 0 else "k.A." if i % 33 == 0 else f"{numbers.gauss(0, 1):.3f}".replace(".", ",")
        soil, value = numbers.choice(["Lehm", "Löss"]), f"1.{numbers.randrange(100, 999)},{i % 10}"
        lines.append(f"{i};{i % 28 + 1}.{i % 12 + 1}.{1600 + i};{width};{soil};{value};")
    return ("\ufeff" + "\r\n".join(lines) + "\r\n").encode()


def test_a_messy_table_is_planned_after_one_command(
    followed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = followed / "config" / "datasets.yaml"
    before = registry.read_text(encoding="utf-8")
    (followed / "data" / "Messung 1.csv").write_bytes(messy())
    assert command(followed, monkeypatch, "new", "data/Messung 1.csv", "--target", "Wert") == 0
    said = capsys.readouterr().out
    for part in ('`separator: ";"`', '`decimal: ","` and `thousands: "."`', '"k.A."', '`text: ["Boden"]`', "32 of 400"):
        assert part in said, said
    assert registry.read_text(encoding="utf-8").startswith(before.rstrip())
    entry = yaml.safe_load(registry.read_text(encoding="utf-8"))["messung_1"]
    assert (entry["task"], entry["drop"]) == ("regression", ["Datum", "Nr"])
    words = shlex.split(said.splitlines()[-1])
    assert {"prepare", "sample", "messung_1_calibrated", "summary"} <= planned(followed, *words[3:]).keys()


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("a,kind\n1,ash\n2,elm\n3,elm\n", ["--target", "kind"], {"task": "classification"}),
        ("a,b,y\n1.5,2,0\n2,2,1\n0,7,1\n", ["--target", "y"], {"task": "classification"}),
        ("a,b,y\n1.5,2,0\n2,2,1\n0,7,1\n", ["--target", "y", "--task", "regression"], {"task": "regression"}),
    ],
)
def test_the_task_is_guessed_and_can_be_given(
    followed: Path, monkeypatch: pytest.MonkeyPatch, content: str, arguments: list[str], expected: dict[str, str]
) -> None:
    files = (followed / "config" / "datasets.yaml", followed / "config" / "studies" / "it.yaml")
    before = files[0].read_text(encoding="utf-8")
    grown = content + content.partition("\n")[2] * 20
    (followed / "data" / "it.csv").write_text(grown, encoding="utf-8")
    assert command(followed, monkeypatch, "new", "data/it.csv", *arguments) == 0
    assert load_registry(files[0])["it"].task == expected["task"]
    files[0].write_text(before, encoding="utf-8")
    files[1].unlink()


@pytest.mark.parametrize(
    ("names", "row", "drop", "expected"),
    [
        ("a;b;y", "1,125;{i};{y}", [], ["'1,125' is read as 1.125; if it is 1125, change", '`thousands: ","`.']),
        ("a;b;y", "1.125;{i};{y}", [], ["'1.125' is read as 1.125; if it is 1125, change", '`thousands: "."`.']),
        ("dose;b;y", "{five};1.5;{y}", [], ["2 inputs"]),
        ("year;b;y", "{year};1.5;{y}", [], ["2 inputs"]),
        ("time;y", "{i};{y}", [], ["1 input,"]),
        ("time;plot;y", "{i};3;{y}", [], ["2 inputs"]),
        ("id;nr;y", "{i};{five};{y}", ["id"], ["column 'id' has a different number in each row", "1 input,"]),
        ("n;b;y", "{i};{y};{y}", ["n"], ["column 'n' numbers the rows, so it is no input; give `drop", "1 input,"]),
        ("a;b;y", "{a};{b};{y}", [], ['"x6", "z7", "z8", "z9", ... and 4 more]`', "14 of 40 rows"]),
    ],
)
def test_what_is_guessed_is_said(
    followed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: str,
    row: str,
    drop: list[str],
    expected: list[str],
) -> None:
    files = (followed / "config" / "datasets.yaml", followed / "config" / "studies" / "said.yaml")
    before = files[0].read_text(encoding="utf-8")
    rows = [
        row.format(i=i, five=5 * i, year=1980 + i, y=i % 7, a=f"x{i}" if i < 7 else -i, b=f"z{i}" if 6 < i < 14 else i)
        for i in range(40)
    ]
    (followed / "data" / "said.csv").write_text("\n".join([names, *rows, ""]), encoding="utf-8")
    assert command(followed, monkeypatch, "new", "data/said.csv", "--target", "y") == 0
    said = capsys.readouterr().out
    for part in expected:
        assert part in said, said
    assert yaml.safe_load(files[0].read_text(encoding="utf-8"))["said"].get("drop", []) == drop
    files[0].write_text(before, encoding="utf-8")
    files[1].unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data/mine.csv", "--target", "strength"], "the name 'mine' exists"),
        (["data/none.csv", "--target", "y"], "data/none.csv: no such file"),
        (["data/words.csv", "--target", "y", "--task", "regression"], "line 2, column 'y': 'a' is not a finite number"),
        (["data/words.csv", "--target", "z"], "no column 'z'; there are x, y"),
        (["data/mine.csv", "--target", "strength", "--name", "Bad name"], "Bad name"),
        *(
            (["data/words.csv", "--target", "y", "--name", name], f"the name '{name}' cannot be that of a study")
            for name in ("null", "true", "yes", "all", "download", "figures", "evaluate", "hmc_posteriors_claims")
        ),
    ],
)
def test_nothing_is_written_if_anything_is_wrong(
    followed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (followed / "data" / "words.csv").write_text("x,y\n1,a\n2,b\n3,b\n", encoding="utf-8")
    config = followed / "config"
    before = {file: file.read_bytes() for file in config.rglob("*.yaml")}
    assert command(followed, monkeypatch, "new", *arguments) == 1
    assert message in capsys.readouterr().err
    assert {file: file.read_bytes() for file in config.rglob("*.yaml")} == before


def test_usage_is_printed_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: python -m bnn_atlas" in capsys.readouterr().out
