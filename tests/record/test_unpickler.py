from __future__ import annotations

import os
import pickle  # noqa: TID251  (to write what must not be run)
import subprocess
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrite.errors import RecordError
from pyrite.record import unpickler
from pyrite.record.unpickler import Constructor, unpickle

ALLOWED = {"collections.OrderedDict": Constructor("OrderedDict", dict), "torch.float32": "float32"}


def read(data: bytes) -> object:
    return unpickle(data, allowed=ALLOWED, persistent=lambda key: ("stored", key), owner="it")


class Call:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(2**60), 2**60), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.sampled_from([3, 4, 5]))
def test_plain_values_are_read_as_pickle_reads_them(value: object, protocol: int) -> None:
    assert read(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_one_error(data: bytes) -> None:
    try:
        read(b"\x80\x02" + data)
    except RecordError:
        return


def test_an_allowed_constructor_is_called_and_attributes_are_dropped() -> None:
    state = OrderedDict(a=1)
    state._metadata = {"version": 1}  # type: ignore[attr-defined]
    for protocol in (2, 4):
        assert read(pickle.dumps(state, protocol)) == {"a": 1}


@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, "posix.system|nt.system"), (subprocess.Popen, "subprocess.Popen|commands.Popen"),
     (eval, "builtins.eval|__builtin__.eval"), (getattr, "builtins.getattr|__builtin__.getattr")],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_call_of_any_other_function_is_refused_by_name_and_not_run(
    function: Any, name: str, protocol: int
) -> None:
    with pytest.raises(RecordError, match=f"got the global '({name})"):
        read(pickle.dumps(Call(function, "exit 1"), protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # protocol 0
        b"\x80\x02(S'true'\nios\nsystem\n.",  # INST
        b"\x80\x02(cos\nsystem\nS'true'\no.",  # OBJ
        b"\x80\x02c__main__\nNet\n)\x81.",  # NEWOBJ
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x02ctorch\nfloat32\n)R.",  # a call of what is no function
        b"\x80\x02ctorch\nfloat32\n}b.",  # attributes on what is no dict
        b"\x80\x02ccollections\nOrderedDict\n]R.",  # arguments that are no tuple
        b"\x80\x02K\x01K\x02.",  # two values
        b"\x80\x02(K\x01.",  # an open mark
        b"\x80\x02(a.",  # an empty stack
        b"\x80\x02(0.",  # POP
        b"\x80\x02}K\x01s.",  # a key without a value
        b"\x80\x02}(K\x01u.",
        b"\x80\x02}NK\x01s.",  # None as a key
        b"\x80\x02}))s.",  # a tuple as a key
        b"\x80\x02h\x07.",  # an absent memo
        b"\x80\x02K\x01K\x01a.",  # append to a number
        b"\x80\x04K\x01K\x01\x93.",  # a global of numbers
        b"\x80\x02K\x01",  # no STOP
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # 2**63 bytes
        b"\x80\x02r\xff\xff\xff\xff.",  # memo of 2**32, nothing on the stack
        b"\x80\x02L" + b"9" * 10_000 + b"L\n.",  # a number beyond the limit of digits
        b"\x80\x02ctorch\nfl\\loat\n.",  # a name with an escape that is none
        b"\xff",
        b"",
    ],
)
def test_a_malformed_or_hostile_pickle_is_one_error(data: bytes) -> None:
    with pytest.raises(RecordError, match="it requires"):
        read(data)


def test_a_huge_memo_index_costs_no_memory() -> None:
    assert read(b"\x80\x02K\x05r\xff\xff\xff\xff.") == 5


@pytest.mark.parametrize(
    "data",
    [
        b"](" + b"N" * 101 + b"e",
        b"]" + b"Na" * 101,
        b"](" + b"](" + b"N" * 50 + b"e](" + b"N" * 51 + b"e",
        b"}(" + b"".join(b"K" + bytes([i]) + b"N" for i in range(101)) + b"u",
    ],
)
def test_of_too_many_values_no_more_than_their_bound_are_read(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpickler, "MAX_ITEMS", 100)
    with pytest.raises(RecordError, match="it requires at most 100 values, got more"):
        read(b"\x80\x02" + data + b"\xff")  # nonsense behind them is not reached


def test_deep_nesting_does_not_overflow_a_stack() -> None:
    depth = 200_000
    value = read(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".")
    assert isinstance(value, list)
    while value:  # taken apart here, so that freeing it is no deep recursion either
        value = value[0]
