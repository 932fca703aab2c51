"use strict";
// Filters the entries of the page. The state is in the URL fragment, so that a view can be shared as a link.
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const elements = [...document.querySelectorAll(".e")];
  const rows = [...document.querySelectorAll("tr[data-h]")];
  const hosts = data.hosts.map((name) => name.toLowerCase());
  let texts = null;

  const FIELDS = ["q", "severity", "cause", "host", "recipe"];
  const read = () => {
    const typed = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries(FIELDS.map((name) => [name, typed.get(name) || ""]));
  };
  const write = (state) => {
    const typed = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
    history.replaceState(null, "", "#" + typed);
    show();
  };

  // Text from the URL may contain invisible or reordering characters, like text from a host.
  const visible = (text) => text.replace(/[\p{C}\u2028\u2029]/gu, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

  // Returns the searchable text of each entry: its head and its parts. Host names are compared separately, because the
  // text shows them folded.
  const read_text = () => elements.map((element) => {
    const copy = element.cloneNode(true);
    copy.querySelectorAll("small, .on").forEach((folded) => folded.remove());
    const parts = [...copy.querySelectorAll(".v")].map((part) => { part.remove(); return part.textContent.toLowerCase(); });
    return { head: copy.textContent.toLowerCase(), parts };
  });

  // Returns the matching hosts of a part: every word is in the head, in the part or in the name of the host.
  const fitting = (runs, missing, state) => {
    const found = [];
    for (let run = 0; run < runs.length; run += 2) {
      for (let host = runs[run]; host <= runs[run + 1]; host++) {
        const named = !state.host || data.hosts[host] === state.host;
        if (named && missing.every((word) => hosts[host].includes(word))) found.push(host);
      }
    }
    return found;
  };

  // Shows an entry if any part of it matches, and only its matching parts. Returns the hosts.
  const sift = (element, at, state, words) => {
    const entry = data.entries[at];
    const other = ["severity", "cause", "recipe"].some((name) => state[name] && entry[name] !== state[name]);
    const elsewhere = words.filter((word) => !texts[at].head.includes(word));
    const found = other ? [] : entry.parts.map((runs, part) => {
      const text = texts ? texts[at].parts[part] || "" : "";
      return fitting(runs, elsewhere.filter((word) => !text.includes(word)), state);
    });
    element.querySelectorAll(".v").forEach((part, index) => { part.hidden = !other && found[index].length === 0; });
    return found.flat();
  };

  const show = () => {
    const state = read();
    const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const all = !FIELDS.some((name) => state[name]);
    if (words.length && !texts) texts = read_text();
    const seen = new Set();
    let shown = 0;
    elements.forEach((element, at) => {
      const found = all ? [] : sift(element, at, state, words);
      element.hidden = !all && found.length === 0;
      if (all) element.querySelectorAll(".v[hidden]").forEach((part) => { part.hidden = false; });
      if (!element.hidden) shown++;
      found.forEach((host) => seen.add(host));
    });
    rows.forEach((row) => { row.hidden = !all && !seen.has(Number(row.dataset.h)); });
    for (const name of ["q", "severity", "cause"]) {
      if (byId(name).value !== state[name]) byId(name).value = state[name];
    }
    const chips = ["host", "recipe"].filter((name) => state[name]).map((name) => {
      const chip = document.createElement("span");
      chip.textContent = name + ": " + visible(state[name]);
      return chip;
    });
    byId("chips").replaceChildren(...chips);
    byId("shown").textContent = shown + " of " + elements.length + " shown";
    byId("clear").hidden = all;
  };

  const causes = [...new Set(data.entries.map((entry) => entry.cause))].filter(Boolean).sort();
  byId("cause").append(...causes.map((cause) => new Option(cause, cause)));
  for (const name of ["q", "severity", "cause"]) {
    byId(name).addEventListener("input", () => write({ ...read(), [name]: byId(name).value }));
  }
  byId("clear").addEventListener("click", () => write({}));
  addEventListener("hashchange", show);
  byId("heat").addEventListener("click", (event) => {
    const cell = event.target.closest("td[class]");
    const row = cell && cell.closest("tr[data-h]");
    if (!row) return;
    const host = data.hosts[row.dataset.h];
    write(cell.className === "x" ? { host } : { host, recipe: data.recipes[cell.cellIndex - 1] });
    byId("findings").scrollIntoView();
  });

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const other = () => (theme() === "dark" ? "light" : "dark");
  const button = byId("theme");
  const label = () => { button.textContent = other(); };
  // If storage is not available (for files in some browsers), the choice lasts as long as the page.
  const kept = (write) => { try { return write(localStorage); } catch { return null; } };
  const before = kept((store) => store.getItem("forge-theme"));
  if (before === "dark" || before === "light") root.dataset.theme = before;
  button.addEventListener("click", () => {
    root.dataset.theme = other();
    kept((store) => store.setItem("forge-theme", root.dataset.theme));
    label();
  });
  dark.addEventListener("change", label);
  label();

  button.hidden = byId("controls").hidden = false;
  root.classList.add("js");
  show();
})();
