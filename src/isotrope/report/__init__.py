"""Results in; text, SVG and HTML out. This room reads files and does not depend on training."""
