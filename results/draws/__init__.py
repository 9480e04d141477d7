"""What pages show and no trial holds: drawn again from seeds, and committed beside the trials.

`results/regenerate run NAME` makes each.
"""
