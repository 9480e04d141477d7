// Colors of the page, for the page itself and for charts; charts in these colors.

const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function themeConfig() {
  const [ink, soft, line] = ["ink", "soft", "line"].map(cssColor);
  return {
    background: "transparent", font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: { labelColor: soft, titleColor: ink, gridColor: line, gridOpacity: 0.55, domainColor: soft, tickColor: soft, labelFontSize: 11, titleFontSize: 12, titleFontWeight: 500 },
    legend: { symbolBaseFillColor: ink, symbolBaseStrokeColor: ink, labelColor: ink, titleColor: soft, labelFontSize: 11 },
    title: { color: ink, fontSize: 12 }, text: { color: ink }, mark: { color: ink },
    line: { strokeWidth: 1.6 }, point: { size: 56 }, rule: { strokeWidth: 2 }, tick: { thickness: 1.3, bandSize: 11 },
    axisYBand: { grid: true, ticks: false, labelPadding: 6 }, style: { cell: { fontSize: 9 }, hollow: { size: 14 } },
  };
}

const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

/* Apply the theme that was chosen last, and call 'redraw' when another is. */
function followTheme(redraw) {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("ope-bench-theme", root.dataset.theme); } catch { /* a private window */ }
    redraw();
  });
  try {
    const kept = localStorage.getItem("ope-bench-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* a private window */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/* Draw a chart in a box in the page's colors; 'tables' are its data by name. A chart with a height
   fills the box, or is as wide as 'width'. */
function embedChart(box, spec, tables, height, width = "container") {
  const size = height ? { width, height, autosize: { type: "fit", contains: "padding" } } : {};
  const whole = { ...spec, ...size, datasets: { ...spec.datasets, ...tables }, config: themeConfig() };
  return vegaEmbed(box, whole, { actions: false, renderer: "svg", tooltip: { theme: dark() ? "dark" : "light" }, logLevel: 1 });
}
