"""``isotrope presets``: what it lists, and what it finds different."""

from typer.testing import CliRunner

from isotrope.cli.presets import app
from isotrope.preset.tables import preset_names


def invoke(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_list_names_every_preset() -> None:
    shown = invoke("list")
    listed = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert sorted(name for name in listed if name in preset_names()) == sorted(preset_names())
    assert shown.index(" adapt ") < shown.index(" consert ") < shown.index(" simcse-bert-base ")


def test_diff_of_equals_says_so() -> None:
    assert "nothing differs" in invoke("diff", "simcse", "simcse")
    told = invoke("diff", "whitenedcse-bert-base", "whitenedcse-bert-base-released")
    assert "released.detach" in told
