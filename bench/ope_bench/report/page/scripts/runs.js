// What was run, when, on what, and how the trials ended.

function runsSection() {
  const total = data.statuses.reduce((sum, word) => sum + data.status[word], 0);
  if (!data.runs.length) return null;
  const chips = data.statuses.filter((word) => data.status[word]).map((word) => el("li", {}, el("b", { class: data.severity[word] }, count(data.status[word])), ` ${word}`));
  const scope = [data.suite && `suite ${data.suite}`, data.run && `run ${data.run}`].filter(Boolean).join(", ");
  return el("section", { id: "runs", "aria-labelledby": "runs-title" },
    el("h2", { id: "runs-title" }, "Runs"),
    el("ul", { class: "chips", "aria-label": "Trials by status" }, el("li", {}, el("b", {}, count(total)), total === 1 ? " trial" : " trials"), ...chips),
    el("p", { class: "soft" }, `${data.methods.length} ${data.methods.length === 1 ? "estimator" : "estimators"}, `
      + `${data.settings.length} ${data.settings.length === 1 ? "setting" : "settings"}; ${scope ? `restricted to ${scope}; ` : ""}`
      + "newest outcome of every trial."),
    data.left_out ? el("p", { class: "soft" }, ...spans(data.left_out)) : null,
    runsTable(), machinesList());
}

function runsTable() {
  const machine = (run) => data.machines[run.machine] || {};
  const took = (run) => (run.finished === null ? null : run.finished - run.started);
  const columns = [
    { key: "started", title: "started (UTC)", value: (run) => run.started, show: (run) => run.started ? day(run.started) : "unknown" },
    { key: "suite", title: "suite", value: (run) => run.suite, show: (run) => run.suite },
    { key: "truth", title: "truth", value: (run) => run.truth, show: (run) => run.truth },
    { key: "planned", title: "planned", number: true, value: (run) => run.planned, show: (run) => count(run.planned) },
    { key: "took", title: "took", number: true, value: took, show: (run) => seconds(took(run)) },
    { key: "exit_code", title: "ended", value: (run) => run.exit_code, show: (run) => (run.exit_code === null ? `unfinished, ${count(run.done)} done` : `exit ${run.exit_code}`) },
    { key: "machine", title: "machine", value: (run) => run.machine, show: (run) => `#${run.machine + 1}` },
    { key: "revision", title: "revision", value: (run) => (machine(run).git || {}).revision, show: (run) => {
      const git = machine(run).git;
      if (!git) return "–";
      return [el("code", {}, (git.revision || "?").slice(0, 10)), git.dirty ? badge("dirty", "the working tree had uncommitted changes") : ""];
    } },
    { key: "id", title: "run", value: (run) => run.id, show: (run) => el("code", {}, run.id) },
    { key: "command", title: "command", value: (run) => run.command, show: (run) => el("code", {}, run.command) },
  ];
  const table = sortableTable({ columns, lines: data.runs, name: "runs", caption: data.runs.length === 1 ? "1 run" : `${data.runs.length} runs`, sort: "started:desc", head: "started" });
  return el("div", {}, table.box, el("div", { class: "bar" }, table.save));
}

function machinesList() {
  if (!data.machines.length) return null;
  return el("details", {}, el("summary", {}, "Machines and software"), ...data.machines.map((facts, place) => el("div", {},
    el("h3", {}, `Machine #${place + 1}`),
    el("dl", {}, ...Object.entries(facts).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)).flatMap(([name, value]) => [
      el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, name === "memory_bytes" ? bytes(value) : words(value))])))));
}

function words(value) {
  if (Array.isArray(value)) return value.map(words).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, one]) => `${name} ${words(one)}`).join(", ");
  return String(value);
}
