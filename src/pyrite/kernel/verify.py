"""What a legal kernel is, as rules.

`verify` runs between passes in tests and on kernels that people write; a `KernelError` names the
node as `to_text` does, and the rule.  Rules of one kind of node stand in `_RULES`; those of the
whole are scope, uniform barriers and unique parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from pyrite.errors import KernelError
from pyrite.kernel.ir import (
    ACCEPTED,
    ACCESSES,
    ATOMIC_DTYPES,
    ATOMICS,
    BOOL,
    BUILTINS,
    COMPUTED_FLOATS,
    EFFECTS,
    FLOAT_ATOMICS,
    OPCODES,
    RARE,
    REDUCTIONS,
    SPACES,
    Kernel,
    Node,
    Region,
    Type,
    scalar,
    vector,
)
from pyrite.kernel.text import name_nodes, to_text
from pyrite.kernel.uniformity import stray_barriers
from pyrite.types import bool_, int32, int64, uint32


def verify(kernel: Kernel) -> Kernel:
    """Return the kernel if it is legal.

    Raises KernelError with the node, the rule that it breaks, and the kernel's text.
    """
    _Verifier(kernel).run()
    return kernel


def broken_rule(node: Node, kernel: Kernel) -> str | None:
    """Return the rule that a node breaks by itself, wherever it stands in the kernel."""
    return _RULES[node.kind](node, kernel)


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.stray = stray_barriers(kernel) if _is_well_formed(kernel) else []
        self.scopes: list[set[Node]] = [set()]
        self.seen: set[Node] = set()

    def run(self) -> None:
        self.head()
        self.region(self.kernel.body, is_top=True)

    def head(self) -> None:
        kernel = self.kernel
        if kernel.index not in (int32, uint32, int64):
            self.fail(None, f"index is int32, uint32 or int64, not {kernel.index.name}")
        if not 1 <= kernel.grid <= 3 or any(s < 1 for s in kernel.workgroup_size):
            self.fail(None, "a grid has 1 to 3 axes and a workgroup at least 1 invocation on each")
        if kernel.body.parameters or kernel.body.yields:
            self.fail(None, "a body has no parameters and yields nothing")
        names: set[str] = set()
        for position, p in enumerate(kernel.parameters):
            if p.kind not in ("buffer", "argument") or p.attr[0] != position:
                self.fail(p, "parameters are buffers and arguments, numbered in order")
            if p.attr[1] in names:
                self.fail(p, f"names of parameters differ; {p.attr[1]!r} is there twice")
            names.add(p.attr[1])
            self.rule(p)
            self.scopes[0].add(p)

    # ---- regions ----

    def region(self, region: Region, *, is_top: bool = False) -> None:
        self.scopes.append(set(region.parameters))
        for position, p in enumerate(region.parameters):
            if p.kind != "parameter" or p.attr != position or p.type is None:
                self.fail(p, "a region's parameters are typed and numbered in order")
        for node in region.body:
            self.node(node, is_top)
        for value in region.yields:
            if not self.is_visible(value):
                self.fail(value, "what is yielded is in scope")
        self.scopes.pop()

    def node(self, node: Node, is_top: bool) -> None:
        if node in self.seen:
            self.fail(node, "a node stands in one place")
        self.seen.add(node)
        if node.kind not in EFFECTS or node.kind in ("parameter", "argument", "buffer"):
            self.fail(node, "a body holds no parameters and only known kinds")
        for i in node.inputs:
            if not self.is_visible(i):
                self.fail(
                    node, f"inputs stand before it in its region or one around it; {i} does not"
                )
        self.memory_inputs(node)
        self.rule(node)
        if node.kind == "alloc" and not is_top:
            self.fail(node, "alloc stands at the top of the body")
        if node in self.stray:
            self.fail(
                node,
                "all invocations of the workgroup come by a barrier together, so none stands in an "
                "if, or a loop, that not all of them run",
            )
        for region in node.regions:
            self.region(region)
        self.scopes[-1].add(node)

    def is_visible(self, node: Node) -> bool:
        return any(node in scope for scope in self.scopes)

    def memory_inputs(self, node: Node) -> None:
        takes_memory = node.kind in _TOUCHES
        for position, i in enumerate(node.inputs):
            is_memory = i.kind in ("buffer", "alloc")
            if is_memory != (takes_memory and position == 0):
                self.fail(node, "the first input of a memory access, and no other, is a memory")
            if i.type is None and node.kind != "result":
                self.fail(node, f"inputs are values; {i.kind} has none")

    def rule(self, node: Node) -> None:
        if broken := _RULES[node.kind](node, self.kernel):
            self.fail(node, broken)

    def fail(self, node: Node | None, rule: str) -> NoReturn:
        where = "" if node is None else f" of {_name(self.kernel, node)}{node!r}"
        text = to_text(self.kernel) if _is_well_formed(self.kernel) else ""
        raise KernelError(f"kernel {self.kernel.name!r} breaks a rule{where}: {rule}\n{text}")


_TOUCHES = ("load", "store", "atomic", "prefetch", "error")


def _is_well_formed(kernel: Kernel) -> bool:
    """Whether control nodes are as analysis and text expect them."""
    regions = {"for": 1, "while": 2, "if": 2}
    return all(
        len(n.regions) == regions.get(n.kind, 0) and not (_control_shape(n) or _result_shape(n))
        for n in kernel.walk()
    )


def _name(kernel: Kernel, node: Node) -> str:
    """Return ``%3 = `` as in the text, or nothing for what has no name there, as a barrier."""
    name = name_nodes(kernel).get(node) if _is_well_formed(kernel) else None
    return "" if name is None else f"{name} = "


# ---- rules: each returns what is broken, or nothing ----


def _all_of_type(nodes: Sequence[Node], type: Type | None) -> bool:
    return all(n.type is type for n in nodes)


def _const(node: Node, _: Kernel) -> str | None:
    type = node.value_type
    numbers = node.attr if isinstance(node.attr, tuple) else (node.attr,)
    if isinstance(node.attr, tuple) and len(numbers) != type.width:
        return f"a constant has one number or {type.width}, not {len(numbers)}"
    wanted = {"bool": bool, "int": int, "uint": int, "float": float}[type.dtype.kind]
    if any(builtin_type(n) is not wanted for n in numbers):
        return f"a constant of {type} is of {wanted.__name__}"
    if type.dtype.is_integer and any(
        not type.dtype.lowest <= n <= type.dtype.highest for n in numbers
    ):
        return f"{node.attr} fits in {type.dtype.name}"
    return None


builtin_type = type


def _argument(node: Node, _: Kernel) -> str | None:
    return None if node.value_type.width == 1 else "an argument is a scalar"


def _builtin(node: Node, kernel: Kernel) -> str | None:
    name, axis = node.attr
    if name not in BUILTINS or not 0 <= axis < (3 if BUILTINS[name] else 1):
        return f"a builtin is one of {', '.join(BUILTINS)} with axis 0 to 2 where it has three"
    if node.type is not scalar(kernel.index):
        return f"a builtin has the index dtype {kernel.index.name}"
    return None


def _alu(node: Node, _: Kernel) -> str | None:
    opcode = OPCODES.get(node.attr)
    if opcode is None:
        return f"{node.attr!r} is no opcode"
    if len(node.inputs) != opcode.arity:
        return f"{opcode.name} takes {opcode.arity} operands, not {len(node.inputs)}"
    operand = node.inputs[0].value_type
    if not _all_of_type(node.inputs, operand):
        return f"operands have one type, not {', '.join(str(i.type) for i in node.inputs)}"
    if operand.dtype not in ACCEPTED[opcode.accepts]:
        return f"{opcode.name} takes {opcode.accepts} operands, not {operand}"
    wanted = operand.with_dtype(bool_) if opcode.compares else operand
    return None if node.type is wanted else f"{opcode.name} of {operand} gives {wanted}"


def _cast(node: Node, _: Kernel) -> str | None:
    (x,), to = node.inputs, node.value_type
    if to.dtype.is_bool:
        return "there is no cast to bool; compare with 0"
    return None if x.value_type.width == to.width else "a cast keeps the width"


def _bitcast(node: Node, _: Kernel) -> str | None:
    x, to = node.inputs[0].value_type, node.value_type
    if x.dtype.is_bool or to.dtype.is_bool:
        return "a bool has no bits"
    if x.width != to.width or x.dtype.itemsize != to.dtype.itemsize:
        return f"a bitcast keeps width and size, not {x} to {to}"
    return None


def _select(node: Node, _: Kernel) -> str | None:
    condition, x, y = node.inputs
    if not _is_mask(condition.value_type, node.value_type.width):
        return f"the condition is a bool, or one for each element, not {condition.type}"
    return None if x.type is y.type is node.type else "both choices have the type of the result"


def _is_mask(type: Type, width: int) -> bool:
    return type is BOOL or type is vector(bool_, width)


def _splat(node: Node, _: Kernel) -> str | None:
    is_right = node.inputs[0].type is node.value_type.element and node.value_type.width > 1
    return None if is_right else "splat repeats a scalar of its dtype"


def _make(node: Node, _: Kernel) -> str | None:
    type = node.value_type
    is_right = len(node.inputs) == type.width > 1 and _all_of_type(node.inputs, type.element)
    return None if is_right else f"make of {type} takes {type.width} scalars of {type.dtype.name}"


def _extract(node: Node, _: Kernel) -> str | None:
    x = node.inputs[0].value_type
    if x.width == 1 or not 0 <= node.attr < x.width:
        return f"extract takes an element of a vector, not {node.attr} of {x}"
    return None if node.type is x.element else "extract gives the element's type"


def _result_shape(node: Node) -> str | None:
    if node.kind != "result":
        return None
    control = node.inputs[0]
    if not control.regions:
        return "result is of for, while or if"
    count = len(control.regions[-1].yields)
    if not 0 <= node.attr < count:
        return f"{control.kind} has {count} results, not a number {node.attr}"
    return None


def _result(node: Node, _: Kernel) -> str | None:
    if broken := _result_shape(node):
        return broken
    is_right = node.type is node.inputs[0].regions[-1].yields[node.attr].type
    return None if is_right else "a result has the type yielded"


def _buffer(node: Node, _: Kernel) -> str | None:
    return _memory(node, node.attr[2])


def _alloc(node: Node, _: Kernel) -> str | None:
    space, size, access = node.attr
    if space not in SPACES or size < 1:
        return "alloc is shared or private and has at least 1 element"
    if space == "private" and access == "atomic":
        return "private memory needs no atomics"
    if access == "atomic" and node.value_type.dtype not in ATOMIC_DTYPES:
        return "atomic memory of a workgroup is of integers of 32 or 64 bits"
    return _memory(node, access)


def _memory(node: Node, access: str) -> str | None:
    if access not in ACCESSES:
        return f"access is one of {', '.join(ACCESSES)}"
    if node.value_type.width != 1:
        return "the type of a memory is that of one element, a scalar"
    if access == "atomic" and node.value_type.dtype not in (*ATOMIC_DTYPES, *COMPUTED_FLOATS):
        return "atomic memory is of integers or floats of 32 or 64 bits"
    return None


def _index(node: Node, kernel: Kernel, width: int) -> str | None:
    index = node.inputs[1].value_type
    if index.dtype is not kernel.index:
        return f"an index has dtype {kernel.index.name}, not {index.dtype.name}"
    if index.width not in (1, width):
        return f"an index is a scalar or has {width} elements, not {index.width}"
    if node.attr and index.width > 1:
        return "only an access with a scalar index is aligned"
    return None


def _access(memory: Node) -> str:
    return str(memory.attr[2])


def _load(node: Node, kernel: Kernel) -> str | None:
    memory, type = node.inputs[0], node.value_type
    if _access(memory) not in ("read", "read_write"):
        return f"load needs access read or read_write, not {_access(memory)}"
    if type.dtype is not memory.value_type.dtype:
        return f"load gives {memory.value_type.dtype.name}, as the memory"
    if len(node.inputs) not in (2, 4):
        return "load takes memory, index, and maybe mask and other"
    if len(node.inputs) == 4:
        if not _is_mask(node.inputs[2].value_type, type.width):
            return f"the mask is a bool, or one for each element, not {node.inputs[2].type}"
        if node.inputs[3].type is not type:
            return "what stands in for masked elements has the type of the load"
    return _index(node, kernel, type.width)


def _prefetch(node: Node, kernel: Kernel) -> str | None:
    if len(node.inputs) != 2 or node.type is not None:
        return "prefetch takes memory and index, and gives nothing"
    return _index(node, kernel, 1)


def _store(node: Node, kernel: Kernel) -> str | None:
    memory, _, value = node.inputs[:3]
    if _access(memory) not in ("write", "read_write"):
        return f"store needs access write or read_write, not {_access(memory)}"
    if value.value_type.dtype is not memory.value_type.dtype:
        return f"store of {value.type} into {memory.type}; cast it"
    if len(node.inputs) == 4 and not _is_mask(node.inputs[3].value_type, value.value_type.width):
        return f"the mask is a bool, or one for each element, not {node.inputs[3].type}"
    return _index(node, kernel, value.value_type.width)


def _atomic(node: Node, kernel: Kernel) -> str | None:
    name, has_mask = node.attr
    memory = node.inputs[0]
    if _access(memory) != "atomic":
        return f"atomic needs access atomic, not {_access(memory)}"
    if name not in ATOMICS:
        return f"an atomic is one of {', '.join(ATOMICS)}"
    if memory.value_type.dtype.is_float and name not in FLOAT_ATOMICS:
        return f"an atomic of floats is one of {', '.join(FLOAT_ATOMICS)}"
    count = 3 + (name == "exchange_equal") + has_mask
    if len(node.inputs) != count:
        return f"atomic {name} takes {count} inputs, not {len(node.inputs)}"
    values = node.inputs[2 : count - has_mask]
    if node.type is not memory.type or not _all_of_type(values, memory.type):
        return "values of an atomic have the type of the memory"
    if has_mask and node.inputs[-1].type is not BOOL:
        return "the mask of an atomic is a scalar bool"
    is_scalar = node.inputs[1].type is scalar(kernel.index)
    return None if is_scalar else f"an index has type {kernel.index.name}"


def _error(node: Node, _: Kernel) -> str | None:
    memory, failed, code = node.inputs
    if memory.kind != "buffer" or _access(memory) != "atomic" or memory.type is not scalar(uint32):
        return "the error word is in an atomic buffer of uint32"
    if not failed.value_type.dtype.is_bool or code.type is not scalar(uint32):
        return "error takes bools and a uint32 code"
    return None


def _control_shape(node: Node) -> str | None:
    """Return what is wrong with the parameters or yields, on which analysis and text rely."""
    if node.kind == "for":
        carried = len(node.inputs) - 2
        body = node.regions[0]
        if carried < 0 or len(body.parameters) != carried + 1 or len(body.yields) != carried:
            return "a for carries, takes and yields the same number of values"
    elif node.kind == "while":
        condition, body = node.regions
        counts = {len(r.parameters) for r in node.regions} | {len(body.yields)}
        if counts != {len(node.inputs)} or len(condition.yields) != 1:
            return "a while carries, takes and yields the same number of values"
    elif node.kind == "if" and len(node.regions[0].yields) != len(node.regions[1].yields):
        return "both parts of an if yield the same number of values"
    return None


def _for(node: Node, kernel: Kernel) -> str | None:
    if len(node.regions) != 1 or (broken := _control_shape(node)):
        return "a for has one region" if len(node.regions) != 1 else broken
    step, unroll, _ = node.attr
    index = scalar(kernel.index)
    counter, *carried = node.regions[0].parameters
    if step < 1 or not _all_of_type((*node.inputs[:2], counter), index):
        return f"a for counts upwards in {kernel.index.name}"
    if unroll and any(n.kind != "const" for n in node.inputs[:2]):
        return "a loop that is unrolled has constant bounds"
    return _carried(node.inputs[2:], carried, node.regions[0].yields)


def _carried(*groups: Sequence[Node]) -> str | None:
    for together in zip(*groups, strict=True):
        if not _all_of_type(together, together[0].type):
            return f"a carried value keeps its type, not {', '.join(str(n.type) for n in together)}"
    return None


def _while(node: Node, _: Kernel) -> str | None:
    if len(node.regions) != 2 or (broken := _control_shape(node)):
        return "a while has two regions" if len(node.regions) != 2 else broken
    condition, body = node.regions
    if condition.yields[0].type is not BOOL:
        return "the condition of a while is a scalar bool"
    return _carried(node.inputs, condition.parameters, body.parameters, body.yields)


def _if(node: Node, _: Kernel) -> str | None:
    if len(node.regions) != 2 or (broken := _control_shape(node)):
        return "an if has two regions" if len(node.regions) != 2 else broken
    if node.inputs[0].type is not BOOL or any(r.parameters for r in node.regions):
        return "an if takes a scalar bool, and its regions nothing"
    if node.attr not in (None, RARE):
        return f"an if is {RARE} or not, got {node.attr!r}"
    return _carried(*(r.yields for r in node.regions))


def _barrier(node: Node, _: Kernel) -> str | None:
    return None if node.attr in ("workgroup", "storage") else "a barrier is workgroup or storage"


def _subgroup(node: Node, kernel: Kernel) -> str | None:
    type = node.inputs[0].value_type
    if node.kind == "subgroup_ballot":
        is_right = type is BOOL and node.type is vector(uint32, 4)
        return None if is_right else "a ballot takes a bool and gives four uint32"
    if node.type is not type:
        return f"{node.kind} keeps the type"
    if node.kind == "subgroup_shuffle":
        if node.attr not in ("index", "xor", "up", "down"):
            return "a shuffle is by index, xor, up or down"
        is_right = node.inputs[1].type is scalar(kernel.index)
        return None if is_right else f"a lane has type {kernel.index.name}"
    return None if node.kind == "subgroup_broadcast" else _reduction(node, type)


def _reduction(node: Node, type: Type) -> str | None:
    name = node.attr if node.kind == "subgroup_reduce" else node.attr[0]
    if name not in REDUCTIONS or type.dtype not in ACCEPTED[OPCODES[name].accepts]:
        return f"a reduction is one of {', '.join(REDUCTIONS)}, of a dtype that it takes"
    return None


def _parameter(_: Node, __: Kernel) -> str | None:
    return "a parameter belongs to a region"


_RULES: dict[str, Callable[[Node, Kernel], str | None]] = {
    "const": _const, "argument": _argument, "builtin": _builtin, "alu": _alu, "cast": _cast,
    "bitcast": _bitcast, "select": _select, "splat": _splat, "make": _make, "extract": _extract,
    "parameter": _parameter, "result": _result, "buffer": _buffer, "alloc": _alloc, "load": _load,
    "store": _store, "atomic": _atomic, "prefetch": _prefetch, "error": _error, "for": _for,
    "while": _while, "if": _if, "barrier": _barrier, "subgroup_reduce": _subgroup,
    "subgroup_scan": _subgroup, "subgroup_shuffle": _subgroup, "subgroup_broadcast": _subgroup,
    "subgroup_ballot": _subgroup,
}  # fmt: skip
