/* The leaderboard shows what is chosen. Tables sort by the column whose heading is clicked, or chosen with Enter; long ones can be filtered. */
// Excerpts of the pages found are fetched, which browsers refuse for pages opened from a file.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
const drawFilteredBoard = () => {
  const source = document.getElementById("filtered-board");
  if (!source) return;
  const { boards, kinds, pages } = JSON.parse(source.textContent);
  const selects = [...document.querySelectorAll(".filters select")];
  const table = document.querySelector("table.filtered");
  const draw = () => {
    const chosen = Object.fromEntries(selects.map((one) => [one.name, one.value]));
    const board = boards.find((one) => ["may know", "signal", "settings"].every((name) => one[name] === chosen[name]));
    const rows = (board ? board.rows : []).filter(([name]) => chosen.kind === "all" || kinds[name] === chosen.kind);
    document.querySelector(".chosen").textContent = board
      ? `${rows.length} of ${board.rows.length} estimators, ${board.counts[0]} settings of ${board.counts[1]} sources; errors over those of ${board.reference}.`
      : "No setting is of this choice.";
    table.replaceChildren();
    if (!rows.length) return;
    const head = table.createTHead().insertRow();
    for (const name of ["estimator", "error", "95 %", "90 %", "fails", "coverage"]) {
      head.append(Object.assign(document.createElement("th"), { textContent: name, className: name === "estimator" ? "" : "number" }));
    }
    const percent = (share) => share === null ? "–" : `${Math.round(100 * share)}%`;
    const body = table.createTBody();
    for (const [name, error, low, high, ninth, failures, coverage] of rows) {
      const row = body.insertRow();
      const label = Object.assign(document.createElement("code"), { textContent: name });
      const link = Object.assign(document.createElement("a"), { href: `../bench/docs/estimators/${pages[name]}.html` });
      if (pages[name]) link.append(label);
      row.insertCell().append(pages[name] ? link : label);
      const interval = low === null ? "–" : `${low.toFixed(2)} to ${high.toFixed(2)}`;
      for (const text of [error.toFixed(2), interval, ninth.toFixed(2), percent(failures), percent(coverage)]) {
        row.append(Object.assign(document.createElement("td"), { textContent: text, className: "number" }));
      }
      if (coverage !== null && coverage < 0.8) row.lastChild.classList.add("low");
    }
  };
  for (const one of selects) one.addEventListener("change", draw);
  draw();
};
document.addEventListener("DOMContentLoaded", () => {
  drawFilteredBoard();
  const value = (row, column) => row.cells[column] ? row.cells[column].innerText.trim() : "";
  const number = (text) => {
    const found = text.replace(/,/g, "").match(/^<?\s*(-?\.?\d[\d.]*(?:e-?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };
  for (const box of document.querySelectorAll("article .pst-scrollable-table-container, figure.figure")) {
    if (box.scrollWidth <= box.clientWidth) continue;
    box.before(Object.assign(document.createElement("div"), { className: "hint", textContent: "scroll →" }));
  }
  for (const table of document.querySelectorAll("article table.table:not(.filtered)")) {
    const body = table.tBodies[0];
    if (!table.tHead || !body || body.rows.length < 5) continue;
    const order = [...body.rows];
    if (order.length >= 15) {
      const filter = document.createElement("input");
      Object.assign(filter, { type: "search", className: "filter", placeholder: "Filter rows" });
      filter.setAttribute("aria-label", "Filter rows");
      filter.addEventListener("input", () => {
        const words = filter.value.toLowerCase().split(/\s+/);
        for (const row of order) {
          const text = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => text.includes(word));
        }
      });
      (table.closest(".pst-scrollable-table-container") || table).before(filter);
    }
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.tabIndex = 0;
      head.classList.add("sortable");
      const sort = () => {
        const now = head.getAttribute("aria-sort");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        let rows = order;
        if (now !== "descending") {
          const way = now === "ascending" ? -1 : 1;
          head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
          rows = [...order].sort((one, other) => {
            const [a, b] = [value(one, column), value(other, column)];
            const [x, y] = [number(a), number(b)];
            if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
            return way * (isNaN(x) ? a.localeCompare(b) : x - y);
          });
        }
        body.append(...rows);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }
});
