// Charts of the page: each figure names its specification and its lines.

const data = JSON.parse(document.getElementById("data").textContent);

const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

async function drawAll() {
  for (const node of document.querySelectorAll("figure[data-chart]")) {
    const { spec, lines, height } = data[node.dataset.chart];
    const whole = { ...structuredClone(spec), datasets: { ...spec.datasets, table: lines }, config: themeConfig(), width: "container", height, autosize: { type: "fit", contains: "padding" } };
    await vegaEmbed(node.querySelector(".chart"), whole, { actions: false, renderer: "svg", tooltip: { theme: dark() ? "dark" : "light" }, logLevel: 1 });
    node.dataset.drawn = "yes";
  }
}

document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  try { localStorage.setItem("ope-bench-theme", document.documentElement.dataset.theme); } catch { /* a private window */ }
  drawAll();
});
try {
  const kept = localStorage.getItem("ope-bench-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch { /* a private window */ }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
