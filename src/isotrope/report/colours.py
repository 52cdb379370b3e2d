"""The colours of figures and pages. In a page each is a CSS variable, so that figures follow light and dark.

Before is grey and after is blue everywhere. The other colours are from Okabe and Ito: colour-blind readers can
distinguish them.
"""

from __future__ import annotations

PAPER, INK, MUTED, RULE = "#ffffff", "#1f2329", "#676e79", "#dde1e7"
BEFORE, AFTER = "#7d848f", "#0068a8"
SERIES = (AFTER, "#c05000", "#00805d", "#a8558a", "#8a6d00")
CSS_NAMES = {PAPER: "paper", INK: "ink", MUTED: "muted", RULE: "rule", BEFORE: "before"} | {
    colour: f"series-{i}" for i, colour in enumerate(SERIES)
}
