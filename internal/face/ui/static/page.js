// What moves on a page: times, keys, buttons that copy, and what live.js follows. Without it
// everything can be read, and every form works.
import { follow } from "./live.js";

const words = (s) => s < 60 ? `${s | 0} s` : s < 600 ? `${s / 60 | 0} min ${s % 60 | 0} s` : s < 3600 ? `${s / 60 | 0} min`
  : s < 86400 ? `${s / 3600 | 0} h ${s % 3600 / 60 | 0} min` : `${s / 86400 | 0} d`;

function tellTimes() {
  for (const at of document.querySelectorAll("time[data-ago]")) {
    const s = (Date.now() - Date.parse(at.dateTime)) / 1000;
    const said = s >= 0 ? words(s) + " ago" : "in " + words(-s);
    if (at.textContent !== said) at.textContent = said;
  }
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function addCopyButtons() {
  for (const box of document.querySelectorAll(".command:not(:has(button))")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => copy(button, box.querySelector("code").textContent));
    box.append(button);
  }
}

function step(by) {
  const rows = [...document.querySelectorAll(".row-link")].filter((a) => a.checkVisibility());
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))].focus();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => document.querySelector("input[type=search]")?.focus(),
  c: () => document.querySelector(".command button")?.click(),
  u: () => document.querySelector("[data-up]")?.click(),
  "?": () => document.getElementById("keys").showModal(),
};

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input,select,textarea,dialog")) return;
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
});

addEventListener("submit", (e) => {
  const { confirm: question, busy } = e.target.dataset;
  if (question && !confirm(question)) { e.preventDefault(); return; }
  const button = e.target.querySelector("button");
  if (busy && button) button.textContent = busy;
});

addEventListener("change", (e) => {
  if (e.target.matches(".filters select")) e.target.form.requestSubmit();
});

const show = document.querySelector("[data-keys]");
if (show) { show.hidden = false; show.addEventListener("click", keys["?"]); }

const refresh = () => { tellTimes(); addCopyButtons(); };
document.addEventListener("fresh", refresh);
refresh();
setInterval(tellTimes, 10000);
follow(document.body.dataset.live);
