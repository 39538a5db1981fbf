"""The page of a study, from the results that exist and the results that an earlier page keeps."""

import hashlib
import logging
import tempfile
from collections.abc import Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bnn_atlas.claims.measured import Measured
from bnn_atlas.claims.plan import OF_ROWS, ClaimedStudy
from bnn_atlas.claims.table import write_claims
from bnn_atlas.claims.verdict import Judgement, judge
from bnn_atlas.export.results import save_results
from bnn_atlas.figures.drawing import draw
from bnn_atlas.files import TableError, replaced
from bnn_atlas.kept import (
    FOLDER,
    RUN_COLUMNS,
    Origin,
    Piece,
    Place,
    StudyJobs,
    blocks_of,
    compact,
    farthest,
    kept_scale,
    machine_of,
    read_jobs,
    read_piece,
    union,
    write_piece,
)
from bnn_atlas.metrics.judgement.pooled import GridPoint, write_runs, write_summary
from bnn_atlas.metrics.tables.measurement import joined
from bnn_atlas.metrics.tables.parquet import RunFiles, concat_tables, read_table, write_rows
from bnn_atlas.pipeline.made import Metadata
from bnn_atlas.provenance import collect
from bnn_atlas.records import published, record_of
from bnn_atlas.records import read as read_record
from bnn_atlas.report.page import write_page
from bnn_atlas.report.site import write_site, write_start
from bnn_atlas.report.view import study_view
from bnn_atlas.runner.segments import COMPANIONS
from bnn_atlas.traces.pool import open_pool, pool_traces
from bnn_atlas.traces.reduced import is_reduced

log = logging.getLogger(__name__)
PACKAGES = ("jax", "jaxlib", "flax", "optax", "blackjax", "numpy", "scipy")
"""Packages on which draws depend."""
MOST_NAMED = 5
"""Largest number of names on a console line; further names are counted."""


class Found(NamedTuple):
    """Results of a study that were made with today's settings."""

    piece: Piece
    figures: dict[str, list[Path]]
    """Figure -> its files."""
    predictions: dict[str, str]
    """`run/split<n>` -> predictions for the test rows."""
    origins: dict[Place, Origin]


def study_page(
    destination: str | Path,
    *,
    plan: Mapping[str, Any],
    command: str,
    kept: str | Path | None,
    site: bool = False,
    count_here: bool = False,
) -> None:
    """Judge the claims of a study and write its page into a folder, together with what a later page can build on.

    Nothing is run. Existing results that were made with other settings than today's are left out, with a line on the
    console. The folder is replaced as a whole at the end.

    Args:
        destination: the folder.
        plan: the result of `pipeline.study_page.page_plan`.
        command: the command that makes the results, for the page.
        kept: folder of an earlier page; its results count if there are no newer ones. None for no such page.
        site: whether the study's part of the site is written as well.
        count_here: whether only claims are counted that were answered by results made here.

    Raises:
        TableError: the earlier page is damaged, or has another scale and would be replaced.
    """
    scale = plan["about"]["scale"]
    if kept and Path(kept) == Path(destination) and kept_scale(kept) not in (None, scale):
        raise TableError(
            f"{destination} keeps results of scale {kept_scale(kept)}, but these are of scale {scale}: move it "
            f"away, or run with `--config scale={kept_scale(kept)}`"
        )
    with tempfile.TemporaryDirectory() as scratch:
        found = fresh(plan, Path(scratch))
        earlier = current(read_piece(kept, scale), plan) if kept else Piece.empty(scale)
        piece = union(found.piece, earlier)
        claimed = _claimed(plan, piece)
        piece = piece._replace(table=compact(piece.table, _chains(claimed)), jobs=_of_study(piece, plan))
        origins, drawn_earlier = _origins(found, earlier, plan), earlier.figures.keys() - found.figures.keys()
        if kept and Path(kept) == Path(destination):  # from now on, all of it comes with the clone
            origins = {place: farthest((origin, Origin.CLONE)) for place, origin in origins.items()}
            drawn_earlier = plan["figures"].keys()
        _tell(piece, found, plan)
        files = found.figures | {
            name: _kept_files(earlier, name) for name in earlier.figures if name not in found.figures
        }
        with replaced(destination) as folder, tempfile.TemporaryDirectory() as name:
            work = Path(name)
            files |= _of_rows(plan, piece, found.figures, work)
            if claimed:
                pictures = {figure: path for figure, paths in files.items() for path in paths if path.suffix == ".png"}
                pictures |= {
                    f: paths[0].with_suffix(".png") for f, paths in files.items() if f not in pictures and paths
                }
                table = piece.table[piece.table["run"].isin(list(claimed.runs))]
                measured = Measured(table, pictures, found.predictions, piece.densities)
                judgements = [judge(one, claimed, measured) for one in claimed.claims.claims]
                piece = piece._replace(densities=_densities(judgements, measured))
                write_claims(work / "claims.parquet", judgements, {claimed.name: piece.table})
                files |= _of_claims(plan, work)
            _write_tables(piece, plan, work)
            view = study_view(
                **plan["about"],
                command=command,
                files=[file for figure in plan["figures"] for file in files.get(figure, ())],
                table=piece.table,
                summary=work / "summary.csv",
                runs=work / "runs.csv",
                claims=work / "claims.parquet" if claimed else None,
                jobs=piece.jobs,
                origins=origins,
                drawn=_drawn(origins, plan, drawn_earlier),
                count_here=count_here,
            )
            write_page(folder, view)
            if site:
                write_site(folder, view)
            behind = [*plan["runs"].values(), *plan["figures"].values()]
            write_piece(folder, piece, {of["settings"]: of["set"] for of in behind})
            if kept and Path(kept) == Path(destination):
                write_blocks(folder / FOLDER, plan)


def whole_site(site: str | Path, *, pages: Mapping[str, tuple[Mapping[str, Any], str, None]]) -> None:
    """Write the site of studies whose results are complete; `pages` as in `study_pages`."""
    for folder, (plan, command, _) in pages.items():
        made, metadata = plan["made"], Metadata(plan["metadata"])
        origins = {
            (run, split): _origin(files, of["code"], metadata)
            for run, of in plan["runs"].items()
            for split, files in enumerate(of["splits"])
        }
        view = study_view(
            **plan["about"],
            command=command,
            files=[file for figure in plan["figures"].values() for file in figure["files"] if Path(file).is_file()],
            table=read_table(made["table"]),
            summary=made["summary"],
            runs=made["runs"],
            claims=made["claims"],
            jobs=read_jobs(plan["benchmarks"], StudyJobs(**plan["jobs"])),
            origins=origins,
            drawn=_drawn(origins, plan),
        )
        write_page(Path(folder), view, shrunk=False)
        write_site(Path(folder), view)
    write_start(Path(site))


def study_pages(
    *,
    pages: Mapping[str, tuple[Mapping[str, Any], str, str | Path | None]],
    site: str | Path | None = None,
    count_here: bool = False,
) -> None:
    """Write the page of each study: folder -> the arguments `plan`, `command` and `kept` of `study_page`.

    With `site`, the folder of all pages, they are also written as a site, which starts at its index.html.
    """
    for folder, (plan, command, kept) in pages.items():
        study_page(folder, plan=plan, command=command, kept=kept, site=site is not None, count_here=count_here)
    if site is not None:
        write_start(Path(site))


def fresh(plan: Mapping[str, Any], scratch: Path) -> Found:
    """The existing results that were made with today's settings; the others are named on the console.

    A run whose draws are reduced counts with the blocks that are finished; its tables are then made in `scratch`.
    """
    metadata = Metadata(plan["metadata"])
    rows, tables, old, origins = [], [], [], {}
    predicted: dict[str, str] = {}
    for run, of in plan["runs"].items():
        for split, files in enumerate(of["splits"]):
            reductions = of["reductions"]
            if not all(Path(file).is_file() for file in files["tables"]):
                finished = finished_blocks(files, metadata)
                if not finished:
                    continue
                part = _so_far(files, finished, scratch / f"{run}-{split}")
                files = {**files, "traces": finished, "tables": [part.table]}
                reductions = joined(reductions, part.reduction)
                predicted[f"{run}/split{split}"] = part.predictions
            elif not _is_current(files, metadata):
                old.append(run)
                continue
            code = metadata.code_of(next(iter(files["traces"])))
            about = (of["settings"], code, _machines(files["traces"]), _packages(), reductions)
            rows.append((run, split, *about, *_draws(files["traces"])))
            origins[run, split] = _origin(files, of["code"], metadata)
            tables += files["tables"]
    if old:
        log.warning("%s: results of other settings than today's are left out: %s", plan["name"], _named(old))
    places = {(row[0], row[1]) for row in rows}
    frame = pd.DataFrame(rows, columns=list(RUN_COLUMNS))
    figures = {name: paths for name, of in plan["figures"].items() if (paths := _fresh_files(of, metadata))}
    predictions = {
        f"{run}/split{split}": path
        for run, split in sorted(places)
        if (path := plan["predictions"].get(f"{plan['name']}/{run}/split{split}"))
    } | predicted
    piece = Piece.empty(plan["about"]["scale"])._replace(
        runs=frame,
        table=_read(tables) if tables else Piece.empty("").table,
        jobs=read_jobs(plan["benchmarks"], StudyJobs(**plan["jobs"])),
        figures={name: plan["figures"][name]["settings"] for name in figures},
    )
    return Found(piece, figures, predictions, origins)


def finished_blocks(files: Mapping[str, Any], metadata: Metadata) -> dict[str, Any]:
    """Trace and inputs of the blocks of a run and split that are reduced and up to date; empty for other runs."""
    if files.get("so_far") is None:
        return {}
    traces = {trace: of for trace, of in files["traces"].items() if is_reduced(trace)}
    return {trace: of for trace, of in traces.items() if metadata.is_current(trace, files["settings"], of)}


class _Part(NamedTuple):
    """The scores of the finished blocks of a run and split."""

    table: str
    predictions: str
    reduction: str
    """Planned and finished chains."""


def _so_far(files: Mapping[str, Any], finished: Collection[str], work: Path) -> _Part:
    """Score the finished blocks of a run and split into a folder; the note of each row says of how many chains."""
    from bnn_atlas.pipeline.steps.predict import predict  # slow to import, and most pages have no such run
    from bnn_atlas.pipeline.steps.score import score

    work.mkdir()
    of, pool = files["so_far"], work / "pool.json"
    pool_traces(finished, pool)
    chains = open_pool(pool).chains
    test, virial, exchange = (work / f"{name}.npz" for name in ("test", "virial", "exchange"))
    predict(of["dataset"], of["split"], pool, test, virial, exchange, posterior=of["posterior"])
    tables = RunFiles(*(work / f"{name}.parquet" for name in RunFiles._fields))
    timings = [Path(trace).with_name("timing.json") for trace in finished]
    scores = {**of["scores"], "marks": [*of["scores"]["marks"], f"so far {chains:,} of {of['chains']:,} chains"]}
    score(of["dataset"], of["split"], pool, test, virial, exchange, timings, **scores, **tables._asdict())
    return _Part(str(tables.table), str(test), f"{SO_FAR}{of['chains']} -> {chains}")


SO_FAR = "chains: "
"""Beginning of the reduction of a run of which some blocks are finished."""


def _claimed(plan: Mapping[str, Any], piece: Piece) -> ClaimedStudy | None:
    """The claims of a study, with the chains that runs have so far."""
    if not plan["claims"]:
        return None
    runs = dict(plan["claims"]["runs"])
    for row in piece.runs.to_dict("records"):
        known = plan["runs"][row["run"]]["reductions"].split("; ")
        for text in (text for text in row["reductions"].split("; ") if text.startswith(SO_FAR) and text not in known):
            if row["run"] in runs:
                of = runs[row["run"]]
                more = {"reductions": [*of["reductions"], text], "chains": int(text.rpartition(" -> ")[2])}
                runs[row["run"]] = {**of, **more}
    return ClaimedStudy.model_validate({**plan["claims"], "runs": runs})


MOST_BYTES = 20_000_000
"""Largest size of the finished blocks that a page keeps, of all runs together."""


def write_blocks(folder: Path, plan: Mapping[str, Any]) -> None:
    """Write the finished blocks of runs whose draws are reduced into archives, one for each run, for another clone.

    They are `blocks/<run>-<hash of its settings>.zip`, with all that the blocks were made from but the data. Blocks
    beyond `MOST_BYTES` are left out, and a line on the console says how many.
    """
    metadata, room = Metadata(plan["metadata"]), MOST_BYTES
    for run, of in plan["runs"].items():
        finished = [trace for files in of["splits"] for trace in finished_blocks(files, metadata)]
        kept = []
        for trace in finished:
            size = sum(file.stat().st_size for file in Path(trace).rglob("*") if file.is_file())
            if size <= room:
                kept.append(trace)
                room -= size
        if kept:
            made = [Path(trace).with_name(name) for trace in kept for name in (Path(trace).name, *COMPANIONS)]
            about = {**plan["archive"], "version": collect({}, root=Path()).version}
            save_results(blocks_of(folder, run, of["settings"]), made, metadata.results, about)
        if len(kept) < len(finished):
            log.warning(
                "%s: %d of %d finished blocks of %s are kept, since more would take over %d MB; to go on with all "
                "elsewhere, copy %s",
                plan["name"], len(kept), len(finished), run, MOST_BYTES // 10**6, metadata.results,
            )  # fmt: skip


def current(kept: Piece, plan: Mapping[str, Any]) -> Piece:
    """The kept runs and figures with unchanged settings; the others are named on the console."""
    places: list[Place] = []
    changed = []
    for row in kept.runs.to_dict("records"):
        run, split = row["run"], int(row["split"])
        of = plan["runs"].get(run)
        if of and of["settings"] == row["settings"] and split < len(of["splits"]):
            places.append((run, split))
        else:
            changed.append(run)
    figures = {n: s for n, s in kept.figures.items() if n in plan["figures"] and plan["figures"][n]["settings"] == s}
    changed += [f"figure {name}" for name in kept.figures if name not in figures]
    if changed:
        log.warning(
            "%s: kept results with settings that have changed are left out: %s",
            plan["name"],
            _named(changed),
        )
    gone = {run for run, _ in kept.places} - {run for run, _ in places}
    of_gone = kept.jobs["job"].map(lambda job: bool(gone & set(str(job).split("/")))).astype(bool)
    return kept.of_runs(places)._replace(figures=figures, jobs=kept.jobs[~of_gone])


def _origin(files: Mapping[str, Any], code: str, metadata: Metadata) -> Origin:
    """The origin of the files of a run and split, with `code` as today's code of its draws."""
    if published((*files["traces"], *files["tables"]), metadata.results):
        return Origin.ARCHIVE
    return Origin.HERE if metadata.code_of(next(iter(files["traces"]))) in ("", code) else Origin.EARLIER


def _origins(found: Found, earlier: Piece, plan: Mapping[str, Any]) -> dict[Place, Origin]:
    """The origin of each run and split."""
    kept = {
        (row["run"], int(row["split"])): Origin.CLONE
        if row["code"] == plan["runs"][row["run"]]["code"]
        else Origin.EARLIER
        for row in earlier.runs.to_dict("records")
    }
    return kept | found.origins


def _drawn(origins: Mapping[Place, Origin], plan: Mapping[str, Any], kept: Collection[str] = ()) -> dict[str, Origin]:
    """The origin of each figure: the farthest of the runs that it shows, and of the figure itself if it is kept."""
    return {
        figure: farthest(
            [origin for (run, _), origin in origins.items() if run in runs] + [Origin.CLONE] * (figure in kept)
        )
        for figure, runs in plan["about"]["shown"].items()
    }


def _is_current(files: Mapping[str, Any], metadata: Metadata) -> bool:
    """Whether the tables of a run and split come from today's settings and the existing traces."""
    traces = files["traces"]
    made = all(metadata.is_current(trace, files["settings"], inputs) for trace, inputs in traces.items())
    return made and all(metadata.is_later(table, traces) for table in files["tables"])


def _fresh_files(figure: Mapping[str, Any], metadata: Metadata) -> list[Path]:
    """Files of a figure that was drawn with today's settings from the existing files; empty for others."""
    files = figure["files"]
    if figure["of_claims"] or not all(Path(file).is_file() for file in files):
        return []
    made = metadata.drawn_from(files[0])
    current = not made or made == figure["drawn_from"]
    return [Path(file) for file in files] if current and metadata.is_later(files[0], figure["inputs"]) else []


def _kept_files(earlier: Piece, figure: str) -> list[Path]:
    """Files of a figure on an earlier page."""
    assert earlier.folder is not None
    return [file for end in ("png", "csv", "tex") if (file := earlier.folder / f"{figure}.{end}").is_file()]


def _read(tables: Collection[str]) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        concat_tables(list(tables), Path(folder) / "table.parquet")
        return read_table(Path(folder) / "table.parquet")


def _of_study(piece: Piece, plan: Mapping[str, Any]) -> pd.DataFrame:
    """The jobs that the study still has."""
    of = StudyJobs(**plan["jobs"])
    names = zip(piece.jobs["rule"], piece.jobs["job"], strict=True)
    return piece.jobs[np.array([of.has(rule, job) for rule, job in names], dtype=bool)]


def _chains(claimed: ClaimedStudy | None) -> set[int]:
    """The numbers of chains for which there are claims."""
    sides = [side for claim in (claimed.claims.claims.values() if claimed else ()) for side in claim.sides.values()]
    return {side.chains for side in sides if side.chains is not None}


def _densities(judgements: Collection[Judgement], measured: Measured) -> dict[tuple[str, int, str, int], np.ndarray]:
    """The values per row behind the error of a difference, for claims with one run and split on each side.

    These values are kept instead of the differences, so that two runs made at different times can be paired.
    """
    found = {}
    for judged in judgements:
        for rows in judged.rows.values():
            if len(judged.rows) == 2 and len(rows) == 1 and rows[0].metric in OF_ROWS:
                key = (rows[0].run, rows[0].split, rows[0].metric, rows[0].chains)
                if (values := measured.row_values(*key)) is not None:
                    found[key] = values
    return found


def _of_claims(plan: Mapping[str, Any], work: Path) -> dict[str, list[Path]]:
    """Draw the figures that show the judged claims."""
    claims = {"claims": str(work / "claims.parquet")}
    return {name: _draw(of, work, claims) for name, figure in plan["figures"].items() if (of := figure["of_claims"])}


def _of_rows(plan: Mapping[str, Any], piece: Piece, there: Collection[str], work: Path) -> dict[str, list[Path]]:
    """Draw the figures that need only metric tables, if their runs are available and they are not `there` yet."""
    rows = dict(iter(piece.table.groupby(["run", "split"])))
    made = {}
    for name, figure in plan["figures"].items():
        if (of := figure["of_rows"]) and name not in there:
            shown = of["described"]["shown"]
            if all((one["run"], one["split"]) in rows for one in shown):
                try:
                    kept = [_with_rows(one, rows[one["run"], one["split"]], work) for one in shown]
                    made[name] = _draw(of, work, {"shown": kept})
                except ValueError as error:  # results of earlier code may lack rows
                    log.warning("%s is not drawn from what was kept: %s", name, error)
    return made


def _with_rows(one: Mapping[str, Any], rows: pd.DataFrame, work: Path) -> dict[str, Any]:
    """A run and split of a figure with files of its rows: its own, those of further sets, those by reference."""
    references = one["parts"].get("against", ())
    of_set, against = rows["dataset"].str.contains("/"), rows["at"].isin(references)
    parts = {"table": rows[~of_set & ~against], "sets": rows[of_set & ~against]}
    parts |= {name: rows[rows["at"] == name] for name in references}
    files = {name: str(work / f"{one['run']}-{one['split']}-{name}.parquet") for name in parts}
    for name, file in files.items():
        write_rows(file, parts[name])
    against_files = {name: files[name] for name in references}
    return {**one, "files": {name: files[name] for name in one["files"]}, "parts": {"against": against_files}}


def _draw(figure: Mapping[str, Any], work: Path, changes: Mapping[str, Any]) -> list[Path]:
    """Draw a figure in a folder from changed inputs, and return the files of it that a page shows."""
    outputs = [work / file for file in figure["outputs"]]
    draw({**figure["described"], **changes}, outputs)
    return [file for file in outputs if file.suffix != ".pdf"]


def _write_tables(piece: Piece, plan: Mapping[str, Any], work: Path) -> None:
    """Write the summary of the metric table, and the table of the study's runs."""
    write_rows(work / "table.parquet", piece.table)
    points = {name: GridPoint(**point) for name, point in plan["points"].items()}
    write_summary(work / "table.parquet", points, work / "summary.parquet", work / "summary.csv")
    write_runs(plan["about"]["rows"], work / "runs.csv")


def _tell(piece: Piece, found: Found, plan: Mapping[str, Any]) -> None:
    """Log how many runs there are, and which of them were made by other code than today's."""
    name, all_ = plan["name"], sum(len(of["splits"]) for of in plan["runs"].values())
    here, kept = len(piece.runs), len(piece.runs) - len(found.piece.runs)
    log.info("%s: %d of %d runs and splits, %d of them kept", name, here, all_, kept)
    rows = piece.runs.to_dict("records")
    other = [row["run"] for row in rows if row["code"] not in ("", plan["runs"][row["run"]]["code"])]
    if other:
        log.warning("%s: results of earlier code, still used: %s (kept/runs.csv)", name, _named(other))


def _machines(traces: Collection[str]) -> str:
    found = dict.fromkeys(machine_of(Path(trace).with_name("timing.json")) for trace in traces)
    return " and ".join(machine for machine in found if machine)


def _draws(traces: Collection[str]) -> tuple[str, str, str, str]:
    """Kernel, width of vectors, and first digits of the SHA-256 of all draws and of the commit, as far as recorded."""
    made = [read_record(record_of(trace)) for trace in traces]

    def listed(name: str) -> str:
        return " and ".join(dict.fromkeys(str(one.get(name, "")) for one in made))

    digests = [one.get("draws", "") for one in made]
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()[:16] if all(digests) else ""
    commits = dict.fromkeys(f"{one['commit'][:12]}{'+' * one['dirty']}" for one in made if "commit" in one)
    return listed("kernel"), listed("vector_bits"), whole, " and ".join(commits)


def _packages() -> str:
    return ", ".join(f"{name} {version(name)}" for name in PACKAGES)


def _named(names: Collection[str]) -> str:
    different = list(dict.fromkeys(names))
    more = len(different) - MOST_NAMED
    return ", ".join(different[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
