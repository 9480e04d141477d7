// Colors of the page, for the page itself and for charts.

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
