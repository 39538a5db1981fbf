"""Axes of arrays as products of atoms, which are merged where a program says that they are the same.

An atom is a set of entries that is exchanged as a whole or not at all; `tracing` says which operations merge atoms.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

ROWS, INPUTS, OUTPUTS = "rows", "inputs", "outputs"
POSITIONS, CONSTANTS, UNUSED = "positions", "constants", "not used"
FIXED = {ROWS, INPUTS, OUTPUTS, POSITIONS, CONSTANTS, UNUSED}
"""Reasons for which an axis is known not to be exchangeable; with any other reason, it is undecided."""


class Atom:
    """A factor of an axis, which can turn out to be another atom (`meet`), a product (`divide`) or a sum (`cut`)."""

    def __init__(self, size: int, fixed: str = "", uniform: bool = False, pieces: "Sequence[Axis]" = ()) -> None:
        self.size, self.fixed, self.uniform = size, fixed, uniform
        self.same: Atom | None = None
        self.parts: tuple[Atom, ...] = ()
        self.pieces = list(pieces)
        """Axes that this atom has one after another, as after a concatenation; it is not exchangeable as a whole."""

    def divide(self, inner: int) -> bool:
        """Make this atom the product of an outer atom and one of size `inner`, if it is no sum."""
        if not self.pieces:
            sizes = (self.size // inner, inner)
            self.parts = tuple(Atom(size, self.fixed, self.uniform) for size in sizes if size > 1)
        return not self.pieces

    def cut(self, sizes: Sequence[int]) -> None:
        """Make this atom a sum of atoms of these sizes."""
        self.pieces = [[Atom(size, self.fixed, self.uniform)] if size > 1 else [] for size in sizes]


Axis = list[Atom]


def leaves(axis: Axis) -> Axis:
    """The atoms of an axis after all merges and divisions; sums are kept."""
    found: Axis = []
    for atom in axis:
        while atom.same is not None:
            atom = atom.same
        found += leaves([*atom.parts]) if atom.parts else [atom]
    return found


class Stretch(NamedTuple):
    """Where an axis has an atom: index start + (block n + unit) inner + position, as in `Place`."""

    atom: Atom
    start: int
    blocks: int
    inner: int


def stretches(axis: Axis) -> list[Stretch]:
    """All atoms of an axis that are not sums; atoms of a sum within blocks are fixed, as places cannot express them."""
    found, whole = [], leaves(axis)
    for number, atom in enumerate(whole):
        blocks, inner = size_of(whole[:number]), size_of(whole[number + 1 :])
        if not atom.pieces:
            found.append(Stretch(atom, 0, blocks, inner))
            continue
        if blocks > 1:
            fix([[atom]], "parts of an axis within blocks are not followed")
            found.append(Stretch(atom, 0, blocks, inner))
        start = 0
        for piece in atom.pieces:
            if blocks == 1:
                found += [
                    Stretch(s.atom, (start + s.start) * inner, s.blocks, s.inner * inner) for s in stretches(piece)
                ]
            start += size_of(leaves(piece))
    return found


def fix(axes: Iterable[Axis], reason: str) -> None:
    """Mark all atoms of these axes as not exchangeable; a reason that leaves them undecided stays."""
    for axis in axes:
        for atom in leaves(axis):
            fix(atom.pieces, reason)
            if not atom.uniform:
                atom.fixed = _weaker(atom.fixed, reason)


def _weaker(one: str, other: str) -> str:
    """The reason of the two that decides less."""
    return one if one and (one not in FIXED or not other) else other


def size_of(axis: Axis) -> int:
    """Length of an axis."""
    return prod(atom.size for atom in axis)


def own(axis: Axis) -> Axis:
    """The same axis with new atoms in the place of uniform ones, which have no identity."""
    found = []
    for atom in leaves(axis):
        if atom.pieces:
            found.append(Atom(atom.size, atom.fixed, False, [own(piece) for piece in atom.pieces]))
        else:
            found.append(Atom(atom.size) if atom.uniform else atom)
    return found


def meet(one: Axis, other: Axis, where: str) -> Axis:
    """The common axis of two axes of the same length, whose atoms become the same, from the innermost outwards."""
    left, right = leaves(one), leaves(other)
    common: Axis = []
    while left or right:
        a, b = left.pop(), right.pop()
        large, small = (a, b) if a.size >= b.size else (b, a)
        fits = large.size % small.size == 0
        if fits and large.size == small.size:
            common = [*_merged(a, b, where), *common]
            left, right = leaves(left), leaves(right)
        elif fits and large.divide(small.size):
            left, right = leaves([*left, a]), leaves([*right, b])
        else:
            rest = [[*left, a], [*right, b]]
            fix(rest, f"{where} joins axes that are divided in different ways")
            return [*rest[0], *common]
    return common


def _merged(a: Atom, b: Atom, where: str) -> Axis:
    """The common atom of two of the same size."""
    if a is b or (b.uniform and not b.pieces):
        return [a]
    if a.uniform and not a.pieces:
        return [b]
    if not a.pieces and not b.pieces:
        b.same = a
        a.fixed = _weaker(a.fixed, b.fixed)
        return [a]
    for atom, other in ((a, b), (b, a)):
        if not atom.pieces:
            atom.pieces = [own(piece) for piece in other.pieces]
            if atom.fixed:
                fix(atom.pieces, atom.fixed)
    while (ends := _ends(a)) != _ends(b):
        # A cut can bring the other cuts of an atom that was cut before.
        if not all(_cut_at(atom, end) for end in {*ends, *_ends(b)} for atom in (a, b)):
            fix([[a], [b]], f"{where} joins axes that are divided in different ways")
            return [a]
    pieces = [meet(first, second, where) for first, second in zip(a.pieces, b.pieces, strict=True)]
    return [Atom(a.size, a.fixed or b.fixed, False, pieces)]


def _ends(atom: Atom) -> list[int]:
    """Where the pieces of a sum end."""
    return [*accumulate(size_of(leaves(piece)) for piece in atom.pieces)]


def _cut_at(atom: Atom, place: int) -> bool:
    """Let a piece of a sum end at this place, if its atoms allow it."""
    start = 0
    for number, piece in enumerate(atom.pieces):
        whole = leaves(piece)
        size = size_of(whole)
        if place in (start, start + size):
            return True
        if place < start + size:
            outer, inner = whole[0], size // whole[0].size
            if (place - start) % inner:
                return False
            first = (place - start) // inner
            if not outer.pieces:
                outer.cut([first, outer.size - first])
            elif not _cut_at(outer, first):
                return False
            atom.pieces[number : number + 1] = [[*part, *whole[1:]] for part in outer.pieces]
            return True
        start += size
    return False


def taken(axis: Axis, start: int, stop: int) -> Axis | None:
    """The part of an axis from start to stop; None if its atoms cannot be cut there."""
    whole = leaves(axis)
    if all(atom.uniform for atom in whole):
        return [Atom(stop - start, uniform=True)] if stop - start > 1 else []
    total = Atom(size_of(whole), "", False, [whole])
    if not (_cut_at(total, start) and _cut_at(total, stop)):
        return None
    found, done = [], 0
    for piece in total.pieces:
        if start <= done < stop:
            found.append(piece)
        done += size_of(leaves(piece))
    return joined(found)


def joined(pieces: Sequence[Axis]) -> Axis:
    """Axes one after another as one axis."""
    flat: list[Axis] = []
    for piece in pieces:
        whole = leaves(piece)
        flat += whole[0].pieces if len(whole) == 1 and whole[0].pieces else [whole]
    if len(flat) == 1:
        return flat[0]
    return [Atom(sum(size_of(leaves(piece)) for piece in flat), "", False, flat)]


def regroup(axes: Sequence[Axis], shape: Sequence[int], where: str) -> list[Axis]:
    """The axes of an array after a reshape."""
    flat = leaves([atom for axis in axes for atom in axis])
    found: list[Axis] = []
    for size in reversed(shape):
        axis: Axis = []
        while (missing := size // size_of(axis)) > 1:
            last = flat.pop()
            if last.size <= missing and missing % last.size == 0:
                axis.insert(0, last)
            elif last.size % missing == 0 and last.divide(missing):
                flat = leaves([*flat, last])
            else:
                reason = f"{where} divides an axis between its factors"
                fix([[*flat, last], axis, *found], reason)
                return [[Atom(each, reason)] if each > 1 else [] for each in shape]
        found.insert(0, axis)
    return found
