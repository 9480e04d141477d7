// A table that sorts by any column, with its data to download.

/* columns: {key, title, value(row), show(row) -> text or node, number, why}; sort: "key:asc". */
function sortableTable({ columns, lines, caption, sort, onsort, tied, name, head }) {
  let [key, order] = (sort || "").split(":");
  const body = el("tbody");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", title: column.why }, column.title);
    const cell = el("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button);
    button.addEventListener("click", () => {
      order = key === column.key && order === "asc" ? "desc" : "asc";
      key = column.key;
      if (onsort) onsort(`${key}:${order}`);
      fill();
    });
    return cell;
  });

  function ordered() {
    const column = columns.find((one) => one.key === key);
    if (!column) return lines;
    const sign = order === "desc" ? -1 : 1;
    const missing = (value) => value === null || value === undefined;
    return [...lines].sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      // What does not exist stands last in either order.
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      if (Array.isArray(x)) return sign * (x[0] - y[0] || x[1] - y[1]);
      return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
  }

  function fill() {
    heads.forEach((cell) => {
      if (cell.dataset.key !== key) cell.removeAttribute("aria-sort");
      else cell.setAttribute("aria-sort", order === "desc" ? "descending" : "ascending");
    });
    body.replaceChildren(...ordered().map((line) => el("tr", { class: tied && tied(line) ? "tied" : null },
      ...columns.map((column) => el(column.key === head ? "th" : "td",
        { class: column.number ? "number" : null, scope: column.key === head ? "row" : null },
        ...[column.show(line)].flat())))));
  }

  fill();
  const table = el("table", {}, caption ? el("caption", {}, el("span", {}, caption)) : null, el("thead", {}, el("tr", {}, ...heads)), body);
  const save = el("button", { type: "button", onclick: () => download(`${name}.csv`,
    csv(columns.map((one) => one.key), ordered().map((line) => columns.map((one) => one.value(line))))) }, "Download CSV");
  const scroll = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption || name }, table);
  return { box: el("div", { class: "wide" }, scroll), save };
}
