// The dialog that takes a lock away. It asks about the lease that the page showed, and takes the lock
// away from that one alone.

import { title } from "./words.js";

const byId = (id) => document.getElementById(id);
let headers = () => ({});
let shown = null; // the lease that the dialog is about
let asked = 0; // questions so far: the answer to an older one is dropped

// breakButton is for the lease that the row shows; nothing, if that can't be named.
export function breakButton(lock) {
  if (!lock.holder?.token || lock.name === undefined) return [];
  const button = Object.assign(document.createElement("button"), { textContent: "Take away …", className: "break" });
  button.setAttribute("aria-label", `Take ${title(lock)} away`);
  button.addEventListener("click", (event) => {
    event.stopPropagation(); // it doesn't open the panel
    ask(lock);
  });
  return [button];
}

function ask(lock) {
  shown = { name: lock.name, slot: lock.slot ?? 0, token: lock.holder.token };
  byId("reason").value = "";
  byId("at-once").checked = false;
  byId("choice").hidden = false;
  byId("break").showModal();
  question();
}

// question shows what will happen. Until the answer is there, nothing can be taken away.
async function question() {
  const number = ++asked;
  say("Asking the service …");
  try {
    const query = new URLSearchParams({ ...shown, at_once: byId("at-once").checked });
    const answer = await fetch(`api/break?${query}`, { headers: headers() });
    const text = answer.ok ? (await answer.json()).question : await answer.text();
    if (number !== asked) return;
    say(text, !answer.ok);
    byId("take").disabled = !answer.ok;
  } catch (err) {
    if (number === asked) say(`No connection to locker ui: ${err.message}`, true);
  }
}

// say also holds back the button.
function say(text, failed = false) {
  byId("question").textContent = text;
  byId("question").className = failed ? "failed" : "";
  byId("take").disabled = true;
}

async function take() {
  const number = ++asked;
  const body = JSON.stringify({ ...shown, reason: byId("reason").value, at_once: byId("at-once").checked });
  say("Asking the service …");
  byId("choice").hidden = true;
  try {
    const answer = await fetch("api/break", { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body });
    const text = answer.ok ? (await answer.json()).done : await answer.text();
    if (number === asked) say(text, !answer.ok);
  } catch (err) {
    if (number === asked) say(`No answer, and the lock may be taken away: ${err.message}`, true);
  }
}

// setUp is called once, with what gives the headers of a request.
export function setUp(how) {
  headers = how;
  const dialog = byId("break");
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!byId("take").disabled) take();
  });
  byId("at-once").addEventListener("change", question);
  byId("leave").addEventListener("click", () => dialog.close());
}
