"""Readable names of parameters."""

import re

_LAYER = re.compile(r"layer(\d+)\.(weight|bias)\[(\d+(?:,\d+)*)\]")


def parameter_label(name: str) -> str:
    """A scalar's name as papers write it, counting from 1: `layer0.weight[3,2]` is `W1[4,3]`, `layer0.bias[1]` `b1[2]`.

    The first index of a weight is the unit it leads to, the second the unit it comes from. Any other name keeps its
    letters, with spaces for dots and underscores.
    """
    match = _LAYER.fullmatch(name)
    if match is None:
        return name.replace(".", " ").replace("_", " ")
    layer, role, indices = match.groups()
    places = ",".join(str(int(index) + 1) for index in indices.split(","))
    return f"{'W' if role == 'weight' else 'b'}{int(layer) + 1}[{places}]"
