// An estimator's docstring: claim, formula, assumptions, parameters, reference.

/* Text with code spans; nothing of a docstring is ever markup. */
function spans(text) {
  return text.split(/(`+[^`]+`+)/).map((part) => (part.startsWith("`") ? el("code", {}, part.replaceAll("`", "")) : part));
}

/* Paragraphs of a docstring: indented ones are formulas or code, underlined ones are headings. */
function docParts(text) {
  return text.replace(/\n(?=(Assumptions|Fails when|Complexity|Cost): )/g, "\n\n").split(/\n\s*\n/).flatMap((paragraph) => {
    const lines = paragraph.split("\n").filter((line) => line.trim());
    if (!lines.length) return [];
    if (lines.length > 1 && /^-{3,}$/.test(lines[1])) return [el("h3", {}, lines[0]), ...docParts(lines.slice(2).join("\n"))];
    if (lines.every((line) => line.startsWith("    ")) || lines[0].startsWith(">>>")) return [el("pre", { tabindex: "0" }, lines.map((line) => line.replace(/^ {4}/, "").replaceAll("`", "")).join("\n"))];
    // An entry of a list of parameters begins at the margin; its further lines are indented.
    const entries = lines.reduce((all, line) => (/^\s/.test(line) && all.length ? [...all.slice(0, -1), `${all.at(-1)} ${line.trim()}`] : [...all, line]), []);
    if (entries.every((entry) => /^[\w, ]+ : /.test(entry))) {
      return [el("dl", {}, ...entries.flatMap((entry) => { const at = entry.indexOf(" : "); return [el("dt", {}, el("code", {}, entry.slice(0, at))), el("dd", {}, ...spans(entry.slice(at + 3)))]; }))];
    }
    const lead = /^(Assumptions|Fails when|Complexity|Cost): /.exec(entries[0]);
    const words_ = lines.join(" ").replace(/\s+/g, " ");
    return [lead ? el("p", {}, el("b", {}, lead[1]), ": ", ...spans(words_.slice(lead[0].length))) : el("p", {}, ...spans(words_))];
  });
}

function openAbout(how, push = true) {
  const box = $("about");
  choose({ about: how.label }, push);
  const text = data.docstrings[how.estimator];
  const close = el("button", { type: "button", onclick: () => box.close() }, "Close");
  const facts = [["parameters here", words(how.params) || "none"], ["uses beyond samples", accessWords(how.access)], ["device", how.device], ["from", how.origin || "unknown"], ["in a terminal", el("code", {}, `ope-bench show ${how.estimator}`)]];
  box.replaceChildren(
    el("header", {}, el("h2", { id: "about-title" }, how.label), close),
    el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("div", { class: "doc" }, ...(text ? docParts(text) : [el("p", { class: "empty" }, "This estimator was not installed where the page was made.")])));
  if (!box.open) box.showModal();
}
