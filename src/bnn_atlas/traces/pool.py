"""The traces of several blocks read as one, without copying or rewriting any draw."""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bnn_atlas.files import atomic
from bnn_atlas.records import read, record_of
from bnn_atlas.traces.draws import Draws, Index, positions
from bnn_atlas.traces.reduced import ReducedBlock, is_reduced
from bnn_atlas.traces.shard import TraceError, read_shards
from bnn_atlas.traces.store import Trace, open_trace
from bnn_atlas.traces.zarr_metadata import layout_hash

log = logging.getLogger(__name__)

FORMAT = "bnn-atlas pool 1"
STOPPING = "stopping"
"""Attribute of a trace that a rule may have stopped: the rule's `report`."""
Block = Trace | ReducedBlock
AGAIN = "Delete the pool, and run the rule pool, or call `sample` with the same arguments, again."
"""Advice for a pool that is not as it was written."""


class Pool(Draws):
    """The chains of several blocks in the order of their numbers; draws in the order in which they were stored.

    The pool has the attributes that all blocks have in common, such as the whole provenance except for the chain
    numbers.

    If a rule stopped blocks at different draws, the pool has the draws that all chains have. The pool's attribute
    `stopping` then has the rule's `alpha` and `planned_draws`, whether the rule `stopped` any block, and for each chain
    number the `draws` of the chain's block and the draw at which the chain `crossed` the rule's bound.

    A pool of reduced blocks has all their statistics, and the scalars that they have.
    """

    def __init__(self, path: Path, blocks: Sequence[Block]) -> None:
        first = blocks[0]
        self.path = path
        self.blocks = tuple(blocks)
        self.layout = first.layout
        self.size = first.size
        self.dtype = first.dtype
        self.statistics = first.statistics
        shared = _common([block.attributes for block in blocks])
        self.attributes = {key: value for key, value in shared.items() if key != STOPPING} | _stopping(blocks)
        self.draw_ids = min((block.draw_ids for block in blocks), key=len)
        self.chains_per_chunk = max(block.chains_per_chunk for block in blocks)
        self.draws_per_chunk = max(block.draws_per_chunk for block in blocks)
        ids = np.concatenate([block.chain_ids for block in blocks])
        order = np.argsort(ids)
        self.chain_ids = ids[order]
        self._block = np.repeat(np.arange(len(blocks)), [block.chains for block in blocks])[order]
        self._row = np.concatenate([np.arange(block.chains) for block in blocks])[order]

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The stored scalars, in order."""
        return self.blocks[0].parameter_names

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        out = np.empty((chain_idx.size, draw_idx.size, columns.size), dtype=self.dtype)
        owners = list(self._owners(chain_idx))
        read_shards(
            part
            for block, places, rows in owners
            if isinstance(block, Trace)
            for part in block.parts(out, places, rows, draw_idx, columns)
        )
        for block, places, rows in owners:
            if isinstance(block, ReducedBlock):
                out[places] = block.read(rows, draw_idx, columns)
        return out

    @property
    def reduced(self) -> tuple[Path, ...]:
        """Folders of the blocks, in order, if they are reduced; empty for a pool of traces."""
        return tuple(block.path for block in self.blocks if isinstance(block, ReducedBlock))

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """One statistic [c, s]; see `Draws.statistic`."""
        if name not in self.statistics:
            raise KeyError(f"{self.path} has no statistic '{name}'; it has {', '.join(self.statistics) or 'none'}")
        chain_idx, draw_idx = self._places(chains, draws)
        out = np.empty((chain_idx.size, draw_idx.size), dtype=self.statistics[name])
        for block, places, rows in self._owners(chain_idx):
            out[places] = block.statistic(name, rows, draw_idx)
        return out

    def _owners(self, chain_idx: np.ndarray) -> Iterator[tuple[Block, np.ndarray, np.ndarray]]:
        """Each block that has some of the chains `chain_idx`, and their positions in `chain_idx` and in the block."""
        owner = self._block[chain_idx]
        for number in np.unique(owner):
            places = np.flatnonzero(owner == number)
            yield self.blocks[number], places, self._row[chain_idx[places]]


def pool_traces(paths: Iterable[str | Path], destination: str | Path) -> None:
    """Write `destination` (a pool.json): the blocks' paths relative to it, their chains, and what they share.

    A block that a job has recorded is listed with its SHA-256, so that other draws make a different pool. The order of
    `paths` does not matter. Blocks that a rule stopped at different draws are pooled up to the last draw that all
    blocks have. Raises TraceError if two blocks differ in parameters, number type, draws or statistics or share a chain
    (the message names both blocks), and, like `open_trace`, if a block is incomplete.
    """
    target = Path(destination)
    blocks = sorted(map(_opened, paths), key=lambda block: int(block.chain_ids.min()))
    if not blocks:
        raise TraceError(f"no blocks to pool into {target}: give the path of at least one trace.")
    _check(blocks)
    draws = min(block.draws for block in blocks)
    if longer := [block for block in blocks if block.draws > draws]:
        log.info(
            "blocks were stopped at %s draws: the pool takes the first %d draws of every chain and leaves %d draws out",
            " and ".join(map(str, sorted({block.draws for block in blocks}))),
            draws,
            sum(block.chains * (block.draws - draws) for block in longer),
        )
    folder = target.resolve().parent
    content = {
        "format": FORMAT,
        **_shared(blocks[0], draws),
        "chains": sum(block.chains for block in blocks),
        "blocks": [
            {
                "path": Path(os.path.relpath(block.path.resolve(), folder)).as_posix(),
                "chain_ids": block.chain_ids.tolist(),
                **_recorded(block.path),
            }
            for block in blocks
        ],
    }
    with atomic(target) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")


def open_pool(path: str | Path) -> Pool:
    """Open a pool that `pool_traces` wrote; TraceError if pool.json or a block is missing, damaged or changed since."""
    if not isinstance(path, str | Path):
        raise TraceError(f"the pool is a {type(path).__name__}: give the path of a pool.json.")
    source = Path(path)
    try:
        content = json.loads(source.read_bytes())
        folder = source.resolve().parent
        entries = [((folder / entry["path"]).resolve(), entry) for entry in content["blocks"]]
        stated = content["format"]
    except OSError as error:
        raise TraceError(
            f"cannot read the pool {source}: {error.strerror or error}. Give the path of a pool.json, which `sample`, "
            "`save` and the rule pool write, or its folder."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"the pool {source} is damaged: {error!r}. {AGAIN}") from error
    if stated != FORMAT:
        raise TraceError(f"{source} has the format {stated!r}; this version reads {FORMAT!r}.")
    blocks = [_opened(block_path) for block_path, _ in entries]
    if not blocks:
        raise TraceError(f"the pool {source} lists no blocks. {AGAIN}")
    draws = min(block.draws for block in blocks)
    for block, (block_path, entry) in zip(blocks, entries, strict=True):
        recorded = _recorded(block.path) if "sha256" in entry else {}
        for what, value in {**_shared(block, draws), "chain_ids": block.chain_ids.tolist(), **recorded}.items():
            if value != (expected := {**content, **entry}.get(what)):
                raise TraceError(
                    f"{block_path} has changed since {source} was written: {what} was {expected} and is {value}. "
                    f"{AGAIN}"
                )
    _check(blocks)
    return Pool(source, blocks)


def _opened(path: str | Path) -> Block:
    return ReducedBlock(path) if is_reduced(path) else open_trace(path)


def _shared(block: Block, draws: int) -> dict[str, Any]:
    """The properties that all blocks of a pool must have in common; `draws` is the length of the shortest block."""
    rule = block.attributes.get(STOPPING)
    return {
        "layout": layout_hash(block.layout),
        "parameters": [block.size, "all" if block.size == block.layout.size else list(block.parameter_names)],
        "draws": draws if rule else block.draws,
        "draw_ids": sha256(block.draw_ids[:draws].tobytes()).hexdigest()[:16],
        "dtype": block.dtype.name,
        "statistics": {name: kind.name for name, kind in block.statistics.items()},
        STOPPING: {key: rule[key] for key in ("alpha", "planned_draws")} if rule else None,
    }


def _recorded(trace: Path) -> dict[str, str]:
    """`sha256` -> SHA-256 of a trace according to its record; empty without a record, or while it is made again."""
    outputs = {Path(name).name: digest for name, digest in read(record_of(trace)).get("outputs", {}).items()}
    return {"sha256": outputs[trace.name]} if trace.name in outputs else {}


def _common(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keys and values that all mappings share; values that are mappings are compared in the same way."""
    first, *others = mappings
    found = {}
    for key, value in first.items():
        values = [value, *(other.get(key) for other in others)]
        if all(isinstance(one, Mapping) for one in values):
            found[key] = _common(values)
        elif all(one == value for one in values):
            found[key] = value
    return found


def _stopping(blocks: Sequence[Block]) -> dict[str, Any]:
    """The reports of all blocks as one attribute; empty if no rule watched them."""
    reports = [block.attributes[STOPPING] for block in blocks if STOPPING in block.attributes]
    if not reports:
        return {}
    together = {
        "alpha": reports[0]["alpha"],
        "planned_draws": reports[0]["planned_draws"],
        "stopped": any(report["stopped"] for report in reports),
        "draws": {str(chain): block.draws for block in blocks for chain in block.chain_ids},
        "crossed": {chain: draw for report in reports for chain, draw in report["crossed"].items()},
    }
    return {STOPPING: together}


def _check(blocks: Sequence[Block]) -> None:
    first, draws = blocks[0], min(block.draws for block in blocks)
    for block in blocks[1:]:
        for (what, value), other in zip(_shared(first, draws).items(), _shared(block, draws).values(), strict=True):
            if value != other:
                raise TraceError(
                    f"cannot pool {first.path} and {block.path}: their {what} differ ({value} and {other}). "
                    "Pool only blocks of one run."
                )
    owners = sorted((int(chain), block.path) for block in blocks for chain in block.chain_ids)
    for (chain, owner), (following, other) in pairwise(owners):
        if chain == following:
            raise TraceError(f"cannot pool {owner} and {other}: both hold chain {chain}. Pool each block once.")
