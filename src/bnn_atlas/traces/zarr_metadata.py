"""Create the metadata of a trace store, and read the metadata with every byte checked."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from errno import EEXIST, ENOTEMPTY
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.shard import ShardForm, TraceError, choose_form, read_chunk, refused, write_chunk

FORMAT = "bnn-atlas trace 1"
DRAWS = "draws"
COORDINATES = ("chain", "draw")
DRAW_TYPES = ("float32", "float64")
STATISTIC_TYPES = ("float32", "float64", "int32", "int64", "bool")
RESERVED = ("format", "layout", "segment", "statistics", "parameters", "checksums", "digest")
STATISTIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Header:
    """The metadata of a trace store."""

    path: Path
    layout: Layout
    chains: int
    draws: int
    segment: int
    form: ShardForm
    statistics: dict[str, np.dtype]
    attributes: dict[str, Any] = field(hash=False)

    @property
    def dtype(self) -> np.dtype:
        """Number type of the draws."""
        return self.form.dtype

    @property
    def size(self) -> int:
        """Number of stored scalars."""
        return self.layout.size

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return tuple(self.layout.names())

    @property
    def segments(self) -> int:
        """Number of segments; the last may be shorter."""
        return -(-self.draws // self.segment)

    def length(self, segment: int) -> int:
        """Draws per chain in a segment."""
        return min(self.segment, self.draws - segment * self.segment)

    def shard_file(self, segment: int) -> Path:
        """File with the draws of a segment."""
        return self.path / DRAWS / f"c.0.{segment}.0"

    def statistic_file(self, name: str, segment: int) -> Path:
        """File with the values of one statistic in a segment."""
        return self.path / name / f"c.0.{segment}"

    def files(self, segment: int) -> dict[Path, int]:
        """All files of a segment with their required lengths; the draws are last, as they are written last."""
        cells = self.chains * self.segment
        sizes = {self.statistic_file(n, segment): cells * d.itemsize + 4 for n, d in self.statistics.items()}
        return {**sizes, self.shard_file(segment): self.form.file_bytes}

    def missing(self) -> tuple[int, ...]:
        """Segments with a missing file (not yet written, or deleted)."""
        return tuple(k for k in range(self.segments) if not all(file.exists() for file in self.files(k)))

    @cached_property
    def chain_ids(self) -> np.ndarray:
        """Chain numbers [chains]."""
        return read_chunk(self.path / "chain" / "c.0", (self.chains,), np.dtype("<i8"))

    @cached_property
    def draw_ids(self) -> np.ndarray:
        """Draw numbers [draws]: 0, 1, 2, ..."""
        return read_chunk(self.path / "draw" / "c.0", (self.draws,), np.dtype("<i8"))


def create_store(
    path: Path,
    *,
    chains: int,
    draws: int,
    layout: Layout,
    statistics: Mapping[str, str],
    segment: int,
    chain_ids: Sequence[int] | np.ndarray,
    attributes: Mapping[str, Any],
    dtype: str = "float32",
) -> Header:
    """Create an empty store, or open an existing store if it was created with the same arguments.

    A store is created completely or not at all, even if two processes try at the same time. Raises ValueError for
    invalid arguments, TraceError if there is a different trace at `path` or the disk cannot be written.
    """
    size = layout.size
    chain_ids = np.asarray(chain_ids, dtype="<i8")
    _check_arguments(chains, draws, segment, size, statistics, chain_ids, attributes, dtype)
    segment = min(segment, draws)
    form = choose_form(chains, draws, segment, size, np.dtype(dtype).newbyteorder("<"))
    own: dict[str, Any] = {"format": FORMAT, "layout": layout.to_dict(), "segment": segment}
    own["statistics"] = list(statistics)
    try:
        own |= json.loads(json.dumps(dict(attributes)))
    except TypeError as error:
        raise ValueError(f"the attributes of a trace must be JSON values: {error}") from error
    wanted = Header(
        path,
        layout,
        chains,
        draws,
        segment,
        form,
        {name: _stored(kind) for name, kind in statistics.items()},
        _caller(own),
    )
    if not (path / "zarr.json").exists():
        try:
            with atomic(path) as temporary:
                _write_arrays(temporary, wanted, own, chain_ids)
        except TraceError:
            raise
        except OSError as error:
            # Another process may have created the same store first.
            if error.errno not in (EEXIST, ENOTEMPTY):
                raise refused(error, f"cannot create the trace {path}: {error.strerror or error}.") from error
    found = read_header(path)
    different = _differences(found, wanted, chain_ids)
    if different:
        raise TraceError(
            f"{path} holds another trace: {'; '.join(different)}. Delete the block's folder, or write elsewhere."
        )
    return found


def read_header(path: Path) -> Header:
    """Read a store's metadata; TraceError if the metadata are missing or a checksum does not match."""
    group = path / "zarr.json"
    try:
        attributes = json.loads(group.read_bytes())["attributes"]
        stated = attributes["format"]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TraceError(f"no trace at {path}: there is no {group}. Run the job that writes it.") from error
    except OSError as error:
        raise TraceError(
            f"cannot read {group}: {error.strerror or error}. Check the disk and its permissions."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise _bad_metadata(group) from error
    if stated != FORMAT:
        raise TraceError(f"{path} has the format {stated!r}; this version reads {FORMAT!r}.")
    if attributes.get("digest") != _digest(attributes):
        raise _bad_metadata(group)
    arrays = {}
    for name, checksum in attributes["checksums"].items():
        file = path / name / "zarr.json"
        raw = file.read_bytes() if file.exists() else b""
        if sha256(raw).hexdigest() != checksum:
            raise _bad_metadata(file)
        arrays[name] = json.loads(raw)
    layout = Layout.from_dict(attributes["layout"])
    draws = arrays[DRAWS]
    shard = draws["chunk_grid"]["configuration"]["chunk_shape"]
    chunk = draws["codecs"][0]["configuration"]["chunk_shape"]
    form = ShardForm(
        (chunk[0], chunk[1], chunk[2]), shard[0] // chunk[0], shard[2] // chunk[2], _stored(draws["data_type"])
    )
    return Header(
        path=path,
        layout=layout,
        chains=draws["shape"][0],
        draws=draws["shape"][1],
        segment=attributes["segment"],
        form=form,
        statistics={name: _stored(arrays[name]["data_type"]) for name in attributes["statistics"]},
        attributes=_caller(attributes),
    )


def amend(path: Path, attributes: Mapping[str, Any]) -> None:
    """Add attributes (JSON values) to a store in one atomic step; attributes with the same names are replaced.

    Raises ValueError for a name that the store sets itself, TraceError in the same cases as `read_header`.
    """
    if taken := sorted(set(RESERVED) & set(attributes)):
        raise ValueError(f"a trace sets the attributes {', '.join(taken)} itself; give the caller's other names")
    read_header(path)
    content = json.loads((path / "zarr.json").read_bytes())
    content["attributes"] |= attributes
    content["attributes"]["digest"] = _digest(content["attributes"])
    with atomic(path / "zarr.json") as temporary:
        temporary.write_text(json.dumps(content, indent=1))


def layout_hash(layout: Layout) -> str:
    """A short fingerprint of the names, shapes and roles of a layout."""
    return sha256(json.dumps(layout.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def _write_arrays(path: Path, header: Header, own: dict[str, Any], chain_ids: np.ndarray) -> None:
    # Importing zarr-python takes time, and readers of traces do not need it.
    import zarr
    from zarr.codecs import Crc32cCodec

    group = zarr.create_group(str(path))
    axes = ("chain", "draw", "parameter")
    common: dict[str, Any] = {
        "compressors": [Crc32cCodec()],
        "chunk_key_encoding": {"name": "default", "separator": "."},
    }
    shape = (header.chains, header.draws, header.size)
    form = header.form
    group.create_array(
        DRAWS,
        shape=shape,
        chunks=form.chunk,
        shards=form.shape,
        dtype=form.dtype.name,
        fill_value=float("nan"),
        dimension_names=axes,
        **common,
    )
    for name, kind in header.statistics.items():
        group.create_array(
            name,
            shape=shape[:2],
            chunks=(header.chains, header.segment),
            dtype=kind.name,
            fill_value=float("nan") if kind.kind == "f" else 0,
            dimension_names=axes[:2],
            **common,
        )
    for name, ids in zip(COORDINATES, (chain_ids, np.arange(header.draws, dtype="<i8")), strict=True):
        group.create_array(
            name, shape=ids.shape, chunks=ids.shape, dtype="int64", fill_value=-1, dimension_names=(name,), **common
        )
        write_chunk(path / name / "c.0", ids, ids.shape, np.dtype("<i8"))
    metadata = {name: (path / name / "zarr.json").read_bytes() for name in (DRAWS, *header.statistics, *COORDINATES)}
    own["checksums"] = {name: sha256(raw).hexdigest() for name, raw in metadata.items()}
    own["digest"] = _digest(own)
    # xarray looks for consolidated metadata first, and zarr's function to write it warns.
    arrays = {name: json.loads(raw) for name, raw in metadata.items()}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": arrays}
    content = json.loads((path / "zarr.json").read_bytes())
    content |= {"attributes": own, "consolidated_metadata": consolidated}
    (path / "zarr.json").write_text(json.dumps(content, indent=1))


def _check_arguments(
    chains: int,
    draws: int,
    segment: int,
    size: int,
    statistics: Mapping[str, str],
    chain_ids: np.ndarray,
    attributes: Mapping[str, Any],
    dtype: str,
) -> None:
    if min(chains, draws, segment, size) < 1:
        raise ValueError(
            "a trace needs at least one chain, draw, parameter and draw per segment; "
            f"got {chains}, {draws}, {size} and {segment}"
        )
    if chain_ids.shape != (chains,) or np.unique(chain_ids).size != chains:
        raise ValueError(f"{chains} chains need {chains} different chain numbers; got {chain_ids.tolist()}")
    if dtype not in DRAW_TYPES:
        raise ValueError(f"draws are kept as {' or '.join(DRAW_TYPES)}, not as {dtype}")
    for name, kind in statistics.items():
        if not STATISTIC_NAME.fullmatch(name) or name in (DRAWS, *COORDINATES, "parameter"):
            raise ValueError(f"'{name}' cannot name a statistic; use letters, digits and _, and no dimension's name")
        if kind not in STATISTIC_TYPES:
            raise ValueError(f"statistic '{name}' is to be {kind}; it can be {', '.join(STATISTIC_TYPES)}")
    taken = sorted(set(RESERVED) & set(attributes))
    if taken:
        raise ValueError(f"a trace sets the attributes {', '.join(taken)} itself; give the caller's other names")


def _differences(found: Header, wanted: Header, chain_ids: np.ndarray) -> list[str]:
    different = [
        f"{what} there {getattr(found, what)}, wanted {getattr(wanted, what)}"
        for what in ("chains", "draws", "segment", "dtype", "statistics")
        if getattr(found, what) != getattr(wanted, what)
    ]
    if found.layout != wanted.layout:
        different.append(f"the parameters differ ({found.size} there, {wanted.size} wanted)")
    elif not different:
        different += ["the chain numbers differ"] * (not np.array_equal(found.chain_ids, chain_ids))
    prints = [header.attributes.get("fingerprint") for header in (found, wanted)]
    if prints[0] != prints[1]:
        different.append(f"the fingerprint there is {prints[0]}, wanted {prints[1]}")
    return different


def _caller(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key not in RESERVED}


def _stored(kind: str) -> np.dtype:
    return np.dtype(kind).newbyteorder("<")


def _digest(attributes: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in attributes.items() if key != "digest"}
    return sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _bad_metadata(file: Path) -> TraceError:
    return TraceError(
        f"the metadata {file} is damaged (missing, unreadable or with another checksum), so the draws cannot be read. "
        "Delete the block's folder and rerun that block."
    )
