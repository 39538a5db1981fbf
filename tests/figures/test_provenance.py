import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnn_atlas.provenance import UNKNOWN, Provenance, collect, fingerprint

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("ab.µ"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


def git(folder: Path, *arguments: str) -> str:
    identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    ]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    (tmp_path / "README.md").write_text("read\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_collect_says_what_made_a_file(repository: Path) -> None:
    (repository / "requirements.lock").write_text("numpy==2\n")
    settings = {"study": "s", "scale": "laptop", "run": {"seed": 4, "split": {"seed": 1}}, "seeds": [1, 9], "step": 0.1}
    made = collect(settings, root=repository, device="gpu NVIDIA H100")
    assert made.commit == git(repository, "rev-parse", "HEAD")
    assert made.dirty  # requirements.lock is not committed
    assert made.lock == hashlib.sha256(b"numpy==2\n").hexdigest()
    assert made.version == "1.2.3"
    assert made.device == "gpu NVIDIA H100"
    assert made.seeds == (1, 4, 9)
    assert made.settings == {"study": "s", "scale": "laptop", "run": {"seed": 4, "split": {"seed": 1}}}
    assert made.config == fingerprint(settings)


def test_only_changes_to_code_change_commit_and_dirty(repository: Path) -> None:
    before = collect({}, root=repository)
    assert not before.dirty
    (repository / "README.md").write_text("other\n")
    (repository / "results").mkdir()
    (repository / "results" / "table").write_text("1")
    assert collect({}, root=repository) == before
    git(repository, "commit", "-q", "-am", "documentation")
    assert collect({}, root=repository) == before
    (repository / "src" / "b.py").write_text("b = 1\n")
    assert collect({}, root=repository).dirty
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "code")
    after = collect({}, root=repository)
    assert not after.dirty
    assert after.commit != before.commit


def test_a_git_hook_of_another_repository_does_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = collect({}, root=repository)
    monkeypatch.setenv("GIT_DIR", "/nowhere/.git")
    assert collect({}, root=repository) == before


def test_without_git_lock_or_project_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = collect({"a": 1}, root=tmp_path)
    assert (made.commit, made.dirty, made.lock, made.version) == (UNKNOWN, False, UNKNOWN, UNKNOWN)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert collect({"a": 1}, root=tmp_path) == made


def test_json_is_sorted_ascii_and_reads_back(repository: Path, tmp_path: Path) -> None:
    made = collect({"study": "µ", "seed": 2}, root=repository)
    text = made.to_json()
    assert text.isascii()
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert Provenance.from_json(text) == made
    assert str(tmp_path) not in text


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"seeds": 1}', '{"seeds": [], "other": 1}'])
def test_a_foreign_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a provenance record"):
        Provenance.from_json(text)


@given(st.dictionaries(st.text("abc"), VALUES, max_size=4))
def test_fingerprint_depends_on_content_only(settings: dict[str, object]) -> None:
    turned = dict(reversed(list(settings.items())))
    assert fingerprint(settings) == fingerprint(turned)
    assert fingerprint(settings) != fingerprint({**settings, "new": 1})


def test_fingerprint_takes_what_settings_are_made_of() -> None:
    assert fingerprint({"a": (1, 2), "b": Path("x/y")}) == fingerprint({"b": "x/y", "a": [1, 2]})
    assert fingerprint(np.float64(0.5)) == fingerprint(0.5)
    assert fingerprint(np.arange(3)) == fingerprint([0, 1, 2])


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        ({"a": {"b": "/home/me/data"}}, ValueError, r"value\.a\.b is the absolute path"),
        ({"a": [1, Path("/x")]}, ValueError, r"value\.a\[1\] is the absolute path"),
        ({"a": float("nan")}, ValueError, r"value\.a is nan"),
        ({"a": {1, 2}}, TypeError, r"value\.a is a set"),
        ({1: 2}, TypeError, "key 1 is not text"),
    ],
)
def test_fingerprint_refuses_what_would_not_repeat(value: object, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        fingerprint(value)


@pytest.mark.parametrize("module", ["bnn_atlas.provenance", "bnn_atlas.figures.r_setup"])
def test_the_snakefile_can_import_it_fast(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'jax', 'pandas', 'matplotlib', 'rpy2'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
