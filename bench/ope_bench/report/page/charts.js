// Charts: specifications from the report, data from the filters, colours from the page.

const PALETTE = ["#4c78a8", "#e4772e", "#3a9c4e", "#c93c3c", "#8a63b8", "#9c6b4e", "#d46ba9", "#708090", "#a3a12a", "#1fa3b5",
  "#2b4f78", "#f2a65a", "#84c98a", "#f08a86", "#b9a0dc", "#c8a68f", "#eda9cf", "#a9b3bd", "#d0cf6b", "#86d3de"];
const views = new Map();

const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const colourOf = (label) => PALETTE[Math.max(data.methods.findIndex((one) => one.label === label), 0) % PALETTE.length];

function themeConfig() {
  const [ink, soft, line] = ["ink", "soft", "line"].map(cssColour);
  return {
    background: "transparent", font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: { labelColor: soft, titleColor: ink, gridColor: line, gridOpacity: 0.55, domainColor: soft, tickColor: soft, labelFontSize: 11, titleFontSize: 12, titleFontWeight: 500 },
    legend: { symbolBaseFillColor: ink, symbolBaseStrokeColor: ink, labelColor: ink, titleColor: soft, labelFontSize: 11 },
    title: { color: ink, fontSize: 12 }, text: { color: ink }, mark: { color: ink },
  };
}

/* A method keeps its colour whatever the filters leave; 'unit' is where an axis turns logarithmic,
   'parameter' what is swept. */
function adapted(spec, labels, unit, parameter) {
  const copy = structuredClone(spec);
  const walk = (node) => {
    if (Array.isArray(node)) return node.forEach(walk);
    if (!node || typeof node !== "object") return undefined;
    if (node.field === "method" && "type" in node && node.type === "nominal" && ("legend" in node) ) {
      node.scale = { domain: labels, range: labels.map(colourOf) };
      node.legend = null;
    }
    if (node.field === "value" && node.title && parameter) node.title = parameter.replaceAll("_", " ");
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

/* A figure that draws itself when it comes near the screen.
   make() -> {tables: {name: lines}, height, unit, parameter}, or a promise of it. */
function chartFigure({ chart, title, words, make, legend = true }) {
  const box = el("div", { class: "chart", role: "img", "aria-label": `${title}. ${words || ""} The data can be downloaded as a table.` });
  const names = el("ul", { class: "legend" });
  const tools = el("span", { class: "tools" });
  const node = el("figure", { "data-chart": chart }, el("figcaption", {}, title, tools), box, legend ? names : null,
    words ? el("p", { class: "notes" }, words) : null);
  node.draw = async () => {
    try {
      const { tables, height, unit, parameter } = await make();
      const main = tables.table || tables.methods;
      if (!main.length) {
        box.replaceChildren(el("p", { class: "empty" }, "Nothing to draw with these filters."));
        return;
      }
      const labels = [...new Set(main.map((line) => line.method))];
      const spec = adapted(data.charts[chart], labels, unit, parameter);
      const own = Boolean(spec.vconcat);
      // The lower map has nothing to say where no environment tells of support.
      if (own && main.every((line) => line.unsupported_mass === null && line.observed_unsupported_mass === null)) spec.vconcat.pop();
      Object.assign(spec, { datasets: tables, config: themeConfig() });
      if (!own) Object.assign(spec, { width: "container", height, autosize: { type: "fit", contains: "padding" } });
      if (views.has(node)) views.get(node).finalize();
      const embedded = await vegaEmbed(box, spec, { actions: false, renderer: "svg", tooltip: { theme: dark() ? "dark" : "light" }, logLevel: 1 });
      views.set(node, embedded.view);
      names.replaceChildren(...labels.map((label) => el("li", {}, el("i", { style: `background:${colourOf(label)}` }), label)));
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

/* What leaves the page takes its listeners along. */
function forget(root) {
  root.querySelectorAll("figure").forEach((node) => {
    waiting.unobserve(node);
    if (views.has(node)) views.get(node).finalize();
    views.delete(node);
  });
}

const bandHeight = (lines) => 40 + 19 * Math.max(new Set(lines.map((line) => line.method)).size, 2);
