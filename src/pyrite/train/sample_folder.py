"""SampleFolder: the image files of a run's samples, of bounded size.

Files are named by what they hold: one that is shown in each epoch is kept once, and a resumed run
that shows it again writes nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pyrite.opening import read_at_most, regular
from pyrite.record import atomic_write
from pyrite.train.sample import ImageSample, is_image_file

#: Bytes of all images together; the oldest make room.
CAPACITY = 64 << 20
#: Bytes of one image that is read: 512 x 512 pixels of four channels, and what PNG adds.
LARGEST = 2 << 20


class SampleFolder:
    """The folder ``samples`` of a run."""

    def __init__(self, path: Path, *, capacity: int = CAPACITY) -> None:
        self.path = path
        self.capacity = capacity
        self._sizes: dict[str, int] | None = None

    def store(self, image: ImageSample) -> None:
        """Write the file of an image, unless it is there.  Raises OSError."""
        sizes = self._files()
        if image.file in sizes or not image.png:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path / image.file) as file:
            file.write(image.png)
        sizes[image.file] = len(image.png)
        while sum(sizes.values()) > self.capacity and len(sizes) > 1:
            oldest = next(iter(sizes))
            (self.path / oldest).unlink(missing_ok=True)
            del sizes[oldest]

    def read(self, image: ImageSample) -> bytes:
        """Return the bytes of an image's file.  Raises OSError where it is not there any more."""
        descriptor = regular(self.path / image.file, os.O_RDONLY)
        try:
            return read_at_most(descriptor, LARGEST, image.file)
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Delete the images, and the folder if nothing else is in it.  Raises OSError."""
        for name in self._files():
            (self.path / name).unlink(missing_ok=True)
        self._sizes = None
        with suppress(OSError):
            self.path.rmdir()

    def _files(self) -> dict[str, int]:
        """Sizes by name, the oldest first."""
        if self._sizes is None:
            found = [file for file in self.path.glob("*.png") if is_image_file(file.name)]
            found.sort(key=lambda file: file.stat().st_mtime)
            self._sizes = {file.name: file.stat().st_size for file in found}
        return self._sizes
