"""Modules: networks as values.

Declared as in PyTorch, with layers made in ``__init__`` and a ``forward``; mutable there and frozen
after.  A module holds parameters, states, tensors, other modules, and lists, tuples and dicts of
them; everything else is configuration.  Whatever changes a module returns a new one, which shares
what did not change: ``to``, ``map``, ``freeze``, ``with_training``, ``optimizer.step``.

Invariant: ``forward`` never changes a module, so one module serves any number of threads.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pyrite.autodiff.mode import training, training_mode
from pyrite.backend.device import DeviceLike
from pyrite.errors import DTypeError, ModuleError, PyriteError, RecordError
from pyrite.nn import weights
from pyrite.nn.hierarchy import modules_of, rebuilt
from pyrite.nn.observation import observers
from pyrite.nn.part import At, frozen, tied, with_frozen
from pyrite.nn.torch_names import INSTEAD
from pyrite.nn.trail import noted, trail
from pyrite.nn.transport import sendable
from pyrite.nn.tree_html import tree_html
from pyrite.nn.tree_text import settings, tree_text
from pyrite.op import instead, located, public
from pyrite.op.foreign import met_among
from pyrite.op.location import misnamed
from pyrite.opening import reader
from pyrite.record import Record
from pyrite.record.atomic import PathLike
from pyrite.record.remap import Rules
from pyrite.tensor.parameter import Identified, Parameter, State
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import TreeNode, tree_items, tree_leaves, tree_map
from pyrite.types import DTypeLike

M = TypeVar("M", bound="Module")


class _Declared(ABCMeta):
    """Freezes a module when its ``__init__`` is done."""

    @property
    def __signature__(cls) -> Signature:
        """The parameters of ``__init__``, which ``help`` would not see behind ``__call__``."""
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return Signature()
        parameters = signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return Signature(list(parameters)[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            module = super().__call__(*args, **kwargs)
        except PyriteError as error:
            raise located(error)  # noqa: B904 - the same error, with the frames inside Pyrite cut off
        except TypeError as error:
            found = misnamed(cls.__name__, cls, error, kwargs)
            if found is None:
                raise
            raise found from None
        fields = {name: frozen(value) for name, value in vars(module).items()}
        module.__dict__.update(
            fields, _is_frozen=True, _tree_leaves=None, _tree_form=None, _tree_templates=None
        )
        module.__dict__["_tree_branches"] = _branches_of(module)
        return module


class Module(TreeNode, metaclass=_Declared):
    """A network or a part of one.

    >>> import pyrite
    >>> from pyrite import nn
    >>> class Net(nn.Module):
    ...     def __init__(self) -> None:
    ...         self.hidden = nn.Linear(4, 8)
    ...         self.out = nn.Linear(8, 2)
    ...
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> net = Net()
    >>> net(pyrite.ones((3, 4))).shape, net.num_params()
    ((3, 2), 58)
    """

    _training: bool | None = None
    #: The names of its branches, found once, when it is frozen; None before, and where
    #: ``tree_children`` is not the fields.
    _tree_branches: tuple[str, ...] | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Name what is used here for what PyTorch's modules have."""
            if name not in INSTEAD:
                # Looked up again for the ordinary error: of a name, or of a property that failed.
                return object.__getattribute__(self, name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}; use {INSTEAD[name]}"
            )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output.  Every module defines its own."""
        raise ModuleError(f"{type(self).__name__} requires a forward method, got none")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``; an error names the path of the layer in which it arose."""
        token = trail.set((self, *trail.get()))
        try:
            self._require_inputs(args, kwargs)
            if training() is not None:
                output = self.forward(*args, **kwargs)
            else:
                with training_mode(self._is_tracked()):
                    output = self.forward(*args, **kwargs)
            for observer in observers.get():
                observer.observe(trail.get(), output)
            return output
        except AttributeError as error:
            met = met_among(args, error.obj)
            if met is None:
                raise
            name = type(self).__name__
            raise noted(DTypeError(f"{name} requires tensors, {instead(met)}")) from None
        except PyriteError as error:
            raise noted(error)  # noqa: B904 - the same error
        except TypeError as error:
            found = misnamed(type(self).__name__, self.forward, error, kwargs)
            if found is None:
                raise
            raise noted(found) from None
        finally:
            trail.reset(token)

    def _require_inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise where it cannot be called with these: nowhere, but for layers with weights."""

    @property
    def training(self) -> bool:
        """Whether layers like dropout and batch norm do what they do in training.

        True inside ``value_and_grad`` and where the outermost module holds parameters that are
        tracked; ``with_training`` overrides both.
        """
        return bool(training()) if self._training is None else self._training

    # ---- what it holds ----

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return (path, parameter) pairs in order of declaration; tied ones once."""
        return [(path, t) for path, t in tree_items(self) if isinstance(t, Parameter)]

    def parameters(self) -> list[Parameter]:
        """Return the parameters in order of declaration; tied ones once."""
        return [t for t in tree_leaves(self) if isinstance(t, Parameter)]

    def named_states(self) -> list[tuple[str, State]]:
        """Return (path, state) pairs: running statistics and the like."""
        return [(path, t) for path, t in tree_items(self) if isinstance(t, State)]

    def named_modules(self) -> list[tuple[str, Module]]:
        """Return (path, module) pairs, outermost first, itself under ``""``."""
        return list(modules_of(self, ""))

    def num_params(self) -> int:
        """Return the number of elements of all parameters."""
        return sum(p.size for p in self.parameters())

    def visit(self, look: Callable[[str, Tensor], None]) -> None:
        """Call ``look(path, tensor)`` on every parameter, state and constant."""
        for path, leaf in tree_items(self):
            look(path, leaf)

    # ---- other modules made from it ----

    def map(self, change: Callable[[Parameter], Tensor]) -> Self:
        """Return the module with each parameter's value changed; identities and ties stay."""

        def changed(t: Tensor) -> Tensor:
            return t.with_value(change(t)) if isinstance(t, Parameter) else t

        return tree_map(changed, self)

    def to(self, device: DeviceLike) -> Self:
        """Return the module on another device.

        On an autodiff device its parameters are leaves, and it trains unless told otherwise.
        """
        return tree_map(lambda t: t.to(device), self)

    def astype(self, dtype: Any) -> Self:
        """Return the module with its float parameters, states and constants in another dtype."""

        def cast(t: Tensor) -> Tensor:
            if not t.dtype.is_float:
                return t
            value = t.detach().astype(dtype)
            return t.with_value(value) if isinstance(t, Identified) else value

        return tree_map(cast, self)

    @public
    def freeze(self, *patterns: str) -> Self:
        """Return the module with parameters left out of training, by path pattern (``encoder.*``).

        Without a pattern, all.  Raises ModuleError when a pattern matches nothing.
        """
        return with_frozen(self, patterns, True)

    @public
    def unfreeze(self, *patterns: str) -> Self:
        """Return the module with parameters trained again."""
        return with_frozen(self, patterns, False)

    def with_training(self, on: bool | None) -> Self:
        """Return the module that trains, or does not, whatever the context; None undoes it."""
        made: Self = rebuilt(self, lambda m: Module.tree_rebuild(m, {"_training": on}))
        return made

    @public
    def replace(self, **fields: Any) -> Self:
        """Return the module with other values in some of its fields.

        Raises ModuleError for a field that it does not have.
        """
        unknown = sorted(set(fields) - set(self.tree_children()))
        if unknown:
            raise ModuleError(
                f"replace requires fields of {type(self).__name__}, got {', '.join(unknown)}; "
                f"it has {', '.join(self.tree_children())}"
            )
        made = self.tree_rebuild({name: frozen(value) for name, value in fields.items()})
        made.__dict__["_tree_branches"] = _branches_of(made)
        return made

    @property
    def at(self) -> At[Self]:
        """Its parts by path, to change them: ``model = model.at["encoder.head"].set(layer)``.

        >>> from pyrite import nn
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 10))
        >>> net.at["1.bias"].set(None).num_params(), net.at["1"].get().out_features
        (120, 10)
        """
        return At(self)

    @public
    def tie(self, path: str, source: str) -> Self:
        """Return the module with the parameter at ``source`` at ``path`` too: its id and value.

        ``model.tie("lm_head.weight", "wte.weight")``.  Raises ModuleError for a path without a
        parameter, ShapeError and DTypeError for two that are not alike.
        """
        return tied(self, path, source)

    # ---- files ----

    @public
    def record(
        self, metadata: Mapping[str, Any] | None = None, *, only: str | None = None
    ) -> Record:
        """Return the values of parameters and states by path; tied ones are stored once.

        only: a pattern of paths, to leave out all others.
        """
        return weights.record_of(self, metadata or {}, only)

    @public
    def load_record(self, record: Record, **options: Any) -> Self:
        """Return the module with the values of a record; options as of `load`."""
        return weights.with_arrays(self, weights.arrays_of(record), **options)

    @public
    def save(self, path: PathLike, *, only: str | None = None) -> None:
        """Write parameters and states to one safetensors file, replacing it as a whole.

        only: a pattern of paths, ``"head.*"``, to leave out all others.

        Raises RecordError when the file cannot be written; what was there is then unchanged.
        """
        self.record(only=only).save(path)

    @public
    @reader("load", RecordError)
    def load(
        self,
        path: PathLike,
        *,
        rules: Rules = (),
        dtype: DTypeLike = "module",
        only: str | None = None,
        partial: bool = False,
        allow_unused: bool = False,
    ) -> Self:
        r"""Return the module with values from a file.

        The file may be safetensors, whoever wrote it, a checkpoint of a training, a sharded
        checkpoint's index or folder, or a PyTorch state dict (``.pt``, ``.pth``, ``.bin``), which
        is read without running its code.

        rules: (pattern, replacement) pairs or a dict of them, as of ``re.sub``, for names:
        ``[(r"^model\.", "")]``.
        dtype: "module" casts to what the module has, "file" keeps what was saved, or a float dtype.
        only: a pattern of paths: the file holds the values of these, and all others stay.
        partial: names that the file lacks keep their values; allow_unused: others are ignored.

        Raises RecordError for a bad file, and MatchError with one report of all that does not fit.
        """
        arrays = weights.read_arrays(path)
        return weights.with_arrays(
            self,
            arrays,
            rules=rules,
            dtype=dtype,
            only=only,
            partial=partial,
            allow_unused=allow_unused,
        )

    # ---- a module is a tree ----

    def tree_children(self) -> dict[str, Any]:
        """Return its fields."""
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def tree_branches(self) -> tuple[Iterable[str], Mapping[str, Any]]:
        """Return the names of the fields that may hold tensors, and the fields."""
        names = self._tree_branches
        return super().tree_branches() if names is None else (names, self.__dict__)

    def tree_fields(self) -> dict[str, Any] | None:
        """Return its fields, but for what is known of its tensors."""
        if type(self).tree_rebuild is not Module.tree_rebuild:
            return None
        return {**self.__dict__, "_tree_leaves": None, "_tree_form": None, "_tree_templates": None}

    def tree_rebuild(self, children: Mapping[str, Any]) -> Self:
        """Return a copy with these fields in the place of its branches."""
        made = object.__new__(type(self))
        own = made.__dict__
        own.update(self.__dict__)
        own.update(children)
        own["_tree_leaves"] = own["_tree_form"] = own["_tree_templates"] = None
        return made

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        """Return a module with the same values in parameters of its own, to be trained apart.

        A snapshot needs no copy: a step does not change the module that it is given.
        """
        return tree_map(lambda t: deepcopy(t, memo), self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled of it: all of its fields, and nothing that can be found again."""
        return sendable({**self.__dict__, "_tree_leaves": None, "_tree_templates": None})

    def _is_tracked(self) -> bool:
        return any(p.trainable and p._backend.level for p in self.parameters())

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_frozen:
            raise ModuleError(
                f"{type(self).__name__} requires its fields to stay as __init__ left them, got an "
                f"assignment to {name!r}; return the value from forward, or use replace({name}=...)"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise ModuleError(f"{type(self).__name__} requires its fields to stay, got del {name}")

    def extra_repr(self) -> str:
        """Return the configuration shown in ``repr``: plain fields that are not the defaults."""
        return settings(self)

    def __repr__(self) -> str:
        return tree_text(self)

    def _repr_html_(self) -> str:
        return tree_html(self)


def _branches_of(module: Module) -> tuple[str, ...] | None:
    if not module._is_frozen or type(module).tree_children is not Module.tree_children:
        return None
    names, _ = TreeNode.tree_branches(module)
    return tuple(names)
