"""Draws in the forms in which users have them: on disk, as an array, or as pytrees."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from bnn_atlas.data import DataError
from bnn_atlas.library.posteriors import NetworkPosterior
from bnn_atlas.models.layout import Layout
from bnn_atlas.traces.draws import ArrayDraws, Draws, Index, positions

if TYPE_CHECKING:
    from bnn_atlas.library.symmetries import Symmetry


class Form(NamedTuple):
    """How draws were passed."""

    draws: Callable[[Draws], Any]
    tree: Callable[[np.ndarray], Any]
    shaped: Callable[[np.ndarray], np.ndarray]
    """Values [chain, draw, ...] for each draw -> without the chains if draws have none."""
    named: Callable[[int, int], str]
    """Position of a chain and of a draw -> what the user calls this draw."""


def source_of(draws: Any, symmetry: "Symmetry", posterior: NetworkPosterior | None) -> tuple[Draws, Form]:
    """The draws as `Draws`, and the form in which they were passed."""
    from bnn_atlas.library.draws import PosteriorDraws
    from bnn_atlas.library.networks import is_numbers

    if isinstance(draws, Draws):
        if draws.size != draws.layout.size:
            raise DataError(f"draws ({draws.path}) are a selection of parameters: pass all of them")
        again = PosteriorDraws if isinstance(draws, PosteriorDraws) else lambda moved, _: moved
        tree = _tree_of(draws.layout, symmetry, posterior)

        def named(chain: int, draw: int) -> str:
            return f"{draws.path}: draw {draws.draw_ids[draw]} of chain {draws.chain_ids[chain]}"

        return draws, Form(lambda moved: again(moved, posterior), tree, lambda values: values, named)
    if isinstance(draws, list | tuple) and not draws:
        raise DataError("draws is empty: pass at least two networks")
    if isinstance(draws, list | tuple) and not is_numbers(draws[0]):
        return _of_trees(draws, symmetry)
    try:
        array = draws if isinstance(draws, np.ndarray) else np.asarray(draws)
    except (TypeError, ValueError):  # rows of unequal lengths
        array = np.array(None)
    if array.dtype.kind == "O":
        raise DataError(
            f"draws is a {type(draws).__name__} and not an array of numbers: pass draws of `sample`, an array "
            "[chain, draw, P], or a list of networks"
        )
    layout = symmetry._found.layout if symmetry._found is not None else None
    layout = posterior.density.layout if posterior is not None else layout
    if layout is None:
        raise DataError("draws is an array, whose order a symmetry by hand does not know: pass posterior, or pytrees")
    if array.dtype.kind != "f":
        raise DataError(f"draws is an array of {array.dtype}: pass real numbers")
    if array.ndim not in (2, 3) or array.shape[-1] != layout.size or not array.size:
        raise DataError(
            f"draws has the shape {list(array.shape)}, but [chain, draw, {layout.size}] or [draw, {layout.size}] is "
            "needed"
        )
    flat = array.ndim == 2
    whole = array[None] if flat else array
    whole = whole if whole.dtype == np.float64 else whole.astype(np.float32, copy=False)
    source = ArrayDraws(Path("draws"), layout, whole, {}, np.arange(whole.shape[0]), np.arange(whole.shape[1]), {})

    def shaped(values: np.ndarray) -> np.ndarray:
        return values[0] if flat else values

    return source, Form(
        lambda moved: shaped(moved.read()),
        _tree_of(layout, symmetry, posterior),
        shaped,
        lambda chain, draw: f"draws[{draw}]" if flat else f"draws[{chain}, {draw}]",
    )


def _of_trees(draws: Sequence[Any], symmetry: "Symmetry") -> tuple[Draws, Form]:
    """Pytrees, or chains of pytrees if the first element does not have the names of the symmetry and its first has."""
    from bnn_atlas.library.networks import named_leaves

    def is_network(tree: Any) -> bool:
        return symmetry.names <= set(named_leaves(tree, "draws[0]")[0])

    chained = isinstance(draws[0], list | tuple) and len(draws[0]) > 0 and not is_network(draws[0])
    chained = chained and is_network(draws[0][0])
    chains = [[*chain] for chain in draws] if chained else [[*draws]]
    if len(lengths := {len(chain) for chain in chains}) > 1:
        raise DataError(f"draws has chains of {min(lengths)} to {max(lengths)} draws: pass equally many of each chain")
    source = Trees(chains, None if symmetry._found is None else symmetry._found.layout)

    def given(moved: Draws) -> Any:
        found = [[source.tree(moved.read([c], [s])[0, 0]) for s in range(moved.draws)] for c in range(moved.chains)]
        return found if chained else found[0]

    return source, Form(given, source.tree, lambda values: values if chained else values[0], source.named)


def _tree_of(layout: Layout, symmetry: "Symmetry", posterior: NetworkPosterior | None) -> Callable[[np.ndarray], Any]:
    """Vectors [P] -> the user's pytree, or arrays by name, nested where names have a slash."""
    if posterior is not None:
        return posterior.as_pytree
    if symmetry._tree is not None and symmetry._found is not None and symmetry._found.layout == layout:
        return symmetry._tree

    def nested(vector: np.ndarray) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name, array in layout.unflatten(cast(Any, vector)).items():
            *folders, last = name.split("/")
            place = tree
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = array
        return tree

    return nested


class OneByOne(Draws):
    """Draws that are made one at a time when they are read, and have no statistics."""

    chains_per_chunk = draws_per_chunk = 1

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The scalars, in order."""
        return tuple(self.layout.names())

    def read(self, chains: Index = None, draws: Index = None, parameters: Index = None) -> np.ndarray:
        """Draws [c, s, p]; see `Draws.read`."""
        chain_idx, draw_idx = self._places(chains, draws)
        columns = positions(parameters, self.size, "parameter")
        out = np.empty((len(chain_idx), len(draw_idx), len(columns)), self.dtype)
        for i, chain in enumerate(chain_idx.tolist()):
            for j, draw in enumerate(draw_idx.tolist()):
                out[i, j] = self._vector(chain, draw)[columns]
        return out

    def statistic(self, name: str, chains: Index = None, draws: Index = None) -> np.ndarray:
        """Raises KeyError: these draws have no statistics."""
        raise KeyError(f"draws have no statistic '{name}'")

    @abstractmethod
    def _vector(self, chain: int, draw: int) -> np.ndarray:
        """The parameters [P] of a draw."""


class Trees(OneByOne):
    """Chains of pytrees as draws; a vector is only made when it is read."""

    def __init__(self, chains: Sequence[Sequence[Any]], layout: Layout | None) -> None:
        from bnn_atlas.library.networks import check_lists, layout_of, named_leaves

        self._chains = chains
        check_lists(chains[0][0], "draws[0]")
        leaves, self._structure = named_leaves(chains[0][0], "draws[0]")
        arrays = {name: _leaf(leaf, f"draws[0]['{name}']") for name, leaf in leaves.items()}
        self._names = tuple(arrays)
        self._shapes = {name: array.shape for name, array in arrays.items()}
        self.layout = layout or layout_of(self._shapes)
        wanted = {p.name: p.shape for p in self.layout.parameters}
        if wanted != self._shapes:
            raise DataError(
                f"draws[0] is not of the network of this symmetry: {difference(self._shapes, wanted)}"
                f"{_of_flax(self._shapes, wanted)}"
            )
        self.path, self.size = Path("draws"), self.layout.size
        self.chain_ids, self.draw_ids = np.arange(len(chains)), np.arange(len(chains[0]))
        double = any(array.dtype == np.float64 for array in arrays.values())
        self.dtype = np.dtype(np.float64 if double else np.float32)
        self.statistics, self.attributes = {}, {}
        for chain, draws in enumerate(chains):
            for draw in range(len(draws)):
                self._vector(chain, draw)

    def tree(self, vector: np.ndarray) -> Any:
        """Parameters [P] as a pytree like the first."""
        import jax

        arrays = self.layout.unflatten(cast(Any, vector))
        return jax.tree_util.tree_unflatten(self._structure, [arrays[name] for name in self._names])

    def named(self, chain: int, draw: int) -> str:
        """What the user calls a draw."""
        return f"draws[{draw}]" if len(self._chains) == 1 else f"draws[{chain}][{draw}]"

    def _vector(self, chain: int, draw: int) -> np.ndarray:
        """The parameters [P] of a draw; DataError if it is not like the first."""
        from bnn_atlas.library.networks import named_leaves

        where = self.named(chain, draw)
        leaves, _ = named_leaves(self._chains[chain][draw], where)
        arrays = {name: _leaf(leaf, f"{where}['{name}']") for name, leaf in leaves.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self._shapes:
            raise DataError(f"{where} is not like the first: {difference(shapes, self._shapes)}")
        return np.concatenate([arrays[p.name].ravel() for p in self.layout.parameters], dtype=self.dtype)


def _leaf(leaf: Any, where: str) -> np.ndarray:
    """One parameter as an array of floats (tensors of PyTorch, too)."""
    try:
        array = np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} is not an array of numbers: {error}") from None
    if array.dtype.kind == "V" and np.can_cast(array.dtype, np.float32):
        array = array.astype(np.float32)  # short floats of JAX
    if array.dtype.kind != "f":
        what = "whole numbers" if array.dtype.kind in "iub" else f"{array.dtype}"
        raise DataError(f"{where} has {what}: parameters are real numbers, so leave out all other arrays")
    if not array.size:
        raise DataError(f"{where} is empty")
    return array


def _of_flax(given: Collection[str], wanted: Collection[str]) -> str:
    """Advice if these are the variables of a linen module, or an nnx module or its state, and not the parameters."""
    if set(given) == {f"params/{name}" for name in wanted}:
        return ": pass variables['params'] of each network"
    if set(given) == {f"{name}/value" for name in wanted}:
        return ": pass nnx.to_pure_dict(nnx.state(module, nnx.Param)) of each network"
    return ""


def difference(given: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> str:
    """The first difference between two sets of arrays."""
    for name, shape in wanted.items():
        if name not in given:
            return f"there is no array '{name}'; there is {', '.join(list(given)[:5])}"
        if given[name] != shape:
            return f"'{name}' has the shape {list(given[name])}, and {list(shape)} is expected"
    extra = next((name for name in given if name not in wanted), None)
    return f"there is an array '{extra}' too many" if extra else "arrays are in another order"
