"""A bench for gates that answers trials by a function, without running them."""


class FakeBench:
    """Answers trials by a function of them; counts what it is asked."""

    def __init__(self, answer, alone=None):
        self.answer, self.answer_alone = answer, alone or answer
        self.asked, self.limits, self.reused = [], [], 0

    def run(self, trials):
        self.asked.append(len(trials))
        return [found for trial in trials if (found := self.answer(trial)) is not None]

    def alone(self, trials, *, limits=1.0):
        self.limits.append(limits)
        return [self.answer_alone(trial) for trial in trials]


def unchanged(baseline):
    known = {one.key: one for one in baseline.records}
    return lambda trial: known[trial.key]
