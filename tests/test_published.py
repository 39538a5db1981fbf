"""The files of published numbers: what they hold, and what is refused."""

from decimal import Decimal
from pathlib import Path

import pytest

from bnn_atlas.published import COLUMNS, FOLDER, published_numbers, read_published

HEAD = ",".join(COLUMNS)
ROW = 'Table 1,"HMC, first",10,rmse,0.1250,0.01,4,0.002,page 3'


def read(folder: Path, *lines: str) -> dict[str, object]:
    file = folder / f"study{len(list(folder.iterdir()))}.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return dict(read_published(file))


def test_a_number_has_its_digits_and_a_key(tmp_path: Path) -> None:
    found = read_published(tmp_path / "none.csv")
    assert found == {}
    (tmp_path / "one.csv").write_text(f"{HEAD}\n{ROW}\nplot,,,x,-1,,,,\n", encoding="utf-8")
    first, second = read_published(tmp_path / "one.csv").values()
    assert first.key == "Table 1/HMC, first/10/rmse"
    assert (str(first.value), first.error, first.read_off) == ("0.1250", Decimal("0.01"), Decimal("0.002"))
    assert first.of_mean == 0.005, "of four repetitions"
    assert (second.key, second.error, second.of_mean, second.read_off) == ("plot/x", None, None, None)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["group,value", "a,1"],
            "the columns must be group, label, x, metric, value, error, repetitions, read_off, source (line 1)",
        ),
        ([HEAD, ROW, ROW], "'Table 1/HMC, first/10/rmse' is given twice; remove one (line 3)"),
        ([HEAD, ROW.replace("0.1250", "many")], "value = 'many': a number is wanted (line 2)"),
        ([HEAD, ROW.replace("0.1250", "nan")], "value = 'nan': a number is wanted (line 2)"),
        ([HEAD, ROW.replace("0.1250", "")], "value is empty; a number is wanted (line 2)"),
        ([HEAD, ROW.replace("0.002", "yes")], "read_off = 'yes': a number is wanted (line 2)"),
        ([HEAD, ROW.replace(",4,", ",few,")], "repetitions = 'few': the number of repetitions behind `error`"),
        ([HEAD, ROW.replace('"', "")], "a row has 9 cells; put text with commas in quotes (line 2)"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, lines: list[str], expected: str) -> None:
    with pytest.raises(ValueError, match=r"study0\.csv") as caught:
        read(tmp_path, *lines)
    assert expected in str(caught.value)


def test_every_file_can_be_read_and_says_where_its_numbers_are_from() -> None:
    files = sorted(FOLDER.glob("*.csv"))
    assert len(files) >= 3
    for file in files:
        assert all(number.source for number in read_published(file).values()), file
    with pytest.raises(KeyError, match="has no group 'Table 9'"):
        published_numbers(files[0].stem, "Table 9")
