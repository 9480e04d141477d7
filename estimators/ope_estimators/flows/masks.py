"""Masked layers of zuko, for training one flow without two products of a mask at every step.

Every number has the bits that the masked layers give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["fold_masks"]


def fold_masks(module: torch.nn.Module) -> None:
    """Replace masked layers in place by linear ones whose weights are zero outside the mask.

        x (A * W)^T + b = x V^T + b,   V = A * W

    V starts masked and stays so, because its gradient is masked: decay keeps a zero weight at
    zero. The product with A, and that in its derivative, are one product of the gradient.

    Parameters
    ----------
    module : a flow that is trained alone; a stack of flows applies masks itself.
    """
    from zuko.nn import MaskedLinear

    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(layer, MaskedLinear):
                setattr(parent, name, _folded(layer))


def _folded(layer: Any) -> torch.nn.Linear:
    import torch

    mask = layer.mask.to(layer.weight.dtype)
    # Without initial values, which would be drawn from torch's own stream.
    linear: torch.nn.Linear = torch.nn.utils.skip_init(  # type: ignore[no-untyped-call]
        torch.nn.Linear, layer.in_features, layer.out_features, device=mask.device
    )
    linear.weight = torch.nn.Parameter(layer.weight.detach() * mask)
    linear.bias = layer.bias
    linear.weight.register_hook(mask.mul)  # type: ignore[no-untyped-call]
    return linear
