"""Checkpoints: saving the state of cells to files and reading it back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.base.files.files import read_bytes, write_parts
from graphls.base.refusals import refusal
from graphls.base.reporting import checked, warn
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.formats import checkpoint as checkpoint_format
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.formats import shards as shards_format
from graphls.interop.formats.checkpoint import Entry
from graphls.step.export.network import export
from graphls.train import background
from graphls.train.loading import entries_of, entry_of, load_param_into_net
from graphls.train.shards import parts_of, save_shards

__all__ = ["export", "load_checkpoint", "load_checkpoint_async", "load_param_into_net", "save_checkpoint"]

SHARDS = "shards"
FORMATS = ("ckpt", "safetensors", SHARDS)
IGNORED = ("incremental", "global_step_num")
Choice = Callable[[str], bool]


def save_checkpoint(
    save_obj: object, ckpt_file_name: str | os.PathLike[str], integrated_save: bool = True, async_save: bool = False,
    append_dict: Mapping[str, object] | None = None, enc_key: bytes | None = None, enc_mode: str = "AES-GCM",
    choice_func: Choice | None = None, crc_check: bool = False, format: str = "ckpt", **kwargs: object,
) -> None:  # fmt: skip
    """Save every parameter of a cell to a file, completely or not at all.

    `save_obj` is a Cell, a dict of tensors by name, or a list of {'name': name, 'data': tensor}; numbers and strings
    are saved, too. The file name gets the ending `.ckpt`, or `.safetensors` in that `format`, unless it has it.
    `append_dict` holds further entries; for an exact resume with dropout it holds `"random_state":
    graphls.random.random_state()`, as ModelCheckpoint saves. `choice_func(name)` selects the entries of `save_obj` to
    save. `async_save` writes on a thread, from an immediate copy; an error of it is raised by the next save, or printed
    at the end of the process. `crc_check` adds a checksum to a `.ckpt` file. `integrated_save` changes nothing.

    In the format "shards" the name is that of a folder, in which each device of a mesh writes what it has, and an index
    that is written last. No host needs the whole. All processes of the mesh save together, as docs/parallel.md says.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphValueError where two parameters have
    one name, and GraphFileError (an OSError) where the file cannot be written; an existing file is then unchanged.

    Examples:
        >>> import os, tempfile
        >>> from graphls import nn
        >>> from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "net.ckpt")
        ...     save_checkpoint(nn.Dense(2, 1, weight_init="ones"), path)
        ...     found = load_checkpoint(path)
        >>> list(found)
        ['weight', 'bias']
        >>> net = nn.Dense(2, 1, weight_init="zeros")
        >>> load_param_into_net(net, found)
        ([], [])
        >>> net.weight.asnumpy().tolist()
        [[1.0, 1.0]]
    """
    path = _named(ckpt_file_name, format)
    for name, value in (("integrated_save", integrated_save), ("crc_check", crc_check)):
        boolean("save_checkpoint", name, value)
    _refuse_encryption("save_checkpoint", enc_key)
    if format != "ckpt" and crc_check:
        raise GraphValueError("Only a file of the format 'ckpt' has a crc_check.")
    for name in kwargs.keys() - set(IGNORED):
        raise GraphTypeError(f"save_checkpoint has no argument {name!r}.")
    if boolean("save_checkpoint", "async_save", async_save) and format == SHARDS:
        raise GraphValueError("Processes save shards together, so the format 'shards' has no async_save.")
    entries = entries_of(save_obj, append_dict, choice_func, parts_of if format == SHARDS else entry_of)
    if format == SHARDS:
        background.settle()
        save_shards(path, entries)
    elif async_save:
        background.start(lambda: _write(path, entries, format, crc_check))
    else:
        background.settle()
        checked(_write, path, entries, format, crc_check)


def load_checkpoint(
    ckpt_file_name: str | os.PathLike[str], net: Any = None, strict_load: bool = False,
    filter_prefix: str | Iterable[str] | None = None, dec_key: bytes | None = None, dec_mode: str = "AES-GCM",
    specify_prefix: str | Iterable[str] | None = None, choice_func: Choice | None = None, crc_check: bool = False,
    remove_redundancy: bool = False, format: str = "ckpt",
) -> dict[str, Any]:  # fmt: skip
    """The content of a checkpoint file, a Parameter or a string by name; with `net` it is loaded into that, too.

    The ending of the name, `.ckpt` or `.safetensors`, is the format; a folder, or the `model.safetensors.index.json` in
    it, has files of safetensors in shards, also such as other programs have written. Names that begin with
    `filter_prefix`, or one of them, are left out, and with `specify_prefix` all others, and those that
    `choice_func(name)` is false for.
    `crc_check` compares the checksum, where there is one. See `load_param_into_net` for `net`, `strict_load` and
    `remove_redundancy`. Nothing in a file is executed.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, and GraphValueError for a file that is
    missing, cannot be read, is damaged, or of which all entries are filtered out.

    Examples:
        >>> from graphls import nn, tensor
        >>> from graphls.train import load_checkpoint, save_checkpoint
        >>> save_checkpoint(nn.Dense(2, 1, weight_init="ones", bias_init="zeros"), "dense.ckpt")
        >>> found = load_checkpoint("dense.ckpt")
        >>> list(found), found["weight"].asnumpy()
        (['weight', 'bias'], array([[1., 1.]], dtype=float32))
        >>> net = nn.Dense(2, 1)
        >>> found = load_checkpoint("dense.ckpt", net)
        >>> net(tensor([[1.0, 2.0]]))
        Tensor(shape=[1, 1], dtype=Float32, value=[[3.]])
    """
    boolean("load_checkpoint", "crc_check", crc_check)
    _check_format("load_checkpoint", format)
    filters, specified = _prefixes("filter_prefix", filter_prefix), _prefixes("specify_prefix", specify_prefix)
    path = _existing(ckpt_file_name)
    _refuse_encryption("load_checkpoint", dec_key)

    def is_selected(name: str) -> bool:
        if name.startswith(filters or ()) or (specified is not None and not name.startswith(specified)):
            return False
        return choice_func is None or choice_func(name) is not False

    entries = {name: entry for name, entry in _read(path, crc_check).items() if is_selected(name)}
    if not entries:
        raise GraphValueError(
            "The loaded parameter dict is empty after filter or specify, please check whether 'filter_prefix' or "
            f"'specify_prefix' are set correctly; the file is {path}.",
        )
    parameters = {n: e if isinstance(e, str) else Parameter.holding(e, n) for n, e in entries.items()}
    if net is not None:
        load_param_into_net(net, parameters, strict_load, remove_redundancy)
    return parameters


def load_checkpoint_async(*arguments: Any, **options: Any) -> Future[dict[str, Any]]:
    """`load_checkpoint` on a thread: `.result()` of the returned future waits, and returns or raises as that does.

    Examples:
        >>> from graphls import nn
        >>> from graphls.train import load_checkpoint_async, save_checkpoint
        >>> save_checkpoint(nn.Dense(2, 1), "dense.ckpt")
        >>> waiting = load_checkpoint_async("dense.ckpt")
        >>> list(waiting.result())
        ['weight', 'bias']
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="graphls-checkpoint")
    try:
        return pool.submit(load_checkpoint, *arguments, **options)
    finally:
        pool.shutdown(wait=False)


def _write(path: Path, entries: dict[str, Entry], format: str, crc_check: bool) -> None:
    if format == "safetensors":
        write_parts(path, [safetensors_format.encode(entries)])
    else:
        write_parts(path, checkpoint_format.encode(entries, crc_check))


def _read(path: Path, crc_check: bool) -> Mapping[str, Entry | shards_format.StoredTensor]:
    try:
        if path.is_dir():
            return shards_format.decode(path)
        data = read_bytes(path)
        if path.suffix == ".safetensors":
            return safetensors_format.decode(data)
        if crc_check and not checkpoint_format.has_crc(data):
            warn(f"The checkpoint file {path} has no crc, so nothing is compared.")
        return checkpoint_format.decode(data, crc_check)
    except (GraphFileError, GraphValueError) as error:
        raise GraphValueError(f"Failed to read the checkpoint file {path}: {error.message.rstrip('.')}.") from None


def _named(name: object, format: object) -> Path:
    """The file to save to, with its ending."""
    _check_format("save_checkpoint", format)
    text = _text("save_checkpoint", name)
    if format == SHARDS:
        return Path(text)
    return Path(text if text.endswith(f".{format}") else f"{text}.{format}")


def _existing(name: object) -> Path:
    text = _text("load_checkpoint", name)
    path = Path(text)
    is_folder = os.path.isdir(path)  # which is False for a name that no file can have; Path.is_dir raises
    if is_folder and (path.suffix not in (".ckpt", ".safetensors") or (path / shards_format.INDEX).exists()):
        return path
    if path.name == shards_format.INDEX:
        return path.parent
    if path.suffix not in (".ckpt", ".safetensors"):
        raise GraphValueError(
            "For 'load_checkpoint', the checkpoint file should end with '.ckpt' or '.safetensors', please input the "
            f"correct 'ckpt_file_name', not {text!r}.",
        )
    background.wait()
    if not os.path.isfile(path):
        raise GraphValueError(
            f"For 'load_checkpoint', the checkpoint file: {text} does not exist, please check whether the "
            "'ckpt_file_name' is correct.",
        )
    return path


def _text(function: str, name: object) -> str:
    if not isinstance(name, (str, os.PathLike)):
        raise GraphTypeError(f"For {function!r}, the argument 'ckpt_file_name' must be string, but got {type(name)}.")
    text = os.fsdecode(name)
    if "\0" in text or not os.path.basename(text):
        raise GraphValueError(f"For {function!r}, {text!r} is not the name of a file.")
    return text


def _check_format(function: str, format: object) -> None:
    if format not in FORMATS:
        raise GraphValueError(f"For {function!r}, the format must be one of {list(FORMATS)}, but got {format!r}.")


def _refuse_encryption(function: str, key: object) -> None:
    if key is None:
        return
    if not isinstance(key, bytes):
        raise GraphTypeError(f"For {function!r}, a key is bytes or None, but got {type(key)}.")
    raise GraphValueError(refusal("encryption", f"the key of {function!r}"))


def _prefixes(name: str, prefix: object) -> tuple[str, ...] | None:
    if prefix is None:
        return None
    prefixes = (prefix,) if isinstance(prefix, str) else prefix
    if not isinstance(prefixes, (list, tuple)) or not all(isinstance(item, str) for item in prefixes):
        raise GraphTypeError(
            f"For 'load_checkpoint', the type of {name!r} must be str, list[str] or tuple[str], but got {prefix!r}.",
        )
    if not prefixes or "" in prefixes:
        raise GraphValueError(f"For 'load_checkpoint', the value of {name!r} can't be or include ''.")
    return tuple(prefixes)
