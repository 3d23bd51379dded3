"""What modules of PyTorch have and these have not: what to write instead.

``model.eval()`` is an AttributeError that says: use nothing, a model trains in value_and_grad only.
"""

from __future__ import annotations

_TRAINS = "nothing: a model trains inside value_and_grad only, or as with_training(bool) says"
_DEVICE = "model.parameters()[0].device"

_SEEN = "pyrite.activations(model, pattern), of which seen[path] is what a layer put out"

#: By the name that a module lacks.
INSTEAD = {
    "add_module": "a field, or a list or dict of modules in one",
    "apply": "model.map(change), of parameters, or model.at['*'].apply(change), of all parts",
    "bfloat16": "model.astype(pyrite.bfloat16)",
    "buffers": "model.named_states()",
    "children": "model.named_modules()",
    "cpu": "model.to('cpu')",
    "cuda": "model.to('wgpu'), or model.to('torch:cuda')",
    "device": _DEVICE,
    "double": "model.astype(pyrite.float64)",
    "dtype": "model.parameters()[0].dtype",
    "eval": _TRAINS,
    "float": "model.astype(pyrite.float32)",
    "half": "model.astype(pyrite.float16)",
    "get_parameter": "model.at[name].get()",
    "get_submodule": "model.at[name].get()",
    "load_state_dict": "model = model.load(path), or model.load_record(record)",
    "modules": "model.named_modules()",
    "named_buffers": "model.named_states()",
    "named_children": "model.named_modules()",
    "register_buffer": "a field: self.mean = pyrite.State(tensor), or the tensor itself",
    "register_forward_hook": _SEEN,
    "register_forward_pre_hook": _SEEN,
    "register_full_backward_hook": "grads.named(model), of gradients by path",
    "register_parameter": "a field: self.weight = pyrite.Parameter(tensor)",
    "requires_grad_": "model = model.freeze('*'), or a pattern of paths",
    "state_dict": "model.save(path), or model.record()",
    "train": _TRAINS,
    "zero_grad": "nothing: gradients are returned, anew each time",
}
