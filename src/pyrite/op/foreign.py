"""What is given in the place of a tensor, and arguments under names of other libraries.

How an error calls them, and what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

_ARRAYS = {
    ("numpy", "ndarray"): "a NumPy array",
    ("torch", "Tensor"): "a torch.Tensor",
    ("torch", "Parameter"): "a torch.nn.Parameter",
}

#: What PyTorch and NumPy call arguments that have another name here, the likelier one first.
RENAMED: dict[str, tuple[str, ...]] = {
    "add_zero_attn": ("quiet",),
    "d_model": ("features",),
    "dim": ("axis",),
    "dim0": ("axis1",),
    "dim1": ("axis2",),
    "dim_feedforward": ("hidden_features",),
    "dims": ("axes", "axis"),
    "embed_dim": ("features",),
    "end_dim": ("end_axis",),
    "hidden_size": ("hidden_features",),
    "hx": ("state",),
    "input": ("x", "prediction", "query", "source", "indices"),
    "input1": ("x",),
    "input2": ("y",),
    "input_size": ("in_features",),
    "kdim": ("key_features",),
    "keepdim": ("keepdims",),
    "layer_norm_eps": ("eps",),
    "lr": ("learning_rate",),
    "max_val": ("max_value",),
    "min_val": ("min_value",),
    "nhead": ("heads",),
    "nonlinearity": ("activation",),
    "num_decoder_layers": ("layers",),
    "num_encoder_layers": ("layers",),
    "num_heads": ("heads",),
    "num_layers": ("layers",),
    "num_workers": ("workers",),
    "src": ("source", "x"),
    "src_is_causal": ("is_causal",),
    "start_dim": ("start_axis",),
    "tgt": ("target", "x"),
    "tgt_is_causal": ("is_causal",),
    "var": ("variance",),
    "vdim": ("value_features",),
    "x1": ("x",),
    "x2": ("y",),
}

#: Their arguments that nothing here has: what to write instead, or why nothing.
_INSTEAD = {
    "_freeze": "write freeze() behind it",
    "_weight": "write replace(weight=pyrite.Parameter(...)) behind it",
    "attn_mask": "write mask, which is True where attention is allowed",
    "average_attn_weights": "leave it out, weights of attention are in no memory",
    "batch_first": "leave it out, the batch is the first axis",
    "decoder_layer": "write the sizes of a layer, (features, heads, hidden_features, layers)",
    "enable_nested_tensor": "leave it out, tensors are not nested",
    "encoder_layer": "write the sizes of a layer, (features, heads, hidden_features, layers)",
    "inplace": "leave it out, a tensor never changes",
    "mask_check": "leave it out, tensors are not nested",
    "memory_format": "leave it out, layouts are chosen by the device",
    "need_weights": "leave it out, weights of attention are in no memory",
    "non_blocking": "leave it out, nothing waits but a read",
    "out": "take what is returned, a tensor never changes",
    "persistent_workers": "leave it out, workers stay for all epochs",
    "pin_memory": "leave it out, batches are copied as the device wants them",
    "reduce": "write reduction",
    "requires_grad": "make it a pyrite.Parameter, or take gradients by pyrite.value_and_grad",
    "return_indices": "call the op that returns them, x.max_pool2d_with_indices(...)",
    "size_average": "write reduction",
    "sparse": "leave it out, gradients are dense",
    "src_mask": "write source_mask or mask, which is True where attention is allowed",
    "tgt_mask": "write mask, which is True where attention is allowed",
    "unbiased": "write correction=1 for True, correction=0 for False",
} | {
    name: f"write a mask, ~{name}[:, None, None, :], which is True where a key counts"
    for name in (
        "key_padding_mask", "memory_key_padding_mask", "src_key_padding_mask",
        "tgt_key_padding_mask",
    )
}  # fmt: skip


def renamed(given: Iterable[str], parameters: Collection[str]) -> str:
    """Return the end of an error that got arguments which a function lacks: what to write.

    >>> renamed(["dim", "inplace", "nonesuch"], ["x", "axis"])
    '; dim is axis here; inplace: leave it out, a tensor never changes'
    """
    return "".join(f"; {found}" for name in given if (found := _answer(name, parameters)))


def _answer(name: str, parameters: Collection[str]) -> str | None:
    if name in parameters:
        return None
    for here in RENAMED.get(name, ()):
        if here in parameters:
            return f"{name} is {here} here"
    return f"{name}: {_INSTEAD[name]}" if name in _INSTEAD else None


def answering(module: str, uses: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module that says what to write for names it has not.

    >>> answering("pyrite.nn", {"ModuleList": "a list"})("ModuleList")
    Traceback (most recent call last):
    AttributeError: module 'pyrite.nn' has no attribute 'ModuleList'; use a list
    """

    def missing(name: str) -> Any:
        use = f"; use {uses[name]}" if name in uses else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{use}")

    return missing


def is_foreign(value: Any) -> bool:
    """Whether it holds numbers, as a list or an array of another library does."""
    if isinstance(value, list | tuple):
        return True
    return _library(value) != "pyrite" and hasattr(value, "__dlpack__")


def instead(value: Any) -> str:
    """Return the end of an error that got no tensor: what it got, and how that becomes one.

    >>> instead([1.0, 2.0]), instead(None)
    ('got list; convert it: pyrite.tensor(...)', 'got NoneType')
    """
    name = type(value).__name__
    got = f"got {_ARRAYS.get((_library(value), name), name)}"
    return f"{got}; convert it: pyrite.tensor(...)" if is_foreign(value) else got


def met_among(args: Sequence[Any], fault: Any) -> Any:
    """Return the argument of another library that a function took for a tensor, or None.

    ``fault`` is the object on which it missed an attribute: the argument, or a part of it.
    """
    for value in args:
        if is_foreign(value) and _library(value) == _library(fault):
            if _library(value) != "builtins" or type(value) is type(fault):
                return value
    return None


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
