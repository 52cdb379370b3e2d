"""A console that prints any text as it is: no markup, no control codes, no failure on odd
characters.
"""

import re
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Control characters but \n and \t, lone surrogates, and what reverses the text that follows.
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def plain_console(
    stderr: bool = False, quiet: bool = False, file: IO[str] | None = None, width: int | None = None
) -> Console:
    r"""A rich console that prints data as it is. Every line of isotrope goes through one.

    Square brackets are no markup, ``:smile:`` is no picture, numbers get no colour, and long lines
    are not broken. Control characters and file names that are not UTF-8 are shown escaped
    (``\x1b``, ``\udcff``). What the encoding of the stream cannot hold becomes a question mark.
    ``width`` is that of tables; by default the terminal's.
    """
    return _Plain(
        stderr=stderr,
        quiet=quiet,
        file=file,
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        soft_wrap=True,
    )


def escaped(text: str) -> str:
    r"""``text`` with control characters and lone surrogates as ``\x1b`` or ``\udcff``; line ends
    and tabs stay.
    """

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 0x100:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}"

    return _HARMFUL.sub(escape, text)


class _Plain(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        """Escape before a table measures the text."""
        return super().render_str(escaped(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Escape here too, for what is not a plain string: styled texts, paths."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
                continue
            encoded = escaped(segment.text).encode(self.encoding, "replace")
            yield Segment(encoded.decode(self.encoding), segment.style)
