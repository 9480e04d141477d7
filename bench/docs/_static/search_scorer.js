/* Scores of Sphinx's search: "select" is first of all an estimator, and prose comes before the reference. */
var Scorer = {
  score: (result) => result[4] - (/\/api\/|genindex/.test(result[0]) ? 6 : 0),
  objNameMatch: 3, objPartialMatch: 2, objPrio: { 0: 5, 1: 3, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
