"""The vocabulary, which is the same at every call."""

from transformers import AutoTokenizer

from isotrope.pretraining.tokenizer import train_tokenizer


def test_the_tokenizer_lowercases_frames_and_survives_a_round_trip(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    encoded = loaded("The CAT Ünder")
    assert loaded.convert_ids_to_tokens(encoded["input_ids"]) == ["[CLS]", "the", "cat", "under", "[SEP]"]
    assert set(encoded) == {"input_ids", "attention_mask"}  # ModernBERT takes no token types
    assert [loaded.pad_token_id, loaded.cls_token_id, loaded.sep_token_id, loaded.mask_token_id] == [0, 2, 3, 4]
    assert loaded.decode(encoded["input_ids"], skip_special_tokens=True) == "the cat under"


def test_the_same_text_gives_the_same_vocabulary_though_all_pairs_are_tied():
    """The library's own trainer gives another one at every call, in one process as in several."""
    lines = [chr(97 + a) + chr(97 + b) + chr(97 + c) for a in range(9) for b in range(9) for c in range(9)]
    lines += [chr(0x4E00 + i) for i in range(1500)]  # more characters than are kept, each once
    vocabularies = [train_tokenizer(lines, 1500, 32).get_vocab() for _ in range(4)]
    assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)


def test_pieces_are_learnt_by_how_often_they_occur():
    tokenizer = train_tokenizer(["low lower lowest"] * 20_001 + ["xyz"], 26, 32)
    assert tokenizer.tokenize("LOW")[0] == "low"
    assert tokenizer.tokenize("xyz") == ["x", "##y", "##z"]
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]) == [0, 1, 2, 3, 4]
    assert tokenizer.tokenize("q") == ["[UNK]"]
