"""Augmentations of images: random changes that depend on (seed, epoch, index) only.

    loader = DataLoader(images, 128, shuffle=True, augment=Compose(RandomCrop(32, padding=4),
                                                                   RandomHorizontalFlip()))

Names and settings are torchvision's.
"""

from pyrite.data.augment.affine import RandomAffine as RandomAffine
from pyrite.data.augment.affine import RandomRotation as RandomRotation
from pyrite.data.augment.augmentation import Augmentation as Augmentation
from pyrite.data.augment.augmentation import Change as Change
from pyrite.data.augment.augmentation import Compose as Compose
from pyrite.data.augment.augmentation import OneOf as OneOf
from pyrite.data.augment.color import ColorJitter as ColorJitter
from pyrite.data.augment.color import Normalize as Normalize
from pyrite.data.augment.color import RandomErasing as RandomErasing
from pyrite.data.augment.color import RandomGrayscale as RandomGrayscale
from pyrite.data.augment.crop import CenterCrop as CenterCrop
from pyrite.data.augment.crop import RandomCrop as RandomCrop
from pyrite.data.augment.crop import RandomHorizontalFlip as RandomHorizontalFlip
from pyrite.data.augment.crop import RandomResizedCrop as RandomResizedCrop
from pyrite.data.augment.crop import RandomVerticalFlip as RandomVerticalFlip
from pyrite.data.augment.crop import Resize as Resize
from pyrite.data.augment.mix import CutMix as CutMix
from pyrite.data.augment.mix import Mixup as Mixup

__all__ = [
    "Augmentation",
    "CenterCrop",
    "Change",
    "ColorJitter",
    "Compose",
    "CutMix",
    "Mixup",
    "Normalize",
    "OneOf",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
]
