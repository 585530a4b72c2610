// The page shows what the server sends. What comes from the service is only ever set as text.

import { breakButton, setUp } from "./break.js";
import { count, difference, held, heldText, setBackend, setClock, span, title, waitingText, when, who } from "./words.js";

const most = 500; // rows that are drawn: nobody reads more, and browsers get slow
const remembered = 100; // changes of one lock
const byId = (id) => document.getElementById(id);
const locks = new Map(); // key → lock
const changes = new Map(); // key → [{at, text}], the newest first
let marked = new Set(); // keys that the last look has found changed
let sort = { by: "name", up: true };
let open = null; // the key of the lock in the panel
let token = sessionStorage.getItem("token") ?? "";
let breaks = false; // locks can be taken away here

// ---- the table

function rows() {
  const wanted = byId("filter").value.toLowerCase();
  const list = [...locks.values()].filter(
    (l) => !wanted || title(l).toLowerCase().includes(wanted) || (l.holder && who(l.holder).toLowerCase().includes(wanted)),
  );
  const byName = (a, b) => (title(a) < title(b) ? -1 : title(a) > title(b) ? 1 : 0);
  const orders = { name: byName, held: (a, b) => held(a) - held(b), waiting: (a, b) => a.waiting - b.waiting };
  list.sort((a, b) => (sort.up ? 1 : -1) * orders[sort.by](a, b) || byName(a, b));
  return list;
}

function cell(row, text) {
  const td = row.insertCell();
  td.textContent = text;
  return td;
}

function draw() {
  const list = rows();
  const body = document.createElement("tbody");
  for (const lock of list.slice(0, most)) {
    const row = body.insertRow();
    row.dataset.key = lock.key;
    if (marked.has(lock.key)) row.className = "changed";
    const button = document.createElement("button"); // for the keyboard
    button.textContent = title(lock);
    row.insertCell().append(button);
    cell(row, heldText(lock)).dataset.held = "";
    cell(row, waitingText(lock));
    cell(row, lock.holder?.token ?? "–");
    cell(row, lock.holder ? who(lock.holder) + (lock.holder.broken ? " (being taken away)" : "") : "free").className = lock.holder ? "holder" : "holder free";
    if (breaks) row.insertCell().append(...breakButton(lock));
  }
  const focusedBreak = document.activeElement?.className === "break";
  const focused = document.activeElement?.closest("tr")?.dataset.key;
  document.querySelector("#locks tbody").replaceWith(body);
  if (focused !== undefined) {
    [...body.rows].find((r) => r.dataset.key === focused)?.querySelector(focusedBreak ? "button.break" : "button")?.focus();
  }
  byId("more").textContent = list.length > most ? `and ${list.length - most} more: filter to see them` : "";
  for (const th of document.querySelectorAll("th")) {
    th.removeAttribute("aria-sort");
    if (th.querySelector("button")?.dataset.sort === sort.by) th.setAttribute("aria-sort", sort.up ? "ascending" : "descending");
  }
}

// Times go on between two looks.
setInterval(() => {
  for (const td of document.querySelectorAll("td[data-held]")) {
    const lock = locks.get(td.parentElement.dataset.key);
    if (lock) td.textContent = heldText(lock);
  }
}, 1000);

// ---- the panel of one lock

const definition = (list, term, text) => {
  if (!text) return;
  list.append(Object.assign(document.createElement("dt"), { textContent: term }));
  list.append(Object.assign(document.createElement("dd"), { textContent: text }));
};

function drawPanel(lock) {
  const panel = byId("details");
  panel.hidden = false;
  panel.querySelector("h2").textContent = title(lock);
  const list = panel.querySelector("dl");
  list.replaceChildren();
  const p = lock.holder;
  definition(list, "Held by", p ? who(p) : "nobody");
  definition(list, "Token", p?.token);
  definition(list, "Since", when(p?.since));
  definition(list, "Asked", when(p?.asked));
  definition(list, "Ends in", p?.expires_ms && `${span(p.expires_ms)}, unless renewed`);
  definition(list, "Session", p?.session);
  definition(list, "Owner", p?.owner);
  definition(list, "Trace", p?.trace);
  definition(list, "Key", lock.key);
  const b = p?.broken;
  definition(list, "Taken away", b && [b.by && `by ${b.by}`, b.at && when(b.at), b.reason].filter(Boolean).join(", "));
  for (const part of lock.partial ?? []) definition(list, "No majority", who(part));
  const waiters = panel.querySelector("ol");
  waiters.replaceChildren();
  for (const w of lock.waiters ?? []) {
    waiters.append(Object.assign(document.createElement("li"), { textContent: who(w) + (w.asked ? `, ${when(w.asked)}` : "") }));
  }
  const more = lock.waiting - (lock.waiters ?? []).length;
  if (more > 0) waiters.append(Object.assign(document.createElement("li"), { textContent: `and ${more} more` }));
  if (lock.waiting < 0) waiters.append(Object.assign(document.createElement("li"), { textContent: "the service doesn't know who waits" }));
  const seen = panel.querySelector("ul");
  seen.replaceChildren();
  for (const c of changes.get(lock.key) ?? []) {
    const item = document.createElement("li");
    item.append(Object.assign(document.createElement("time"), { textContent: c.at.toLocaleTimeString() }), ` ${c.text}`);
    seen.append(item);
  }
}

// look asks the service for the lock in the panel.
async function look() {
  const key = open;
  if (key === null) return;
  const known = locks.get(key) ?? { key, waiting: 0 };
  let lock = known;
  if (known.name !== undefined) {
    try {
      const query = new URLSearchParams({ name: known.name, slot: known.slot ?? 0 });
      const answer = await fetch(`api/lock?${query}`, { headers: headers() });
      if (answer.ok) lock = await answer.json();
    } catch {
      // the state of the connection is shown by the events
    }
  }
  if (open === key) drawPanel(lock);
}

function close() {
  open = null;
  byId("details").hidden = true;
}

// ---- what the server sends

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

function remember(key, text) {
  if (!text) return;
  changes.set(key, [{ at: new Date(), text }, ...(changes.get(key) ?? [])].slice(0, remembered));
}

function received(kind, message) {
  setClock(message.at);
  marked = new Set();
  if (kind === "snapshot") {
    locks.clear();
    for (const lock of message.locks) locks.set(lock.key, lock);
  }
  for (const lock of [...(message.added ?? []), ...(message.changed ?? [])]) {
    remember(lock.key, difference(locks.get(lock.key) ?? { key: lock.key, waiting: 0 }, lock));
    locks.set(lock.key, lock);
    marked.add(lock.key);
  }
  for (const key of message.removed ?? []) {
    if (locks.get(key)?.holder || locks.get(key)?.waiting > 0) remember(key, "free, nobody waits");
    locks.delete(key);
    if (key !== open) changes.delete(key); // a service has new names all day
  }
  const note = message.note ? `; ${message.note}` : ""; // which locks are left out
  state(message.error ? `The service doesn't answer: ${message.error}` : `${count([...locks.values()])}, asked in ${message.took_ms} ms${note}`, Boolean(message.error));
  draw();
  look();
}

function state(text, failed) {
  byId("state").textContent = text;
  byId("state").className = failed ? "failed" : "";
}

// follow reads events until the connection ends. EventSource can't send a token.
async function follow() {
  const info = await fetch("api/info", { headers: headers() });
  if (info.status === 401) return askForToken();
  const { backend, prefix, breaks: allowed } = await info.json();
  setBackend(backend);
  breaks = allowed;
  byId("breaks").hidden = !breaks;
  byId("backend").textContent = `on ${backend}${prefix ? `, ${prefix}…` : ""}`;
  const answer = await fetch("events", { headers: headers() });
  if (!answer.ok) throw new Error(await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the server has ended the connection");
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(event);
      received(kind, JSON.parse(data));
    }
  }
}

function askForToken() {
  byId("refused").textContent = token ? "The token is wrong." : "";
  byId("login").hidden = false;
  state("A token is needed.", true);
}

async function run() {
  try {
    await follow();
  } catch (err) {
    state(`No connection to locker ui: ${err.message}`, true);
    setTimeout(run, 2000);
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("token", token);
  byId("login").hidden = true;
  run();
});
setUp(headers);
byId("filter").addEventListener("input", draw);
byId("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) close();
});
byId("locks").addEventListener("click", (event) => {
  const by = event.target.dataset.sort;
  const key = event.target.closest("tbody tr")?.dataset.key;
  if (by) {
    sort = { by, up: sort.by === by ? !sort.up : by === "name" };
    draw();
  } else if (key !== undefined) {
    open = key;
    look();
  }
});
run();
