"""Operations on columns of any kind, for `map`, as MindSpore's `dataset.transforms` has them."""

from graphls.dataset.transforms.operations import *  # noqa: F403
from graphls.dataset.transforms.operations import __all__ as __all__
