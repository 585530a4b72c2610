// What the page says of locks. What comes from the service is only ever set as text.

let clock = 0; // the server's clock minus ours, in ms
let attached = "session"; // what a party's session is

export const setClock = (at) => (clock = Date.parse(at) - Date.now());
export const setBackend = (backend) => (attached = backend === "file" ? "process" : "session");

const part = (slot) => (slot === undefined ? "" : slot > 0 ? `, permit ${slot}` : ", line for permits");
export const title = (lock) => (lock.name ?? `(key ${lock.key})`) + part(lock.slot);
export const who = (party) => party.label ?? (party.session ? `${attached} ${party.session}` : party.owner ? `owner ${party.owner}` : "?");
export const now = () => Date.now() + clock;

// held is for how long a lock has been held, in ms, or at most; -1 if nobody knows.
export function held(lock) {
  const since = lock.holder?.since ?? lock.holder?.asked;
  return since ? Math.max(now() - Date.parse(since), 0) : -1;
}

export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
  return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
}

export function heldText(lock) {
  const ms = held(lock);
  if (ms < 0) return lock.holder ? "?" : "–";
  return (lock.holder.since ? "" : "≤ ") + span(ms);
}

export const waitingText = (lock) => (lock.waiting < 0 ? "?" : String(lock.waiting));

// difference says in words what has happened between two looks at a lock.
export function difference(before, after) {
  const words = [];
  const one = before.holder, other = after.holder;
  const same = one && other && one.token === other.token && one.owner === other.owner && one.session === other.session;
  if (other && !same) words.push(`held by ${who(other)}${other.token ? `, token ${other.token}` : ""}`);
  if (one && !other) words.push("free");
  if (before.waiting !== after.waiting) words.push(`${waitingText(before)} → ${waitingText(after)} waiting`);
  return words.join("; ");
}

// count says how many locks and permits there are, and how many callers wait as far as the service knows. The first
// in the line for permits has the line's lock, waits for several slots at the same time, and counts once.
export function count(locks) {
  const inLine = new Map(), atSlots = new Map(); // by name
  let number = 0, waiting = 0;
  for (const { name, slot, holder, waiting: known } of locks) {
    const n = Math.max(known, 0);
    if (slot < 0) inLine.set(name, (inLine.get(name) ?? 0) + n + (holder ? 1 : 0));
    else number++;
    if (slot > 0) atSlots.set(name, Math.max(atSlots.get(name) ?? 0, n));
    else if (slot === undefined) waiting += n;
  }
  for (const name of new Set([...inLine.keys(), ...atSlots.keys()])) waiting += Math.max(inLine.get(name) ?? 0, atSlots.get(name) ?? 0);
  const text = number === 1 ? "1 lock" : `${number} locks`;
  return locks.length === 0 || locks.some((l) => l.waiting >= 0) ? `${text}, ${waiting} waiting` : text;
}

export const when = (text) => text && `${new Date(text).toLocaleTimeString()} (${span(Math.max(now() - Date.parse(text), 0))} ago)`;
