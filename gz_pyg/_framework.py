"""Imported first: says what to install where PyTorch or PyG is missing."""

from __future__ import annotations

try:
    import torch  # noqa: F401
    import torch_geometric  # noqa: F401
except ModuleNotFoundError as e:
    if e.name not in ("torch", "torch_geometric"):  # something that these need themselves
        raise
    raise ModuleNotFoundError(
        f"gz_pyg needs {e.name}, which is not installed: pip install torch torch_geometric, or "
        "pip install 'gz[pyg]' (a CPU build of torch: --index-url https://download.pytorch.org/whl/cpu)",
        name=e.name,
    ) from None
