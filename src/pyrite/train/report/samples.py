"""The samples of a run on a page: of each the latest, images as data in the page itself."""

from __future__ import annotations

import base64
import math

from pyrite.errors import TrainError
from pyrite.train.directory import RunDirectory
from pyrite.train.event import Sampled
from pyrite.train.report.html import Html, element, escaped, table
from pyrite.train.report.run import RecordedRun
from pyrite.train.sample import Cell, ImageSample, TableSample, TextSample

#: The most samples of a run that are shown, the latest.
MOST = 60
#: Bytes of a run's images on a page.
IMAGES = 8 << 20
#: The shorter side of small images, which are shown larger, in pixels: those of digits have 8.
SIDE = 72
#: The most pixels of the longer side of an image that is shown larger.
WIDEST = 960

_PNG = b"\x89PNG\r\n\x1a\n"


def samples(run: RecordedRun, name: str) -> Html:
    """Return a section of what a run showed last; empty where it showed nothing."""
    latest: dict[tuple[str, str], Sampled] = {}
    for entry in run.table.entries:
        if isinstance(event := entry.event, Sampled):
            key = (event.split, event.sample.name)
            latest.pop(key, None)  # the order is that of the latest
            latest[key] = event
    if not latest:
        return ""
    gallery = _Gallery(run)
    cards = "".join(gallery.card(event) for event in list(latest.values())[-MOST:])
    heading = element("h2", escaped(f"Samples of {name}"))
    return f'<section>{heading}<div class="samples">{cards}</div></section>'


class _Gallery:
    """Cards of samples; images as long as there is room."""

    def __init__(self, run: RecordedRun) -> None:
        self.directory = RunDirectory(run.path)
        self.room = IMAGES

    def card(self, event: Sampled) -> Html:
        """Return a figure with its caption."""
        sample = event.sample
        match sample:
            case ImageSample():
                content, what = self._image(sample), sample.caption
            case TableSample():
                rows = [[escaped(_text(cell)) for cell in row] for row in sample.rows]
                content, what = table(sample.columns, rows), ""
            case TextSample():
                content, what = element("pre", escaped(sample.text)), ""
        where = f"{event.split}, epoch {event.epoch}, step {event.step}"
        caption = f"<b>{escaped(sample.name)}</b> {escaped(what)} <small>{escaped(where)}</small>"
        return element("figure", content + element("figcaption", caption))

    def _image(self, image: ImageSample) -> Html:
        try:
            png = self.directory.read_image(image)
        except TrainError:
            return element("p", "The image is not kept any more.")
        if not png.startswith(_PNG):
            return element("p", "The file of the image is damaged.")
        self.room -= len(png)
        if self.room < 0:
            return element("p", f"Not shown: these images have more than {IMAGES >> 20} MiB.")
        scale = max(1, math.ceil(SIDE / max(1, min(image.width, image.height))))
        scale = max(1, min(scale, WIDEST // max(1, image.width, image.height)))
        return (
            f'<img alt="{escaped(image.name)}" width="{image.width * scale}" '
            f'src="data:image/png;base64,{base64.b64encode(png).decode()}">'
        )


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
