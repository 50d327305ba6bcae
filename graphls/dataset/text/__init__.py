"""Operations on strings, for `map`, as MindSpore's `dataset.text` has them."""

from graphls.dataset.text import pretrained, strings, tokenizers, vocab
from graphls.dataset.text.pretrained import *  # noqa: F403
from graphls.dataset.text.strings import *  # noqa: F403
from graphls.dataset.text.tokenizers import *  # noqa: F403
from graphls.dataset.text.vocab import *  # noqa: F403

__all__ = [*pretrained.__all__, *strings.__all__, *tokenizers.__all__, *vocab.__all__]
