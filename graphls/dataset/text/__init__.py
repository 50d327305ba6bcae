"""Operations on strings, for `map`, as MindSpore's `dataset.text` has them."""

from graphls.dataset.text.strings import (
    AddToken,
    CaseFold,
    Ngram,
    NormalizeForm,
    NormalizeUTF8,
    RegexReplace,
    SlidingWindow,
    ToNumber,
    Truncate,
    TruncateSequencePair,
    to_bytes,
    to_str,
)
from graphls.dataset.text.tokenizers import (
    BasicTokenizer,
    BertTokenizer,
    PythonTokenizer,
    RegexTokenizer,
    UnicodeCharTokenizer,
    UnicodeScriptTokenizer,
    WhitespaceTokenizer,
    WordpieceTokenizer,
)  # fmt: skip
from graphls.dataset.text.vocab import Lookup, Vocab

__all__ = [
    "AddToken", "BasicTokenizer", "BertTokenizer", "CaseFold", "Lookup", "Ngram", "NormalizeForm", "NormalizeUTF8",
    "PythonTokenizer", "RegexReplace", "RegexTokenizer", "SlidingWindow", "ToNumber", "Truncate",
    "TruncateSequencePair", "UnicodeCharTokenizer", "UnicodeScriptTokenizer", "Vocab", "WhitespaceTokenizer",
    "WordpieceTokenizer", "to_bytes", "to_str",
]  # fmt: skip
