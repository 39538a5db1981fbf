from pathlib import Path

import numpy as np
import pandas as pd

from bnn_atlas.figures import style
from bnn_atlas.figures.implicit_vi.entropy_estimators import entropy_estimators
from bnn_atlas.metrics.tables.parquet import ENTROPY_SCHEMA, write_frame
from tests.figures.shown import shown


def write(path: Path) -> Path:
    rows = [
        ("lanczos", 10, 20, -49.3, 0.4, 13.5, 13.0, 0.5),
        ("lanczos", 2, 4, -49.3, 8.0, 15.0, 20.0, 18.0),
        ("smallest", 3, 17, -49.3, -400.0, 20.0, np.nan, 5.0),
        ("published", 5, 31, -49.3, -213.0, 10.1, np.nan, np.nan),
    ]
    frame = pd.DataFrame(rows, columns=ENTROPY_SCHEMA.names[:-2]).assign(noise=400, weights=478410)
    write_frame(path, frame, ENTROPY_SCHEMA)
    return path


def test_errors_of_each_run(tmp_path: Path) -> None:
    runs = [shown(name, {"entropies": write(tmp_path / f"{name}.parquet")}, method="implicit") for name in "ab"]
    table = entropy_estimators(runs).numbers
    assert len(table) == 8
    assert list(table.columns) == ["run", "split", *ENTROPY_SCHEMA.names]
    with style.context():
        first = entropy_estimators(runs).figure.axes[0]
    assert first.get_title(loc="left") == "a\nd = 400, D = 478,410"
    assert [text.get_text() for text in first.get_yticklabels()] == ["−100", "−10", "−1", "0", "1", "10"]
    band = first.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (-10, 8)
    containers = {each.get_label(): each.lines[0].get_xydata().tolist() for each in first.containers}
    assert containers["Lanczos, one probe"] == [[4, 8], [20, 0.4]]
    assert containers["as published"] == [[31, -213]]


def test_a_form_that_does_not_apply_is_not_drawn(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet")
    table = pd.read_parquet(file)
    write_frame(file, table[table["form"] != "published"], ENTROPY_SCHEMA)
    assert set(entropy_estimators([shown("a", {"entropies": file})]).numbers["form"]) == {"lanczos", "smallest"}
