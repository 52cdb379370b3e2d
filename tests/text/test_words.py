"""Words of a text, with spaces and without."""

from isotrope.text.split import words_of


def test_letters_count_where_there_are_no_spaces() -> None:
    assert words_of("a few  words") == (["a", "few", "words"], " ")
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたか"
    assert words_of(japanese) == (japanese, "")
    assert words_of("") == ([], " ")
