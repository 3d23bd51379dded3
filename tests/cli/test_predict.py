"""``pyrite predict``: pictures as people have them, and files that are no pictures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from pyrite.cli.picture import read_digit
from pyrite.data import digits
from pyrite.errors import DataError

SAMPLE = digits("test")[4]


def picture(kind: str) -> PIL.Image.Image:
    """The sample digit, drawn in some way."""
    grey = PIL.Image.fromarray((SAMPLE.pixels[0] * 255).astype(np.uint8))
    large = grey.resize((96, 96), PIL.Image.Resampling.NEAREST)
    if kind == "as in training":
        return grey
    if kind == "large":
        return large
    if kind == "dark on light":
        return PIL.Image.fromarray(255 - np.asarray(large))
    if kind == "blue ink with a margin":
        paper = PIL.Image.new("RGB", (300, 220), (250, 240, 200))
        paper.paste((20, 30, 120), (150, 60), large)
        return paper
    clear = PIL.Image.new("RGBA", large.size, (0, 0, 0, 0) if "black" in kind else (255,) * 4)
    clear.putalpha(large)
    return clear


KINDS = ("as in training", "large", "dark on light", "blue ink with a margin",
         "black on nothing", "white on nothing")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_digit_looks_as_in_training_however_it_is_drawn(kind: str, tmp_path: Path) -> None:
    picture(kind).save(tmp_path / "x.png")
    pixels = read_digit(tmp_path / "x.png")
    assert pixels.shape == (1, 8, 8)
    assert pixels.dtype == np.float32
    # The bounding box is centred, which moves it by up to a pixel of the eight, or half a one.
    moved = [np.roll(SAMPLE.pixels[0], by, axis=1) for by in (-1, 0, 1)]
    near = [(one + other) / 2 for one in moved for other in moved]
    assert min(np.abs(pixels[0] - other).mean() for other in near) < 0.05


def test_pictures_are_named_line_by_line(command: Any, run_directory: Path, tmp_path: Path) -> None:
    paths = []
    for kind in KINDS:
        paths.append(tmp_path / f"{kind}.png")
        picture(kind).save(paths[-1])
    done = command("predict", run_directory, *paths)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [str(path) for path in paths]
    for line in lines:
        name, shares = line.split(": ")[1].split(maxsplit=1)
        assert name == str(SAMPLE.label)
        parts = shares.split()
        assert parts[0] == name
        assert sorted(parts[::2]) == list("0123456789")
        assert sum(float(part.rstrip("%")) for part in parts[1::2]) == pytest.approx(100, abs=0.5)


def test_one_bad_picture_does_not_keep_the_others_from_being_named(
    command: Any, run_directory: Path, tmp_path: Path
) -> None:
    picture("large").save(tmp_path / "good.png")
    whole = (tmp_path / "good.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("I am not a picture")
    PIL.Image.new("L", (20, 20), 255).save(tmp_path / "blank.png")
    names = ("cut", "text", "missing", "blank", "good")
    done = command("predict", run_directory, *(tmp_path / f"{name}.png" for name in names))
    assert done.returncode == 1
    errors = done.stderr.splitlines()
    assert len(errors) == 4
    assert all(line.startswith("pyrite: ") for line in errors)
    assert [name for name in names[:4] if f"{name}.png" in errors[names.index(name)]] == list(
        names[:4]
    )
    assert "of one colour" in errors[3]
    (line,) = done.stdout.splitlines()
    assert line.startswith(str(tmp_path / "good.png"))


@pytest.mark.parametrize("grey", [0, 128, 255])
def test_a_picture_of_nothing_is_refused(grey: int, tmp_path: Path) -> None:
    PIL.Image.new("L", (20, 20), grey).save(tmp_path / "blank.png")
    with pytest.raises(DataError, match="of one colour"):
        read_digit(tmp_path / "blank.png")


def test_a_picture_of_one_pixel_is_refused(tmp_path: Path) -> None:
    PIL.Image.new("RGBA", (1, 1), (0, 0, 0, 0)).save(tmp_path / "dot.png")
    with pytest.raises(DataError, match="of one colour"):
        read_digit(tmp_path / "dot.png")


def damaged(run_directory: Path, tmp_path: Path, what: str) -> Path:
    copy = tmp_path / "run"
    shutil.copytree(run_directory, copy)
    model = copy / "model.safetensors"
    if what == "cut":
        model.write_bytes(model.read_bytes()[:-100])
    elif what == "foreign":
        model.write_bytes(b"GGUF" + b"\0" * 100)
    elif what == "missing":
        model.unlink()
    else:
        (copy / "run.json").write_text('{"arguments": {"task": "chess"}}')
    return copy


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("cut", "model.safetensors"),
        ("foreign", "a GGUF file"),
        ("missing", "requires a finished run"),
        ("of another task", "requires a run of 'digits'"),
    ],
)
def test_a_bad_run_is_one_line(
    command: Any, run_directory: Path, tmp_path: Path, what: str, said: str
) -> None:
    picture("large").save(tmp_path / "x.png")
    done = command("predict", damaged(run_directory, tmp_path, what), tmp_path / "x.png")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyrite: ")
    assert said in line


def test_a_directory_without_a_run_is_one_line(command: Any, tmp_path: Path) -> None:
    done = command("predict", tmp_path / "nowhere", tmp_path / "x.png")
    assert done.returncode == 1
    assert done.stderr == (
        f"pyrite: run directory requires a readable run.json, got "
        f"'{tmp_path / 'nowhere' / 'run.json'}': No such file or directory; name a directory that "
        "a training run has written\n"
    )
