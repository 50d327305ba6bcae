"""Operations on strings; tokens and offsets as MindSpore 2.10 gives them."""

from __future__ import annotations

import pickle
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.dataset import text
from graphls.dataset.text import NormalizeForm, Vocab
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

MIXED = "中国 has 北京's  café. \tÀÉ"
WORDS = Vocab.from_list(["my", "favor", "##ite", "book", "un", "##aff", "##able", "[UNK]", "##unk", "12", "+", "床"])


def tokens(operation: Any, column: Any) -> Any:
    result = operation(np.array(column))
    return [part.tolist() for part in result] if isinstance(result, tuple) else result.tolist()


TOKENIZED: list[tuple[Any, str, Any]] = [
    (text.WhitespaceTokenizer(), MIXED, ["中国", "has", "北京's", "café.", "ÀÉ"]),
    (text.WhitespaceTokenizer(True), "a\u00a0é  b", [["a", "é", "b"], [0, 3, 7], [1, 5, 8]]),
    (text.UnicodeCharTokenizer(True), "é国", [["é", "国"], [0, 2], [2, 5]]),
    (text.UnicodeScriptTokenizer(), MIXED, ["中国", "has", "北京", "'", "s", "café", ".", "ÀÉ"]),
    (text.UnicodeScriptTokenizer(True), "to  中!", ["to", "  ", "中", "!"]),
    (text.UnicodeScriptTokenizer(), "d\uff21c\uff76\u30ab", ["d\uff21c", "\uff76\u30ab"]),
    (text.RegexTokenizer(r"\s+", r"\s+"), "a  b", ["a", "  ", "b"]),
    (text.RegexTokenizer("[aeiou]", "[ae]", True), "Welcome",
     [["W", "e", "lc", "m", "e"], [0, 1, 2, 5, 6], [1, 2, 4, 6, 7]]),
    (text.RegexTokenizer(""), "ab", ["a", "b"]),
    (text.BasicTokenizer(), MIXED, ["中", "国", "has", "北", "京", "'", "s", "café", ".", "ÀÉ"]),
    (text.BasicTokenizer(True), MIXED, ["中", "国", "has", "北", "京", "'", "s", "cafe", ".", "ae"]),
    (text.BasicTokenizer(keep_whitespace=True), "a  b\n!", ["a", "  ", "b", " ", "!"]),
    (text.BasicTokenizer(), "12+3 [CLS] [unused7]", ["12", "+", "3", "[CLS]", "[unused7]"]),
    (text.BasicTokenizer(True), "[UNK] [UNX]", ["[UNK]", "[", "unx", "]"]),
    (text.BasicTokenizer(preserve_unused_token=False), "[SEP]", ["[", "SEP", "]"]),
    (text.BasicTokenizer(True, True, with_offsets=True), "À b", [["a", " ", "b"], [0, 1, 2], [1, 2, 3]]),
    (text.BasicTokenizer(normalization_form=NormalizeForm.NFKC), "ﬁ①", ["fi1"]),
    (text.BasicTokenizer(), "a\x00b\u200b", ["a", "b"]),
    (text.BasicTokenizer(True), "a\u200bb\u00adc", ["abc"]),
    (text.BasicTokenizer(keep_whitespace=True), ".\n\u00ad B", [".", "   ", "B"]),
    (text.BasicTokenizer(), "a\u060cb\u0964c\ufe33d", ["a", "\u060c", "b", "\u0964", "c", "\ufe33", "d"]),
    (text.BasicTokenizer(normalization_form=NormalizeForm.NFKD), "\u00bdD\u2e80", ["1\u20442D\u2e80"]),
    (text.BasicTokenizer(), "1\u20442\uff0b3\ufffd", ["1\u20442\uff0b3\ufffd"]),
    (text.UnicodeScriptTokenizer(), "g[\u20260a 12], ?9B", ["g", "[\u20260", "a", "12],", "?9", "B"]),
    (text.PythonTokenizer(str.split), "a b", ["a", "b"]),
    (text.WordpieceTokenizer(WORDS), ["my", "favorite", "unaffable", "xy"],
     ["my", "favor", "##ite", "un", "##aff", "##able", "[UNK]"]),
    (text.WordpieceTokenizer(WORDS, unknown_token="", with_offsets=True), ["unaffable", "zé"],
     [["un", "##aff", "##able", "zé"], [0, 2, 5, 0], [2, 5, 9, 3]]),
    (text.WordpieceTokenizer(WORDS, max_bytes_per_token=5), ["book", "unaffable"], ["book", "[UNK]"]),
    (text.BertTokenizer(WORDS, lower_case=True), "My BOOK+床 unk", ["my", "book", "+", "床", "[UNK]"]),
    (text.BertTokenizer(WORDS, with_offsets=True), "12+unaffable",
     [["12", "+", "un", "##aff", "##able"], [0, 2, 3, 5, 8], [2, 3, 5, 8, 12]]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TOKENIZED)))
def test_tokens(number: int) -> None:
    operation, given, wanted = TOKENIZED[number]
    assert tokens(operation, given) == wanted
    result = operation(np.array(given))
    offsets = result[1:] if isinstance(result, tuple) else ()
    assert all(part.dtype == np.uint32 for part in offsets)
    assert tokens(pickle.loads(pickle.dumps(operation)), given) == wanted


def test_offsets_are_the_places_of_the_tokens() -> None:
    given = MIXED.replace("\t", " ")
    operations: list[Any] = [text.WhitespaceTokenizer(True), text.UnicodeScriptTokenizer(True, True)]
    for operation in [*operations, text.BasicTokenizer(with_offsets=True)]:
        found, starts, ends = operation(np.array(given))
        for token, start, end in zip(found, starts, ends, strict=True):
            assert given.encode()[start:end].decode() == token


def test_an_empty_string_has_an_empty_token() -> None:
    operations: list[Any] = [text.WhitespaceTokenizer(), text.UnicodeCharTokenizer(), text.RegexTokenizer(" ")]
    for operation in [*operations, text.BasicTokenizer()]:
        assert tokens(operation, "") == [""]
    assert tokens(text.WhitespaceTokenizer(True), "  ") == [[""], [0], [0]]


def test_tokenizers_take_one_string() -> None:
    operations: list[Any] = [text.WhitespaceTokenizer(), text.BasicTokenizer(), text.PythonTokenizer(list)]
    for operation in [*operations, text.BertTokenizer(WORDS)]:
        with pytest.raises(GraphRuntimeError, match="takes one string"):
            operation(np.array(["a", "b"]))
        for wrong in (np.array(3), np.array(b"abc")):
            with pytest.raises(GraphRuntimeError, match="takes strings"):
                operation(wrong)


def test_spellings() -> None:
    column = np.array([["ẞÄ ABC", "ﬁ①"], ["Å", ""]])
    assert text.CaseFold()(column).tolist() == [["ssä abc", "fi1"], ["å", ""]]
    for form in NormalizeForm:
        name: Any = form.name
        words = column.reshape(-1).tolist()
        wanted = words if name == "NONE" else [unicodedata.normalize(name, word) for word in words]
        assert text.NormalizeUTF8(form)(column).reshape(-1).tolist() == wanted


def test_replacements() -> None:
    column = np.array(["Welcome", "to 北京"])
    assert text.RegexReplace("[aeiou]", "*")(column).tolist() == ["W*lc*m*", "t* 北京"]
    assert text.RegexReplace("[aeiou]", "*", False)(column).tolist() == ["W*lcome", "t* 北京"]
    assert text.RegexReplace(r"(\w)o", "$1_")(column).tolist() == ["Welc_me", "t_ 北京"]
    assert text.RegexReplace(r"\p{Han}", "\\")(column).tolist() == ["Welcome", "to \\\\"]
    for wrong in (lambda: text.RegexReplace("[", "*"), lambda: text.RegexTokenizer("(")):
        with pytest.raises(GraphValueError, match="not a regular expression"):
            wrong()
    with pytest.raises(GraphValueError, match="does not fit"):
        text.RegexReplace("a", "$3")(np.array("a"))


def test_sequences() -> None:
    five = np.array(["a", "b", "c", "d", "e"])
    assert text.Truncate(2)(np.arange(12).reshape(3, 4)).tolist() == [[0, 1], [4, 5], [8, 9]]
    assert text.Truncate(9)(five).tolist() == five.tolist()
    assert text.AddToken("[SEP]", False)(np.array([["a"], ["b"]])).tolist() == [["a", "[SEP]"], ["b", "[SEP]"]]
    assert text.AddToken("[CLS]")(five)[0] == "[CLS]"
    assert text.Ngram([1, 4])(five).tolist() == [*five, "a b c d", "b c d e"]
    assert text.Ngram(3, ("_", 5), ("_", 1), "-")(five[:2]).tolist() == ["_-_-a", "_-a-b", "a-b-_"]
    assert text.Ngram(7)(five).tolist() == [""]
    assert text.SlidingWindow(3)(np.arange(5)).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert text.SlidingWindow(6)(five).shape == (0, 6)
    for operation in (text.Truncate(2), text.SlidingWindow(2), text.Ngram(2), text.AddToken("a")):
        with pytest.raises(GraphRuntimeError):
            operation(np.array("word"))


@pytest.mark.parametrize("limit", range(10))
def test_truncated_pairs_lose_the_end_of_the_longer_one(limit: int) -> None:
    for lengths in ((4, 3), (3, 4), (1, 6), (5, 5), (0, 3)):
        first, second = lengths
        while first + second > limit:
            first, second = (first - 1, second) if first > second else (first, second - 1)
        found = text.TruncateSequencePair(limit)(np.arange(lengths[0]), np.arange(lengths[1]))
        assert [part.tolist() for part in found] == [list(range(first)), list(range(second))]


def test_numbers_of_strings() -> None:
    column = np.array([["1", "-2"], ["33", "0"]])
    for dtype in (graphls.int8, graphls.int64, graphls.float16, np.float64):
        result = text.ToNumber(dtype)(column)
        assert result.tolist() == [[1, -2], [33, 0]] and result.dtype == np.dtype(getattr(dtype, "numpy", dtype))
    assert text.ToNumber("float32")(np.array(["1.5", "-2e3", "inf"])).tolist() == [1.5, -2000, np.inf]
    assert np.isnan(text.ToNumber("float16")(np.array("nan")))
    numbers = {"int8": "300", "uint8": "-1", "int32": "1.5", "int64": "x", "float32": "", "float16": "1e6"}
    for dtype, wrong in numbers.items():
        with pytest.raises(GraphRuntimeError, match="ToNumber"):
            text.ToNumber(dtype)(np.array(wrong))
    for dtype in ("bool", "str", "abc"):
        with pytest.raises(GraphTypeError):
            text.ToNumber(dtype)


def test_bytes_and_strings() -> None:
    column = np.array(["abc", "中"])
    for encoding in ("utf8", "gbk"):
        coded = text.to_bytes(column, encoding)
        assert coded.tolist() == [word.encode(encoding) for word in column]
        assert text.to_str(coded, encoding).tolist() == column.tolist()
    assert text.to_str(column).tolist() == column.tolist()
    for wrong in ([1, 2], "a", np.array([1])):
        with pytest.raises(GraphTypeError):
            text.to_str(wrong)
    for array, encoding in ((np.array([b"\xff"]), "utf8"), (np.array([b"a"]), "no such one")):
        with pytest.raises(GraphValueError):
            text.to_str(array, encoding)


def test_vocabularies(tmp_path: Path) -> None:
    assert Vocab.from_list(["a", "b"], ["<pad>"]).vocab() == {"<pad>": 0, "a": 1, "b": 2}
    assert Vocab.from_list(["a", "b"], ["<pad>"], False).vocab() == {"a": 0, "b": 1, "<pad>": 2}
    assert Vocab.from_dict({"a": 0, "b": 5}).ids_to_tokens([5, 0, 3]) == ["b", "a", ""]
    vocab = Vocab.from_list(["a", "b", "c"])
    assert (vocab.tokens_to_ids("b"), vocab.tokens_to_ids(["c", "zz"]), vocab.ids_to_tokens(2)) == (1, [2, -1], "c")
    assert vocab.tokens_to_ids(np.array(["a"])) == [0] and vocab.ids_to_tokens(np.array([1, 2])) == ["b", "c"]
    path = tmp_path / "vocab.txt"
    path.write_text("a,1\r\nb,2\nc\n", encoding="utf-8")
    assert Vocab.from_file(str(path), ",").vocab() == {"a": 0, "b": 1, "c": 2}
    assert Vocab.from_file(str(path), ",", 2, ["<pad>"]).vocab() == {"<pad>": 0, "a": 1, "b": 2}
    assert "a,1" in Vocab.from_file(str(path))
    path.write_bytes(b"\xff\xfe\n")
    for wrong in (path, tmp_path / "absent"):
        with pytest.raises(GraphRuntimeError, match="cannot be read"):
            Vocab.from_file(str(wrong))


def test_a_vocabulary_of_the_words_of_a_data_set() -> None:
    words = [["b", "a", "b"], ["c", "b", "a"]]
    rows = [{"text": np.array(line), "label": np.array(number)} for number, line in enumerate(words)]
    assert Vocab.from_dataset(rows, "text").vocab() == {"b": 0, "a": 1, "c": 2}
    assert Vocab.from_dataset(rows, ["text"], top_k=1, special_tokens=["<pad>"]).vocab() == {"<pad>": 0, "b": 1}
    assert Vocab.from_dataset(rows, "text", freq_range=(2, 2)).vocab() == {"a": 0}
    assert Vocab.from_dataset(rows, "text", freq_range=(None, 2)).vocab() == {"a": 0, "c": 1}
    assert Vocab.from_dataset([["z", "y"], ("z",), "x"]).vocab() == {"z": 0, "x": 1, "y": 2}
    with pytest.raises(GraphValueError, match="no column 'txt'"):
        Vocab.from_dataset(rows, "txt")
    with pytest.raises(GraphTypeError, match="consists of strings"):
        Vocab.from_dataset(rows)
    for wrong in ("word", 3):
        with pytest.raises(GraphTypeError, match="iterable of rows"):
            Vocab.from_dataset(wrong)  # type: ignore[arg-type]


def test_lookup() -> None:
    vocab = Vocab.from_list(["a", "b", "[UNK]"])
    column = np.array([["a", "zz"], ["b", "b"]])
    result = text.Lookup(vocab, "[UNK]")(column)
    assert result.tolist() == [[0, 2], [1, 1]] and result.dtype == np.int32
    assert text.Lookup(vocab, "a", graphls.float32)(column).dtype == np.float32
    with pytest.raises(GraphRuntimeError, match="'zz' is not in the vocabulary"):
        text.Lookup(vocab)(column)
    with pytest.raises(GraphRuntimeError, match="takes strings"):
        text.Lookup(vocab)(np.array([1]))


VALUES = """
Vocab.from_list(['a', 'a']) | Vocab.from_list(['a'], ['a']) | Vocab.from_list(['a'], ['s', 's'])
Vocab.from_dict({'a': -1}) | Vocab.from_file('f', ',', 0) | Vocab.from_list([]).ids_to_tokens(-1) | Truncate(0)
Lookup(Vocab.from_list(['a']), 'b') | WordpieceTokenizer(Vocab(), max_bytes_per_token=-1) | TruncateSequencePair(-1)
Ngram(0) | Ngram([]) | Ngram('a') | Ngram(2, ('_', -1)) | Ngram(2, '_') | Ngram(2, (1, 1)) | SlidingWindow(0)
Vocab.from_dataset([], freq_range=(3, 1)) | Vocab.from_dataset([], top_k=0)
"""
TYPES = """
Vocab.from_list('a') | Vocab.from_list([1]) | Vocab.from_list(['a'], 's') | Vocab.from_list(['a'], ['s'], 1)
Vocab.from_dict(['a']) | Vocab.from_dict({'a': 'x'}) | Vocab.from_dict({1: 1}) | Vocab.from_file(1) | Truncate('a')
Vocab.from_file('f', 1) | Vocab().tokens_to_ids(1) | Vocab().tokens_to_ids([1]) | Vocab().ids_to_tokens('a')
Vocab().ids_to_tokens(1.5) | Vocab().ids_to_tokens(True) | Lookup(1) | Lookup(Vocab(), 1) | Lookup(Vocab(), None, 'str')
WordpieceTokenizer(Vocab(), unknown_token=1) | WordpieceTokenizer(1) | BasicTokenizer(1) | BasicTokenizer(False, 1)
BasicTokenizer(normalization_form=1) | NormalizeUTF8(1) | RegexReplace(1, 'a') | RegexReplace('a', 1)
RegexReplace('a', 'b', 1) | RegexTokenizer(1) | PythonTokenizer(1) | UnicodeCharTokenizer(1) | AddToken(1)
AddToken('a', 1) | Ngram([2, 'a']) | Ngram(2, separator=1) | SlidingWindow('a') | SlidingWindow(2, 'a')
TruncateSequencePair('a') | ToNumber(None) | Vocab.from_dataset([], freq_range=3)
"""


def each(table: str) -> list[str]:
    return [one for line in table.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("operation", each(VALUES) + each(TYPES))
def test_wrong_arguments(operation: str) -> None:
    with pytest.raises(GraphValueError if operation in each(VALUES) else GraphTypeError, match=r"script\.py:1"):
        eval(compile(operation, "script.py", "eval"), {name: getattr(text, name) for name in text.__all__})
