"""Texts are labelled by their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrite.data import FakeDataset, TextFolderDataset
from pyrite.errors import ArgumentError, DataError


def test_texts_are_labelled_by_their_folder_in_the_order_of_names(tmp_path: Path) -> None:
    for name, text in {"b/2.txt": "zwei", "b/1.TXT": "\ufeffeins", "a/x/3.txt": "drei ü"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "a" / "notes.md").write_text("no text of a class")
    dataset = TextFolderDataset(tmp_path)
    assert dataset.classes == ("a", "b")
    assert list(dataset) == [("drei ü", 0), ("eins", 1), ("zwei", 1)]
    (tmp_path / "b" / "2.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"UTF-8, got .* in .*2.txt"):
        dataset[2]
    (tmp_path / "b" / "2.txt").unlink()
    with pytest.raises(DataError, match=r"readable file, got .*2.txt"):
        dataset[2]
    (tmp_path / "c").mkdir()
    with pytest.raises(DataError, match=r"\.txt files of every class: .*c"):
        TextFolderDataset(tmp_path)
    with pytest.raises(DataError, match="one folder per class"):
        TextFolderDataset(tmp_path / "c")
    with pytest.raises(DataError, match="requires a folder"):
        TextFolderDataset(tmp_path / "none")


def test_a_fake_dataset_repeats_its_items() -> None:
    fake = FakeDataset(5, lambda draws: (draws.uniforms(2, 3).tolist(), draws.integer(9)), seed=2)
    assert len(fake) == 5
    assert fake[-1] == fake[4]
    assert fake[0] != fake[1]
    assert all(0 <= x < 1 for row in fake[0][0] for x in row)
    with pytest.raises(ArgumentError, match="size >= 0"):
        FakeDataset(-1, id)
