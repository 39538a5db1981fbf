"""Whether settings fit the numbers of rows and of parameters, as far as they are known before anything is made."""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from bnn_atlas.config.checks.runs import training_rows
from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.data.splits import parts
from bnn_atlas.config.language.base import near_or_all, refuse
from bnn_atlas.config.methods.gaussian import MOST_FACTORISED, LaplaceConfig, LowRankConfig
from bnn_atlas.config.parts.figures import GridConfig, SubsetConfig
from bnn_atlas.config.parts.posterior import MLPConfig
from bnn_atlas.config.runs.studies import Run

LOG_SIGMA = "log_sigma"
"""The parameter that the likelihood `learned_noise` adds."""
MOST_MATCHED = 100_000
"""Scalars of the largest network whose names are compared with a pattern."""


def check_sizes(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse mini-batches of more rows than there are, and approximations of too many scalars."""
    refuse(where, _misfits(run, datasets))


def _misfits(run: Run, datasets: Mapping[str, DatasetEntry]) -> Iterator[str]:
    method, warmstart, shards = run.config.method, run.config.warmstart, run.config.data_shards
    trained, seen = rows_of(run, datasets)
    batch = getattr(method, "batch_size", None)
    if batch is not None and batch > seen:
        yield f".method.batch_size = {batch:,}: there are {seen:,} rows; lower it, or use null for all rows at once"
    if batch is not None and batch % shards:
        yield (
            f".method.batch_size = {batch:,}: data_shards divides the rows among {shards} devices; use a multiple of "
            f"{shards}"
        )
    if warmstart is not None and warmstart.batch_size is not None and warmstart.batch_size > trained:
        given = f".warmstart.batch_size = {warmstart.batch_size:,}"
        yield f"{given}: there are {trained:,} training rows; lower it, or use null for all rows at once"
    arrays = arrays_of(run, datasets[run.config.dataset])
    if arrays is None:
        return
    size = sum(math.prod(shape) for shape in arrays.values())
    if isinstance(method, LowRankConfig) and method.rank > size:
        yield f".method.rank = {method.rank:,}: the posterior has {size:,} parameters; choose at most {size:,}"
    if isinstance(method, LaplaceConfig) and method.structure in ("full", "last_layer"):
        last = f"layer{run.config.model.layers - 1}."
        own = (math.prod(shape) for name, shape in arrays.items() if name.startswith((last, LOG_SIGMA)))
        if (number := size if method.structure == "full" else sum(own)) > MOST_FACTORISED:
            yield (
                f".method.structure = '{method.structure}': it would factorise a matrix over {number:,} scalars, more "
                f"than {MOST_FACTORISED:,}; choose kronecker or diagonal, or a smaller network"
            )


def rows_of(run: Run, datasets: Mapping[str, DatasetEntry]) -> tuple[int, int]:
    """At most how many rows a warm start is trained on, and how many the posterior is conditioned on."""
    split, entry = run.config.split, datasets[run.config.dataset]
    if split.kind == "published":
        rows = split.first or entry.published_train or 0
        return rows - round(split.validation * rows), training_rows(run, datasets)
    if split.kind == "mile" and entry.published_test:
        return entry.published_train or 0, entry.published_train or 0
    trained, held_out, _ = parts(entry.rows, split)
    return trained, trained + held_out * split.validation_in_likelihood


def arrays_of(run: Run, entry: DatasetEntry) -> dict[str, tuple[int, ...]] | None:
    """Name -> shape of each array of parameters of a fully connected network; None for other networks."""
    model, likelihood = run.config.model, run.config.likelihood.kind
    if not isinstance(model, MLPConfig):
        return None
    outputs = {"heteroscedastic": 2, "categorical": len(entry.classes)}.get(likelihood, 1)
    inputs = math.prod(entry.shape) * (2 if run.config.split.features == "squares" else 1)
    arrays: dict[str, tuple[int, ...]] = {}
    for layer, (into, out) in enumerate(pairwise((inputs, *model.hidden, outputs))):
        arrays |= {f"layer{layer}.bias": (out,)} if model.bias else {}
        arrays[f"layer{layer}.weight"] = out, into
    return arrays | ({LOG_SIGMA: ()} if likelihood == "learned_noise" else {})


def unfit_subset(subset: SubsetConfig, run: Run, entry: DatasetEntry) -> Iterator[str]:
    """Layers, roles, parameters and draws that a figure takes from a run that does not have them."""
    layers = run.config.model.layers
    for layer in subset.layers or ():
        if not 0 <= layer < layers:
            yield f".layers: {layer}: the network of run '{run.name}' has {layers} layers, with numbers from 0"
    if subset.draws is not None and subset.draws[1] > run.draws:
        yield f".draws = {list(subset.draws)}: run '{run.name}' keeps {run.draws:,} draws of each chain"
    arrays = arrays_of(run, entry)
    if arrays is None:
        return
    roles = {"scale" if name == LOG_SIGMA else name.rpartition(".")[2] for name in arrays}
    for role in subset.roles or ():
        if role not in roles:
            yield f".roles: '{role}': run '{run.name}' has {', '.join(sorted(roles))}"
    for name in subset.parameters or ():
        if name not in arrays and not _is_scalar(name, arrays):
            yield f".parameters: '{name}': no parameter of run '{run.name}'{near_or_all(name, 'there are', arrays)}"
    if subset.pattern is not None and sum(map(math.prod, arrays.values())) <= MOST_MATCHED:
        expression = re.compile(re.escape(subset.pattern).replace(r"\*", ".*").replace(r"\?", "."))
        if not any(expression.fullmatch(name) for name in _scalars(arrays)):
            yield f".pattern = '{subset.pattern}': no parameter of run '{run.name}' matches; {_examples(arrays)}"


def unfit_grid(grid: GridConfig, run: Run, entry: DatasetEntry) -> Iterator[str]:
    """Scalars whose densities a figure shows and that a run does not have."""
    arrays = arrays_of(run, entry)
    for name in dict.fromkeys(name for pair in grid.pairs for name in pair):
        if arrays is not None and not _is_scalar(name, arrays):
            yield f".pairs: '{name}': no scalar of run '{run.name}'; {_examples(arrays)}"


def _is_scalar(name: str, arrays: Mapping[str, tuple[int, ...]]) -> bool:
    array, _, places = name.partition("[")
    if array not in arrays or (places and not re.fullmatch(r"\d+(,\d+)*\]", places)):
        return False
    numbers = [int(place) for place in places.rstrip("]").split(",")] if places else []
    shape = arrays[array]
    return len(numbers) == len(shape) and all(number < size for number, size in zip(numbers, shape, strict=True))


def _scalars(arrays: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """Names of all scalars."""
    for name, shape in arrays.items():
        for place in range(math.prod(shape)):
            if len(shape) == 2:
                yield f"{name}[{place // shape[1]},{place % shape[1]}]"
            else:
                yield f"{name}[{place}]" if shape else name


def _examples(arrays: Mapping[str, tuple[int, ...]]) -> str:
    """The last scalar of each array, from which all names can be seen."""
    last = [f"{name}[{','.join(str(size - 1) for size in shape)}]" if shape else name for name, shape in arrays.items()]
    return f"the last one of each array is {', '.join(last[:12])}"
