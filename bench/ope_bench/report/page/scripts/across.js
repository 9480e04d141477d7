// Over several settings: tracks, sweeps, positivity, ranks.

function sweepSection(update) {
  const shown = new Set(shownSettings().map(({ place }) => place));
  const usable = data.sweeps.map((sweep, place) => ({ sweep: { ...sweep, at: sweep.at.filter(([, one]) => shown.has(one)) }, place })).filter(({ sweep }) => sweep.at.length > 1);
  if (!usable.length) return null;
  const { sweep } = usable.find(({ place }) => String(place) === state.sweep) || usable[0];
  const value = new Map(sweep.at.map(([x, place]) => [place, x]));
  const measure = state.scale === "log10" ? "log10_rmse" : "rmse";
  const chart = `sweep${measure === "rmse" ? "" : "_log10"}${sweep.logarithmic ? "" : "_linear"}`;
  const pick = el("select", { "aria-label": "Sweep", onchange: (event) => { choose({ sweep: event.target.value }); update(); } },
    ...usable.map((one) => el("option", { value: String(one.place), selected: one.sweep === sweep }, one.sweep.title)));
  const scales = [["rmse", "RMSE"], ["log10", "log10 RMSE"]].map(([scale, title]) => el("button", { type: "button", "aria-pressed": String(state.scale === scale), onclick: () => { choose({ scale }); update(); } }, title));
  return el("section", { id: "sweeps", "aria-labelledby": "sweeps-title" }, el("h2", { id: "sweeps-title" }, "Along a parameter"),
    el("div", { class: "bar" }, pick, ...scales),
    chartFigure({ chart, title: sweep.title, words: `Bands: 95 % intervals, cut at the edges, none where few data sets determine the RMSE. ${HOLLOW} Dotted beside these. A name singles a line out.`,
      make: () => {
        const table = rows.filter((row) => value.has(row.place) && passes(row) && row[measure] !== null && row.rmse > 0)
          .map((row) => ({ ...drawn(row), value: value.get(row.place) }));
        const sizes = table.map((row) => row.rmse);
        const ends = sizes.length ? [Math.min(...sizes) / 1.5, Math.max(...sizes) * 1.5] : null;
        return { height: 420, parameter: sweep.parameter, ticks: [...new Set(sweep.at.map(([x]) => x))], tables: { table },
          domain: ends && (measure === "rmse" ? ends : ends.map(Math.log10)) };
      } }));
}

function positivitySection() {
  const shown = rows.filter(passes);
  if (!shown.length) return null;
  return el("section", { id: "positivity", "aria-labelledby": "positivity-title" }, el("h2", { id: "positivity-title" }, "Positivity"),
    chartFigure({ chart: "positivity", title: "Failures and support", legend: false,
      words: "Share of trials that gave no estimate, whatever the reason; below, the target policy's mass that the logging policy never supports, and the share of target actions that were never logged.",
      make: () => ({ tables: { table: shown.map(({ how, status, diagnostics, ...row }) => ({ ...row, setting: shortSetting(row.setting, row.environment, shown) })) } }) }));
}

/* A table over several settings, one of which a reader picks: the picker, and the table of what is picked. */
function pickedTable(tables, { name, title, sort, caption, update }) {
  const place = tables[Number(state[name])] ? Number(state[name]) : 0;
  const picked = tables[place];
  const pick = el("select", { "aria-label": title, onchange: (event) => { choose({ [name]: event.target.value }); update(); } },
    ...tables.map((one, i) => el("option", { value: String(i), selected: i === place }, one.title)));
  const columns = picked.columns.map((column, i) => ({ key: column.key, title: column.title, why: column.explanation, number: column.number, value: (line) => line[i], show: (line) => inWords(column.format, line[i]) }));
  const at = columns.findIndex((column) => column.key === "estimator");
  const lines = picked.rows.filter((line) => line[at].toLowerCase().includes(state.find.toLowerCase()));
  const table = sortableTable({ columns, lines, name, sort, head: "estimator", caption: caption(picked) });
  return { picked, bar: el("div", { class: "bar" }, pick, el("span", { class: "push" }), table.save), box: table.box };
}

function tracksSection(update) {
  const { tracks } = shownGroup();
  if (!tracks.length) return null;
  const { bar, box } = pickedTable(tracks, { name: "tracks", title: "Track", sort: "ratio:asc", update,
    caption: () => "Estimators that may know the same, by error over the reference's; ranks are those that the data leave open" });
  return el("section", { id: "tracks", "aria-labelledby": "tracks-title" }, el("h2", { id: "tracks-title" }, "Leaderboard by track"), bar, box);
}

function ranksSection(update) {
  const { ranks } = shownGroup();
  if (!ranks.length) return null;
  const { picked: summary, bar, box } = pickedTable(ranks, { name: "ranks", title: "Settings", sort: "mean_rank:asc", update,
    caption: (one) => `Over ${one.settings} settings, mean ranks over the ${one.complete} in which every estimator has a score` });
  return el("section", { id: "ranks", "aria-labelledby": "ranks-title" }, el("h2", { id: "ranks-title" }, "Ranks over settings"), bar,
    !summary.methods.length ? el("p", { class: "empty" }, `No two mean ranks differ by the critical difference, ${figure(summary.critical_difference)}.`) : chartFigure({ chart: "ranks", title: `Critical difference: ${figure(summary.critical_difference)}`, legend: false,
      words: "Mean ranks by score, the best on the left; bars join what Nemenyi's test cannot tell apart at 5 %. It assumes independent settings: along one sweep they are not, and the bars are then too short.",
      make: () => ({ tables: { methods: summary.methods, elbows: summary.elbows, bars: summary.bars, axis: summary.axis }, height: 70 + 22 * (summary.bars.length + Math.ceil(summary.methods.length / 2)) }) }),
    el("div", { style: "margin-top:1rem" }, box));
}
