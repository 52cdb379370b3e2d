"""The quickstart's command."""

from __future__ import annotations

import pytest

from isotrope.cli.main import main
from isotrope.errors import Stopped


@pytest.mark.parametrize("stop", [Stopped("while training"), KeyboardInterrupt()])
def test_a_stopped_quickstart_ends_with_130_and_one_line(stop, monkeypatch, capsys):
    """typer turns Ctrl-C into a return value, which would end the command as if it were done."""

    def stopped(*_: object, **__: object) -> None:
        raise stop

    monkeypatch.setattr("isotrope.quickstart.run.quickstart", stopped)
    monkeypatch.setattr("sys.argv", ["isotrope", "quickstart"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 130
    assert "nothing finished is lost" in capsys.readouterr().err
