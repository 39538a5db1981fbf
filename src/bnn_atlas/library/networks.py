"""A user's network as functions of one flat vector: a Flax module (linen or nnx), or a function and its parameters."""

import hashlib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import flax.errors
import jax
import numpy as np
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas import runtime
from bnn_atlas.data import DataError
from bnn_atlas.library.rows_last import rows_last, widths
from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.models.networks import CACHE_LINE, Network, ShapeError, piece_of
from bnn_atlas.sources import code_digest

if TYPE_CHECKING:
    from flax import nnx

SEPARATOR = "/"
STATE = (
    "{kind} has {what}, which changes while the network runs, so parameters and inputs do not determine its output: "
    "{advice}"
)
NORMS = (
    "use a norm without running statistics, such as GroupNorm or LayerNorm, or make batch norm use what it has "
    "(use_running_average=True)"
)
KEYS = "switch dropout off (deterministic=True)"
EVALUATION = (f"{rows_last.__module__}:rows_last", f"{__name__}:_cut", f"{__name__}:_whole_lines")
"""Code of this room on which the rounding of a user's network depends."""


class UserNetwork(NamedTuple):
    """A user's network."""

    network: Network
    start: np.ndarray | None
    """The parameters [P] that were given; None if they are initialised at random."""
    tree: Callable[[Any], Any]
    """Vectors [..., P] -> the user's pytree, with these leading axes, fixed parameters included."""
    name: str
    dtype: Any
    outputs: int
    digest: str
    """SHA-256 of the network's traced program and the numbers in it, and of the code that evaluates the program."""
    of_arrays: Callable[[Mapping[str, Any], Any], Any]
    """(stochastic parameters by name, rows) -> outputs as the user's network returns them."""


def user_network(
    module: Any,
    rows: np.ndarray,
    start: Any = None,
    stochastic: Collection[str] | None = None,
    dtype: Any = jnp.float32,
) -> UserNetwork:
    """A user's network, prepared for rows like `rows`.

    Args:
        module: `flax.linen.Module`, `flax.nnx.Module` (its parameters are the start), or a function of parameters and
            rows [n, ...]. All return outputs [n, outputs] or [n].
        rows: rows [n, ...]; only their shape and type count.
        start: a pytree of parameters. Required for a function; a linen module is initialised at random if omitted, and
            takes all its variables if it has others than parameters, which then stay as they are.
        stochastic: patterns of names, such as `head*`; parameters that match no pattern keep their value in `start`.
        dtype: precision of the parameters.

    Raises:
        DataError: the parameters are not valid, or the module has state.
        ShapeError: the network does not accept rows of this shape.
    """
    name = getattr(module, "__name__", type(module).__name__)
    example = jax.ShapeDtypeStruct(rows.shape, jnp.int32 if rows.dtype.kind in "iu" else dtype)
    initialise = None
    if isinstance(module, nn.Module):
        function, initialise, start = _of_linen(module, example, start)
        one = _rows_of(jax.ShapeDtypeStruct((1, *example.shape[1:]), example.dtype))
        given = start if start is not None else traced(initialise, name, one, jax.random.key(0))[1]
    elif _is_nnx(module):
        function, given = _of_nnx(module)
        given = given if start is None else start
    elif isinstance(module, type) and is_module(module):
        raise DataError(f"network is the class {name}: pass a module, such as {name}(...)")
    elif callable(module):
        function, given = module, start
        if start is None:
            raise DataError("start is missing: pass the pytree of parameters that the function takes")
    else:
        raise DataError(f"network is a {name}: pass a Flax module, or a function of parameters and rows")
    return _assembled(function, initialise, given, example, _Wanted(name, stochastic, dtype, start))


def user_density(start: Any, stochastic: Collection[str] | None = None, dtype: Any = jnp.float32) -> UserNetwork:
    """A user network with the parameters of a bare log density, and without outputs or rows.

    Raises:
        DataError: the parameters are not valid.
    """
    if start is None:
        raise DataError("start is missing: pass the pytree of parameters that the log density takes")
    nothing = jax.ShapeDtypeStruct((1, 1), dtype)
    return _assembled(
        lambda _, x: jnp.zeros(len(x), dtype), None, start, nothing, _Wanted("density", stochastic, dtype, start)
    )


class _Wanted(NamedTuple):
    name: str
    stochastic: Collection[str] | None
    dtype: Any
    start: Any


def _assembled(
    function: Callable[[Any, Array], Array],
    initialise: Callable[[Array], Any] | None,
    given: Any,
    example: jax.ShapeDtypeStruct,
    wanted: _Wanted,
) -> UserNetwork:
    check_lists(given)
    leaves, structure = named_leaves(given)
    if initialise is None or wanted.start is not None:
        leaves = {name: _number(leaf, name, wanted.dtype) for name, leaf in leaves.items()}
    chosen = _matching(leaves, wanted.stochastic)
    first_use = _first_use(function, jax.tree_util.tree_unflatten(structure, leaves.values()), example, wanted)
    order = dict(zip(leaves, first_use, strict=True))
    layout = Layout(tuple(_parameters({name: leaves[name].shape for name in chosen}, order)))
    drawn = not isinstance(next(iter(leaves.values())), np.ndarray)
    if drawn and len(chosen) < len(leaves):
        raise DataError("stochastic needs start: pass the parameters, which also hold the values that stay fixed")
    fixed = {name: leaf for name, leaf in leaves.items() if name not in chosen}

    def of_arrays(arrays: Mapping[str, Any], x: Any) -> Any:
        every = {**fixed, **arrays}
        return function(jax.tree_util.tree_unflatten(structure, [every[name] for name in leaves]), x)

    def tree(vector: Any) -> Any:
        arrays = _cut(vector, layout)
        lead = vector.shape[:-1]
        library = jnp if isinstance(vector, Array) else np
        still = {name: library.broadcast_to(leaf, (*lead, *leaf.shape)) for name, leaf in fixed.items()}
        arrays = {**still, **arrays}
        return jax.tree_util.tree_unflatten(structure, [arrays[name] for name in leaves])

    def outputs_of(vector: Array, x: Array) -> Array:
        outputs = function(tree(vector), x)
        return outputs[:, None] if outputs.ndim == 1 else outputs

    def first(key: Array) -> Array:
        if initialise is None or not drawn:
            return layout.flatten(leaves)
        return layout.flatten(named_leaves(initialise(key))[0]).astype(wanted.dtype)

    vector = jax.ShapeDtypeStruct((layout.size,), wanted.dtype)
    program, _ = traced(outputs_of, wanted.name, _rows_of(example), vector, example)
    start = None if drawn else np.concatenate([np.ravel(leaves[p.name]) for p in layout.parameters])
    network = Network(layout, lambda x: x, lambda vector, x: outputs_of(vector, x).T, first)
    if runtime.on_cpu():
        layers = widths(program.jaxpr, example.shape[0])
        network = network._replace(arrange=_turned, apply=rows_last(outputs_of))
        if layers and _takes_zeros(network, start, example):
            network = network._replace(arrange=_whole_lines, piece=piece_of(tuple(layers)))
    outputs = program.out_avals[0].shape[1]
    digest = hashlib.sha256((digest_of(program) + code_digest(*EVALUATION)).encode()).hexdigest()
    return UserNetwork(network, start, tree, wanted.name, wanted.dtype, outputs, digest, of_arrays)


def _cut(vector: Any, layout: Layout) -> dict[str, Any]:
    """`layout.unflatten`, with a gradient that joins pieces instead of adding padded vectors, which is slower."""
    if not isinstance(vector, Array) or vector.ndim > 1:
        return layout.unflatten(vector)
    pieces = jax.lax.split(vector, [p.size for p in layout.parameters])
    return {p.name: piece.reshape(p.shape) for p, piece in zip(layout.parameters, pieces, strict=True)}


def _turned(x: Array) -> Array:
    return jnp.moveaxis(x, 0, -1)


def _whole_lines(x: Array) -> Array:
    """Rows as the last axis, after adding up to 15 rows of zeros so that every unit starts on a cache line."""
    return _turned(jnp.pad(x, ((0, -len(x) % CACHE_LINE), *[(0, 0)] * (x.ndim - 1))))


def _takes_zeros(network: Network, start: np.ndarray | None, example: jax.ShapeDtypeStruct) -> bool:
    """Whether outputs and their gradient are finite at a row of zeros, such as those added to fill a cache line."""
    rows = jnp.zeros((1, *example.shape[1:]), example.dtype)

    def total(theta: Array) -> Array:
        return jnp.sum(network.apply(theta, network.arrange(rows)))

    theta = network.initialise(jax.random.key(0)) if start is None else jnp.asarray(start)
    return bool(jax.jit(lambda theta: jnp.isfinite(jax.grad(total)(theta)).all() & jnp.isfinite(total(theta)))(theta))


def traced(function: Callable[..., Any], name: str, what: str, *arguments: Any) -> tuple[Any, Any]:
    """The program of a function and the shapes of what it returns, or a ShapeError that says how it failed."""
    try:
        return jax.make_jaxpr(function, return_shape=True)(*arguments)
    except DataError:
        raise
    except (flax.errors.InvalidRngError, flax.errors.TraceContextError) as error:
        raise DataError(STATE.format(kind=name, what="a source of random numbers", advice=KEYS)) from error
    except Exception as error:
        raise ShapeError(f"{name} fails on {what}: {_reason(error)}") from error


def _rows_of(example: jax.ShapeDtypeStruct) -> str:
    return f"rows of shape {list(example.shape)}"


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return ": ".join((type(error).__name__, *lines[:1]))


def _first_use(function: Callable[[Any, Array], Array], given: Any, example: Any, wanted: _Wanted) -> list[int]:
    """For each leaf, the index of the first operation that uses the leaf; also checks the function's result."""
    program, _ = traced(function, wanted.name, _rows_of(example), given, example)
    shapes = [tuple(found.shape) for found in program.out_avals]
    if len(shapes) != 1 or len(shapes[0]) not in (1, 2) or shapes[0][0] != example.shape[0]:
        what = " and ".join(str(list(shape)) for shape in shapes)
        raise ShapeError(
            f"{wanted.name} returns {what} for {example.shape[0]} rows: return outputs [rows, outputs] or [rows]"
        )
    program = program.jaxpr
    while len(program.eqns) == 1 and "jaxpr" in program.eqns[0].params:
        program = program.eqns[0].params["jaxpr"].jaxpr
    uses = [{id(var) for var in equation.invars} for equation in program.eqns]
    leaves = jax.tree.leaves(given)
    return [
        next((place for place, used in enumerate(uses) if id(var) in used), len(uses))
        for var in program.invars[: len(leaves)]
    ]


def digest_of(program: Any) -> str:
    """SHA-256 of a traced program and of the numbers in it."""
    found = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(program)).encode())
    for constant in program.consts:
        found.update(np.ascontiguousarray(constant).data)
    return found.hexdigest()


def named_leaves(tree: Any, what: str = "start") -> tuple[dict[str, Any], Any]:
    """Leaves of a pytree by name, such as `dense_1/kernel`, and its structure; errors call the tree `what`."""
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    names = [jax.tree_util.keystr(path, simple=True, separator=SEPARATOR) or "theta" for path, _ in pairs]
    if not names:
        raise DataError(f"{what} has no parameters: pass a pytree of arrays, such as a dictionary")
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{what} has two parameters called '{min(twice)}': give the parts of the tree other names")
    return dict(zip(names, (leaf for _, leaf in pairs), strict=True)), structure


def check_lists(tree: Any, what: str = "start") -> None:
    """Refuse lists of numbers in a pytree, where each number would be a parameter of its own."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not isinstance(leaf, int | float) or not path or not isinstance(path[-1], jax.tree_util.SequenceKey):
            continue
        while path and isinstance(path[-1], jax.tree_util.SequenceKey):
            path = path[:-1]
        name = jax.tree_util.keystr(path, simple=True, separator=SEPARATOR)
        where = f"{what}['{name}']" if name else what
        raise DataError(f"{where} is a list of numbers: pass an array")


def is_numbers(first: Any) -> bool:
    """Whether the first element of a list is a number or a part of an array, and not a pytree."""
    while isinstance(first, list | tuple) and len(first) and not hasattr(first, "_fields"):
        first = first[0]
        if hasattr(first, "shape"):
            return not first.shape
    return isinstance(first, int | float) or hasattr(first, "shape") or hasattr(first, "__array__")


class Networks:
    """Networks as vectors: a list of pytrees, or one pytree whose arrays have an axis of networks first."""

    def __init__(self, layout: Layout, tree: Any, dtype: Any) -> None:
        """Prepare for networks like `tree`, of which the arrays in `layout` are stochastic."""
        self.layout, self.dtype = layout, dtype
        self.like = named_leaves(tree)[0]
        self.shapes = {p.name: p.shape for p in layout.parameters} | {n: np.shape(a) for n, a in self.like.items()}
        self.needed = [p.name for p in layout.parameters if p.name in self.like]

    def stacked(self, values: Any) -> bool:
        """Whether this is one pytree with an axis of networks, if the network takes a list of arrays."""
        leaves = named_leaves(values, "starts")[0] if isinstance(values, list | tuple) and len(values) else {}
        return bool(leaves) and all(
            name in leaves and np.shape(leaves[name])[1:] == self.shapes[name] for name in self.needed
        )

    def arrays(self, values: Any, name: str = "starts") -> dict[str, np.ndarray]:
        """Stochastic parameters [network, ...] by name.

        Raises:
            DataError: a parameter is missing, unknown, not finite or of another shape, differs from the value that the
                posterior keeps, or is there for another number of networks than the first.
        """
        if isinstance(values, list | tuple) and not self.stacked(values):
            each = [self._one(tree, f"{name}[{number}]", ()) for number, tree in enumerate(values)]
            common = set.intersection(*(set(one) for one in each))
            return {key: np.stack([one[key] for one in each]) for key in each[0] if key in common}
        found = self._one(values, name, (None,))
        counts = {key: len(array) for key, array in found.items()}
        first = next(iter(counts))
        for key, count in counts.items():
            if count != counts[first]:
                raise DataError(
                    f"{name}['{key}'] is of {count} networks, and {name}['{first}'] of {counts[first]}: pass one of "
                    "each array for each chain"
                )
        return found

    def _one(self, tree: Any, where: str, lead: tuple[None, ...]) -> dict[str, np.ndarray]:
        if _is_nnx(tree):
            tree = _of_nnx(tree)[1]
        if isinstance(tree, Mapping) and "params" in tree and not any(n.startswith("params/") for n in self.shapes):
            if others := sorted(set(tree) - {"params"}):
                raise DataError(
                    f"{where} has '{others[0]}' besides its parameters, which the posterior keeps as they are in its "
                    f"start: pass {where}['params'] alone"
                )
            tree = tree["params"]
        check_lists(tree, where)
        leaves = named_leaves(tree, where)[0]
        if unknown := [key for key in leaves if key not in self.shapes]:
            raise DataError(f"{where}: the network has no parameter '{unknown[0]}'; it has {', '.join(self.shapes)}")
        if missing := [key for key in self.needed if key not in leaves]:
            raise DataError(f"{where}: the parameter '{missing[0]}' is missing; there is {', '.join(leaves)}")
        found = {}
        for key, leaf in leaves.items():
            array = _number(leaf, key, self.dtype, where)
            shape = self.shapes[key]
            if array.shape[len(lead) :] != shape or array.ndim != len(lead) + len(shape):
                wanted = ", ".join(["chain"] * len(lead) + [str(size) for size in shape])
                one = lead and array.shape == shape
                raise DataError(
                    f"{where}['{key}'] has the shape {list(array.shape)}, but [{wanted}] is needed"
                    + (": pass a list of networks, such as [parameters], one for each chain" if one else "")
                )
            if key in self.needed or key not in self.like:
                found[key] = array
            elif not np.array_equal(np.broadcast_to(self.like[key], array.shape), array):
                raise DataError(
                    f"{where}['{key}'] differs from the start of the posterior, which keeps this parameter as it is: "
                    "leave it out, or make it stochastic"
                )
        return found


def _number(leaf: Any, name: str, dtype: Any, what: str = "start") -> np.ndarray:
    """A parameter as a NumPy array (tensors of PyTorch, too)."""
    try:
        array = np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}['{name}'] is not an array of numbers: {error}") from None
    if array.dtype.kind not in "f" and array.dtype != jnp.bfloat16:
        kind = "whole numbers" if array.dtype.kind in "iub" else f"{array.dtype}"
        raise DataError(
            f"{what}['{name}'] has {kind}: parameters have to be real numbers, so leave out all other arrays"
        )
    if not np.isfinite(array.astype(np.float64)).all():
        raise DataError(f"{what}['{name}'] has numbers that are not finite")
    if not array.size:
        raise DataError(f"{what}['{name}'] is empty")
    return array.astype(dtype)


def _matching(leaves: Mapping[str, Any], patterns: Collection[str] | None) -> list[str]:
    """Names that match a pattern, in the order of the tree; all names if there are no patterns."""
    if patterns is None:
        return list(leaves)
    if isinstance(patterns, str):
        patterns = [patterns]
    if not isinstance(patterns, Collection) or not all(isinstance(one, str) for one in patterns) or not patterns:
        raise DataError(f"stochastic is {patterns!r:.80}: pass patterns of names, such as ['head*'], or None for all")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in leaves):
            raise DataError(f"stochastic: no parameter matches '{pattern}'; there are {', '.join(leaves)}")
    return [name for name in leaves if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _parameters(shapes: Mapping[str, tuple[int, ...]], order: Mapping[str, int]) -> list[Parameter]:
    """The role, layer and fans of each parameter.

    Parameters whose names differ only in the last part form a layer; layers are in the order in which they are used.
    Arrays with two or more axes are weights, unless they are called `bias`; vectors called `scale` or `gain` are gains,
    and other vectors are biases. A `weight` is [out, in, *kernel], as in PyTorch, an `embedding` [entries, out], and
    any other weight [*kernel, in, out], as in Flax.
    """
    used: dict[str, int] = {}
    for name in shapes:
        owner = _owner(name)
        used[owner] = min(used.get(owner, order[name]), order[name])
    layers = sorted(used, key=lambda owner: (used[owner], _natural(owner)))
    found = [_parameter(name, shape, layers.index(_owner(name))) for name, shape in shapes.items()]
    return sorted(found, key=lambda p: (p.layer, _natural(p.name)))


def layout_of(shapes: Mapping[str, tuple[int, ...]]) -> Layout:
    """A layout for arrays of which only names and shapes are known, in the order of their names."""
    return Layout(tuple(_parameters(shapes, {name: place for place, name in enumerate(shapes)})))


def _owner(name: str) -> str:
    """The name without its last part: `dense` of `dense/kernel`, and `fc1` of PyTorch's `fc1.weight`."""
    return name[: max(name.rfind(SEPARATOR), name.rfind("."), 0)]


def _parameter(name: str, shape: tuple[int, ...], layer: int) -> Parameter:
    last = name.rpartition(SEPARATOR)[2].rpartition(".")[2]
    if len(shape) < 2 or last == "bias":
        role = "gain" if last in ("scale", "gain") else "bias"
        width = prod(shape)
        return Parameter(name, shape, role, layer, width, width)
    if last == "embedding":
        return Parameter(name, shape, "weight", layer, 1, shape[-1])
    if last == "weight":
        return Parameter(name, shape, "weight", layer, prod(shape[1:]), shape[0] * prod(shape[2:]))
    return Parameter(name, shape, "weight", layer, prod(shape[:-1]), prod(shape[:-2]) * shape[-1])


def _natural(name: str) -> list[Any]:
    """Sort key in which numbers within names count as numbers."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name)]


def _of_linen(
    module: nn.Module, example: jax.ShapeDtypeStruct, start: Any
) -> tuple[Callable[[Any, Array], Array], Callable[[Array], Any], Any]:
    kind = type(module).__name__
    _, variables = traced(lambda x: module.init(jax.random.key(0), x), kind, _rows_of(example), example)
    if "params" not in variables:
        raise DataError(f"{kind} has no parameters")
    others = sorted(set(variables) - {"params"})
    whole = isinstance(start, Mapping) and set(start) == set(variables)
    if others and not whole:
        raise DataError(
            f"{kind} has '{others[0]}' besides its parameters: {NORMS} and pass start=variables, with params and "
            f"{', '.join(others)}"
        )
    fixed = {name: start[name] for name in others}
    start = start["params"] if whole else start
    if start is not None:
        wanted, there = (set(named_leaves(tree)[0]) for tree in (variables["params"], start))
        if wanted != there:
            raise DataError(
                f"start has the parameters {', '.join(sorted(there))}, but {kind} has {', '.join(sorted(wanted))}: "
                "pass variables['params']"
            )
    zeros = jnp.zeros((1, *example.shape[1:]), example.dtype)

    def apply(params: Any, x: Array) -> Array:
        try:
            return cast(Array, module.apply({"params": params, **fixed}, x))
        except flax.errors.ModifyScopeVariableError as error:
            raise DataError(STATE.format(kind=kind, what=f"'{others[0]}'", advice=NORMS)) from error

    return apply, lambda key: cast(Any, module.init(key, zeros))["params"], start


def is_module(network: Any) -> bool:
    """Whether this is a Flax module, or a class of modules."""
    if isinstance(network, type):
        nnx = sys.modules.get("flax.nnx")
        return issubclass(network, nn.Module) or (nnx is not None and issubclass(network, nnx.Module))
    return isinstance(network, nn.Module) or _is_nnx(network)


def _is_nnx(module: Any) -> bool:
    """Whether this is a `flax.nnx` module; nnx takes long to import, but a user who passes a module has imported it."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(module, nnx.Module)


def _of_nnx(module: "nnx.Module") -> tuple[Callable[[Any, Array], Array], Any]:
    from flax import nnx

    parts: Any = nnx.split(module, nnx.Param, ...)
    graph, params, rest = parts
    pure = nnx.to_pure_dict(params)

    def apply(tree: Any, x: Array) -> Array:
        state = jax.tree.map(lambda leaf: leaf, params)
        nnx.replace_by_pure_dict(state, tree)
        merged = nnx.merge(graph, state, jax.tree.map(lambda leaf: leaf, rest))
        found: Array = merged(x)
        for path, variable in nnx.to_flat_state(nnx.state(merged, nnx.Not(nnx.Param))):
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(variable)):
                what = f"{type(variable).__name__} ({'/'.join(map(str, path))})"
                advice = KEYS if isinstance(variable, nnx.RngState) else NORMS
                raise DataError(STATE.format(kind=type(module).__name__, what=what, advice=advice))
        return found

    return apply, pure
