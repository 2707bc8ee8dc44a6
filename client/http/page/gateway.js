// SPDX-License-Identifier: MIT
// The requests of the page to hob-http, see hob-http(1).

const TRIES = 3;

// An answer of the gateway that is an error: its status, and the daemon's message.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The key lives as long as the tab.
export const key = {
  get: () => sessionStorage.getItem("hob-key"),
  set: (text) => sessionStorage.setItem("hob-key", text),
  forget: () => sessionStorage.removeItem("hob-key"),
};

async function send(path, body, signal) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refused(0, "hob-http does not answer.");
  }
  if (response.ok) return response;
  const found = await response.json().catch(() => null);
  const message = found?.error?.message ?? `status ${response.status}`;
  if (response.status === 401) document.dispatchEvent(new CustomEvent("hob-key", { detail: message }));
  throw new Refused(response.status, message);
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, v]) => v)).toString();

export const models = async () => (await (await send("/v1/models")).json()).data.map((m) => m.id);

export const status = async (model) => (await send(`/hob/status?${query({ model })}`)).json();

export const session = async (model, name) => (await send(`/hob/session?${query({ model, name })}`)).json();

// All pages of the list.
export async function sessions(model) {
  const all = [];
  let after = null;
  do {
    const page = await (await send(`/hob/sessions?${query({ model, after })}`)).json();
    all.push(...page.sessions);
    after = page.next;
  } while (after);
  return all;
}

// verb: "fork", "rename" (both with to) or "remove".
export const change = (verb, body) => send(`/hob/session/${verb}`, body);

// The data of the events of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      for (const line of block.split("\n")) if (line.startsWith("data: ")) yield line.slice(6);
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A full queue, or a session whose last turn has not ended: try again, as Retry-After says.
async function patient(path, body, signal) {
  for (let i = 1; ; i++) {
    try {
      return await send(path, body, signal);
    } catch (e) {
      if (e.status !== 429 || i === TRIES) throw e;
      await pause(1000);
      signal.throwIfAborted();
    }
  }
}

// The chunks of a chat completion. Ends with an error unless the answer is complete.
export async function* chat(body, signal) {
  const response = await patient("/v1/chat/completions", { ...body, stream: true, stream_options: { include_usage: true } }, signal);
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(200, chunk.error.message);
    yield chunk;
  }
  throw new Refused(0, "The connection ended before the answer was complete.");
}
