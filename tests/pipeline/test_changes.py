"""A plan says which runs are made again because their settings changed, and through which anchor."""

from pathlib import Path

import pytest
import yaml

from bnn_atlas.config.settings import load_atlas
from bnn_atlas.pipeline.changes import SHARED, changed_names, changes_text, shortened
from tests.config.folders import REGISTRY
from tests.config.language.test_reading import ANCHORS

BEFORE = (
    "Params have changed since last execution: Union of exclusive params before and now across all output: before: "
)


def atlas_in(folder: Path) -> tuple[object, Path]:
    (folder / "studies").mkdir()
    (folder / "studies" / "small.yaml").write_text(ANCHORS, encoding="utf-8")
    (folder / "datasets.yaml").write_text(yaml.safe_dump(REGISTRY), encoding="utf-8")
    return load_atlas({"studies": "small"}, folder), folder / "studies"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {
                "one": {"posterior.prior.scale"},
                "two": {"posterior.prior.scale"},
                "four": {"posterior.prior.scale", "method.epochs"},
            },
            [
                "Settings changed since the results of small were made: prior.scale of one, two; "
                "method.epochs, prior.scale of four",
                "  the anchor 'wide' of runs.one is also used by two, four",
            ],
        ),
        (
            {"two": {"method.kind"}},
            ["Settings changed since the results of small were made: method.kind of two"],
        ),
        (
            {"one": {"training.max_epochs"}, "two": {"training.max_epochs"}},
            [
                "Settings changed since the results of small were made: warmstart.max_epochs of one, two",
                "  the anchor 'epochs' of runs.one is also used by two",
            ],
        ),
        (
            {"one": {"method.step_size"}, "two": {"method.step_size"}},
            [
                "Settings changed since the results of small were made: method.step_size of one, two",
                "  the anchor 'one' of runs.one is also used by two",
            ],
        ),
        ({"one": {SHARED}}, [f"Settings changed since the results of small were made: {SHARED} of one"]),
        ({}, []),
    ],
)
def test_runs_and_anchors_are_named(tmp_path: Path, changed: dict[str, set[str]], said: list[str]) -> None:
    atlas, studies = atlas_in(tmp_path)
    text = changes_text(atlas, studies, {("small", run): names for run, names in changed.items()})  # type: ignore[arg-type]
    assert text.splitlines() == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("{'method': {'steps': 1, 'a': 2}}", "{'method': {'steps': 3, 'a': 2}}", "method.steps from 1 to 3"),
        ("{'prior': {'kind': 'a', 'b': 2}}", "{'prior': {'kind': 'c'}}", "prior.kind from a to c"),
        ("<nothing exclusive>", "{'seed': 2},{'code': 'x'}", "seed from nothing to 2; code"),
        ("{'src/one.py': 'a'}", "{'src/one.py': 'b'}", "src/one.py"),
    ],
)
@pytest.mark.parametrize("after", ["", "; Software environment definition has changed since last execution"])
def test_a_reason_names_single_settings(old: str, new: str, said: str, after: str) -> None:
    assert shortened(f"{BEFORE}{old} now: {new} {after}") == f"Params have changed since last execution: {said}{after}"


def test_a_reason_that_cannot_be_read_stays() -> None:
    reason = f"{BEFORE}<function one> now: <function two> "
    assert shortened(reason) == reason
    assert changed_names("sample", reason) == set()


def test_names_without_code_and_with_what_runs_share() -> None:
    reason = f"{BEFORE}{{'a.b': 1}},{{'code': 'x'}} now: {{'a.b': 2}},{{'code': 'y'}} "
    assert changed_names("predict", reason) == {"a.b"}
    assert changed_names("sample", f"Set of input files has changed since last execution; {reason}") == {"a.b", SHARED}
