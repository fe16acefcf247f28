// What the page follows: a list that changes, or a run that goes on. A connection that drops
// comes back by itself and goes on behind the last entry that arrived.
import { load, parse } from "./html.js";

const say = (words, off) => {
  const at = document.getElementById("link");
  if (at.textContent !== words) at.textContent = words;
  at.classList.toggle("off", Boolean(off));
};

/** replace puts a part of a fresh page in the place of ours, and keeps the focus. */
function replace(fresh, selector) {
  const ours = document.querySelector(selector), theirs = fresh.querySelector(selector);
  if (!ours || !theirs) return;
  const focused = ours.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  const open = [...ours.querySelectorAll("details[open]")].map((d) => d.querySelector("summary")?.textContent);
  ours.replaceWith(theirs);
  for (const d of theirs.querySelectorAll("details")) if (open.includes(d.querySelector("summary")?.textContent)) d.open = true;
  if (focused) theirs.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

let asking = false, again = false;
async function refreshList() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    const fresh = await load(location.href);
    replace(fresh, "#list");
    replace(fresh, ".counts");
    document.dispatchEvent(new Event("fresh"));
  } catch { /* the stream says how the connection is, and tells of the next change */ }
  asking = false;
  if (again) { again = false; refreshList(); }
}

function addEntry(html) {
  const line = parse(html).body.firstElementChild, list = document.getElementById("timeline");
  if (!line || !list || document.getElementById(line.id)) return;
  list.querySelector(".none")?.remove();
  const near = innerHeight + scrollY > document.documentElement.scrollHeight - 200;
  line.classList.add("new");
  list.append(line);
  if (near && list.dataset.follow !== undefined) line.scrollIntoView({ block: "nearest" });
}

async function ended() {
  say("Ended.");
  const fresh = await load(location.href);
  replace(fresh, "#main");
  document.title = fresh.title;
  document.dispatchEvent(new Event("fresh"));
}

/** follow opens the stream that the page names. */
export function follow(address) {
  if (!address) return;
  const stream = new EventSource(address);
  let failed = 0, before = false;
  stream.onopen = () => {
    failed = 0;
    say("Live.");
    if (before) refreshList(); // what changed meanwhile
    before = true;
  };
  stream.onerror = () => {
    failed++;
    say("The connection dropped; trying again.", true);
    if (stream.readyState === EventSource.CLOSED) { // the server answers, and not with a stream
      setTimeout(() => load(location.href).then(() => follow(address), () => follow(address)), Math.min(30000, 1000 * 2 ** failed));
    }
  };
  stream.addEventListener("changed", refreshList);
  stream.addEventListener("entry", (e) => addEntry(JSON.parse(e.data)));
  stream.addEventListener("state", (e) => {
    const fresh = parse(JSON.parse(e.data));
    replace(fresh, "#runstate");
  });
  stream.addEventListener("end", () => { stream.close(); ended(); });
}
