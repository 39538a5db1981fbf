"""Whether settings of methods and models fit the prior, the rows and the network, as far as these are known."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from bnn_atlas.config.checks.sizes import LOG_SIGMA, arrays_of, rows_of
from bnn_atlas.config.data.datasets import DatasetEntry
from bnn_atlas.config.language.base import near_or_all, refuse
from bnn_atlas.config.methods.gaussian import LaplaceConfig
from bnn_atlas.config.methods.implicit import (
    CorrelatedGenerator,
    FactorisedGenerator,
    ImplicitConfig,
    LanczosEntropy,
    MatrixGenerator,
    MLPGenerator,
    PublishedEntropy,
)
from bnn_atlas.config.methods.mclmc import SMILEConfig
from bnn_atlas.config.parts.posterior import CNNLSTMConfig, MLPConfig
from bnn_atlas.config.parts.priors import NORMAL
from bnn_atlas.config.runs.studies import Run

LEAST_SIDE = {"lenet": 15, "lenet5": 12, "lenet5_max": 16, "lenetti": 1, "resnet_frn": 4, "wide_resnet_frn": 4}
"""Convolutional model -> smallest side of the images that it takes."""
MICROCANONICAL = ("mclmc", "mclmc_blackjax", "adjusted_mclmc", "smile")
"""Methods whose momentum has a direction and no length."""
COLUMNS = 3
"""Fewest columns of the noise of a generator whose entropy is computed as published."""
Scalars = Mapping[str, int]
"""Name of each array of parameters -> number of its scalars."""


def check_method(run: Run, datasets: Mapping[str, DatasetEntry], where: str) -> None:
    """Refuse a model that cannot take the rows, and a method that cannot sample or fit this posterior."""
    refuse(where, _misfits(run, datasets))


def _misfits(run: Run, datasets: Mapping[str, DatasetEntry]) -> Iterator[str]:
    entry, method, prior = datasets[run.config.dataset], run.config.method, run.config.prior.kind
    yield from _misfits_of_model(run, entry)
    if getattr(method, "noise", None) == "point" and prior not in NORMAL:
        yield f".method.noise = 'point': it takes the noise out of a normal prior, not '{prior}'; leave it out"
    if isinstance(method, SMILEConfig) and method.batch_size == rows_of(run, datasets)[1]:
        yield (
            f".method.batch_size = {method.batch_size:,}: there are as many rows, but the noise of mini-batches is all "
            "that turns the momentum of 'smile'; lower it, or use 'mclmc' for all rows"
        )
    if isinstance(method, LaplaceConfig) and method.structure == "kronecker":
        yield from _misfits_of_kronecker(run)
    arrays = arrays_of(run, entry)
    scalars = None if arrays is None else {name: math.prod(shape) for name, shape in arrays.items()}
    if scalars is not None and method.kind in MICROCANONICAL and sum(scalars.values()) < 2:
        yield (
            f".method.kind = '{method.kind}': microcanonical dynamics need at least two parameters, and this network "
            "has one; use 'hmc' or 'nuts'"
        )
    if isinstance(method, ImplicitConfig):
        yield from _misfits_of_implicit(method, scalars)


def _misfits_of_model(run: Run, entry: DatasetEntry) -> Iterator[str]:
    """Rows that the network cannot take."""
    model, given = run.config.model, f".model.kind = '{run.config.model.kind}'"
    rows = f"the data set '{run.config.dataset}' has rows of the kind '{entry.kind}' and the shape {list(entry.shape)}"
    if isinstance(model, MLPConfig):
        if entry.kind == "tokens":
            yield f"{given}: {rows}, and tokens need 'cnn_lstm'"
    elif isinstance(model, CNNLSTMConfig):
        shortest = model.kernel + model.pool - 1
        if entry.kind != "tokens":
            yield f"{given}: {rows}, and it takes tokens; use 'mlp'"
        elif entry.shape[0] < shortest:
            yield f"{given}: {rows}, and it needs at least {shortest} tokens (kernel + pool - 1)"
    elif entry.kind != "image" or min(entry.shape[:2]) < LEAST_SIDE[model.kind]:
        side = LEAST_SIDE[model.kind]
        yield f"{given}: {rows}, and it takes images of at least {side} x {side} pixels; use 'mlp'"


def _misfits_of_kronecker(run: Run) -> Iterator[str]:
    """Priors and networks whose curvature has no Kronecker factors."""
    given, otherwise = ".method.structure = 'kronecker'", "choose full, last_layer or diagonal"
    prior = run.config.prior.kind
    if prior not in NORMAL:
        yield f"{given}: it needs a normal prior, not '{prior}'; {otherwise}"
    elif prior == "normal_flat_bias":
        yield f"{given}: it needs a proper prior, and '{prior}' is flat for the biases; {otherwise}"
    elif prior == "eps_standard_normal":
        yield (
            f"{given}: it needs standard deviations that are, in each layer, a product of one number per row and one "
            f"per column, and those of '{prior}' are not; {otherwise}"
        )
    if not isinstance(run.config.model, MLPConfig):
        yield f"{given}: it needs dense layers, and model.kind '{run.config.model.kind}' has others; {otherwise}"


def _misfits_of_implicit(method: ImplicitConfig, scalars: Scalars | None) -> Iterator[str]:
    """Generated parameters, generators and forms of the entropy; of a network that is not known, the latter two."""
    if scalars is None:
        yield from _misfits_of_generator(method, None)
        return
    unknown = list(_unknown(method, scalars))
    if unknown:
        yield from unknown
        return
    generated = {name: number for name, number in scalars.items() if _is_generated(name, method)}
    if method.noise == "point" and generated.pop(LOG_SIGMA, 0) and not generated:
        yield ".method.generated: it selects only the noise, which noise: point fits as a number; add other parameters"
    elif not generated:
        yield ".method.generated: no parameter meets all its conditions; loosen them, or leave it out"
    else:
        yield from _misfits_of_generator(method, generated)


def _unknown(method: ImplicitConfig, scalars: Scalars) -> Iterator[str]:
    """Layers, roles and names that the network does not have."""
    chosen = method.generated
    for key, wanted, there in (
        ("layers", chosen.layers, {_layer(name) for name in scalars} - {None}),
        ("roles", chosen.roles, {_role(name) for name in scalars}),
        ("names", chosen.names, set(scalars)),
    ):
        for one in wanted or ():
            if one not in there:
                near = near_or_all(str(one), "there are", sorted(map(str, there)))
                yield f".method.generated.{key}: {one!r} is not in this network{near}"


def _layer(name: str) -> int | None:
    return None if name == LOG_SIGMA else int(name.partition(".")[0].removeprefix("layer"))


def _role(name: str) -> str:
    return "scale" if name == LOG_SIGMA else name.partition(".")[2]


def _is_generated(name: str, method: ImplicitConfig) -> bool:
    chosen = method.generated
    values = ((chosen.layers, _layer(name)), (chosen.roles, _role(name)), (chosen.names, name))
    return all(wanted is None or one in wanted for wanted, one in values)


def _misfits_of_generator(method: ImplicitConfig, generated: Scalars | None) -> Iterator[str]:
    """Sizes of a generator, and forms of the entropy that its noise does not allow."""
    config, given = method.generator, ".method.generator"
    if not isinstance(config, FactorisedGenerator):
        yield from _misfits_of_one(config, None if generated is None else sum(generated.values()), given)
        noise = math.prod(_noise(config))
        columns = config.noise[1] if isinstance(config, MatrixGenerator) else noise
    else:
        parts = config.parts
        if generated is not None:
            sizes = Counter[int]()
            for name, number in generated.items():
                if (layer := _layer(name)) is not None:
                    sizes[layer] += number
            if not sizes:
                yield f"{given}: a factorised generator needs parameters of layers; add layers to generated"
                return
            last = max(sizes)
            sizes[last] += generated.get(LOG_SIGMA, 0)
            if len(parts) not in (1, len(sizes)):
                yield (
                    f"{given}.parts: there are {len(parts)}, and {len(sizes)} layers are generated "
                    f"({', '.join(map(str, sorted(sizes)))}); give one part for each layer, or one for all"
                )
                return
            parts = parts if len(parts) > 1 else parts * len(sizes)
            for part, layer in zip(parts, sorted(sizes), strict=True):
                yield from _misfits_of_one(part, sizes[layer], f"{given}.parts: layer {layer}")
        elif len(parts) == 1:
            return
        noise = columns = sum(math.prod(_noise(part)) for part in parts)
    for key, form in (("entropy", method.entropy), ("scored_by", method.scored_by)):
        if isinstance(form, LanczosEntropy) and form.steps > noise:
            yield f".method.{key}.steps = {form.steps}: the generator has only {noise} noise numbers; lower it"
        if isinstance(form, PublishedEntropy) and columns < COLUMNS:
            yield (
                f".method.{key}: the published entropy needs noise with at least {COLUMNS} columns, and that of the "
                f"generator has {columns}; use more, or another entropy"
            )


def _noise(config: MLPGenerator | MatrixGenerator | CorrelatedGenerator) -> tuple[int, ...]:
    noise = config.written_out().noise if isinstance(config, CorrelatedGenerator) else config.noise
    assert noise is not None
    return (noise,) if isinstance(noise, int) else noise


def _misfits_of_one(
    config: MLPGenerator | MatrixGenerator | CorrelatedGenerator, size: int | None, given: str
) -> Iterator[str]:
    """Outputs, noise and ranks that do not fit `size` weights; None if their number is not known."""
    if isinstance(config, CorrelatedGenerator):
        outputs = [part.output for part in config.written_out().parts]
    else:
        output = config.output if isinstance(config, MatrixGenerator) else None
        outputs = [] if output is None else [output]
    capacity, noise = sum(map(math.prod, outputs)), math.prod(_noise(config))
    if size is not None and outputs and capacity < size:
        yield f"{given}: its {capacity:,} outputs cannot make {size:,} weights; raise its outputs"
    if size is not None and noise > size:
        yield f"{given}: it has {noise:,} noise numbers for {size:,} weights; lower them to at most that many"
    if not isinstance(config, MLPGenerator) and config.bias_rank is not None:
        if not outputs and size is not None:
            columns = math.isqrt(size - 1) + 1
            outputs = [(-(-size // columns), columns)]
        if outputs and config.bias_rank > (most := min(map(min, outputs))):
            yield f"{given}.bias_rank = {config.bias_rank}: the last matrix allows at most {most}; lower it"
