"""What records of results say about them."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.pipeline.made import LONGEST, Metadata
from bnn_atlas.pipeline.paths import in_metadata

SETTINGS = {"method": {"kind": "hmc", "steps": 10}, "posterior.prior": {"scale": 0.1}, "seed": 1}


def record(folder: Path, path: str, **values: Any) -> None:
    """Write a record where Snakemake writes it."""
    name = urlsafe_b64encode(path.encode()).decode()
    file = folder / name if len(name) <= LONGEST else folder / f"@{name[:LONGEST]}" / name[LONGEST:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))


def params(**settings: Any) -> list[str]:
    return [repr({name: value}) for name, value in settings.items()]


@pytest.fixture(params=["trace", "long/" * 50 + "trace"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file with a record; one with a name that Snakemake divides into folders."""
    recorded = params(code="abc", **SETTINGS)
    record(tmp_path, request.param, params=[*recorded, "no data"], input=["a", "b"], endtime=5.0)
    return str(request.param)


def test_a_file_is_current_while_settings_and_inputs_are_the_same(tmp_path: Path, path: str) -> None:
    metadata = Metadata(tmp_path)
    assert metadata.code_of(path) == "abc"
    assert metadata.is_current(path, SETTINGS, ["a", "b"])
    assert not metadata.is_current(path, SETTINGS, ["a", "c"])
    assert not metadata.is_current(path, SETTINGS | {"seed": 2}, ["a", "b"])
    assert not metadata.is_current(path, SETTINGS | {"new": 2}, ["a", "b"])
    assert not metadata.is_current(path, {name: SETTINGS[name] for name in ("method", "seed")}, ["a", "b"])


@pytest.mark.parametrize("results", ["results/demo", "./results/demo", "/elsewhere/demo", "renamed/demo"])
def test_names_in_metadata_do_not_depend_on_what_the_results_are_called(results: str) -> None:
    assert in_metadata(f"{results}/study/trace.zarr", results) == "results/demo/study/trace.zarr"
    assert in_metadata("results/demo/study/trace.zarr", results, back=True) == f"{results}/study/trace.zarr"
    assert in_metadata("workflow/report/kind.rst", results) == "workflow/report/kind.rst"


def test_without_a_record_nothing_speaks_against_a_file(tmp_path: Path) -> None:
    metadata = Metadata(tmp_path)
    assert metadata.is_current("trace", SETTINGS, ["a"])
    assert metadata.is_later("table", ["trace"])
    assert metadata.code_of("trace") == ""
    (tmp_path / urlsafe_b64encode(b"half").decode()).write_text('{"params"')
    assert metadata.is_current("half", SETTINGS)


def test_a_table_is_later_than_its_traces(tmp_path: Path) -> None:
    for name, time in (("first", 1.0), ("trace", 2.0), ("table", 3.0)):
        record(tmp_path, name, params=[], input=[], endtime=time)
    metadata = Metadata(tmp_path)
    assert metadata.is_later("table", ["first", "trace", "unknown"])
    assert not metadata.is_later("first", ["trace"])


def test_records_are_where_snakemake_writes_them(tmp_path: Path) -> None:
    """Its own name of a record, for a short and for a long path."""
    from snakemake.persistence.file import FilePersistence

    class Persistence(FilePersistence):
        def __init__(self) -> None:
            self._max_len = None

    for path in ("results/demo/trace.zarr", "results/" + "x" * 200 + "/trace.zarr"):
        expected = Persistence()._record_path(str(tmp_path), path)
        record(tmp_path, path, endtime=1.0)
        assert Path(expected).is_file(), path
        assert Metadata(tmp_path).of(path) == {"endtime": 1.0}
