"""What the publishers of a data set give: how many rows of each part, how many splits."""

from bnn_atlas.data.errors import DataError


def published_rows(available: int, wanted: int | None, key: str, part: str) -> int:
    """How many of the publisher's rows of a part are used; DataError if there are none, or not so many."""
    if not available:
        raise DataError(
            f"split.kind = 'published': there are no published {part} rows; use another kind of split, or use the data "
            "as an out-of-distribution set only"
        )
    if wanted is not None and wanted > available:
        raise DataError(f"split.{key} = {wanted}: there are {available} published {part} rows")
    return available if wanted is None else wanted


def standard_split_count(name: str) -> int:
    """How many of the standard splits were published for a data set: 5 for protein, else 20."""
    return 5 if name == "protein" else 20
