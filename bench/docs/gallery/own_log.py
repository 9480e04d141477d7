"""A value for your own log

One row is one decision: what was seen, what was shown, what came of it, and with which probability
the old policy showed it. Any data frame does, and a mapping of columns too.
"""

import numpy as np

from ope_bench import Log, estimate

rng = np.random.default_rng(0)
device, item = rng.integers(0, 2, 3000), rng.choice(["red", "blue"], 3000)
fits = (item == "red") == (device == 0)
frame = {
    "device": device,
    "item": item,
    "click": rng.random(3000) < np.where(fits, 0.3, 0.1),
    "p": np.full(3000, 0.5),
    "p_new": np.where(fits, 0.9, 0.1),  # the new policy's probability of the item shown
}
log = Log.from_frame(
    frame, context=["device"], action="item", reward="click", propensity="p", target="p_new"
)
print(log.check())

# The true value is .9 x .3 + .1 x .1 = .28.
result = estimate(log, ["ipw", "ipws"])
print(result)
result.plot().save("figure.svg")
