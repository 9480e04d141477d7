"""Many modules of one architecture as one module with a leading dimension.

Where a module applies a matrix, its stack applies one matrix per member, by batched products; all
other operations of our models act row by row and broadcast over the new dimension.
`torch.func.vmap` does this for any module; this code, with a network's layers in one function,
takes about two thirds of its time.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Stack"]


class Stack:
    """Several modules as one: entry i of every argument's first dimension goes through member i.

    Parameters
    ----------
    members : modules of equal architecture; their parameters do not change before `unload`.

    Attributes
    ----------
    module : accepts tensors (k, ...), where k is the number of members

    >>> members = [nn.Linear(3, 2) for _ in range(4)]
    >>> x = torch.ones(4, 5, 3)
    >>> torch.allclose(Stack(members).module(x)[1], members[1](x[1]))
    True
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        self.members = list(members)
        self._stacked: list[tuple[nn.Parameter, list[nn.Parameter]]] = []
        self.module = self._stack(copy.deepcopy(self.members[0]), self.members)

    def parameters(self) -> list[nn.Parameter]:
        """Return the stacked parameters, each (k, ...)."""
        return [stacked for stacked, _ in self._stacked]

    def keep(self, which: Tensor) -> None:
        """Keep only the members with the given indices in the stack's parameters."""
        for stacked, _ in self._stacked:
            stacked.data = stacked.data[which]
            stacked.grad = None

    def unload(self, number: int, values: Sequence[Tensor]) -> None:
        """Copy the parameters of member ``number`` from ``values`` of all members."""
        with torch.no_grad():
            for (_, own), value in zip(self._stacked, values, strict=True):
                own[number].copy_(value[number].reshape(own[number].shape))

    def _stack(self, module: nn.Module, peers: Sequence[nn.Module]) -> nn.Module:
        if linear := _layers(module):
            return _Network(
                [
                    (
                        self._parameter([_layers(peer)[i].weight for peer in peers]),
                        self._parameter([_layers(peer)[i].bias for peer in peers]),
                    )
                    for i in range(len(linear))
                ],
                [_mask(layer) for layer in linear],
            )
        for name, child in list(module.named_children()):
            setattr(module, name, self._stack(child, [getattr(peer, name) for peer in peers]))
        for name in [name for name, _ in module.named_parameters(recurse=False)]:
            # A parameter becomes (k, 1, ...), to broadcast over rows (k, rows, ...).
            stacked = self._parameter([peer.get_parameter(name) for peer in peers], rows=True)
            if isinstance(module, nn.ParameterList):
                module[int(name)] = stacked
            else:
                setattr(module, name, stacked)
        return module

    def _parameter(self, own: Sequence[Any], *, rows: bool = False) -> nn.Parameter:
        value = torch.stack([one.detach() for one in own])
        stacked = nn.Parameter(value.unsqueeze(1) if rows else value)
        self._stacked.append((stacked, list(own)))
        return stacked


def _layers(module: nn.Module) -> list[Any]:
    """Return the matrices of a network of matrices and ReLUs only; empty for others."""
    if hasattr(module, "weight") and hasattr(module, "bias"):
        return [module] if _matrix(module) else []
    if not isinstance(module, nn.Sequential):
        return []
    parts = list(module)
    matrices, between = parts[::2], parts[1::2]
    plain = all(map(_matrix, matrices)) and all(type(one) is nn.ReLU for one in between)
    return matrices if plain and len(matrices) == len(between) + 1 else []


def _matrix(module: nn.Module) -> bool:
    """Return whether a module is y = W x + b, with or without a mask on W."""
    kind = type(module)
    if kind is not nn.Linear:
        import zuko

        if kind not in (zuko.nn.Linear, zuko.nn.MaskedLinear):
            return False
    weight = getattr(module, "weight", None)
    return weight is not None and weight.dim() == 2 and module.bias is not None


def _mask(layer: nn.Module) -> Tensor | None:
    """Return the mask of a matrix; None if it is known to mask nothing."""
    mask = getattr(layer, "mask", None)
    if mask is None:
        return None
    # Only on the CPU, testing the mask costs less than the multiplication.
    return None if mask.device.type == "cpu" and bool(mask.all()) else mask.float()


class _Network(nn.Module):
    """Matrices with ReLUs between: (k, rows, in) to (k, rows, out)."""

    def __init__(
        self,
        layers: Sequence[tuple[nn.Parameter, nn.Parameter]],
        masks: Sequence[Tensor | None],
    ) -> None:
        super().__init__()
        self.parts = nn.ParameterList([part for layer in layers for part in layer])
        self._masks = list(masks)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = _Layers.apply(x, self._masks, *self.parts)  # type: ignore[no-untyped-call]
        return out


class _Layers(torch.autograd.Function):
    """All layers of a network; activations are rectified in place and stored once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, masks: list[Tensor | None], *parts: Tensor) -> Tensor:
        weights = [
            weight if mask is None else weight * mask
            for weight, mask in zip(parts[::2], masks, strict=True)
        ]
        inputs = [x]
        for layer, (weight, bias) in enumerate(zip(weights, parts[1::2], strict=True)):
            out = torch.baddbmm(bias.unsqueeze(1), inputs[-1], weight.transpose(1, 2))
            inputs.append(out if layer == len(weights) - 1 else out.relu_())
        ctx.save_for_backward(*inputs[:-1], *weights)
        ctx.masks = masks
        return inputs[-1]

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        depth = len(ctx.masks)
        inputs, weights = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        slopes: list[Tensor] = []
        for layer in reversed(range(depth)):
            slopes.append(slope.sum(1))
            by_weight = torch.bmm(slope.transpose(1, 2), inputs[layer])
            mask = ctx.masks[layer]
            slopes.append(by_weight if mask is None else by_weight.mul_(mask))
            if layer == 0 and not ctx.needs_input_grad[0]:
                return None, None, *reversed(slopes)
            slope = torch.bmm(slope, weights[layer])
            if layer:
                slope = torch.ops.aten.threshold_backward(slope, inputs[layer], 0)
        return slope, None, *reversed(slopes)
