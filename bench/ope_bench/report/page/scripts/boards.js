// All settings in one table, and one setting's board with its charts.

/* What a column shows that is more than its value in words. */
const PARTS = {
  estimator: (row) => [el("button", { type: "button", class: "link", onclick: () => openTrials(row), title: "Show the trials" }, row.method), ...rowBadges(row)],
  status: (row) => Object.entries(row.status).filter(([word]) => word !== "ok").map(([word, n]) => el("span", { class: data.severity[word] }, `${word} ${n} `)),
  access: (row) => accessParts(row.how.access),
};

/* A column of the registry over rows of boards. */
function boardColumn(key) {
  const column = data.columns[key];
  const value = key === "estimator" ? (row) => row.method : (row) => row[key];
  const parts = PARTS[column.format];
  return { key, title: column.title, why: column.explanation, number: column.number, value, show: parts || ((row) => marked(column, value(row), row)) };
}

/* A value in words, with the sign of what makes it doubtful. */
function marked(column, value, row) {
  const { mark } = column;
  const missing = value === null || value === undefined;
  if (!mark || !row[mark.flag] || missing) return inWords(column.format, value);
  return [inWords(column.format, value), el("span", { title: mark.explanation }, mark.sign)];
}

/* The columns of a board, without those that would be empty, where they say so. */
function boardColumns(by, lines) {
  const { shown, further } = data.layouts[by];
  const has = (key) => lines.some((row) => row[key] !== null && row[key] !== undefined);
  return [...shown.filter((key) => !data.columns[key].hide_empty || has(key)), ...(state.columns === "more" ? further.filter(has) : [])].map(boardColumn);
}

/* Without the environment's name where there is only one. */
const shortSetting = (label, environment, among = []) => (environment && among.every((row) => row.environment === environment) && label !== environment ? label.replace(`${environment} `, "") : label);

/* Labels without the words that all of them have. */
function withoutCommon(labels) {
  const split = labels.map((label) => label.split(" "));
  const common = new Set(labels.length > 1 ? split[0].filter((word) => split.every((one) => one.includes(word))) : []);
  return split.map((parts, i) => parts.filter((word) => !common.has(word)).join(" ") || labels[i]);
}

/* The settings that the filters leave. */
const shownSettings = () => data.settings.map((setting, place) => ({ setting, place })).filter(({ setting, place }) => shownPlaces.has(place) && (!state.environment || setting.environment === state.environment));

function matrix() {
  const shown = shownSettings();
  const { by } = state;
  const headline = data.columns[data.layouts[by].headline];
  const cells = new Map();
  rows.filter(passes).forEach((row) => cells.set(`${row.method}\n${row.place}`, row));
  const optional = !["rmse", "positivity"].includes(by);
  const order = overallLines().map(({ how }) => how);
  const methods = order.filter((how) => shown.some(({ place }) => {
    const row = cells.get(`${how.label}\n${place}`);
    return row && !(optional && row[headline.key] === null);
  }));
  if (!methods.length) return el("p", { class: "empty" }, rows.length ? "No row passes the filters." : "No boards yet.");
  const common = new Set(shown.map(({ setting }) => setting.environment)).size === 1 ? shown[0].setting.environment : null;
  const names = withoutCommon(shown.map(({ setting }) => shortSetting(setting.label, common)));
  const cell = (how, place) => cells.get(`${how.label}\n${place}`);
  const columns = [
    { key: "method", title: "estimator", value: (how) => how.label, show: (how) => [el("button", { type: "button", class: "link", title: "Formula, assumptions, parameters", onclick: () => openAbout(how) }, how.label), ...(how.third_party ? [badge("third-party", `plugin: ${how.origin || "unknown"}`)] : [])] },
    ...shown.map(({ setting, place }, i) => ({
      key: names[i], title: names[i] + (setting.surrogate ? " (surrogate)" : ""), why: setting.label, number: true,
      value: (how) => (cell(how, place) ? cell(how, place)[headline.key] : null),
      show: (how) => {
        const row = cell(how, place);
        if (!row) return "";
        const marks = [row.heavy_tailed && by === "rmse" ? "~" : "", row.failure_rate && by === "rmse" ? ` !${percent(row.failure_rate)}` : ""].join("");
        const value = row[headline.key];
        const text = value === null && row.failure_rate && by === "rmse" ? marks.trim() : `${inWords(headline.format, value)}${marks}`;
        return el("button", { type: "button", "aria-label": `${how.label} on ${setting.label}: ${text}`, style: by === "rmse" && row.tied ? "font-weight:650" : null, onclick: () => openTrials(row) }, text);
      },
    })),
  ];
  const table = sortableTable({ columns, lines: methods, name: `settings-${by}`, head: "method",
    caption: `${headline.explanation[0].toUpperCase()}${headline.explanation.slice(1)}${by === "rmse" ? "; bold: not significantly worse than the best in its column; ~ heavy-tailed; ! share of trials that failed" : ""}` });
  table.box.querySelector("table").classList.add("matrix");
  return el("div", {}, table.box, el("div", { class: "bar" }, table.save));
}

function currentSetting() {
  const shown = shownSettings();
  return (shown.find(({ setting }) => setting.label === state.setting) || shown[0] || { place: -1 }).place;
}

/* Rows of a setting that pass, ranked and ordered by the question. */
function boardRows(place, by) {
  const mine = rows.filter((row) => row.place === place);
  return data.settings[place].ranks[by].map(([cell, rank]) => ({ ...mine[cell], rank })).filter(passes);
}

function boardsSection(update) {
  const questions = Object.keys(data.layouts).filter((by) => by === "rmse" || by === "positivity" || shownSettings().some(({ setting }) => setting.ranks[by].length));
  if (!questions.includes(state.by)) state.by = "rmse";
  const place = currentSetting();
  const bar = el("div", { class: "bar", role: "group", "aria-label": "Question" },
    ...questions.map((by) => el("button", { type: "button", "aria-pressed": String(state.by === by), onclick: () => { choose({ by, sort: "" }); update(); } }, data.layouts[by].title)));
  const section = el("section", { id: "boards", "aria-labelledby": "boards-title" }, el("h2", { id: "boards-title" }, "Settings"), bar, matrix());
  if (place >= 0) section.append(...board(place, update));
  return section;
}

function board(place, update) {
  const setting = data.settings[place];
  const by = state.by;
  const lines = boardRows(place, by);
  const pick = el("select", { "aria-label": "Setting", onchange: (event) => { choose({ setting: event.target.value }); update(); } },
    ...shownSettings().map((one) => el("option", { value: one.setting.label, selected: one.place === place }, one.setting.label)));
  const step = (by_, words_) => el("button", { type: "button", "aria-label": words_, onclick: () => {
    const all = shownSettings();
    const next = all[(all.findIndex((one) => one.place === place) + by_ + all.length) % all.length];
    choose({ setting: next.setting.label });
    update();
  } }, by_ < 0 ? "‹" : "›");
  const table = sortableTable({ columns: boardColumns(by, lines), lines, name: `${setting.label}-${by}`, sort: state.sort, head: "estimator",
    onsort: (sort) => choose({ sort }), tied: (row) => by === "rmse" && row.tied,
    caption: `${setting.label}, by ${data.layouts[by].title}, ${setting.truth} truth${setting.truth_rms === null ? "" : ` (rms ${figure(setting.truth_rms)})`}` });
  const more = state.columns === "more";
  const toggle = el("button", { type: "button", "aria-pressed": String(more), onclick: () => { choose({ columns: more ? "" : "more" }); update(); } }, "More columns");
  const empty = by === "time" ? "No trial ran alone, so no times can be compared; run with --timing to fill this board." : "No row passes the filters.";
  return [
    el("h3", {}, "One setting ", ...settingBadges(setting)),
    el("div", { class: "bar" }, step(-1, "Previous setting"), pick, step(1, "Next setting"), el("span", { class: "push" }), toggle, table.save),
    lines.length ? table.box : el("p", { class: "empty" }, empty),
    el("ul", { class: "notes" }, ...setting.notes[by].map((note) => el("li", {}, note))),
    el("div", { class: "figures" }, ...boardFigures(setting, place)),
  ];
}

/* A row for charts of errors: with failures it stands at its score, not at the RMSE of the trials that are left. */
function drawn({ how, status, diagnostics, ...row }) {
  if (!row.imputed || !(row.score > 0)) return row;
  return { ...row, rmse: row.score, log10_rmse: Math.log10(row.score), rmse_low: null, rmse_high: null };
}

const HOLLOW = "Hollow: some trials failed, each counted with the error of the logging average.";

function boardFigures(setting, place) {
  const mine = () => rows.filter((row) => row.place === place && passes(row));
  const plain = () => mine().map(drawn);
  const figures = [
    chartFigure({ chart: "intervals", title: "RMSE and intervals", legend: false, words: `Point: RMSE with its 95 % interval, dashed where heavy-tailed; tick: median absolute error. ${HOLLOW}`,
      make: () => ({ tables: { table: plain().filter((row) => row.rmse !== null) }, height: bandHeight(mine()) }) }),
    ...(data.trials[place] ? trialFigures(setting, place, mine) : [el("p", { class: "empty" }, ...spans(data.left_out))]),
  ];
  if (rows.some((row) => row.place === place && row.median_interval_width > 0)) {
    figures.push(chartFigure({ chart: "coverage", title: "Coverage against width", words: "Share of intervals that hold the value, with its 95 % interval; dashed: what they claim. Left is narrow.",
      make: () => ({ tables: { table: plain().filter((row) => row.coverage !== null && row.median_interval_width > 0) }, height: 280 }) }));
  }
  if (rows.some((row) => row.place === place && row.seconds !== null)) {
    figures.push(
      chartFigure({ chart: "pareto", title: "Error against time", words: `Dashed: what no other estimator beats in both. ${HOLLOW}`, make: () => ({ tables: { table: plain().filter((row) => row.seconds > 0 && row.rmse > 0) }, height: 280 }) }),
      chartFigure({ chart: "times", title: "Time by device", legend: false, words: "Median seconds of fit and of estimate; devices side by side.", make: () => ({ tables: { table: plain().filter((row) => row.seconds > 0) }, height: bandHeight(mine()) }) }));
  }
  return figures;
}

/* Figures of single trials, which the page may not hold. */
function trialFigures(setting, place, mine) {
  return [
    chartFigure({ chart: "errors", title: "Errors", legend: false, words: `One tick a trial; linear up to ${figure(setting.unit)}, logarithmic beyond.`,
      make: async () => ({ tables: { table: (await errorsOf(place)).flatMap(({ row, trials }) => trials.filter((one) => one.error !== null).map((one) => ({ method: row.method, replicate: one.replicate, error: one.error }))) }, height: bandHeight(mine()), unit: setting.unit }) }),
    chartFigure({ chart: "cdf", title: "Distribution of squared error", words: "Trials without an estimate count as never reached: a curve that ends below 100 % tells of them.",
      make: async () => ({ tables: { table: (await errorsOf(place)).flatMap(distribution) }, height: 280 }) }),
  ];
}

/* The share of trials with at most each squared error, in at most 200 steps. */
function distribution({ row, trials }) {
  const squared = trials.filter((one) => one.error !== null).map((one) => one.error ** 2).sort((a, b) => a - b);
  const tried = trials.filter((one) => data.severity[one.status] !== "not-run").length;
  const step = Math.max(1, Math.floor(squared.length / 200));
  return squared.map((value, i) => ({ method: row.method, squared_error: value, share: (i + 1) / tried }))
    .filter((line, i) => i % step === 0 || i === squared.length - 1);
}
