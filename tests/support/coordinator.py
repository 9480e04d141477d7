"""Runs in processes of their own, for tests that kill them, one after another.

Each line of standard input asks for one: a list of variables of the environment, and of PLUGINS
STORE JOBS WHAT [NOTE]. It is a child of this process, which has imported all that it needs. The
answer begins with "pid" and ends with "exit"; what the run prints stands between.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from ope_bench.execution import Finished, Message, Started
from ope_bench.execution.executors import InProcessExecutor
from ope_bench.execution.local import LocalExecutor
from ope_bench.execution.runner import RunCounts, run
from ope_bench.plugins.spec import resolve
from ope_bench.store import Store
from ope_bench.trials.record import Trial

PLANS: dict[str, tuple[range, list[tuple[str, dict[str, Any]]]]] = {
    "short": (range(30), [("mean", {"seconds": 0.01}), ("noisy", {}), ("mean", {})]),
    "many": (range(500), [("mean", {"label": str(number)}) for number in range(4)]),
    "long": (range(40), [("mean", {"seconds": 0.3})]),
    "asleep": (range(1), [("mean", {"seconds": 600})]),
    "endless": (range(4), [("misbehaving", {"how": "hang-in-c"})]),
    "daemons": (range(1), [("misbehaving", {"how": "daemon-and-hang"})]),
    "families": (range(1), [("misbehaving", {"how": "children-and-hang"})]),
}


def coordinate(arguments: Sequence[str]) -> int:
    plugins, store_path, jobs, what, *note = arguments
    # `run` handles Ctrl-C; one that arrives before or after it does not change the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path.insert(0, plugins)
    replicates, asked = PLANS[what]
    world = resolve("environment", "acme-coin")
    more = {"note": note[0]} if note else {}
    specs = [resolve("estimator", f"acme-{name}", {**params, **more}) for name, params in asked]
    plan = [Trial(world, spec, replicate) for replicate in replicates for spec in specs]
    executor = LocalExecutor(int(jobs)) if int(jobs) else InProcessExecutor()
    outcome = RunCounts()
    with Store.open(store_path, write=True) as store:
        run_id = store.begin_run(suite="kill", truth="empirical", planned=len(plan))
        for event in run(plan, store=store, run_id=run_id, executor=executor, outcome=outcome):
            if isinstance(event, Message):
                print(event.text, flush=True)
            if isinstance(event, Started):
                print("started", flush=True)
            if isinstance(event, Finished):
                print("finished", event.record.key, flush=True)
        store.end_run(run_id, outcome.exit_code())
    print("over", outcome.executed, outcome.reused, flush=True)
    return outcome.exit_code()


def main() -> None:
    for line in sys.stdin:
        variables, arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            os.environ.update(variables)
            print("pid", os.getpid(), flush=True)
            code = 1
            try:
                code = coordinate(arguments)
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print("exit", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
