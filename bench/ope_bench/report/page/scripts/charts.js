// Charts: specifications from the report, data from the filters, colors from the page.

const views = new Map();

/* More lines than this at once cannot be told apart: the best are drawn first. */
const MOST_LINES = 20;

const styleOf = (short) => data.styles[Math.max(data.methods.findIndex((one) => one.short === short), 0)];
const WIDEST = { ranks: 640 };
const STYLED = { color: 0, strokeDash: 1, shape: 2 };

/* A method keeps its looks whatever the filters leave; 'unit' is where an axis turns logarithmic,
   'parameter' what is swept, 'ticks' its values, 'domain' the ends of the vertical axis: bands are
   cut there, for one wide interval would press all lines together. */
function adapted(spec, labels, { unit, parameter, ticks, domain }) {
  const copy = structuredClone(spec);
  const paper = cssColor("paper");
  const walk = (node) => {
    if (Array.isArray(node)) return node.forEach(walk);
    if (!node || typeof node !== "object") return undefined;
    for (const [channel, part] of Object.entries(STYLED)) {
      if (node[channel] && node[channel].field === "method") Object.assign(node[channel], { legend: null, scale: { domain: labels, range: labels.map((one) => styleOf(one)[part]) } });
    }
    if (node.value === "paper") node.value = paper;
    if (domain && node.y && node.y.field) node.y.scale = { ...node.y.scale, domain, nice: false };
    if (domain && node.type === "area") node.clip = true;
    if (node.field === "value" && node.title && parameter) {
      node.title = parameter;
      if (node.axis && ticks && ticks.length <= 8) node.axis.values = ticks;
    }
    if (node.type === "symlog" && unit) node.constant = unit;
    return Object.values(node).forEach(walk);
  };
  walk(copy);
  return copy;
}

function columnsOf(table) {
  const names = new Set();
  table.forEach((line) => Object.entries(line).forEach(([name, value]) => { if (value === null || typeof value !== "object") names.add(name); }));
  return [...names];
}

const waiting = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (!entry.isIntersecting) return;
  waiting.unobserve(entry.target);
  entry.target.draw();
}), { rootMargin: "600px" });

/* A method's sign beside its name: its line and its point. Markup of nothing but our own styles. */
function sign(label) {
  const [color, dash, shape] = styleOf(label);
  const node = el("i", { "aria-hidden": "true" });
  node.innerHTML = `<svg width="30" height="12" viewBox="0 0 30 12"><path d="M1,6H29" fill="none" stroke="${color}" stroke-width="1.8"${dash[1] ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/><path d="${shape}" fill="${color}" transform="translate(15,6) scale(4)"/></svg>`;
  return node;
}

/* Names that single out a line, or several, when clicked. */
function legendOf(labels, view) {
  const picked = new Set();
  return labels.map((label) => el("li", {}, el("button", { type: "button", "aria-pressed": "false", title: "Single out", onclick: (event) => {
    if (!picked.delete(label)) picked.add(label);
    event.currentTarget.setAttribute("aria-pressed", String(picked.has(label)));
    const store = [...picked].map((one) => ({ unit: "", fields: [{ type: "E", field: "method", channel: "color" }], values: [one] }));
    view.data("picked_store", store).runAsync();
  } }, sign(label), label)));
}

/* The methods with the smallest RMSE, by its mean logarithm, as many as a chart can show. */
function bestOf(methods) {
  const mean = new Map(methods.map(({ label }) => {
    const sizes = rows.filter((row) => row.rmse > 0 && row.method === label).map((row) => Math.log(row.rmse));
    return [label, sizes.length ? sizes.reduce((a, b) => a + b) / sizes.length : Infinity];
  }));
  const best = new Set([...mean.keys()].sort((a, b) => mean.get(a) - mean.get(b)).slice(0, MOST_LINES));
  return methods.filter(({ label }) => best.has(label));
}

/* Lines with the labels that charts have room for. */
function brief(tables) {
  const short = new Map(data.methods.map((one) => [one.label, one.short]));
  const said = (label) => short.get(label) ?? label;
  const line = (one) => ({ ...one, ...(one.method === undefined ? {} : { method: said(one.method) }), ...(one.estimator === undefined ? {} : { estimator: said(one.estimator) }) });
  return Object.fromEntries(Object.entries(tables).map(([name, lines]) => [name, lines.map(line)]));
}

/* A figure that draws itself when it comes near the screen.
   make() -> {tables: {name: lines}, height, unit, parameter, ticks, domain}, or a promise of it. */
function chartFigure({ chart, title, words, make, legend = true }) {
  let everything = false;
  const box = el("div", { class: "chart", role: "img", "aria-label": `${title}. ${words || ""} The data can be downloaded as a table.` });
  const names = el("ul", { class: "legend" });
  const tools = el("span", { class: "tools" });
  const node = el("figure", { "data-chart": chart }, el("figcaption", {}, title, tools), box, legend ? names : null,
    words ? el("p", { class: "notes" }, words) : null);
  node.draw = async () => {
    node.dataset.started = "yes";
    try {
      const { tables, height, ...facts } = await make();
      let main = tables.table || tables.methods;
      if (!main.length) {
        box.replaceChildren(el("p", { class: "empty" }, "Nothing to draw with these filters."));
        return;
      }
      const found = new Set(main.map((line) => line.method));
      const all = data.methods.filter((one) => found.has(one.label));
      const shown = legend && !everything ? bestOf(all) : all;
      if (shown.length < all.length) {
        const kept = new Set(shown.map((one) => one.label));
        main = main.filter((line) => kept.has(line.method));
        tables.table = main;
      }
      const labels = shown.map((one) => one.short);
      const spec = adapted(data.charts[chart], labels, facts);
      const own = Boolean(spec.vconcat);
      // The lower map has nothing to say where no environment tells of support.
      if (own) {
        // Cells as wide as the box allows.
        const step = Math.min(Math.max((box.clientWidth - 260) / new Set(main.map((line) => line.setting)).size, 38), 110);
        spec.vconcat.forEach((map) => { map.width = { step }; });
      }
      if (own && main.every((line) => line.unsupported_mass === null && line.observed_unsupported_mass === null)) spec.vconcat.pop();
      if (views.has(node)) views.get(node).finalize();
      const embedded = await embedChart(box, spec, brief(tables), own ? 0 : height, WIDEST[chart] > box.clientWidth ? WIDEST[chart] : "container");
      views.set(node, embedded.view);
      if (legend) names.replaceChildren(...legendOf(labels, embedded.view));
      if (legend && all.length > MOST_LINES) {
        names.append(el("li", {}, el("button", { type: "button", class: "link", onclick: () => { everything = !everything; node.draw(); } },
          everything ? `Only the ${MOST_LINES} best` : `The ${MOST_LINES} best of ${all.length}; show all`)));
      }
      const columns = columnsOf(main);
      tools.replaceChildren(
        el("button", { type: "button", onclick: () => download(`${title}.csv`, csv(columns, main.map((line) => columns.map((one) => line[one])))) }, "CSV"),
        el("button", { type: "button", onclick: async () => download(`${title}.svg`, await embedded.view.toSVG(), "image/svg+xml") }, "SVG"));
      node.dataset.drawn = "yes";
    } catch (problem) {
      box.replaceChildren(el("p", { class: "empty" }, `This chart could not be drawn: ${problem.message}`));
      console.error(problem);
    }
  };
  waiting.observe(node);
  return node;
}

/* Charts that are not near the screen are drawn when nothing else is to do: paper has no screen. */
let idle = 0;
function drawWhenIdle() {
  cancelIdleCallback(idle);
  idle = requestIdleCallback(async () => {
    const next = [...document.querySelectorAll("figure")].find((node) => !node.dataset.started);
    if (!next) return;
    waiting.unobserve(next);
    await next.draw();
    drawWhenIdle();
  }, { timeout: 2000 });
}

/* What leaves the page takes its listeners along. */
function forget(root) {
  root.querySelectorAll("figure").forEach((node) => {
    waiting.unobserve(node);
    if (views.has(node)) views.get(node).finalize();
    views.delete(node);
  });
}

const bandHeight = (lines) => 40 + 19 * Math.max(new Set(lines.map((line) => line.method)).size, 2);
