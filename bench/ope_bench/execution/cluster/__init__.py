"""Run trials on other machines: the same worker processes, on a Dask cluster.

The coordinator cuts the trials into chunks and says which worker runs which; Dask carries chunks
and rows. On a worker a chunk goes through the executor of `ope_bench.execution.local`, so that
timeouts, memory limits, isolation and the numbers are those of a local run.

Dask's own retries and resources have no limit of time or memory for one task, and move a trial
away from the worker that has its data.
"""
