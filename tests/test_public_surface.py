"""The public surface is what `__all__` says, no more and no less, and all of it is documented."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

import pyrite

#: Packages of Pyrite that import the optional package of the same name.
OPTIONAL = ("torch", "onnx")


def public_packages() -> list[ModuleType]:
    """Pyrite and those of its public packages that declare a surface."""
    names = [
        info.name
        for info in pkgutil.walk_packages(pyrite.__path__, "pyrite.")
        if info.ispkg and "._" not in info.name and is_installed(info.name)
    ]
    packages = [pyrite, *map(importlib.import_module, names)]
    return [package for package in packages if hasattr(package, "__all__")]


def is_installed(package: str) -> bool:
    """Whether the optional package that a package of Pyrite is named after is there, if any is."""
    names = [name for name in package.split(".") if name in OPTIONAL]
    return all(importlib.util.find_spec(name) is not None for name in names)


each_package = pytest.mark.parametrize("package", public_packages(), ids=lambda p: p.__name__)


def test_pyrite_declares_its_surface() -> None:
    assert hasattr(pyrite, "__all__")


@each_package
def test_all_equals_the_namespace(package: ModuleType) -> None:
    namespace = {name for name, value in vars(package).items() if is_public(name, value, package)}
    # Some are imported when they are first named.
    missing = [name for name in package.__all__ if not hasattr(package, name)]

    assert namespace <= set(package.__all__)
    assert not missing


@each_package
def test_every_public_name_has_a_docstring(package: ModuleType) -> None:
    undocumented = [
        name
        for export in package.__all__
        for name, value in documentable(export, getattr(package, export))
        if not documentation(value)
    ]

    assert not undocumented


def is_public(name: str, value: object, package: ModuleType) -> bool:
    if name in package.__all__:
        return True
    # A submodule becomes an attribute of its package by being imported, and `annotations` by the
    # __future__ import: neither was put there to be used.
    is_submodule = isinstance(value, ModuleType) and value.__name__ == f"{package.__name__}.{name}"
    return not (name.startswith("_") or name == "annotations" or is_submodule)


def documentable(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The value, if it is a function or a class of Pyrite, and the public members of a class."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return
    yield name, value
    if inspect.isclass(value) and value.__module__.startswith("pyrite"):
        for member, attribute in vars(value).items():
            if not member.startswith("_") and is_member_with_doc(attribute):
                yield f"{name}.{member}", getattr(value, member)


def is_member_with_doc(attribute: object) -> bool:
    return isinstance(attribute, (staticmethod, classmethod, property)) or inspect.isfunction(
        attribute
    )


def documentation(value: object) -> str | None:
    text = inspect.getdoc(value)
    # A dataclass without a docstring is given its signature for one.
    if inspect.isclass(value) and text and text.startswith(f"{value.__name__}("):
        return None
    return text
