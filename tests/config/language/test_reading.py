"""YAML is read with the lines of its keys, or refused at once where it has no end or more than one meaning."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.config.language.base import ConfigError
from bnn_atlas.config.language.reading import LARGEST, read_yaml, shared_anchors, with_lines
from bnn_atlas.config.settings import load_atlas, load_study
from tests.config.folders import (
    CLAIM,
    DATASETS,
    REGISTRY,
    Edit,
    config_folder,
    figure,
    refused,
    run_edit,
    study_file,
)
from tests.work import counted_calls


def bomb(levels: int) -> str:
    """Ten lists of ten lists of ..., within a list of a grid, where any list is allowed."""
    lists = [f"      - &x{i} [{', '.join(['word' if i == 0 else f'*x{i - 1}'] * 10)}]" for i in range(levels)]
    return "runs:\n  one:\n    grid:\n      dataset:\n" + "\n".join(lists) + "\n"


ENDLESS = {
    "not UTF-8": ("title: Ä\n".encode("latin-1"), "not UTF-8: byte 0xc4 in line 1; save the file as UTF-8"),
    "NUL": (b"title: x\nnote: a\0b\n", "the character U+0000, which is not allowed in text; delete it (line 2)"),
    "UTF-16": ("a: 1\ntitle: x\n".encode("utf-16"), "not UTF-8: byte 0xff in line 1"),
    "brackets": (b"a:\n  " + b"[" * 5000, "nested more than 50 levels deep (line 2, column 52)"),
    "closed brackets": (b"[" * 5000 + b"]" * 5000, "nested more than 50 levels deep (line 1, column 51)"),
    "indentation": ("".join(" " * i + "a:\n" for i in range(5000)).encode(), "nested more than 50 levels deep"),
    "aliases, 6 levels": (bomb(6).encode(), f"more than {LARGEST:,} values, with aliases (*) written out (line"),
    "aliases, 9 levels": (bomb(9).encode(), f"more than {LARGEST:,} values, with aliases (*) written out (line"),
    "aliases of merges": (
        (
            "x0: &x0 {a: 1}\n"
            + "".join(f"x{i}: &x{i} {{<<: [{', '.join([f'*x{i - 1}'] * 10)}]}}\n" for i in range(1, 9))
        ).encode(),
        f"more than {LARGEST:,} values",
    ),
    "chain of aliases": (
        ("x0: &x0 [1]\n" + "".join(f"x{i}: &x{i} [*x{i - 1}]\n" for i in range(1, 3000))).encode(),
        "nested more than 50 levels deep, with aliases (*) written out",
    ),
    "list that holds itself": (b"a: &a [*a]\n", "an alias is part of the value it refers to (line 1, column 4)"),
    "run that holds itself": (
        b"runs: &r\n  one: *r\n",
        "an alias is part of the value it refers to (line 1, column 7)",
    ),
    "no space after a colon": (
        b"# x\na: 1\nscale:demo\nb: 2\n",
        "; in line 3, write a space after the colon of 'scale' (line 4, column 1)",
    ),
    "long number": (b"seed: " + b"9" * 5000, "is a number of 5000 digits"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_file_without_end_is_refused_at_once(tmp_path: Path, name: str) -> None:
    content, message = ENDLESS[name]
    path = tmp_path / "small.yaml"
    path.write_bytes(content)
    with refused(f"{path}: ", message) as caught, counted_calls(most=1_000_000):
        load_study(path, "demo", DATASETS)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("010", "010 has a leading zero and can be read in two ways: write 8 or 10, or put it in quotes"),
        ("-010", "write -8 or -10"),
        ("08", "08 has a leading zero and can be read in two ways: write 8, or put it in quotes"),
        ("1:30", "1:30 can be read as a number in base 60: write 90, or put it in quotes"),
        ("-1:30", "write -90"),
        ("1:30.5", "write 90.5"),
        ("2020-01-31", "2020-01-31 is read as a date"),
        ("!!int 3", "the tag 'tag:yaml.org,2002:int' is not allowed"),
        ("!!python/object/apply:os.getcwd []", "is not allowed"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(f"title: x\nseed: {text}\n")
    with refused(f"{path}: not valid YAML: ", message) as caught:
        read_yaml(path)
    assert str(caught.value).endswith("(line 2, column 7)")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("10", 10), ("-3", -3), ("0.5", 0.5), ("1e-3", 1e-3), ("0x10", 16), ("1_000", 1000),
        ("'010'", "010"), ('"1:30"', "1:30"), ("1:300", "1:300"), ("0a", "0a"), ("12:x", "12:x"),
    ],
)  # fmt: skip
def test_what_means_one_thing_is_read(tmp_path: Path, text: str, value: object) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(f"seed: {text}\n")
    assert read_yaml(path) == {"seed": value}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1", "(line 2, column 1)"),
        ("a: 1\n b: 2\n", "(line 2, column 3)"),
        ("a: {b: c: d}\n", "(line 1, column 9)"),
        ("\tx: 1\n", "(line 1, column 1)"),
        ("a: x\x01y\n", "U+0001"),
        ("a: *b\n", "(line 1, column 4)"),
        ("a: 1\na: {}\n", "the key 'a' is given twice (line 2, column 1)"),
    ],
)
def test_syntax_error_names_the_file_once_and_the_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    with refused(f"{path}: not valid YAML: ", place) as caught:
        read_yaml(path)
    message = str(caught.value)
    assert "<unicode string>" not in message
    assert "\n" not in message
    assert message.count(str(path)) == 1


def test_errors_name_the_line(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    text = path.read_text()
    merged = "  two: &two\n    chains: x\n  three:\n    <<: *two\nfigures:"
    path.write_text(
        text.replace("chains: 4", "chains: yes").replace("- 4\n", "- four\n", 1).replace("figures:", merged)
    )
    lines = path.read_text().splitlines()
    with pytest.raises(ConfigError) as caught:
        load_study(path, "paper", DATASETS)
    told = str(caught.value).splitlines()

    def line(part: str) -> int:
        return next(number for number, content in enumerate(lines, start=1) if part in content)

    for text in (
        "runs.one.chains = True: must be a whole number, such as 4; yes, on, true and their opposites are not "
        f"numbers (line {line('chains: yes')})",
        f"runs.one.model.hidden.0 = 'four': must be a whole number, such as 4 (line {line('- four')})",
        f"runs.two.chains = 'x': must be a whole number, such as 4 (line {line('chains: x')}, and 1 other entry that "
        "copies it)",
        f"runs.three.dataset: this key is missing (line {line('three:')})",
    ):
        assert f"{path}: {text}" in told
    assert not any("runs.three.chains" in text for text in told)


def test_copies_of_one_mistake_are_told_once_and_others_of_its_line_are_not(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    copied = "title: t\npaper: p\nruns:\n  a: &a {chains: x, seed: x}\n  b: *a\n  c: {<<: *a}\n  d: {chains: x}\n"
    path.write_text(copied)
    with pytest.raises(ConfigError) as caught:
        load_study(path, "paper", DATASETS)
    told = sorted(text for text in str(caught.value).splitlines() if "= 'x'" in text)
    wanted = "= 'x': must be a whole number, such as 4 (line"
    assert told == [
        f"{path}: runs.a.chains {wanted} 4, and 2 other entries that copy it)",
        f"{path}: runs.a.seed {wanted} 4, and 2 other entries that copy it)",
        f"{path}: runs.d.chains {wanted} 7)",
    ]


def test_mistakes_of_one_line_that_are_no_copies_are_all_told(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text("title: t\npaper: p\nruns: {a: {chains: x}, b: {chains: x}}\n")
    with refused("runs.a.chains = 'x'", "runs.b.chains = 'x'") as caught:
        load_study(path, "paper", DATASETS)
    assert "copies" not in str(caught.value)


def test_values_that_are_long_are_shortened(tmp_path: Path) -> None:
    path = study_file(tmp_path, lambda study: study["runs"]["one"].update(dataset=["x" * 1000] * 1000))
    with refused("runs.one.dataset") as caught:
        load_study(path, "paper", DATASETS)
    assert len(str(caught.value)) < len(str(path)) + 1200


def calls_to_read(folder: Path, runs: int) -> int:
    """The work of reading three grids: one of references, one that names one of them, one that starts from the first.

    A claim asks for all of the first.
    """

    def edit(study: dict) -> None:
        run = study["runs"]["one"] | {"grid": {"seed": list(range(runs))}}
        run |= {"dataset": "words", "likelihood": {"kind": "categorical"}, "evaluate": {"references": ["one-seed0"]}}
        started = {key: value for key, value in run.items() if key != "warmstart"} | {"start": {"run": "one"}}
        reference = run | {"evaluate": {}}
        study["runs"] = {"one": reference, "two": run, "three": started}

    config = config_folder(folder, edit)
    claims = config / "claims" / "small.yaml"
    claims.write_text(claims.read_text().replace("metric: rmse", "metric: accuracy"))
    with counted_calls() as calls:
        atlas = load_atlas({"studies": "small"}, config)
    assert len(atlas.studies["small"].runs) == 3 * runs
    return calls[0]


def test_twice_the_runs_take_twice_the_work(tmp_path: Path) -> None:
    calls_to_read(tmp_path / "first", 50)  # fills caches
    assert calls_to_read(tmp_path / "more", 400) < 2.1 * calls_to_read(tmp_path / "some", 200)


def test_nothing_is_changed_in_a_plain_study(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    assert read_yaml(path) == yaml.safe_load(path.read_text())


def test_a_wrong_setting_is_told_before_numerical_packages_are_imported(tmp_path: Path) -> None:
    path = study_file(tmp_path, lambda study: study["runs"]["one"].update(chains="x"))
    code = (
        "import sys\nfrom pathlib import Path\nfrom bnn_atlas.config.language.base import ConfigError\n"
        "from bnn_atlas.config.settings import load_study\n"
        f"try: load_study(Path({str(path)!r}), 'demo', {{}})\n"
        "except ConfigError: print([name for name in ('numpy', 'pandas', 'jax') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout == "[]\n"


FILE = """
runs:
  a.b:
    files:
      - first
      - second
    model.hidden: 3
    scales:
      demo: { chains: 2 }
    chains: 4
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (": runs.a.b.files[1] = 'second': why", 6),
        (": runs.a.b.model.hidden: why", 7),
        (": runs.a.b.chains = 4: why", 10),
        (" at scale demo: runs.a.b.chains = 2: why", 9),
        (" at scale demo: runs.a.b.model.hidden: why", 7),
        (": runs.a.b.absent.key: why", 3),
        (": runs.a.b (grid seed: 1): why", 3),
    ],
)
def test_the_line_is_that_of_the_key(tmp_path: Path, said: str, line: int) -> None:
    file = tmp_path / "studies" / "s.yaml"
    file.parent.mkdir()
    file.write_text(FILE, encoding="utf-8")
    for name in (str(file), "config/studies/s.yaml"):
        with pytest.raises(ConfigError) as caught, with_lines(file):
            raise ConfigError(f"{name}{said}\nelsewhere: runs.a.b: why")
        assert str(caught.value) == f"{name}{said} (line {line})\nelsewhere: runs.a.b: why"


@pytest.mark.parametrize("said", [": absent.key: why", ": runs.a.b.chains: why (line 99)", ", a sentence"])
def test_errors_without_a_key_or_with_a_line_stay(tmp_path: Path, said: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(FILE, encoding="utf-8")
    with pytest.raises(ConfigError) as caught, with_lines(file):
        raise ConfigError(f"{file}{said}")
    assert str(caught.value) == f"{file}{said}"


def grids(study: dict[str, Any]) -> None:
    study["runs"]["two"] = {**study["runs"]["one"], "start": {"run": "none"}, "warmstart": None}


@pytest.mark.parametrize(
    ("edit", "key"),
    [
        (figure(runs=["absent"]), "figures.curve.runs"),
        (figure(labels={"absent": "text"}), "figures.curve.labels.absent"),
        (figure(draw="absent"), "figures.curve.draw"),
        (grids, "runs.two.start.run"),
        (run_edit(dataset="absent"), "runs.one.dataset"),
        (run_edit(grid={"seed": []}), "runs.one.grid.seed"),
    ],
)
def test_mistakes_in_figures_starts_and_runs_have_their_line(tmp_path: Path, edit: Edit, key: str) -> None:
    assert_line(tmp_path, config_folder(tmp_path, edit) / "studies" / "small.yaml", key)


def test_mistakes_in_claims_have_their_line(tmp_path: Path) -> None:
    path = config_folder(tmp_path) / "claims" / "small.yaml"
    path.write_text(yaml.safe_dump({"paper": "Nobody", "claims": {"c": {**CLAIM, "figure": "absent"}}}))
    assert_line(tmp_path, path, "claims.c.figure")


def test_mistakes_in_columns_have_their_line(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("x,y\n1,2\n2,3\n", encoding="utf-8")
    path = config_folder(tmp_path / "config") / "datasets.yaml"
    own = {"title": "Own", "task": "regression", "target": "z", "path": "own.csv"}
    path.write_text(yaml.safe_dump({**REGISTRY, "own": own}, sort_keys=False), encoding="utf-8")
    assert_line(path.parent, path, "own.target")


def assert_line(config: Path, path: Path, key: str) -> None:
    """Loading fails with the line that has the last part of the key."""
    with refused(key) as caught:
        load_atlas({"studies": ["small"]}, config)
    number = int(str(caught.value).rpartition("(line ")[2].partition(")")[0])
    assert path.read_text(encoding="utf-8").splitlines()[number - 1].strip().startswith(key.rpartition(".")[2])


ANCHORS = """
title: A study
paper: Nobody, 2000
runs:
  one: &one
    description: the first
    dataset: diabetes
    model: { hidden: [4] }
    likelihood: { kind: gaussian }
    prior: &wide { kind: normal, scale: 2.0 }
    warmstart: { max_epochs: &epochs 5 }
    method: { kind: hmc, step_size: 0.1, trajectory_length: 1.0 }
    chains: 2
  two: { <<: *one, description: the second, chains: 4 }
  three: { <<: *one, description: the third, prior: &alone { kind: standard_normal } }
  four:
    description: the fourth
    dataset: diabetes
    model: { hidden: [8] }
    likelihood: { kind: gaussian }
    prior: *wide
    method: { kind: mean_field, epochs: *epochs }
    chains: 2
figures: {}
"""


def with_anchors(folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text(ANCHORS, encoding="utf-8")
    return path


def test_anchors_that_several_runs_have(tmp_path: Path) -> None:
    found = {anchor.name: anchor for anchor in shared_anchors(with_anchors(tmp_path))}
    assert {name: anchor.entries for name, anchor in found.items()} == {
        "one": ("one", "two", "three"),
        "wide": ("one", "two", "three", "four"),
        "epochs": ("one", "two", "three", "four"),
    }
    assert {"prior", "scale", "method", "hidden", "max_epochs"} <= found["one"].fields
    assert found["wide"].fields == {"prior", "kind", "scale"}
    assert found["epochs"].fields == {"max_epochs"}


def test_the_study_with_these_anchors_is_valid(tmp_path: Path) -> None:
    runs = load_study(with_anchors(tmp_path), "paper", DATASETS).runs
    assert runs["two"].config.prior == runs["one"].config.prior
    assert runs["four"].config.method.epochs == 5  # type: ignore[union-attr]
