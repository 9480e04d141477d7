// All settings in one table, and one setting's board with its charts.

const QUESTIONS = { rmse: "RMSE", positivity: "Positivity", time: "Time", ratio: "Density ratio" };

const METHOD = { key: "method", title: "estimator", value: (row) => row.method, show: (row) => [
  el("button", { type: "button", class: "link", onclick: () => openTrials(row), title: "Show the trials" }, row.method), ...rowBadges(row)] };
const number = (key, title, show, why) => ({ key, title, why, number: true, value: (row) => row[key], show: (row) => show(row[key]) });
/* Marked where one logged row carries over half of the weight. */
const doubtful = (key, title, show, why) => ({ ...number(key, title, show, why), show: (row) => show(row[key]) + (row[key] !== null && row.max_weight_share > 0.5 ? "‡" : "") });
const RANK = { key: "rank", title: "#", number: true, value: (row) => row.shown_rank, show: (row) => (row.shown_rank === null ? "–" : String(row.shown_rank)) };
const ACCESS = { key: "access", title: "access", value: (row) => row.access, show: (row) => row.access.replaceAll("_", " ") };
const STATUS = { key: "status", title: "statuses", value: (row) => row.status, show: (row) => Object.entries(row.status).filter(([word]) => word !== "ok")
  .map(([word, n]) => el("span", { class: word }, `${word} ${n} `)) };
const range = (low, high, show) => (low === null || low === undefined ? "–" : `${show(low)} – ${show(high)}`);

function columnsFor(by, lines) {
  if (by === "positivity") return [RANK, METHOD, number("failure_rate", "fail", percent, "every status but ok and unavailable"),
    { key: "failure_low", title: "95 % interval", number: true, value: (row) => row.failure_low, show: (row) => range(row.failure_low, row.failure_high, percent) },
    STATUS, number("positivity_rate", "positivity", percent, "ended in PositivityViolation"), number("unsupported_mass", "unsupported", percent, "target mass without support, true logging policy"),
    number("observed_unsupported_mass", "never logged", percent, "target actions never logged"), number("ess_fraction", "ESS/n", figure), doubtful("max_weight_share", "max w", figure),
    number("warning_precision", "prec", percent, "of its warnings, those that were right"), number("warning_recall", "rec", percent, "of the large errors, those warned of"), ACCESS];
  if (by === "time") return [RANK, METHOD, number("fit_seconds", "fit", seconds), number("estimate_seconds", "estimate", seconds), number("seconds", "both", seconds),
    number("peak_rss_bytes", "memory", bytes), number("rmse", "RMSE", figure), { key: "device", title: "device", value: (row) => row.device, show: (row) => row.device }];
  if (by === "ratio") return [RANK, METHOD, number("ratio_error", "ratio error", figure), number("rmse", "RMSE", figure),
    ...["auc", "log_loss", "mean_weight"].map((key) => ({ key, title: key.replace("_", " "), number: true, value: (row) => row.diagnostics[key], show: (row) => figure(row.diagnostics[key]) })),
    number("ess_fraction", "ESS/n", figure)];
  const covered = lines.some((row) => row.coverage !== null);
  return [RANK, METHOD, number("rmse", "RMSE", figure, "over the trials that gave an estimate"),
    { key: "rmse_low", title: "95 % interval", number: true, value: (row) => row.rmse_low, show: (row) => (row.heavy_tailed ? el("span", { title: "heavy-tailed: no interval would hold" }, "†") : range(row.rmse_low, row.rmse_high, figure)) },
    number("log10_rmse", "log10", (value) => (value === null ? "–" : value.toFixed(2))),
    number("score", "score", figure, "RMSE with failures at the logging average's error; ranks follow it"), number("bias", "bias", figure), number("sd", "sd", figure),
    number("median_absolute_error", "median", figure, "median absolute error"), number("failure_rate", "fail", percent), number("relative_rmse", "RMSE/V", figure),
    ...(covered ? [doubtful("coverage", "cover", percent, "of 95 % intervals"), doubtful("interval_width", "width", figure)] : []), ACCESS,
    number("replicates", "n", String)];
}

/* Without the environment's name where there is only one. */
const shortSetting = (label, environment, among = []) => (environment && among.every((row) => row.environment === environment) && label !== environment ? label.replace(`${environment} `, "") : label);

/* The settings that the filters leave. */
const shownSettings = () => data.settings.map((setting, place) => ({ setting, place })).filter(({ setting }) => !state.environment || setting.environment === state.environment);

function matrix() {
  const shown = shownSettings();
  const by = state.by === "ratio" ? "rmse" : state.by;
  const of = { rmse: ["rmse", figure], positivity: ["failure_rate", percent], time: ["seconds", seconds] }[by];
  const cells = new Map();
  rows.filter(passes).forEach((row) => cells.set(`${row.method}\n${row.place}`, row));
  const methods = data.methods.filter((how) => shown.some(({ place }) => cells.has(`${how.label}\n${place}`)));
  if (!methods.length) return el("p", { class: "empty" }, rows.length ? "No row passes the filters." : "No boards yet.");
  const common = new Set(shown.map(({ setting }) => setting.environment)).size === 1 ? shown[0].setting.environment : null;
  const short = (setting) => shortSetting(setting.label, common);
  const cell = (how, place) => cells.get(`${how.label}\n${place}`);
  const columns = [
    { key: "method", title: "estimator", value: (how) => how.label, show: (how) => [how.label, ...(how.third_party ? [badge("third-party", `plugin: ${how.origin || "unknown"}`)] : [])] },
    ...shown.map(({ setting, place }) => ({
      key: short(setting), title: short(setting) + (setting.surrogate ? " (surrogate)" : ""), why: setting.label, number: true,
      value: (how) => (cell(how, place) ? cell(how, place)[of[0]] : null),
      show: (how) => {
        const row = cell(how, place);
        if (!row) return "";
        const marks = [row.heavy_tailed && by === "rmse" ? "~" : "", row.failure_rate && by === "rmse" ? ` !${percent(row.failure_rate)}` : ""].join("");
        const text = row[of[0]] === null && row.failure_rate && by === "rmse" ? marks.trim() : `${of[1](row[of[0]])}${marks}`;
        return el("button", { type: "button", "aria-label": `${how.label} on ${setting.label}: ${text}`, style: by === "rmse" && row.tied ? "font-weight:650" : null, onclick: () => openTrials(row) }, text);
      },
    })),
  ];
  const table = sortableTable({ columns, lines: methods, name: `settings-${by}`, head: "method",
    caption: { rmse: "RMSE; bold: cannot be told from the setting's best; ~ heavy-tailed; ! share of trials that failed", positivity: "Share of trials without an estimate", time: "Median seconds of fit and estimate, of trials that ran alone" }[by] });
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
  return data.settings[place].ranks[by].map(([cell, rank]) => ({ ...mine[cell], shown_rank: rank })).filter(passes);
}

function boardsSection(update) {
  const questions = Object.keys(QUESTIONS).filter((by) => by === "rmse" || by === "positivity" || data.settings.some((one) => one.ranks[by].length));
  if (!questions.includes(state.by)) state.by = "rmse";
  const place = currentSetting();
  const bar = el("div", { class: "bar", role: "group", "aria-label": "Question" },
    ...questions.map((by) => el("button", { type: "button", "aria-pressed": String(state.by === by), onclick: () => { choose({ by, sort: "" }); update(); } }, QUESTIONS[by])));
  const section = el("section", { id: "boards", "aria-labelledby": "boards-title" }, el("h2", { id: "boards-title" }, "Boards"), bar, matrix());
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
  const table = sortableTable({ columns: columnsFor(by, lines), lines, name: `${setting.label}-${by}`, sort: state.sort, head: "method",
    onsort: (sort) => choose({ sort }), tied: (row) => by === "rmse" && row.tied,
    caption: `${setting.label}, by ${QUESTIONS[by]}, ${setting.truth} truth${setting.truth_rms === null ? "" : ` (rms ${figure(setting.truth_rms)})`}` });
  const empty = by === "time" ? "No trial ran alone, so no times can be compared; run with --timing to fill this board." : "No row passes the filters.";
  return [
    el("h3", {}, "One setting ", ...settingBadges(setting)),
    el("div", { class: "bar" }, step(-1, "Previous setting"), pick, step(1, "Next setting"), el("span", { class: "push" }), table.save),
    lines.length ? table.box : el("p", { class: "empty" }, empty),
    el("ul", { class: "notes" }, ...setting.notes[by].map((note) => el("li", {}, note))),
    el("div", { class: "figures" }, ...boardFigures(setting, place)),
  ];
}

function boardFigures(setting, place) {
  const mine = () => rows.filter((row) => row.place === place && passes(row));
  const plain = () => mine().map(({ how, ...row }) => ({ ...row, status: undefined, diagnostics: undefined }));
  const figures = [
    chartFigure({ chart: "intervals", title: "RMSE and intervals", legend: false, words: "Point: RMSE with its 95 % interval, hollow where heavy-tailed; tick: median absolute error.",
      make: () => ({ tables: { table: plain().filter((row) => row.rmse !== null) }, height: bandHeight(mine()) }) }),
    chartFigure({ chart: "errors", title: "Errors", legend: false, words: `One tick a trial; linear up to ${figure(setting.unit)}, logarithmic beyond.`,
      make: async () => ({ tables: { table: (await errorsOf(place)).flatMap(({ row, trials }) => trials.filter((one) => one.error !== null).map((one) => ({ method: row.method, replicate: one.replicate, error: one.error }))) }, height: bandHeight(mine()), unit: setting.unit }) }),
    chartFigure({ chart: "cdf", title: "Distribution of squared error", words: "Trials without an estimate count as never reached: a curve that ends below 100 % tells of them.",
      make: async () => ({ tables: { table: (await errorsOf(place)).flatMap(distribution) }, height: 280 }) }),
  ];
  if (rows.some((row) => row.place === place && row.seconds !== null)) {
    figures.push(
      chartFigure({ chart: "pareto", title: "Error against time", words: "Dashed: what no other estimator beats in both. Hollow points: not on the CPU.", make: () => ({ tables: { table: plain().filter((row) => row.seconds > 0 && row.rmse > 0) }, height: 280 }) }),
      chartFigure({ chart: "times", title: "Time by device", legend: false, words: "Median seconds of fit and of estimate; devices side by side.", make: () => ({ tables: { table: plain().filter((row) => row.seconds > 0) }, height: bandHeight(mine()) }) }));
  }
  return figures;
}

/* The share of trials with at most each squared error, in at most 200 steps. */
function distribution({ row, trials }) {
  const squared = trials.filter((one) => one.error !== null).map((one) => one.error ** 2).sort((a, b) => a - b);
  const tried = trials.filter((one) => one.status !== "unavailable").length;
  const step = Math.max(1, Math.floor(squared.length / 200));
  return squared.map((value, i) => ({ method: row.method, squared_error: value, share: (i + 1) / tried }))
    .filter((line, i) => i % step === 0 || i === squared.length - 1);
}
