/* Scores of Sphinx's search, with names of code below titles: "select" is first of all an estimator. */
var Scorer = {
  objNameMatch: 3, objPartialMatch: 2, objPrio: { 0: 5, 1: 3, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
