"""``pyrite new``: a project that runs as it is, in a folder that was not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyrite.cli.new import FILES


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "my digits"
    done = subprocess.run(
        [sys.executable, "-m", "pyrite", "new", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f'cd "{folder}"\npython train.py' in done.stdout
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_it_has_its_files_and_its_name(project: Path) -> None:
    assert {path.name for path in project.iterdir()} >= {*FILES}
    assert (project / "README.md").read_text().startswith("# my digits\n")
    assert (project / ".gitignore").read_text().split() == ["runs/", "__pycache__/"]


def test_it_trains_and_goes_on_at_once(project: Path) -> None:
    done = run(project, "train.py", "--epochs", "1", "--batch-size", "128")
    assert done.returncode == 0, done.stderr
    assert "test: Loss" in done.stdout
    assert (project / "runs" / "first" / "model.safetensors").exists()
    again = run(project, "train.py", "--epochs", "1", "--batch-size", "128", "--resume")
    assert "completed: 0 steps" in again.stdout, again.stderr


def test_its_tests_pass_and_fail_on_a_layer_that_is_left_out(project: Path) -> None:
    done = run(project, "-m", "unittest")
    assert done.returncode == 0, done.stderr
    model = project / "model.py"
    text = model.read_text()
    model.write_text(
        text.replace("self.pool(self.second(x).relu())", "self.pool(x.tile((1, 2, 1, 1)))")
    )
    broken = run(
        project, "-m", "unittest", "test_project.TestNetwork.test_every_parameter_has_a_gradient"
    )
    model.write_text(text)
    assert broken.returncode == 1
    assert "second.weight" in broken.stderr


def test_its_code_is_as_a_linter_wants_it(project: Path) -> None:
    settings = ("--isolated", "--line-length=100")
    for command in (["check", "--select=E,F,I,B,UP", *settings], ["format", "--check", *settings]):
        done = run(project, "-m", "ruff", *command, ".")
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["folder", "file", "link to nothing"])
def test_what_is_there_is_refused_and_left(command: Any, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "there"
    if kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    done = command("new", place)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyrite: new requires a folder that does not exist, got")
    assert kind != "file" or place.read_text() == "mine"
    assert kind != "folder" or not list(place.iterdir())
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_in_none_is_one_line(command: Any, tmp_path: Path) -> None:
    done = command("new", tmp_path / "no" / "such")
    assert done.returncode == 1
    assert "requires a folder that can be made" in done.stderr
