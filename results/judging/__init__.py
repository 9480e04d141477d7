"""What the pages of results say, computed from committed trials.

Four rooms, in the order of imports: `trials` reads what is committed, `claims` judges lines of
evidence, `pages` writes Markdown, and `advice` has the pages of what ope-bench recommends.
"""
