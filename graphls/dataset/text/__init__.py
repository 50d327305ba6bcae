"""Operations on strings, for `map`, as MindSpore's `dataset.text` has them."""

from graphls.dataset.text.bert import BasicTokenizer, BertTokenizer, WordpieceTokenizer
from graphls.dataset.text.normal_forms import CaseFold, NormalizeForm, NormalizeUTF8
from graphls.dataset.text.patterns import RegexReplace
from graphls.dataset.text.sequences import AddToken, Ngram, SlidingWindow, ToNumber, Truncate, TruncateSequencePair
from graphls.dataset.text.strings import to_bytes, to_str
from graphls.dataset.text.tokenizers import (
    PythonTokenizer,
    RegexTokenizer,
    UnicodeCharTokenizer,
    UnicodeScriptTokenizer,
    WhitespaceTokenizer,
)
from graphls.dataset.text.vocab import Lookup, Vocab

__all__ = [
    "AddToken",
    "BasicTokenizer",
    "BertTokenizer",
    "CaseFold",
    "Lookup",
    "Ngram",
    "NormalizeForm",
    "NormalizeUTF8",
    "PythonTokenizer",
    "RegexReplace",
    "RegexTokenizer",
    "SlidingWindow",
    "ToNumber",
    "Truncate",
    "TruncateSequencePair",
    "UnicodeCharTokenizer",
    "UnicodeScriptTokenizer",
    "Vocab",
    "WhitespaceTokenizer",
    "WordpieceTokenizer",
    "to_bytes",
    "to_str",
]
