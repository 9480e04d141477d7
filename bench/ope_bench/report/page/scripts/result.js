// What was found: sentences, how far a run is, and all estimators in one table.

const factorWords = (value) => (value === null ? "–" : `${figure(value)} ×`);

/* How far a run is that has not ended. */
function progress(run) {
  const share = run.planned ? Math.min(run.done / run.planned, 1) : 0;
  return el("div", { class: "progress" },
    el("progress", { max: "1", value: String(share), "aria-label": `Progress of ${run.suite}` }),
    el("span", {}, `${run.suite}: ${count(run.done)} of ${count(run.planned)} trials have an outcome`,
      "; the same command continues it"));
}

/* Ends of a row's score: the RMSE's interval with failed trials counted as the score counts them. */
function scoreInterval(row) {
  if (row.rmse_low === null || row.rmse_high === null || row.rmse === null || row.score === null) return [0, Infinity];
  const answered = 1 - (row.failure_rate || 0);
  const failed = Math.max(row.score ** 2 - answered * row.rmse ** 2, 0);
  return [row.rmse_low, row.rmse_high].map((end) => Math.sqrt(answered * end ** 2 + failed));
}

/* Each row's rank in a setting, and the ranks that the intervals of the scores leave open. */
function ranksOf(place) {
  const mine = rows.filter((row) => row.place === place && Object.entries(row.status).some(([word]) => data.severity[word] !== "not-run"));
  const rank = new Map(data.settings[place].ranks.rmse.map(([cell, value]) => [cell, value]));
  const ranked = mine.filter((row) => rank.get(row.cell) != null).map((row) => ({ row, ends: scoreInterval(row) }));
  return mine.map((row) => {
    const own = ranked.find((one) => one.row === row);
    // Who failed too often for a rank is behind all others.
    if (!own) return { row, rank: mine.length, low: ranked.length + 1, high: mine.length };
    const before = ranked.filter((one) => one.ends[1] < own.ends[0]).length;
    const behind = ranked.filter((one) => one.ends[0] > own.ends[1]).length;
    return { row, rank: rank.get(row.cell), low: before + 1, high: ranked.length - behind };
  });
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/* The mean of the middle half, with fractional weights at its ends, as in the table of ranks. */
function interquartileMean(values) {
  const n = values.length;
  if (!n) return null;
  const inside = (i) => Math.min(Math.max(Math.min(i + 1, 0.75 * n) - Math.max(i, 0.25 * n), 0), 1);
  return [...values].sort((a, b) => a - b).reduce((sum, value, i) => sum + value * inside(i), 0) / (n / 2);
}
const middle = (values) => (values.length ? [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)] : null);

/* One line an estimator over the shown settings, the smallest mean rank first. */
function overallLines() {
  const places = shownSettings().map(({ place }) => place);
  const cells = new Map();
  for (const place of places) {
    const entries = ranksOf(place);
    const scores = entries.filter(({ rank, row }) => rank !== null && row.score > 0).map(({ row }) => row.score);
    const best = scores.length ? Math.min(...scores) : null;
    for (const entry of entries) {
      const { how } = entry.row;
      if (!cells.has(how)) cells.set(how, []);
      cells.get(how).push({ ...entry, factor: best && entry.row.score > 0 ? entry.row.score / best : null });
    }
  }
  const lines = [...cells].map(([how, entries]) => {
    const over = (key) => mean(entries.map((entry) => entry[key]));
    const factors = entries.map((entry) => entry.factor).filter((one) => one !== null);
    const status = {};
    entries.forEach(({ row }) => Object.entries(row.status).forEach(([word, n]) => { status[word] = (status[word] || 0) + n; }));
    const tried = Object.entries(status).filter(([word]) => data.severity[word] !== "not-run").reduce((sum, [, n]) => sum + n, 0);
    return {
      how, row: entries[0].row, settings: entries.length, of: places.length, rank: over("rank"), low: over("low"), high: over("high"),
      factor: interquartileMean(factors), status, failed: tried ? 1 - (status.ok || 0) / tried : null,
      rmse: entries.length === 1 ? entries[0].row.rmse : null,
      seconds: middle(entries.map(({ row }) => row.seconds).filter((one) => one !== null)),
    };
  }).filter(({ row }) => passes(row));
  const part = (line) => (line.settings < line.of ? 1 : 0);
  return lines.sort((a, b) => part(a) - part(b) || a.rank - b.rank || (a.factor || Infinity) - (b.factor || Infinity));
}

/* The ranks that are left open as a line, the mean rank as a point. */
function rankBar(line, last) {
  const x = (rank) => (last > 1 ? 4 + (92 * (rank - 1)) / (last - 1) : 50);
  const node = el("i", { class: "rankbar", "aria-hidden": "true" });
  node.innerHTML = `<svg viewBox="0 0 100 12" width="100" height="12"><path d="M${x(1)},6H${x(last)}" class="axis"/><path d="M${x(line.low)},6H${x(line.high)}" class="open"/><circle cx="${x(line.rank)}" cy="6" r="3.4"/></svg>`;
  return node;
}

const rankWords = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(1));

function failureParts(line) {
  const why = Object.entries(line.status).filter(([word]) => word !== "ok" && data.severity[word] !== "not-run").sort((a, b) => b[1] - a[1]);
  if (!why.length) return el("span", { class: "soft" }, "none");
  return el("span", { title: why.map(([word, n]) => `${count(n)} ${word}`).join(", ") }, `${percent(line.failed)} `, ...why.map(([word]) => el("span", { class: data.severity[word] }, `${word} `)));
}

function overallTable() {
  const lines = overallLines();
  if (!lines.length) return el("p", { class: "empty" }, rows.length ? "No row passes the filters." : "No boards yet.");
  const several = lines[0].of > 1;
  const last = Math.max(...lines.map((line) => Math.max(line.high, line.rank)));
  const columns = [
    { key: "estimator", title: "estimator", why: "its formula, assumptions and parameters", value: (line) => line.how.label,
      show: (line) => [sign(line.how.short), el("button", { type: "button", class: "link", title: "Formula, assumptions, parameters", onclick: () => openAbout(line.how) }, line.how.label), ...rowBadges(line.row)] },
    { key: "rank", title: several ? "mean rank (95 %)" : "rank (95 %)", value: (line) => [line.rank, line.low, line.high],
      why: "by score, 1 is best; then the ranks that the 95 % intervals of the scores leave open, each taken alone. Who failed on more than half of the data sets comes last. Means over settings",
      show: (line) => el("span", { class: "ranks" }, el("b", {}, rankWords(line.rank)), rankBar(line, last), el("span", {}, line.low === line.high ? rankWords(line.low) : `${rankWords(line.low)} – ${rankWords(line.high)}`)) },
    { key: "factor", title: "x best", number: true, value: (line) => line.factor, why: several ? "score over the setting's best score, interquartile mean over settings" : "score over the best score", show: (line) => factorWords(line.factor) },
    ...(several ? [] : [{ key: "rmse", title: "RMSE", number: true, value: (line) => line.rmse, why: data.columns.rmse.explanation, show: (line) => figure(line.rmse) }]),
    { key: "failed", title: "failures", value: (line) => line.failed, why: data.columns.failure_rate.explanation, show: failureParts },
    { key: "seconds", title: "time", number: true, value: (line) => line.seconds, why: "median seconds of fit and estimate, of trials that ran alone; the median setting", show: (line) => seconds(line.seconds) },
    { key: "access", title: "uses", value: (line) => line.row.access, why: "what it is given beyond samples of both policies", show: (line) => accessParts(line.how.access) },
    ...(lines.some((line) => line.settings < line.of) ? [{ key: "settings", title: "settings", number: true, value: (line) => line.settings, why: "settings in which it ran", show: (line) => `${line.settings} of ${line.of}` }] : []),
  ].filter((column) => column.key !== "seconds" || lines.some((line) => line.seconds !== null));
  const table = sortableTable({ columns, lines, name: "estimators", head: "estimator", caption: several ? `All estimators over ${lines[0].of} settings` : `All estimators on ${shownSettings()[0].setting.label}` });
  table.box.classList.add("overall");
  return el("div", {}, table.box, el("div", { class: "bar" }, el("span", { class: "soft" }, "A name tells its formula and assumptions; a heading sorts."), el("span", { class: "push" }), table.save));
}

function resultSection() {
  const now = shownGroup();
  const name = now.suite || (data.groups.length > 1 ? "everything in the store" : data.suite || "result");
  const status = {};
  rows.filter(({ place }) => shownPlaces.has(place)).forEach((row) => Object.entries(row.status).forEach(([word, n]) => { status[word] = (status[word] || 0) + n; }));
  const total = Object.values(status).reduce((sum, n) => sum + n, 0);
  const newest = data.runs.filter((run) => !now.suite || run.suite === now.suite).at(-1);
  const running = data.runs.filter((run) => run.exit_code === null && (!now.suite || run.suite === now.suite) && run.done < run.planned);
  const partial = running.length > 0 || (newest && newest.exit_code === 130 && newest.done < newest.planned);
  const dirty = data.machines.some((one) => one.git && one.git.dirty);
  const facts = [`${count(now.settings.length)} ${now.settings.length === 1 ? "setting" : "settings"}`,
    `${new Set(rows.filter(({ place }) => shownPlaces.has(place)).map((row) => row.method)).size} estimators`,
    `${count(total)} ${total === 1 ? "trial" : "trials"} (${Object.entries(status).map(([word, n]) => `${count(n)} ${word}`).join(", ")})`,
    // An export without facts of its runs does not know when they began.
    newest?.started ? `newest run ${day(newest.started)} UTC` : null].filter(Boolean);
  return el("section", { id: "result", "aria-labelledby": "result-title" },
    el("p", { class: "eyebrow" }, now.suite ? `Suite ${name}` : name),
    el("h2", { id: "result-title" }, now.title || "Result"),
    ...running.map(progress),
    total === 0 ? el("p", { class: "empty" }, "No trial is stored here yet. ", el("code", {}, "ope-bench run"), " fills the store.") : null,
    partial ? el("p", { class: "soft" }, "What was found stands here when every planned trial has an outcome.") : null,
    now.sentences.length && !partial ? el("ul", { class: "findings", "aria-label": "What was found" }, ...now.sentences.map((line) => el("li", {}, line))) : null,
    total ? el("p", { class: "soft" }, `${facts.join("; ")}. `, ...resultBadges(dirty)) : null,
    total ? overallTable() : null);
}

function resultBadges(dirty) {
  const marks = [];
  const shown = [...shownPlaces].map((place) => data.settings[place]);
  if (shown.some((one) => one.surrogate)) marks.push(badge("surrogate data", "some settings use data that only stand for the real ones"));
  if (data.methods.some((one) => one.third_party) || shown.some((one) => one.third_party)) marks.push(badge("third-party", "some numbers come from plugins of other packages"));
  if (dirty) marks.push(badge("dirty", "some runs were made from a working tree with uncommitted changes"));
  return marks;
}
