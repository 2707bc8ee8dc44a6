// SPDX-License-Identifier: MIT
// The sessions: their list, and the one that is open.
import * as conversation from "/page/conversation.js";
import * as gateway from "/page/gateway.js";
import { element, make } from "/page/text.js";

const NAME_BYTES = 60; // of a name that the page makes; a key adds its own name
const list = element("session-list");
let known = [];
let draft = ""; // the system prompt of new sessions

export const open = { model: "", name: null }; // name: of the open session; null: a new one

const bytes = (text) => new TextEncoder().encode(text).length;

// Whether the list has the session @name.
export const has = (name) => known.some((s) => s.name === name);

// A name for a session that begins with @question, which no session has.
export function nameFor(question) {
  const words = question.replace(/[\/\p{C}\s]+/gu, " ").trim().split(" ");
  let base = "";
  for (const word of words) {
    if (bytes(`${base} ${word}`) > NAME_BYTES - 8 || base.length > 32) break;
    base = `${base} ${word}`.trim();
  }
  base ||= "session";
  let name = base;
  for (let i = 2; has(name); i++) name = `${base} ${i}`;
  return name;
}

function age(used) {
  const minutes = (Date.now() / 1000 - used) / 60;
  if (minutes < 1) return "now";
  if (minutes < 60) return `${Math.floor(minutes)} min`;
  return minutes < 1440 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
}

function row(session) {
  const figures = `${session.raw ? "text" : `${session.messages} messages`}, ${age(session.used)}`;
  const button = make("button", { type: "button", title: session.name }, make("span", { className: "name" }, session.name),
    make("span", { className: "note" }, figures));
  if (session.name === open.name) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => openSession(session.name));
  return make("li", {}, button);
}

export async function refresh() {
  const { model } = open;
  try {
    const found = await gateway.sessions(model);
    if (model !== open.model) return;
    known = found;
    element("session-note").textContent = known.length ? "" : "No sessions yet.";
  } catch (e) {
    known = [];
    element("session-note").textContent = e.message;
  }
  const focused = list.contains(document.activeElement) ? document.activeElement.title : null;
  list.replaceChildren(...known.map(row));
  if (focused !== null) [...list.querySelectorAll("button")].find((b) => b.title === focused)?.focus();
}

// Show the name of the open session everywhere. @system: its system prompt; null: it may still get one.
export function entitle(name, system = null) {
  const box = element("system");
  if (!box.readOnly) draft = box.value;
  open.name = name;
  element("title").textContent = name ?? "New session";
  document.title = name ? `${name} – hob` : "hob";
  element("session-tools").hidden = name === null;
  box.readOnly = system !== null;
  box.value = system ?? draft;
  for (const button of list.querySelectorAll("button")) {
    if (button.title === name) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const place = new URLSearchParams(name === null ? {} : { model: open.model, session: name }).toString();
  history.replaceState(null, "", place ? `#${place}` : location.pathname);
}

export function begin() {
  conversation.clear();
  entitle(null);
  element("prompt").focus();
}

export async function openSession(name) {
  conversation.stop();
  try {
    const session = await gateway.session(open.model, name);
    conversation.showSession(session);
    const first = session.messages?.[0];
    entitle(name, first?.role === "system" ? first.content : "");
    element("said").replaceChildren(make("p", {}, `Session ${name}, ${session.messages?.length ?? 0} messages.`));
    document.dispatchEvent(new Event("hob-opened"));
    element("prompt").focus();
  } catch (e) {
    element("session-note").textContent = e.message;
    await refresh();
  }
}

// Show @dialog until submit() succeeds or the user cancels. Then the function that submit() returns is called, if any.
export function ask(dialog, submit) {
  const fault = dialog.querySelector(".fault");
  const form = dialog.querySelector("form");
  if (fault) fault.textContent = "";
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      const then = await submit();
      dialog.close();
      then?.();
    } catch (e) {
      fault.textContent = e.message;
    }
  };
  const cancel = dialog.querySelector(".cancel");
  if (cancel) cancel.onclick = () => dialog.close();
  dialog.showModal();
}

// Ask for the name to which @verb, "fork" or "rename", leads.
function askName(verb) {
  const box = element("name"), name = open.name;
  element("name-label").textContent = verb === "fork" ? "Name of the fork" : "New name";
  box.value = verb === "fork" ? nameFor(name) : name;
  ask(element("name-dialog"), async () => {
    const to = box.value.trim();
    if (to !== name) await gateway.change(verb, { model: open.model, name, to });
    entitle(to, element("system").value);
    await refresh();
  });
  box.select();
}

function askRemoval() {
  const { name } = open;
  element("remove-label").textContent = `Remove the session “${name}”?`;
  ask(element("remove-dialog"), async () => {
    await gateway.change("remove", { model: open.model, name });
    begin();
    await refresh();
    return () => element("prompt").focus();
  });
}

element("new").addEventListener("click", () => {
  begin();
  document.dispatchEvent(new Event("hob-opened"));
});
element("fork").addEventListener("click", () => askName("fork"));
element("rename").addEventListener("click", () => askName("rename"));
element("remove").addEventListener("click", askRemoval);

// Up and Down move in the list.
list.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const buttons = [...list.querySelectorAll("button")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
});
