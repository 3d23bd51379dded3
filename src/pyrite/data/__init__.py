"""Data: datasets and their transforms, the loader that batches them, and readers of data files.

Items are plain Python and NumPy values; they become tensors when a loader hands over a batch.
What needs more is imported by name: `pyrite.data.source.image_folder` and
`pyrite.data.source.annotation` (Pillow: classes, masks, several labels, COCO's boxes),
`pyrite.data.source.arrow` (pyarrow, extra [data]), `pyrite.data.source.sqlite`.
"""

import typing as _typing

from pyrite.data.bucket import BatchSampler as BatchSampler
from pyrite.data.bucket import LengthBuckets as LengthBuckets
from pyrite.data.collate import ItemMismatchError as ItemMismatchError
from pyrite.data.collate import ItemShapeError as ItemShapeError
from pyrite.data.collate import ItemTypeError as ItemTypeError
from pyrite.data.collate import default_collate as default_collate
from pyrite.data.collate import to_tensors as to_tensors
from pyrite.data.dataset import ComposedDataset as ComposedDataset
from pyrite.data.dataset import Dataset as Dataset
from pyrite.data.dataset import Indexable as Indexable
from pyrite.data.dataset import MapperDataset as MapperDataset
from pyrite.data.dataset import PartialDataset as PartialDataset
from pyrite.data.dataset import SamplerDataset as SamplerDataset
from pyrite.data.dataset import SelectionDataset as SelectionDataset
from pyrite.data.dataset import ShuffledDataset as ShuffledDataset
from pyrite.data.dataset import WindowsDataset as WindowsDataset
from pyrite.data.dataset import checked_index as checked_index
from pyrite.data.draws import Draws as Draws
from pyrite.data.loader import DataLoader as DataLoader
from pyrite.data.memory import ArrayDataset as ArrayDataset
from pyrite.data.memory import FakeDataset as FakeDataset
from pyrite.data.memory import InMemoryDataset as InMemoryDataset
from pyrite.data.padding import PadCollate as PadCollate
from pyrite.data.padding import Padded as Padded
from pyrite.data.source.cifar import cifar10 as cifar10
from pyrite.data.source.cifar import cifar100 as cifar100
from pyrite.data.source.csv import read_csv as read_csv
from pyrite.data.source.digits import digits as digits
from pyrite.data.source.image import BoxedImage as BoxedImage
from pyrite.data.source.image import Image as Image
from pyrite.data.source.image import ImageArrayDataset as ImageArrayDataset
from pyrite.data.source.image import MultiLabelImage as MultiLabelImage
from pyrite.data.source.image import SegmentedImage as SegmentedImage
from pyrite.data.source.json import read_json_rows as read_json_rows
from pyrite.data.source.mnist import mnist as mnist
from pyrite.data.source.mnist import read_idx as read_idx
from pyrite.data.source.text_folder import Text as Text
from pyrite.data.source.text_folder import TextFolderDataset as TextFolderDataset
from pyrite.data.stream import IterableDataset as IterableDataset
from pyrite.data.stream import LinesDataset as LinesDataset
from pyrite.data.stream import ResumableDataset as ResumableDataset
from pyrite.data.table import Table as Table
from pyrite.op.foreign import answering as _answering

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "BoxedImage",
    "ComposedDataset",
    "DataLoader",
    "Dataset",
    "Draws",
    "FakeDataset",
    "Image",
    "ImageArrayDataset",
    "InMemoryDataset",
    "Indexable",
    "ItemMismatchError",
    "ItemShapeError",
    "ItemTypeError",
    "IterableDataset",
    "LengthBuckets",
    "LinesDataset",
    "MapperDataset",
    "MultiLabelImage",
    "PadCollate",
    "Padded",
    "PartialDataset",
    "ResumableDataset",
    "SamplerDataset",
    "SegmentedImage",
    "SelectionDataset",
    "ShuffledDataset",
    "Table",
    "Text",
    "TextFolderDataset",
    "WindowsDataset",
    "checked_index",
    "cifar10",
    "cifar100",
    "default_collate",
    "digits",
    "mnist",
    "read_csv",
    "read_idx",
    "read_json_rows",
    "to_tensors",
]

if not _typing.TYPE_CHECKING:
    #: What `torch.utils.data` has: what to write instead.
    _INSTEAD = {
        "ChainDataset": "first.concatenate(second)",
        "ConcatDataset": "first.concatenate(second)",
        "DistributedSampler": "DataLoader(first, 2, shuffle=True, shard=(0, 2))",
        "RandomSampler": "DataLoader(first, 2, shuffle=True)",
        "SequentialSampler": "DataLoader(first, 2)",
        "StackDataset": "ArrayDataset(x, y)",
        "Subset": "first.select([0, 1])",
        "SubsetRandomSampler": "DataLoader(first.select([0, 1]), 2, shuffle=True)",
        "TensorDataset": "ArrayDataset(x, y)",
        "random_split": "first.split([0.8, 0.2], seed=0)",
    }
    __getattr__ = _answering("pyrite.data", _INSTEAD)
