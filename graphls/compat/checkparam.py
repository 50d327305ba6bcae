"""`mindspore._checkparam`: checks of arguments, as functions of the module and of the class Validator.

MindSpore 1 writes `Validator.check_positive_int(3, "size", "Net")` and `Rel.GE`, MindSpore 2 the functions and `GE` of
the module. Each check returns its value, and raises GraphTypeError or GraphValueError with the names of the argument
and of the operator.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike
from graphls.ops.operands import Sizes

Kinds: TypeAlias = "object | Iterable[object]"
"""A class or dtype, or several."""


class Rel(Enum):
    """A comparison of a number with one, two or several others."""

    EQ = "equal to"
    NE = "not equal to"
    LT = "less than"
    LE = "less than or equal to"
    GT = "greater than"
    GE = "greater than or equal to"
    INC_NEITHER = "in ({}, {})"
    INC_LEFT = "in [{}, {})"
    INC_RIGHT = "in ({}, {}]"
    INC_BOTH = "in [{}, {}]"
    IN = "in {}"
    NOT_IN = "not in {}"

    @staticmethod
    def get_strs(rel: Rel) -> str:
        """The relation in words."""
        return rel.value if "{" in rel.value else f"{rel.value} {{}}"


EQ, NE, LT, LE, GT, GE, INC_NEITHER, INC_LEFT, INC_RIGHT, INC_BOTH, IN, NOT_IN = Rel
HOLDS: dict[Rel, Callable[[Any, Any], Any]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    IN: lambda value, values: value in values,
    NOT_IN: lambda value, values: value not in values,
}
ENDS = {
    INC_NEITHER: (operator.gt, operator.lt),
    INC_LEFT: (operator.ge, operator.lt),
    INC_RIGHT: (operator.gt, operator.le),
    INC_BOTH: (operator.ge, operator.le),
}


def _owner(prim_name: str | None) -> str:
    return f"For '{prim_name}', the" if prim_name else "The"


def _wrong_type(name: str | None, value: object, expected: str, owner: str | None) -> GraphTypeError:
    kind = type(value).__name__
    text = f"{_owner(owner)} {name or 'value'!r} must be {expected}, but got {value!r} of {kind!r}."
    return GraphTypeError(text)


def _wrong_value(name: str | None, value: object, expected: str, owner: str | None) -> GraphValueError:
    return GraphValueError(f"{_owner(owner)} {name or 'value'!r} must be {expected}, but got {value!r}.")


def _is_number(value: object, kind: type) -> bool:
    kinds = {int: (int, np.integer), float: (int, float, np.integer, np.floating)}[kind]
    return isinstance(value, kinds) and not isinstance(value, (bool, np.bool_))


def _number(kind: type, rel: Rel | None, bound: float = 0) -> Callable[..., Any]:
    """A check of the class of a number, and of its relation to a bound."""

    def check_number_of_kind(arg_value: object, arg_name: str | None = None, prim_name: str | None = None) -> Any:
        if rel is None:
            return check_is_number(arg_value, kind, arg_name, prim_name)
        return _compared(arg_value, bound, rel, kind, arg_name, prim_name)

    check_number_of_kind.__doc__ = f"One {kind.__name__}{'' if rel is None else f' {rel.value} {bound}'}."
    return check_number_of_kind


def _numbers(kind: type, rel: Rel) -> Callable[..., Any]:
    """A check of every number in a list or tuple."""

    def check_sequence(sequence: object, arg_name: str | None = None, prim_name: str | None = None) -> Any:
        if not isinstance(sequence, (list, tuple)):
            raise _wrong_type(arg_name, sequence, "a list or tuple", prim_name)
        for i, value in enumerate(sequence):
            _compared(value, 0, rel, kind, f"{arg_name or 'value'}[{i}]", prim_name)
        return sequence

    check_sequence.__doc__ = f"A list or tuple of {kind.__name__}s {rel.value} 0."
    return check_sequence


def _compared(value: Any, bound: Any, rel: Rel, kind: type, name: str | None, owner: str | None) -> Any:
    """Checks the class of a number, and its relation to one or two others."""
    if not _is_number(value, kind):
        raise _wrong_type(name, value, f"{kind.__name__}", owner)
    if rel in ENDS:
        low, high = bound
        above, below = ENDS[rel]
        if not (above(value, low) and below(value, high)):
            raise _wrong_value(name, value, rel.value.format(low, high), owner)
    elif np.isinf(value) or np.isnan(value) or not HOLDS[rel](value, bound):
        raise _wrong_value(name, value, Rel.get_strs(rel).format(bound), owner)
    return value


def check_is_number(
    arg_value: object, arg_type: Kinds, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """A finite number of a class; a bool is not a number."""
    kinds = arg_type if isinstance(arg_type, tuple) else (arg_type,)
    if not isinstance(arg_value, kinds) or isinstance(arg_value, bool):
        raise _wrong_type(arg_name, arg_value, " or ".join(kind.__name__ for kind in kinds), prim_name)
    if isinstance(arg_value, float) and not np.isfinite(arg_value):
        raise _wrong_value(arg_name, arg_value, "a legal float", prim_name)
    return arg_value


def check_number_range(
    arg_value: object, lower_limit: float, upper_limit: float, rel: Rel, value_type: type, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:  # fmt: skip
    """A number between two others."""
    return _compared(arg_value, (lower_limit, upper_limit), rel, value_type, arg_name, prim_name)


def check(
    arg_name: str | None, arg_value: object, value_name: str, value: object, rel: Rel = EQ,
    prim_name: str | None = None,
    excp_cls: type[Exception] = ValueError,
) -> Any:  # fmt: skip
    """A value in a relation to another, named one."""
    if rel in ENDS:
        return _compared(arg_value, value, rel, float, arg_name, prim_name)
    if not HOLDS[rel](arg_value, value):
        text = Rel.get_strs(rel).format(f"{value_name}: {value}")
        kind = GraphTypeError if issubclass(excp_cls, TypeError) else GraphValueError
        raise kind(f"{_owner(prim_name)} {arg_name!r} should be {text}, but got {arg_value!r}.")
    return arg_value


def check_number(arg_name: str | None, arg_value: object, value: float, rel: Rel, prim_name: str | None = None) -> Any:
    """A number in a relation to another one."""
    return _compared(arg_value, value, rel, float, arg_name, prim_name)


def check_int(
    arg_value: object, value: float, rel: Rel, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """An integer in a relation to a number."""
    return _compared(arg_value, value, rel, int, arg_name, prim_name)


def check_float(
    arg_value: object, value: float, rel: Rel, arg_name: str | None = None, prim_name: str | None = None
) -> Any:
    """A number in a relation to another one."""
    return _compared(arg_value, value, rel, float, arg_name, prim_name)


def check_int_range(
    arg_value: object, lower_limit: float, upper_limit: float, rel: Rel, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:  # fmt: skip
    """An integer between two numbers."""
    return _compared(arg_value, (lower_limit, upper_limit), rel, int, arg_name, prim_name)


def check_float_range(
    arg_value: object, lower_limit: float, upper_limit: float, rel: Rel, arg_name: str | None = None,
    prim_name: str | None = None,
) -> Any:  # fmt: skip
    """A number between two others."""
    return _compared(arg_value, (lower_limit, upper_limit), rel, float, arg_name, prim_name)


def check_equal_int(arg_value: object, value: int, arg_name: str | None = None, prim_name: str | None = None) -> Any:
    """An integer that equals another."""
    return check_int(arg_value, value, EQ, arg_name, prim_name)


check_is_int = _number(int, None)
check_is_float = _number(float, None)
check_positive_int, check_positive_float = _number(int, GT), _number(float, GT)
check_negative_int, check_negative_float = _number(int, LT), _number(float, LT)
check_non_positive_int, check_non_positive_float = _number(int, LE), _number(float, LE)
check_non_negative_int, check_non_negative_float = _number(int, GE), _number(float, GE)
check_positive_int_sequence, check_positive_float_sequence = _numbers(int, GT), _numbers(float, GT)
check_non_negative_int_sequence = _numbers(int, GE)


def check_bool(arg_value: object, arg_name: str | None = None, prim_name: str | None = None) -> bool:
    """True or False."""
    if not isinstance(arg_value, bool):
        raise _wrong_type(arg_name, arg_value, "bool", prim_name)
    return arg_value


def check_isinstance(arg_name: str | None, arg_value: object, classes: Kinds) -> Any:
    """An instance of a class, or of one of several."""
    return check_value_type(arg_name, arg_value, classes)


def check_value_type(arg_name: str | None, arg_value: object, valid_types: Kinds, prim_name: str | None = None) -> Any:
    """An instance of one of some classes; True and False are instances of bool only."""
    kinds = tuple(valid_types) if isinstance(valid_types, Iterable) else (valid_types,)
    if not isinstance(arg_value, kinds) or (isinstance(arg_value, bool) and bool not in kinds):
        names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
        raise _wrong_type(arg_name, arg_value, names, prim_name)
    return arg_value


def check_subclass(
    arg_name: str, type_: DTypeLike, template_types: Kinds, prim_name: str, addition_error_info: str | None = None,
) -> Any:  # fmt: skip
    """A class, or dtype, that is one of some or derives from one."""
    kinds = tuple(template_types) if isinstance(template_types, Iterable) else (template_types,)
    if not any(type_ is kind or (isinstance(kind, type) and _derives(type_, kind)) for kind in kinds):
        expected = f"one of {', '.join(map(str, kinds))}"
        raise GraphTypeError(
            f"{_owner(prim_name)} {arg_name!r} must be {expected}, but got {type_}{addition_error_info or ''}.",
        )
    return type_


def _derives(kind: object, of: type) -> bool:
    return isinstance(kind, of) or (isinstance(kind, type) and issubclass(kind, of))


def check_type_name(arg_name: str | None, arg_type: object, valid_types: Kinds, prim_name: str | None = None) -> Any:
    """A dtype that is one of some."""
    kinds = tuple(valid_types) if isinstance(valid_types, Iterable) else (valid_types,)
    if arg_type not in kinds:
        raise _wrong_type(arg_name, arg_type, f"one of {', '.join(map(str, kinds))}", prim_name)
    return arg_type


def check_tensor_dtype_valid(
    arg_name: str | None, arg_type: object, valid_dtypes: Kinds, prim_name: str | None = None
) -> Any:
    """The dtype of a tensor that is one of some."""
    return check_type_name(arg_name, arg_type, valid_dtypes, prim_name)


def check_types_same_and_valid(args: Mapping[str, object], valid_values: Kinds, prim_name: str | None = None) -> None:
    """Dtypes by argument name, all the same and one of some."""
    for name, dtype in args.items():
        check_type_name(name, dtype, valid_values, prim_name)
    if len({str(dtype) for dtype in args.values()}) > 1:
        shown = ", ".join(f"{name}: {dtype}" for name, dtype in args.items())
        raise GraphTypeError(f"{_owner(prim_name)} dtypes must be the same, but got {shown}.")


check_tensors_dtypes_same_and_valid = check_scalar_or_tensor_types_same = check_types_same_and_valid


def check_string(
    arg_value: object, valid_values: Iterable[object], arg_name: str | None = None, prim_name: str | None = None
) -> str:
    """A string that is one of some."""
    if not isinstance(arg_value, str) or arg_value not in valid_values:
        expected = f"one of {', '.join(map(repr, valid_values))}"
        raise _wrong_value(arg_name, arg_value, expected, prim_name)
    return arg_value


def check_str_by_regular(
    target: str, reg: str | None = None, flag: int = re.ASCII, prim_name: str | None = None
) -> bool:
    """A string that a regular expression matches; by default letters, digits and `-_./`."""
    if re.match(reg or r"^\w+[0-9a-zA-Z\_\.]*$", target, flag) is None:
        raise _wrong_value("name", target, "letters, digits, '_' and '.'", prim_name)
    return True


def check_file_name_by_regular(target: object, reg: str | None = None, prim_name: str | None = None) -> bool:
    """A path of letters, digits and common signs."""
    if not isinstance(target, str) or not target:
        raise _wrong_value("file name", target, "a string with letters in it", prim_name)
    return check_str_by_regular(target, reg or r"^[0-9\w\_\-\.\:\/\\ ]+$", re.ASCII, prim_name)


def check_element_type_of_iterable(
    arg_name: str | None, arg_value: Iterable[object], valid_types: Kinds, prim_name: str | None = None
) -> None:
    """A list, tuple or set whose elements are of some classes."""
    check_value_type(arg_name, arg_value, (list, tuple, set), prim_name)
    for i, element in enumerate(arg_value):
        check_value_type(f"{arg_name}[{i}]", element, valid_types, prim_name)


def check_element_type_of_dict(
    arg_name: str | None, arg_value: Mapping[object, object], key_types: Kinds, value_types: Kinds,
    prim_name: str | None = None,
) -> None:  # fmt: skip
    """A dict whose keys and values are of some classes."""
    check_value_type(arg_name, arg_value, dict, prim_name)
    for key, value in arg_value.items():
        check_value_type(f"key of {arg_name}", key, key_types, prim_name)
        check_value_type(f"{arg_name}[{key!r}]", value, value_types, prim_name)


def check_pad_value_by_mode(pad_mode: str, padding: Sizes, prim_name: str | None = None) -> Any:
    """The padding, which is 0 unless the mode is "pad"."""
    if pad_mode != "pad" and padding != 0:
        raise _wrong_value("padding", padding, f"0 in the pad_mode {pad_mode!r}", prim_name)
    return padding


def check_input_data(*data: object, data_class: Kinds) -> None:
    """Tensors, or pytrees of them, of one of some classes."""
    for item in data:
        if isinstance(item, (list, tuple)):
            check_input_data(*item, data_class=data_class)
        else:
            check_value_type("input data", item, data_class)


def check_hook_fn(hook_fn: object) -> bool:
    """A function."""
    if not callable(hook_fn):
        raise _wrong_type("hook_fn", hook_fn, "a function", None)
    return True


def twice(x: object) -> tuple[Any, Any]:
    """A pair: two of a number, or a pair itself."""
    return x if isinstance(x, tuple) else (x, x)


def args_type_check(*type_args: Kinds, **type_kwargs: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that checks the classes of arguments, by position or by name; None passes every check."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        kinds = signature.bind_partial(*type_args, **type_kwargs).arguments

        @wraps(function)
        def checked(*args: object, **options: object) -> Any:
            for name, value in signature.bind(*args, **options).arguments.items():
                if name in kinds and value is not None:
                    check_value_type(name, value, kinds[name], function.__name__)
            return function(*args, **options)

        return checked

    return decorated


class Validator:
    """The checks of this module as static functions, as MindSpore 1 has them."""


for _name, _check in [*globals().items()]:
    if _name.startswith("check") or _name in ("twice", "args_type_check"):
        setattr(Validator, _name, staticmethod(_check))

__all__ = ["Rel", "Validator", *Rel.__members__, *[name for name in vars(Validator) if not name.startswith("_")]]
