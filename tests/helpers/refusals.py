"""A refusal is checked by its code; its sentence is in docs/messages.md, where anybody can improve
it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from isotrope.errors import UserError


@contextmanager
def refused(code: str, *names: object) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """The block is refused by this code.

    Args:
        code: of the `UserError`.
        names: what the line must name, such as the key, the file and its line.
    """
    with pytest.raises(UserError) as caught:
        yield caught
    said = str(caught.value)
    assert caught.value.code == code, f"{caught.value.code!r} instead of {code!r}: {said}"
    for name in names:
        assert str(name) in said, f"{name!r} is not named: {said}"
