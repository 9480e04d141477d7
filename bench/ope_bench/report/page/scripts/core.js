// Data, numbers as words, the address, small pieces of the page.

/* Everything that comes from a plugin is put on the page as text, never as markup. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const $ = (id) => document.getElementById(id);

let data = JSON.parse($("data").textContent);
let rows = [];

/* Rows as objects: what charts, tables and filters all work on. */
function unpackRows() {
  let next = 0;
  rows = [];
  data.settings.forEach((setting, place) => {
    for (let cell = 0; cell < setting.rows; cell += 1, next += 1) {
      const [method, dirty, status, diagnostics, ...figures] = data.rows[next];
      const how = data.methods[method];
      const row = {
        id: next, cell, place, status, diagnostics, dirty: dirty === 1,
        method: how.label, how, device: how.device, access: how.access.join(", ") || "samples",
        setting: setting.label, environment: setting.environment, estimator: plainName(how),
      };
      data.figures.forEach((name, i) => { row[name] = figures[i]; });
      rows.push(row);
    }
  });
}

const plainName = (how) => (how.device === "cpu" ? how.label : how.label.replace(` (${how.device})`, ""));

/* The address holds everything that a reader chose, so that any view can be linked to. */
const DEFAULTS = { suite: "", environment: "", find: "", access: "", device: "", setting: "", by: "rmse", sort: "", sweep: "0", scale: "rmse", ranks: "0", tracks: "0", columns: "", cell: "", about: "" };
let state = { ...DEFAULTS };

function readAddress() {
  const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  state = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS)) if (name in found) state[name] = found[name];
  return found.at;
}

function choose(changes, push = false) {
  Object.assign(state, changes);
  const told = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== DEFAULTS[name]) told.set(name, value);
  const address = location.pathname + location.search + (String(told) ? `#${told}` : "#");
  history[push ? "pushState" : "replaceState"](null, "", address);
}

/* The suite that is shown: the newest run's unless another was chosen; "*" is everything. */
const NOTHING = { suite: "", title: "", settings: [], sentences: [], ranks: [], tracks: [] };
const shownGroup = () => data.groups.find((one) => state.suite && one.suite === (state.suite === "*" ? "" : state.suite)) || data.groups[0] || NOTHING;
let shownPlaces = new Set();

function passes(row) {
  return shownPlaces.has(row.place)
    && (!state.environment || row.environment === state.environment)
    && (!state.find || row.method.toLowerCase().includes(state.find.toLowerCase()))
    && (!state.access || row.access === state.access)
    && (!state.device || row.device === state.device);
}

/* Three digits, thousands up to 9,999 in full; the same words as in a terminal. */
function figure(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 9999.5) {
    const text = value.toPrecision(digits);
    return text.includes("e") ? value.toFixed(0) : text;
  }
  return value.toExponential(digits - 1).replace("+", "");
}

function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.005) return "<1%";
  if (value >= 0.995 && value < 1) return ">99%";
  return `${Math.round(100 * value)}%`;
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return `${figure(value * 1e6)} µs`;
  return value < 1 ? `${figure(value * 1e3)} ms` : `${figure(value)} s`;
}

const bytes = (value) => (value === null || value === undefined ? "–" : `${Math.round(value / 2 ** 20)} MiB`);
const range = (low, high, show) => (low === null || low === undefined ? "–" : `${show(low)} – ${high === null ? "∞" : show(high)}`);

/* The formats of the registry of columns; two numbers are a range. */
const FORMATS = { number: figure, percent, seconds, bytes, count: (value) => (Number.isInteger(value) ? String(value) : figure(value)), flag: (value) => (value ? "yes" : "no") };

function inWords(format, value) {
  if (value === null || value === undefined) return "–";
  const show = FORMATS[format] || String;
  return Array.isArray(value) ? range(value[0], value[1], show) : show(value);
}

const count = (value) => value.toLocaleString("en-US");
const day = (stamp) => (stamp === null ? "–" : new Date(stamp * 1000).toISOString().slice(0, 16).replace("T", " "));

const badge = (words, why) => el("span", { class: "badge", title: why }, words);

function rowBadges(row) {
  const marks = [];
  if (row.how.third_party) marks.push(badge("third-party", `plugin: ${row.how.origin || "unknown"}`));
  // Where every row is so, the setting says it.
  if (row.dirty && !data.settings[row.place].dirty) marks.push(badge("dirty", "made by a working tree with uncommitted changes"));
  return marks;
}

function settingBadges(setting) {
  const marks = [];
  if (setting.surrogate) marks.push(badge("surrogate data", setting.origin));
  if (setting.third_party) marks.push(badge("third-party", `plugin: ${setting.origin || "unknown"}`));
  if (setting.dirty) marks.push(badge("dirty", "made by a working tree with uncommitted changes"));
  return marks;
}

function csv(columns, lines) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...lines].map((line) => line.map(cell).join(",")).join("\n") + "\n";
}

function download(name, text, type = "text/csv") {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name.replace(/[^\w.=-]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const opened = new Map();

/* The trials of a setting, unpacked when first asked for. */
function trialsOf(place) {
  if (!opened.has(place)) {
    const packed = Uint8Array.from(atob(data.trials[place]), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    opened.set(place, new Response(stream).json());
  }
  return opened.get(place);
}
