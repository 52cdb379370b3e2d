"""A console that prints any text as it is: no markup, no control codes, no failure on odd characters."""

import unicodedata
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_LAYOUT = "\n\t"  # the control characters that lay out a text
_TURNING = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # they reverse what follows


def plain_console(
    stderr: bool = False, quiet: bool = False, file: IO[str] | None = None, width: int | None = None
) -> Console:
    r"""A rich console that prints data as it is. Every line of isotrope goes through one.

    Square brackets are no markup, ``:smile:`` is no picture, numbers get no colour, and long lines are not broken.
    Control characters and file names that are not UTF-8 are shown escaped (``\x1b``, ``\udcff``). What the encoding
    of the stream cannot hold becomes a question mark.

    Args:
        stderr: write to standard error.
        quiet: write nothing.
        file: write to this open file.
        width: columns of a table; default: those of the terminal.
    """
    return _Plain(
        stderr=stderr, quiet=quiet, file=file, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True
    )


def escaped(text: str) -> str:
    r"""``text`` with control characters and lone surrogates as ``\x1b`` or ``\udcff``; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(_escape(c) if _harms(c) else c for c in text)


def _harms(character: str) -> bool:
    category = unicodedata.category(character)
    return (category in ("Cc", "Cs") and character not in _LAYOUT) or character in _TURNING


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class _Plain(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        """Escape before a table measures the text."""
        return super().render_str(escaped(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Escape here too, for what is not a plain string: styled texts, paths."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                text = escaped(segment.text).encode(self.encoding, "replace").decode(self.encoding)
                yield Segment(text, segment.style)
