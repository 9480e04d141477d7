from __future__ import annotations

import itertools

from ope_bench.report.figure_layout import LONGEST, file_names

LONG = "gaussian-pairs dimension=1 logging_mean=2.0 logging_std=0.15 n_samples=5000 target_std="


def test_short_labels_are_file_names_as_they_are():
    subject = ("sweep-rmse saito-toy by n_actions", "x")
    assert file_names([subject]) == ["sweep-rmse-saito-toy-by-n-actions"]


def test_long_labels_are_cut_at_a_word_and_stay_different():
    subjects = [(f"cdf {LONG}{i}", str(i)) for i in range(50)]
    names = file_names(subjects)
    assert len(set(names)) == 50
    assert all(len(name) <= LONGEST for name in names)
    assert all(name.startswith("cdf-gaussian-pairs-dimension-1-logging-mean-") for name in names)


def test_labels_that_differ_in_what_a_file_name_cannot_hold_stay_different():
    names = file_names([("cdf toy <n>", "1"), ("cdf toy (n)", "2")])
    assert len(set(names)) == 2


def test_a_name_does_not_depend_on_the_order_of_the_others():
    subjects = [(f"cdf {LONG}{i}", str(i)) for i in range(3)]
    subjects += [("cdf toy a", "4"), ("cdf toy-a", "5")]
    expected = dict(zip(subjects, file_names(subjects), strict=True))
    for order in itertools.permutations(subjects):
        assert dict(zip(order, file_names(order), strict=True)) == expected


def test_nothing_leaves_the_folder():
    (name,) = file_names([("cdf ../../etc/passwd", "x")])
    assert "/" not in name
    assert not name.startswith(".")
