/* Tables sort by the column whose heading is clicked, or chosen with Enter. */
document.addEventListener("DOMContentLoaded", () => {
  const value = (row, column) => row.cells[column] ? row.cells[column].innerText.trim() : "";
  const number = (text) => {
    const found = text.replace(/,/g, "").match(/^<?\s*(-?\.?\d[\d.]*(?:e-?\d+)?)/i);
    return found ? parseFloat(found[1]) : NaN;
  };
  for (const table of document.querySelectorAll("article table.table")) {
    const body = table.tBodies[0];
    if (!table.tHead || !body || body.rows.length < 5) continue;
    const order = [...body.rows];
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
