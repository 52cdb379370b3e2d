"""Results in; text, SVG and HTML out: one table, one page, one style. It reads files, and knows nothing of training."""
