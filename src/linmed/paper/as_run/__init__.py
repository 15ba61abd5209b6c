"""What the authors' public code does otherwise than the paper: policies and films of `--variant as-run`.

Nothing here is an option of the public policies: these classes stand beside the line-up, and nowhere else.
"""
