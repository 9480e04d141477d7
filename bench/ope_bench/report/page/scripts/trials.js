// One cell's trials: seeds, estimates, what went wrong, and how to run one again.

const MOST = 200;

/* A cell's columns as trials. */
function unpackTrials(packed, cell) {
  const it = packed.cells[cell];
  return it.data.map((at, i) => {
    const status = data.statuses[Number(it.status[i])];
    const pick = (name) => (it[name] ? it[name][i] : null);
    const [estimate, truth] = [pick("estimate"), packed.truth[at]];
    const fault = it.faults && it.faults[i] ? it.faults[i].map((text) => (text === null ? null : packed.texts[text])) : null;
    return {
      seed: packed.seed[at], replicate: packed.replicate[at], status, estimate, truth,
      error: status === "ok" && estimate !== null && truth !== null ? estimate - truth : null,
      logging_average: packed.naive[at], fallback: pick("fallback"), standard_error: pick("standard_error"),
      interval_low: pick("interval_low"), interval_high: pick("interval_high"),
      fit_seconds: pick("fit_seconds"), estimate_seconds: pick("estimate_seconds"),
      key: it.key.slice(i * it.digits, (i + 1) * it.digits), fault,
    };
  });
}

async function errorsOf(place) {
  const packed = await trialsOf(place);
  return rows.filter((row) => row.place === place && passes(row)).map((row) => ({ row, trials: unpackTrials(packed, row.cell) }));
}

const quoted = (text) => (/^[\w./@:+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const rerun = (key) => `ope-bench rerun ${key}${data.store === "ope-bench.sqlite" ? "" : ` --store ${quoted(data.store)}`}`;

async function openTrials(row, push = true) {
  const box = $("trials");
  choose({ cell: `${row.method}@${row.setting}` }, push);
  const trials = data.trials[row.place] ? unpackTrials(await trialsOf(row.place), row.cell) : null;
  const setting = data.settings[row.place];
  const close = el("button", { type: "button", onclick: () => box.close() }, "Close");
  const facts = [["setting", setting.label], ["environment parameters", words(setting.params)], ["environment from", `${setting.origin || "unknown"}, version ${setting.version}`],
    ["parameters", words(row.how.params) || "none"], ["estimator from", row.how.origin || "unknown"], ["access", accessWords(row.how.access)], ["device", row.device],
    ["RMSE", `${figure(row.rmse)} (${row.heavy_tailed ? "heavy-tailed, no interval" : range(row.rmse_low, row.rmse_high, figure)}), score ${figure(row.score)}, median ${figure(row.median_absolute_error)}`],
    ["trials", Object.entries(row.status).map(([word, n]) => `${n} ${word}`).join(", ")]];
  box.replaceChildren(
    el("header", {}, el("h2", { id: "trials-title" }, `${row.method} `, ...rowBadges(row), ...settingBadges(setting)),
      el("button", { type: "button", onclick: () => { box.close(); openAbout(row.how); } }, "Formula and assumptions"), close),
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    ...(trials ? [faults(trials), trialTable(row, trials)].filter(Boolean) : [el("p", { class: "empty" }, ...spans(data.left_out))]));
  if (!box.open) box.showModal();
}

function faults(trials) {
  const kinds = new Map();
  trials.filter((one) => one.fault).forEach((one) => {
    const name = `${one.status}: ${[one.fault[0], one.fault[1]].filter(Boolean).join(": ")}`;
    kinds.set(name, [...(kinds.get(name) || []), one]);
  });
  if (!kinds.size) return null;
  const title = trials.some((one) => one.fault && one.status !== "ok") ? "What went wrong" : "What trials that went right said";
  return el("div", {}, el("h3", {}, title), ...[...kinds].map(([name, those]) => el("details", { open: kinds.size === 1 },
    el("summary", { class: data.severity[those[0].status] }, `${those.length} × ${name}`),
    those[0].fault[2] ? el("pre", { tabindex: "0" }, those[0].fault[2]) : null,
    those[0].fault[3] ? el("pre", { tabindex: "0" }, those[0].fault[3]) : null,
    el("p", { class: "soft" }, "Again, here: ", el("code", {}, rerun(those[0].key))))));
}

function trialTable(row, trials) {
  const number = (key, show) => ({ key, title: key.replaceAll("_", " "), number: true, value: (one) => one[key], show: (one) => show(one[key]) });
  const long = (value) => figure(value, 5);
  const columns = [number("seed", String), number("replicate", String),
    { key: "status", title: "status", value: (one) => one.status, show: (one) => el("span", { class: data.severity[one.status], title: one.fault ? one.fault[1] : null }, one.status) },
    { key: "key", title: "run again", value: (one) => one.key, show: (one) => el("button", { type: "button", class: "link", title: "Copy this command", onclick: (event) => copied(event.target, rerun(one.key)) }, el("code", {}, rerun(one.key))) },
    number("estimate", long), number("truth", long), number("error", figure), number("standard_error", figure), number("interval_low", long), number("interval_high", long), number("logging_average", figure),
    number("fallback", figure), number("fit_seconds", seconds), number("estimate_seconds", seconds),
  ].filter((column) => trials.some((one) => one[column.key] !== null));
  const draw = (lines) => sortableTable({ columns, lines, name: `${row.method}-${row.setting}-trials`, head: "replicate", caption: lines.length < trials.length ? `The first ${lines.length} of ${trials.length} trials` : `${trials.length} ${trials.length === 1 ? "trial" : "trials"}` });
  const table = draw(trials.slice(0, MOST));
  const whole = draw(trials);
  const holder = el("div", {}, table.box);
  const all = trials.length > MOST ? el("button", { type: "button", onclick: (event) => { holder.replaceChildren(whole.box); event.target.remove(); } }, "Show all") : null;
  return el("div", {}, el("h3", {}, "Trials"), el("div", { class: "bar" }, whole.save, all), holder);
}

async function copied(node, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const chosen = getSelection();
    chosen.selectAllChildren(node);
  }
}
