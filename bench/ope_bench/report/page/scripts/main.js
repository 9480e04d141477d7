// The page: filters, sections, the address, news from a run.

function fillFilters() {
  const suites = data.groups.map((one) => el("option", { value: one.suite || "*", selected: one === shownGroup() }, one.suite || "everything"));
  $("suite").replaceChildren(...suites);
  $("suite").closest("label").hidden = data.groups.length < 2;
  shownPlaces = new Set(shownGroup().settings);
  const options = (id, all, found) => {
    $(id).replaceChildren(el("option", { value: "" }, all), ...[...new Set(found)].map((value) => el("option", { value }, value.replaceAll("_", " "))));
    $(id).value = state[id];
    if ($(id).selectedIndex < 0) { state[id] = ""; $(id).value = ""; }
  };
  options("environment", "all", [...shownPlaces].map((place) => data.settings[place].environment));
  options("access", "any", rows.filter(({ place }) => shownPlaces.has(place)).map((row) => row.access));
  options("device", "any", rows.filter(({ place }) => shownPlaces.has(place)).map((row) => row.device));
  $("find").value = state.find;
}

function update() {
  const kept = document.activeElement && document.activeElement.getAttribute("aria-label");
  const main = $("main");
  forget(main);
  const parts = [["result", "Result", resultSection()], ["tracks", "Tracks", tracksSection(update)], ["sweeps", "Sweeps", sweepSection(update)], ["boards", "Settings", boardsSection(update)],
    ["positivity", "Positivity", positivitySection()], ["ranks", "Ranks", ranksSection(update)], ["runs", "Runs", runsSection()], ["words", "Words", wordsSection()]].filter(([, , node]) => node);
  main.replaceChildren(...parts.map(([, , node]) => node));
  $("sections").replaceChildren(...parts.map(([id, title]) => el("a", { href: `#${id}`, onclick: (event) => {
    // The address belongs to what was chosen, so a section is scrolled to instead.
    event.preventDefault();
    $(id).scrollIntoView({ behavior: "smooth" });
  } }, title)));
  const shown = rows.filter(passes).length;
  $("shown").textContent = `${count(shown)} of ${count(rows.filter(({ place }) => shownPlaces.has(place)).length)} rows`;
  watchEdges(main);
  drawWhenIdle();
  if (kept) [...main.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === kept)?.focus();
}

function openCell() {
  const how = data.methods.find((one) => one.label === state.about);
  if (how) openAbout(how, false);
  else if ($("about").open) $("about").close();
  if (!state.cell) {
    if ($("trials").open) $("trials").close();
    return;
  }
  const row = rows.find((one) => `${one.method}@${one.setting}` === state.cell);
  if (row) openTrials(row, false);
}

function show() {
  unpackRows();
  opened.clear();
  fillFilters();
  $("scope").textContent = [data.store, data.run].filter(Boolean).join(", ");
  $("footer").replaceChildren(`Made by ope-bench ${data.version} on ${day(data.made)} UTC from ${data.store}.`);
  update();
}

followTheme(update);
document.querySelector("header h1").after(el("label", { class: "suite" }, "Suite ", el("select", { id: "suite" })));

$("suite").addEventListener("change", (event) => {
  // Filters of one suite mean nothing in another.
  choose({ ...DEFAULTS, by: state.by, suite: event.target.value });
  fillFilters();
  update();
});
for (const id of ["environment", "access", "device"]) $(id).addEventListener("change", (event) => { choose({ [id]: event.target.value }); update(); });
let typing;
$("find").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => { choose({ find: event.target.value }); update(); }, 150);
});
$("reset").addEventListener("click", () => { choose({ ...DEFAULTS, by: state.by, suite: state.suite }); fillFilters(); update(); });
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("trials").addEventListener("close", () => choose({ cell: "" }));
$("about").addEventListener("close", () => choose({ about: "" }));
addEventListener("hashchange", () => { readAddress(); fillFilters(); update(); openCell(); });
addEventListener("popstate", () => { readAddress(); fillFilters(); update(); openCell(); });

const section = readAddress();
show();
openCell();
if (section && $(section)) $(section).scrollIntoView();
