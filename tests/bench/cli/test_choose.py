"""`ope-bench choose` names estimators that exist and need no more than it says."""

import json
import re
from typing import get_args

import pytest

from ope_bench.cli.app import invoke
from ope_bench.cli.choose import KNOWLEDGE, Goal, lines_of, narrowed, questions
from ope_bench.plugins.registry import registry

GRANTED = {
    "p": {"propensity"},
    "target": {"target_policy"},
    "logging": {"logging_policy"},
    "embedding": {"embedding_distribution"},
}
"""What each word of ``--known`` lets an estimator read."""

BESIDES = {"prefix_propensity", "stratum", "stratum_policies", "samples"}
"""What the log itself tells where its row applies: lists, several loggers."""

ROWS = [row for question in questions() for row in question.rows]


def ids_of(text):
    """The ids in a sentence: commands and settings have spaces, colons or stars."""
    return [word for word in re.findall(r"`([^`]+)`", text) if re.fullmatch(r"[a-z-]+", word)]


def test_three_questions_have_five_rows_each_and_each_row_one_sentence():
    assert [len(question.rows) for question in questions()] == [5, 5, 5]
    assert all(row.use.endswith(".") and row.use.count(". ") == 0 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.case[:40])
def test_what_a_row_recommends_needs_no_more_than_the_row_says(row):
    granted = BESIDES.union(*(GRANTED[word] for word in row.needs))
    recommended = row.use.partition("; `ipw` and its kin")[0]
    named = ids_of(recommended)
    assert named or row.goal
    for name in named:
        access = set(registry().find("estimator", name).cls().access.words())
        if name == "ipws" and "estimated" in row.use:
            access -= {"propensity"}
        assert access <= granted, name


def test_the_words_of_known_are_those_that_rows_need():
    assert {word for row in ROWS for word in row.needs} == set(KNOWLEDGE) == set(GRANTED)
    assert {row.goal for row in ROWS} - {None} == set(get_args(Goal))


def test_rows_that_need_more_than_is_known_are_left_out():
    def cases(known):
        return {row.case for question in narrowed(known, None) for row in question.rows}

    few, more = cases(frozenset()), cases(frozenset({"p", "target"}))
    assert few < more < {row.case for row in ROWS}
    assert cases(None) == {row.case for row in ROWS}
    assert len(narrowed(None, "interval")[-1].rows) == 1


def test_who_knows_the_old_policy_knows_the_propensity(capsys):
    assert invoke(["choose", "--known", "logging,target", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = {row["case"] for question in document["questions"] for row in question["rows"]}
    assert "All probabilities of both policies" in shown
    assert document["schema"] == 1


def test_a_word_that_is_none_is_refused_with_the_nearest(capsys):
    assert invoke(["choose", "--known", "p,targe"]) == 2
    assert "did you mean 'target'" in capsys.readouterr().err


def test_the_text_fits_a_terminal_of_80_columns():
    assert max(map(len, lines_of(questions(), 80))) <= 80


def test_a_goal_that_needs_more_is_answered_with_what_it_needs():
    *_, last = narrowed(frozenset({"target"}), "interval")
    (row,) = last.rows
    assert row.use.startswith("needs p: run `ope-bench estimate")
    (row,) = narrowed(frozenset({"p", "target"}), "interval")[-1].rows
    assert row.use.startswith("run")
