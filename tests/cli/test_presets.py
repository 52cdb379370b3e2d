"""``isotrope presets``: what it prints is data, never markup."""

from pathlib import Path

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


def test_markup_in_names_and_values_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "[b]mine.toml"
    path.write_text('extends = "simcse"\ndescription = "[/x] it"\n[terms."[/y]"]\nkind = "infonce"\n')
    shown = invoke("show", str(path))
    assert 'description = "[/x] it"' in shown
    assert '[terms."[/y]"]' in shown
    assert "terms.[/y].kind" in invoke("diff", "simcse", str(path))


def test_diff_of_equals_says_so() -> None:
    assert "nothing differs" in invoke("diff", "simcse", "simcse")
    told = invoke("diff", "whitenedcse-bert-base", "whitenedcse-bert-base-released")
    assert "released.detach" in told
