"""Where items come from: one module per file format or published dataset.

`pyrite.data` exports what needs NumPy only.  `image_folder` needs Pillow and is therefore imported
by name: `from pyrite.data.source.image_folder import ImageFolderDataset`.

Rule: a file that cannot be read is one DataError that names the path, what was expected there, and
what was found.  No reader allocates more than the file can hold.
"""
