// The page shows what the server sends, and changes nothing. What comes from the service is only ever
// set as text.

const most = 500; // rows that are drawn: nobody reads more, and browsers get slow
const remembered = 100; // changes of one lock
const byId = (id) => document.getElementById(id);
const locks = new Map(); // key → lock
const changes = new Map(); // key → [{at, text}], the newest first
let marked = new Set(); // keys that the last look has found changed
let sort = { by: "name", up: true };
let open = null; // the key of the lock in the panel
let token = sessionStorage.getItem("token") ?? "";
let clock = 0; // the server's clock minus ours, in ms

// ---- words

const title = (lock) => lock.name ?? `(key ${lock.key})`;
const who = (party) => party.label ?? (party.session ? `session ${party.session}` : party.owner ? `owner ${party.owner}` : "?");
const now = () => Date.now() + clock;

// held is for how long a lock has been held, in ms, or at most; -1 if nobody knows.
function held(lock) {
  const since = lock.holder?.since ?? lock.holder?.asked;
  return since ? Math.max(now() - Date.parse(since), 0) : -1;
}

function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
  return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
}

function heldText(lock) {
  const ms = held(lock);
  if (ms < 0) return lock.holder ? "?" : "–";
  return (lock.holder.since ? "" : "≤ ") + span(ms);
}

const waitingText = (lock) => (lock.waiting < 0 ? "?" : String(lock.waiting));

// difference says in words what has happened between two looks at a lock.
function difference(before, after) {
  const words = [];
  const one = before.holder, other = after.holder;
  const same = one && other && one.token === other.token && one.owner === other.owner && one.session === other.session;
  if (other && !same) words.push(`held by ${who(other)}${other.token ? `, token ${other.token}` : ""}`);
  if (one && !other) words.push("free");
  if (before.waiting !== after.waiting) words.push(`${waitingText(before)} → ${waitingText(after)} waiting`);
  return words.join("; ");
}

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
    cell(row, lock.holder ? who(lock.holder) : "free").className = lock.holder ? "" : "free";
  }
  const focused = document.activeElement?.closest("tr")?.dataset.key;
  document.querySelector("#locks tbody").replaceWith(body);
  if (focused !== undefined) {
    [...body.rows].find((r) => r.dataset.key === focused)?.querySelector("button").focus();
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

const when = (text) => text && `${new Date(text).toLocaleTimeString()} (${span(Math.max(now() - Date.parse(text), 0))} ago)`;

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
      const answer = await fetch(`api/lock?name=${encodeURIComponent(known.name)}`, { headers: headers() });
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
  clock = Date.parse(message.at) - Date.now();
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
  const count = `${locks.size} locks, ${[...locks.values()].reduce((sum, l) => sum + Math.max(l.waiting, 0), 0)} waiting`;
  state(message.error ? `The service doesn't answer: ${message.error}` : `${count}, asked in ${message.took_ms} ms`, Boolean(message.error));
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
  const { backend, prefix } = await info.json();
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
byId("filter").addEventListener("input", draw);
byId("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close();
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
