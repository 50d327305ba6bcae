"""PretrainedTokenizer: tokenizers of the packages `tokenizers` and `transformers` in pipelines."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls.dataset import text

tokenizers = pytest.importorskip("tokenizers")

WORDS = {"[UNK]": 0, "[PAD]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "fine": 5, "day": 6}
TEXTS = ["a fine day", "day", "a a a a a a a a"]


def tokenizer(pad: str = "[PAD]") -> Any:
    words = {pad if word == "[PAD]" else word: index for word, index in WORDS.items()}
    result = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    result.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    result.post_processor = tokenizers.processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return result


def test_rows_and_batches_have_one_length_and_agree() -> None:
    operation = text.PretrainedTokenizer(tokenizer(), 5, columns=["input_ids", "attention_mask", "token_type_ids"])
    rows = ds.NumpySlicesDataset({"text": TEXTS, "n": [1, 2, 3]}, shuffle=False)
    outputs = ["input_ids", "mask", "types"]
    one_by_one = rows.map(operation, "text", outputs).batch(3)
    together = rows.batch(3).map(operation, "text", outputs)
    for dataset in (one_by_one, together):
        (row,) = dataset.create_dict_iterator(num_epochs=1, output_numpy=True)
        assert row["input_ids"].tolist() == [[2, 4, 5, 6, 3], [2, 6, 3, 1, 1], [2, 4, 4, 4, 3]]
        assert row["mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0], [1] * 5]
        assert (row["types"].sum(), row["input_ids"].dtype, row["n"].tolist()) == (0, np.int64, [1, 2, 3])


def test_pairs_lengths_and_dtypes() -> None:
    operation = text.PretrainedTokenizer(tokenizer(), columns=["input_ids", "token_type_ids"], dtype="int32")
    ids, kinds = operation("a day", "fine")
    assert (ids.tolist(), kinds.tolist(), ids.dtype) == ([2, 4, 6, 3, 5, 3], [0, 0, 0, 0, 1, 1], np.int32)
    assert text.PretrainedTokenizer(tokenizer(), columns="input_ids", padding=False)("day").tolist() == [2, 6, 3]
    longest = text.PretrainedTokenizer(tokenizer(), columns="input_ids")(np.array(TEXTS[:2]))
    assert longest.tolist() == [[2, 4, 5, 6, 3], [2, 6, 3, 1, 1]]
    with pytest.raises(RuntimeError, match="has texts of different lengths; give max_length, or leave padding on"):
        text.PretrainedTokenizer(tokenizer(), padding=False)(np.array(TEXTS))


def test_the_tokenizer_itself_stays_and_its_own_settings_count() -> None:
    own = tokenizer()
    own.enable_padding(direction="left", pad_id=1, pad_token="[PAD]", length=9)
    before = own.to_str()
    assert text.PretrainedTokenizer(own, 5, columns="input_ids")("day").tolist() == [1, 1, 2, 6, 3]
    assert own.to_str() == before


def test_wrong_uses() -> None:
    with pytest.raises(TypeError, match="takes a tokenizer of the packages tokenizers or transformers, not int"):
        text.PretrainedTokenizer(3)
    with pytest.raises(TypeError, match=r"not str; load it first, as by Tokenizer\.from_file"):
        text.PretrainedTokenizer("bert-base-uncased")
    with pytest.raises(ValueError, match="no token to pad with; name one of its tokens by pad_token="):
        text.PretrainedTokenizer(tokenizer("[FILL]"), 4)
    assert text.PretrainedTokenizer(tokenizer("[FILL]"), 4, pad_token="[FILL]")("day")[0].tolist() == [2, 6, 3, 1]
    with pytest.raises(ValueError, match="has no token 'x' to pad with"):
        text.PretrainedTokenizer(tokenizer(), 4, pad_token="x")
    with pytest.raises(ValueError, match="columns are among input_ids"):
        text.PretrainedTokenizer(tokenizer(), 4, columns="ids")
    with pytest.raises(RuntimeError, match="takes strings, not int64"):
        text.PretrainedTokenizer(tokenizer(), 4)(np.arange(3))
    with pytest.raises(TypeError, match=r"give text\.PretrainedTokenizer\(tokenizer, max_length=\.\.\.\)"):
        ds.NumpySlicesDataset({"text": TEXTS}).map(tokenizer(), "text")


def test_threads_share_an_operation() -> None:
    operation = text.PretrainedTokenizer(tokenizer(), 6, columns="input_ids")
    expected = [operation(one).tolist() for one in TEXTS * 20]
    with ThreadPoolExecutor(4) as pool:
        assert [ids.tolist() for ids in pool.map(operation, TEXTS * 20)] == expected
    rows = ds.NumpySlicesDataset({"text": TEXTS * 20}, shuffle=False).map(operation, "text", num_parallel_workers=3)
    assert [ids.tolist() for (ids,) in rows.create_tuple_iterator(num_epochs=1, output_numpy=True)] == expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_tokenizers_of_transformers(side: str) -> None:
    transformers = pytest.importorskip("transformers")
    own = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer(), pad_token="[PAD]", unk_token="[UNK]", padding_side=side, truncation_side=side
    )
    columns = ["input_ids", "token_type_ids", "attention_mask", "special_tokens_mask"]
    operation = text.PretrainedTokenizer(own, 5, columns=columns)
    expected = own(
        TEXTS, padding="max_length", max_length=5, truncation=True, return_token_type_ids=True,
        return_special_tokens_mask=True,
    )  # fmt: skip
    for name, values in zip(columns, operation(np.array(TEXTS)), strict=True):
        assert values.tolist() == expected[name]
