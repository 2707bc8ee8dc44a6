// SPDX-License-Identifier: MIT
// The page of hob-http: panels, keys, the theme, and the question.
import * as conversation from "/page/conversation.js";
import * as gateway from "/page/gateway.js";
import * as sessions from "/page/sessions.js";
import * as status from "/page/status.js";
import { element, make } from "/page/text.js";

const PANELS = ["sessions", "options", "status"];
const wide = matchMedia("(min-width: 60rem)");
const prompt = element("prompt");

// Panels. On a narrow window one of them covers the conversation, which is then inert.
function showPanel(name, shown) {
  if (shown && !wide.matches) for (const other of PANELS) if (other !== name) showPanel(other, false);
  element(name).hidden = !shown;
  element(`show-${name}`).setAttribute("aria-expanded", String(shown));
  element("main").inert = !wide.matches && PANELS.some((panel) => !element(panel).hidden);
  if (name === "status") status.change(sessions.open.model);
}

function togglePanel(name) {
  const shown = element(name).hidden;
  showPanel(name, shown);
  if (shown) element(name).querySelector("button:not([hidden]), textarea, input")?.focus();
  else element(`show-${name}`).focus();
}

// On a narrow window: give the place back to the conversation. Returns whether a panel was open.
function closePanels() {
  if (wide.matches) return false;
  const shown = PANELS.filter((name) => !element(name).hidden);
  for (const name of shown) showPanel(name, false);
  return shown.length > 0;
}

for (const name of PANELS) element(`show-${name}`).addEventListener("click", () => togglePanel(name));
document.addEventListener("hob-opened", closePanels);
wide.addEventListener("change", () => showPanel("sessions", wide.matches));

// The theme: that of the system, or a chosen one.
function setTheme(theme) {
  if (theme === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("hob-theme");
  } else {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("hob-theme", theme);
  }
  element("theme").textContent = `Theme: ${theme}`;
}

const theme = () => document.documentElement.dataset.theme ?? "auto";
setTheme(localStorage.getItem("hob-theme") ?? "auto");
element("theme").addEventListener("click", () => setTheme({ auto: "light", light: "dark", dark: "auto" }[theme()]));

// The question.
function grow() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

// The chat completion that the options describe. Throws if the schema is not JSON.
function request(question, name) {
  const system = element("system"), schema = element("schema").value.trim();
  const messages = [{ role: "user", content: question }];
  if (!system.readOnly && system.value.trim()) messages.unshift({ role: "system", content: system.value });
  const body = { model: sessions.open.model, session: name, messages };
  if (element("temperature").value) body.temperature = element("temperature").valueAsNumber;
  if (element("max-tokens").value) body.max_tokens = element("max-tokens").valueAsNumber;
  if (element("thinking").value) body.reasoning_effort = element("thinking").value;
  if (schema) {
    try {
      body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: JSON.parse(schema), strict: true } };
    } catch (e) {
      throw new Error(`The schema is not JSON: ${e.message}`);
    }
  }
  return body;
}

function showBusy(on) {
  element("send").hidden = on;
  element("stop").hidden = !on;
  element("log").setAttribute("aria-busy", String(on));
}

async function submit() {
  const question = prompt.value, fresh = sessions.open.name === null;
  if (!question.trim() || conversation.busy()) return;
  if (fresh) await sessions.refresh();
  const name = sessions.open.name ?? sessions.nameFor(question);
  let body;
  try {
    body = request(question, name);
  } catch (e) {
    conversation.note(e.message);
    return;
  }
  const system = element("system").value;
  prompt.value = "";
  grow();
  if (fresh) sessions.entitle(name, system);
  showBusy(true);
  const answered = await conversation.ask(question, body);
  showBusy(false);
  if (!answered) prompt.value ||= question;
  grow();
  await sessions.refresh();
  // A session whose answer was stopped may not be in the list yet.
  if (fresh && !answered && sessions.open.name === name && !sessions.has(name)) sessions.entitle(null);
}

element("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
element("stop").addEventListener("click", () => {
  conversation.stop();
  prompt.focus();
});
prompt.addEventListener("input", grow);
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
element("schema").addEventListener("input", () => (element("with-schema").hidden = !element("schema").value.trim()));

// Keys. A dialog handles its own.
const shortcuts = {
  KeyN: () => element("new").click(),
  KeyL: () => togglePanel("sessions"),
  KeyO: () => togglePanel("options"),
  KeyU: () => togglePanel("status"),
  KeyK: () => sessions.ask(element("help-dialog"), () => {}),
};

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && !event.isComposing) {
    if (conversation.busy()) conversation.stop();
    else closePanels();
    prompt.focus();
  } else if (event.altKey && !event.ctrlKey && !event.metaKey && shortcuts[event.code]) {
    event.preventDefault();
    shortcuts[event.code]();
  }
});
element("show-help").addEventListener("click", shortcuts.KeyK);

// The key, if the gateway wants one.
document.addEventListener("hob-key", (event) => {
  if (element("key-dialog").open) return;
  sessions.ask(element("key-dialog"), async () => {
    gateway.key.set(element("key").value.trim());
    element("key").value = "";
    await gateway.models();
    start();
  });
  element("key-fault").textContent = gateway.key.get() ? event.detail : "";
});
element("forget-key").addEventListener("click", () => {
  gateway.key.forget();
  location.reload();
});

// Show the models, and the session that the address names.
async function start() {
  const select = element("model"), place = new URLSearchParams(location.hash.slice(1));
  let names = [];
  try {
    names = await gateway.models();
  } catch (e) {
    element("session-note").textContent = e.message;
    return;
  }
  element("forget-key").hidden = !gateway.key.get();
  select.replaceChildren(...names.map((name) => make("option", {}, name)));
  element("models").hidden = names.length < 2;
  const wanted = [place.get("model"), "default", names[0]].find((name) => names.includes(name));
  select.value = sessions.open.model = wanted ?? "";
  status.change(sessions.open.model);
  await sessions.refresh();
  if (place.get("session")) await sessions.openSession(place.get("session"));
}

element("model").addEventListener("change", () => {
  sessions.begin();
  sessions.open.model = element("model").value;
  status.change(sessions.open.model);
  sessions.refresh();
});

showPanel("sessions", wide.matches);
start();
