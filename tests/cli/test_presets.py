"""``isotrope presets``: what it lists, and what it finds different."""

from helpers.commands import Shell
from isotrope.preset.tables import preset_names


def test_list_names_every_preset(shell: Shell) -> None:
    shown = shell("presets", "list").out
    listed = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert sorted(name for name in listed if name in preset_names()) == sorted(preset_names())
    assert shown.index(" adapt ") < shown.index(" consert ") < shown.index(" simcse-bert-base ")


def test_diff_of_equals_says_so(shell: Shell) -> None:
    assert shell("presets", "diff", "simcse", "simcse") == (0, "nothing differs\n", "")
    assert (
        "released.detach"
        in shell("presets", "diff", "whitenedcse-bert-base", "whitenedcse-bert-base-released").out
    )
