"""Plugins whose parameters are written in either form."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from ope_bench import Estimate, Estimator


class Inner(Estimator):
    """With one parameter, and its own constructor."""

    def __init__(self, depth: Annotated[int, Ge(1)] = 3) -> None:
        self.depth = depth

    def estimate(self, view):
        return Estimate(0.0)


class InnerFields(Estimator):
    """With one parameter, as a field."""

    depth: Annotated[int, Ge(1)] = 3

    def estimate(self, view):
        return Estimate(0.0)


class Explicit(Estimator):
    """With parameters of all kinds, and its own constructor."""

    def __init__(
        self,
        kind: Literal["rbf", "box"] = "rbf",
        width: Annotated[float, Gt(0), Lt(10)] | None = None,
        folds: Annotated[int, Ge(2)] = 5,
        flag: bool = False,
        sizes: tuple[int, ...] = (100, 100),
        inner: Any = None,
    ) -> None:
        self.kind = kind
        self.width = width
        self.folds = folds
        self.flag = flag
        self.sizes = sizes
        self.inner = inner

    def estimate(self, view):
        return Estimate(0.0)


class Fields(Estimator):
    """The same parameters as fields."""

    kind: Literal["rbf", "box"] = "rbf"
    width: Annotated[float, Gt(0), Lt(10)] | None = None
    folds: Annotated[int, Ge(2)] = 5
    flag: bool = False
    sizes: tuple[int, ...] = (100, 100)
    inner: Any = None

    def estimate(self, view):
        return Estimate(0.0)
