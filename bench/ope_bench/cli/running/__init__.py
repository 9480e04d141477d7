"""The steps of ``ope-bench run``: suite from options, plan, progress, summary, exit code."""
