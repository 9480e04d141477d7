// Charts of a page of sections: each figure names its specification and its lines.

const charts = JSON.parse(document.getElementById("data").textContent);

async function drawAll() {
  for (const node of document.querySelectorAll("figure[data-chart]")) {
    const { spec, lines, height } = charts[node.dataset.chart];
    await embedChart(node.querySelector(".chart"), structuredClone(spec), { table: lines }, height);
    node.dataset.drawn = "yes";
  }
}

followTheme(drawAll);
drawAll();
watchEdges(document);
