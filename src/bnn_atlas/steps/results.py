"""Claims pages and galleries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bnn_atlas.claims.report import report
from bnn_atlas.files import atomic
from bnn_atlas.gallery.page import write_gallery
from bnn_atlas.gallery.times import StudyJobs, jobs


def claims(
    tables: Sequence[str | Path],
    pictures: Sequence[str | Path],
    table: str | Path,
    page: str | Path,
    *,
    studies: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
    scale: str,
    densities: Sequence[str | Path] = (),
    compared: Sequence[str] = (),
) -> None:
    """Judge the claims of all studies by their metric tables.

    `pictures` are the PNGs of `figures`, `study/figure`, and `densities` the predictions of `compared`,
    `study/run/split<n>`.
    """
    shown, predictions = (dict(zip(*pair, strict=True)) for pair in ((figures, pictures), (compared, densities)))
    report(studies, tables, shown, scale=scale, table=table, page=page, predictions=predictions)


def gallery(
    destination: str | Path, *, benchmarks: str | Path, of: Mapping[str, Any], **files_and_settings: Any
) -> None:
    """Put the figures, claims and scores of a study into one small folder; see `gallery.page.write_gallery`.

    `benchmarks` is the folder of the benchmark files, `of` has the fields of `gallery.times.StudyJobs`.
    """
    with atomic(destination) as folder:
        write_gallery(folder, jobs=jobs(benchmarks, StudyJobs(**of)), **files_and_settings)
