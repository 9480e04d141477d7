// What the words and the columns of the page mean.

/* As in the glossary of the documentation. */
const WORDS = {
  setting: "an environment with all its parameters; one board is about one setting",
  replicate: "one drawn data set: problem, logs and target sample",
  trial: "one estimator on one replicate of one setting",
  score: "RMSE in which failed trials have the error of the logging average",
  truth: "the target policy's value (expected), or the mean reward of the target sample (empirical)",
  propensity: "the logging policy's probability of the logged action",
  positivity: "the logging policy can take every action that the target policy takes",
  "unsupported mass": "the target policy's share of actions for which positivity fails",
  embedding: "features of an action, possibly random; g in p(g|a)",
};

/* Where an estimator's need is said in a cell. */
const ACCESS = { samples: "samples", propensity: "p0", logging_policy: "π0", target_policy: "π1", embedding_distribution: "p(g|a)" };
const ACCESS_WORDS = { samples: "samples of both policies only", propensity: "the logged actions' propensities", logging_policy: "the logging policy, and propensities", target_policy: "the target policy", embedding_distribution: "the distribution of embeddings" };

const accessWords = (access) => (access.length ? access : ["samples"]).map((one) => one.replaceAll("_", " ")).join(", ");

/* In short signs; the logging policy includes the propensities. */
function accessParts(access) {
  const shown = (access.length ? access : ["samples"]).filter((one) => one !== "propensity" || !access.includes("logging_policy"));
  return el("span", { class: "access", title: accessWords(access) }, ...shown.map((one) => el("span", {}, ACCESS[one] || one.replaceAll("_", " "))));
}

function wordsSection() {
  const list = (entries) => el("dl", {}, ...entries.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  const columns = new Map(Object.values(data.columns).filter((one) => one.title && one.title !== "#").map((one) => [one.title, one.explanation]));
  const names = "A leading e: embeddings of actions; fe: embeddings through a normalizing flow; a final s: self-normalized; -star: policies known by samples only; -paper: the form that a paper prints.";
  return el("section", { id: "words", "aria-labelledby": "words-title" }, el("h2", { id: "words-title" }, "Words and columns"),
    el("p", {}, names),
    el("div", { class: "glossary" },
      el("div", {}, el("h3", {}, "Terms"), list(Object.entries(WORDS))),
      el("div", {}, el("h3", {}, "What an estimator uses"), list(Object.entries(ACCESS).map(([key, short]) => [short, ACCESS_WORDS[key]]))),
      el("details", {}, el("summary", {}, `Columns (${columns.size})`), list([...columns]))));
}
