"""Trials on a cluster of Dask workers: the same killable slots as locally, on other machines.

The coordinator cuts the trials into chunks and says which worker runs which; Dask carries chunks
and rows. On a worker a chunk goes through the executor of `ope_bench.execution.local`, so that
timeouts, memory limits, isolation and the numbers are those of a local run.
"""
