"""Training that diverges says so."""

from dataclasses import replace

import pytest

from isotrope.errors import UserError
from toy import TOY, run_toy


@pytest.mark.parametrize("rate", [1e12, 1e38])
def test_divergence_is_told_with_its_step_and_no_such_weights_are_kept(corpus, tmp_path, rate):
    with pytest.raises(UserError, match=r"diverged at step \d+.*learning_rate \(now 1e\+"):
        run_toy(corpus, tmp_path, size=replace(TOY, learning_rate=rate, warmup_steps=0))
    assert not (tmp_path / "model").exists()
