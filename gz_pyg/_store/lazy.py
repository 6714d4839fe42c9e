"""LazyTensor: a tensor of known size whose values are made when an operation first needs them.

It stands for what a store holds in another form than PyG shows: `edge_index`, edge columns in the order of
the edges, columns that are stored as float16 or int8 and read as float32, and those that are to be on another
device. Sizes, dtype and device cost nothing; so PyG may
iterate over all attributes of a graph (`repr`, `num_edges`, `is_cuda`, ...) without reading a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

if TYPE_CHECKING:
    from gz_pyg._store.stored import Stored

_METHODS = (
    "size dim numel nelement ndimension element_size is_floating_point is_complex is_signed get_device "
    "__len__"
)
_PROPERTIES = (
    "shape dtype device layout ndim nbytes itemsize names is_cuda is_cpu is_meta is_xpu is_mps is_sparse "
    "is_sparse_csr is_quantized is_nested is_mkldnn"
)
_ABOUT_ITS_FORM = {getattr(Tensor, name) for name in _METHODS.split() if hasattr(Tensor, name)} | {
    getattr(Tensor, name).__get__ for name in _PROPERTIES.split() if hasattr(Tensor, name)
}


class LazyTensor(Tensor):
    """Shows a ``Stored``. Every operation is done on ``stored.whole()``: writes in place stay there."""

    stored: Stored

    @staticmethod
    def __new__(cls, stored: Stored) -> LazyTensor:
        self = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, stored.shape, dtype=stored.dtype, device=stored.device
        )
        self.stored = stored
        return self

    def __init__(self, stored: Stored):
        pass

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _ABOUT_ITS_FORM:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if func is Tensor.__getitem__ and isinstance(args[0], LazyTensor):
            rows = args[0].stored.pick(args[1])
            if rows is not None:
                return rows
        return func(*_whole(args), **_whole(kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return func(*_whole(args), **_whole(kwargs or {}))  # operations that do not come from Python

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.stored.version:  # written to: the files no longer say what it is
            return self.stored.whole().detach().__reduce_ex__(protocol)
        return _show, (self.stored,)

    def __copy__(self) -> LazyTensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.stored.whole().clone()


def _show(stored: Stored) -> Any:
    return stored.value()


def _whole(values: Any) -> Any:
    return tree_map_only(LazyTensor, lambda tensor: tensor.stored.whole(), values)
