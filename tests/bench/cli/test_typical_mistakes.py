"""Typical mistakes of a plugin's author, each with the one line that tells it.

A line says what is wrong, what to do, and, where a line of the plugin raised, which. A mistake
that `run` can see is told by `run`, the others by the check that is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ope_bench.plugins.registry import registry
from ope_bench.testing import CheckFailed, environment_checks, estimator_checks

if TYPE_CHECKING:
    from bench.cli.conftest import Cli

HEAD = '''"""A plugin with a mistake."""
import time
from typing import Annotated

import numpy as np
from annotated_types import Gt

from ope_bench import Access, Environment, Estimate, Estimator, Problem, Truth, Uniform, params


class Mine(Estimator):
    """Logged rewards weighted by the ratio of the policies.

        V = mean(w r)

    Assumptions: support. Fails when: there is none.

    Truncated importance sampling (Ionides, 2008).
    """

    access = Access.TARGET_POLICY | Access.PROPENSITY

'''
SOUND = """    def estimate(self, view):
        w = view.target_policy.probability(view.context, view.action) / view.propensity
        return Estimate(float((w * view.reward).mean()), None, w)
"""
ESTIMATE = "    def estimate(self, view):\n"
WEIGHTS = f"{ESTIMATE}        w = np.ones(view.n)\n"


def returned(expression: str) -> str:
    return f"{WEIGHTS}        return {expression}  # here\n"


def written(line: str) -> str:
    return f"{WEIGHTS}        {line}  # here\n        return Estimate(0.0)\n"


@dataclass(frozen=True)
class Mistake:
    """A mistake, and the parts of the line that tells it.

    Parameters
    ----------
    name : of the mistake.
    body : the rest of the class.
    answer : parts of the line, in their order.
    code : exit code of ``run``.
    check : the check that tells it instead of ``run``.
    """

    name: str
    body: str
    answer: tuple[str, ...]
    code: int = 3
    check: str = ""


MISTAKES = [
    Mistake(
        "weights (n, 1)",
        returned("Estimate(0.0, None, w[:, None])"),
        ("weights has shape (60, 1); expected one number per row",),
    ),
    Mistake(
        "weights too short",
        returned("Estimate(0.0, None, w[1:])").replace("  # here", ""),
        ("weights has 59 rows; expected 60",),
    ),
    Mistake(
        "access forgotten",
        written("view.logging_policy"),
        ("needs Access.LOGGING_POLICY", "add the flag to the class attribute `access`"),
    ),
    Mistake(
        "array changed",
        written("view.reward[0] = 1"),
        ("read-only", "copy before writing"),
    ),
    Mistake(
        "integers times floats",
        written("view.action.copy().__imul__(0.5)"),
        ("Cannot cast ufunc", "write x = x * y instead of x *= y"),
    ),
    Mistake(
        "a number instead of an estimate",
        returned("np.float64(1.0)").replace("  # here", ""),
        ("estimate returned float64", "return ope_bench.Estimate(value, ...)"),
    ),
    Mistake(
        "nothing returned",
        f"{ESTIMATE}        pass\n",
        ("estimate returned NoneType", "end it with return ope_bench.Estimate(value, ...)"),
    ),
    Mistake(
        "stored under another name",
        "    def __init__(self, clip: float = 1.0):\n        self._clip = clip\n" + SOUND,
        ("does not store 'clip' under its own name; write self.clip = clip",),
        code=2,
    ),
    Mistake(
        "work in the constructor",
        "    def __init__(self, clip: float = 1.0):\n        self.clip = clip / 0\n" + SOUND,
        ("fails when built: ZeroDivisionError",),
        code=2,
    ),
    Mistake(
        "parameter without annotation",
        "    def __init__(self, clip=1.0):\n        self.clip = clip\n" + SOUND,
        ("without annotation: clip", "Annotated[float, Gt(0)]"),
        check="check_constructor_only_stores_annotated_parameters",
    ),
    Mistake(
        "any parameters",
        "    def __init__(self, **kw):\n        pass\n" + SOUND,
        ("takes *kw; name every parameter",),
        code=2,
    ),
    Mistake(
        "parameter without default",
        "    def __init__(self, clip: float):\n        self.clip = clip\n" + SOUND,
        ("parameter 'clip' is required",),
        code=2,
    ),
    Mistake("no estimate", "    pass\n", ("fails when built: TypeError", "estimate"), code=2),
    Mistake(
        "global random state",
        returned("Estimate(float(np.random.standard_normal()))").replace("  # here", ""),
        ("draw all randomness from the argument rng of fit",),
        check="check_same_seed_gives_the_same_estimate",
    ),
    Mistake(
        "package imported but not declared",
        f"{ESTIMATE}        import torch\n\n        return Estimate(torch.pi)\n",
        ("mine.py imports torch, which `requires` does not list", "requires = ('torch',)"),
        check="check_imported_packages_are_declared",
    ),
    Mistake(
        "package missing",
        written("import no_such_package"),
        ("No module named 'no_such_package'", "`requires`", "pip install no_such_package"),
    ),
    Mistake(
        "fit returns nothing",
        "    def fit(self, view, *, rng, device):\n        pass\n\n" + SOUND,
        ("fit returned NoneType; end it with `return self`",),
        check="check_fit_returns_self_and_sets_names_that_end_in_underscore",
    ),
    Mistake(
        "wrong signature of fit",
        "    def fit(self, view):\n        return self\n\n" + SOUND,
        ("unexpected keyword argument", "write def fit(self, view, *, rng, device)"),
    ),
    Mistake(
        "not a number",
        returned("Estimate(float('nan'))").replace("  # here", ""),
        ("the estimate is nan", "raise ope_bench.PositivityViolation"),
    ),
    Mistake(
        "actions as a column",
        written("view.target_policy.probability(view.context, view.action[:, None])"),
        ("action has shape (60, 1); expected (60,), one value per row",),
    ),
    Mistake(
        "a function's result as a column",
        written("view.target_policy.expect(view.context, lambda x, a: a[:, None])"),
        ("the result of f has shape (60, 1); expected (60,), one value per row",),
    ),
    Mistake(
        "misspelled attribute of the view",
        written("view.rewards"),
        ("a View has no attribute 'rewards'; did you mean 'reward'?",),
    ),
    Mistake(
        "attribute of other libraries' policies",
        written("view.target_policy.predict_proba(view.context)"),
        ("has no attribute 'predict_proba' (it has best, blocks,", "probability"),
    ),
    Mistake(
        "number of actions where actions are continuous",
        written("range(view.n_actions)"),
        ("continuous actions: ", "view.n_actions is None where actions are continuous"),
        check="check_estimate_is_finite_where_support_is_good",
    ),
]


def one_line(text: str) -> str:
    return " ".join(text.split())


def assert_in_order(parts: tuple[str, ...], line: str) -> None:
    place = 0
    for part in parts:
        assert part in line[place:], f"{part!r} is not in: {line}"
        place = line.index(part, place) + len(part)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.name)
def test_an_estimators_mistake_is_one_line_with_the_cure_and_the_place(
    mistake: Mistake, cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HEAD + mistake.body, encoding="utf-8")
    if mistake.check:
        plugin = registry().find("estimator", f"{path}:Mine").cls()
        with pytest.raises(CheckFailed) as failure:
            dict(estimator_checks(plugin))[mistake.check]()
        line = one_line(str(failure.value))
    else:
        environment = "saito-toy[n_samples=60,n_actions=5]"
        said = cli(
            *("run", "--env", environment, "--est", f"{path}:Mine", "--replicates", "1"),
            *("--executor", "inprocess"),
        )
        assert said.code == mistake.code, said.err
        assert "Traceback" not in said.err
        start = "ope-bench: " if mistake.code == 2 else ("error", "nonfinite")
        (line,) = (one for one in said.err.splitlines() if one.startswith(start))
    assert_in_order(mistake.answer, line)
    source = path.read_text(encoding="utf-8").splitlines()
    where = [number for number, text in enumerate(source, 1) if text.endswith("# here")]
    for number in where:
        assert f"(mine.py:{number}, in estimate)" in line


ENVIRONMENT = '''

@params
class World(Environment):
    """Three actions with different rewards.

        r = a + noise

    Some Aspects of the Sequential Design of Experiments (Robbins, 1952).
    """

    n_samples: int = 60

    def sample(self, *, world_rng, logged_rng, target_rng):
        n = self.n_samples
        logging = target = Uniform(3)
        context = {context}.standard_normal((n, 2))
        action, propensity = logging.draw(context, logged_rng)
        target_action = target.sample(context, target_rng)
        embedding = np.eye(3)
        problem = Problem(
            context, action, embedding[action], {reward}, context, target_action,
            embedding[target_action], 3, propensity={propensity}, logging_policy=logging,
            target_policy=target, action_embedding=embedding, shared_contexts=True,
        )
        return {answer}
'''
RIGHT = {
    "context": "logged_rng",
    "reward": "action + 0.1 * logged_rng.standard_normal(n)",
    "propensity": "propensity",
    "answer": "problem, Truth(1.0, 0.0, float(target_action.mean()))",
}


def world(folder: Path, **wrong: str) -> str:
    path = folder / "mine.py"
    path.write_text(HEAD + SOUND + ENVIRONMENT.format(**RIGHT | wrong), encoding="utf-8")
    return f"{path}:World"


def run_world(cli: Cli, reference: str) -> str:
    said = cli(
        *("run", "--env", reference, "--est", "logging-average", "--est", "ipw"),
        *("--replicates", "2", "--executor", "inprocess"),
    )
    assert said.code == 2
    (line,) = said.err.splitlines()
    return line


@pytest.mark.usefixtures("here")
def test_a_sound_environment_runs_whatever_the_type_of_its_rewards(
    cli: Cli, tmp_path: Path
) -> None:
    reference = world(tmp_path, reward="action.astype(int)")
    said = cli("run", "--env", reference, "--est", "ipw", "--replicates", "2", "--jobs", "1")
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (
            {"reward": "action[:, None] * 1.0"},
            ("environment 'world': reward has shape (60, 1)", "(mine.py:", "in sample)"),
        ),
        (
            {"answer": "problem"},
            ("environment 'world': ", "sample must return (Problem, Truth); end it with return"),
        ),
        (
            {"propensity": "propensity[1:]"},
            ("environment 'world': propensity has shape (59,)", "(mine.py:", "in sample)"),
        ),
    ],
)
def test_an_environments_mistake_is_told_once_and_of_the_environment(
    wrong: dict[str, str], answer: tuple[str, ...], cli: Cli, tmp_path: Path
) -> None:
    assert_in_order(answer, run_world(cli, world(tmp_path, **wrong)))


@pytest.mark.parametrize(
    ("wrong", "check", "answer"),
    [
        (
            {"propensity": "0.9 * propensity"},
            "check_propensity_is_the_logging_policys",
            ("propensity[0] is 0.3", "logging_policy.probability gives 0.33"),
        ),
        (
            {"answer": "problem, Truth(1.2, 0.0, float(target_action.mean()))"},
            "check_truth_agrees_with_monte_carlo",
            ("standard errors apart",),
        ),
        (
            {"context": "target_rng"},
            "check_logs_do_not_depend_on_the_target_stream",
            ("context changes with target_rng; draw the logs from logged_rng only",),
        ),
        (
            {"answer": "problem"},
            "check_same_streams_give_the_same_problem",
            ("sample returned Problem; return (Problem, Truth)",),
        ),
    ],
)
def test_a_silent_mistake_of_an_environment_is_told_by_its_check(
    wrong: dict[str, str], check: str, answer: tuple[str, ...], tmp_path: Path
) -> None:
    plugin = registry().find("environment", world(tmp_path, **wrong)).cls()
    with pytest.raises(CheckFailed) as failure:
        dict(environment_checks(plugin))[check]()
    assert_in_order(answer, one_line(str(failure.value)))


@pytest.mark.parametrize("verb", ["check", "run --env gaussian --est"])
def test_a_class_without_the_base_is_told_how_to_begin(
    verb: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def estimate(self, view): ...\n")
    said = cli(*verb.split(), "mine.py:Mine")
    assert said.code == 2
    assert "class Mine(Estimator)" in one_line(said.err)


@pytest.mark.parametrize("verb", ["check", "run"])
@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("mine.py", "add the class, mine.py:CLASS (it has Mine, World)"),
        ("mine.py:Mein", "mine.py has no estimator 'Mein'; did you mean 'Mine'?"),
        ("mine.py:Nothing", "mine.py has no estimator 'Nothing' (it has Mine)"),
        ("none.py:Mine", "no such file: "),
    ],
)
def test_a_wrong_name_of_a_class_in_a_file_is_one_line(
    verb: str, reference: str, answer: str, cli: Cli, tmp_path: Path
) -> None:
    world(tmp_path)
    said = cli(
        *(("run", "--env", "gaussian", "--est") if verb == "run" else ("check",)), reference
    )
    assert said.code == 2
    (line,) = said.err.splitlines()
    assert answer in line


def test_checks_that_fail_for_one_reason_are_told_together(cli: Cli, tmp_path: Path) -> None:
    body = returned("Estimate(0.0, None, w[:, None])")
    (tmp_path / "mine.py").write_text(HEAD + body, encoding="utf-8")
    said = cli("check", "mine.py:Mine")
    text = one_line(said.out)
    assert said.code == 1
    assert text.count("weights has shape (160, 1)") == 1
    assert "failed for one reason: " in text
    assert "(mine.py:" in text
    assert all(len(line) <= 80 for line in said.out.splitlines())
    told = cli("check", "mine.py:Mine", "--format", "json").json
    reasons = [one["reason"] for one in told["checks"] if one["result"] == "failed"]
    assert len(reasons) > 10
    assert max(map(reasons.count, reasons)) > 10


def test_a_slow_estimator_ends_the_checks_with_advice(cli: Cli, tmp_path: Path) -> None:
    slow = (
        "    def fit(self, view, *, rng, device):\n        time.sleep(60)\n        return self\n\n"
    )
    (tmp_path / "mine.py").write_text(HEAD + slow + SOUND, encoding="utf-8")
    said = cli("check", "mine.py:Mine", "--timeout", "300ms")
    text = one_line(said.out)
    assert said.code == 1
    assert "it took longer than 0.3 s; set smaller parameters" in text
    assert "not run in" in text
    assert text.count("took longer") == 1


def test_mistakes_that_run_refuses_are_refused_before_checks(cli: Cli, tmp_path: Path) -> None:
    body = "    def __init__(self, clip: float = 1.0):\n        self._clip = clip\n" + SOUND
    (tmp_path / "mine.py").write_text(HEAD + body, encoding="utf-8")
    said = cli("check", "mine.py:Mine")
    (line,) = said.err.splitlines()
    assert (said.code, said.out) == (2, "")
    assert "write self.clip = clip" in line


@pytest.mark.parametrize("missing", ["_no_such", "no_such"])
def test_a_missing_attribute_stays_an_attribute_error(missing: str) -> None:
    from ope_bench.contracts.policies import Uniform

    assert not hasattr(Uniform(3), missing)
