// SPDX-License-Identifier: MIT
// The conversation: its messages, and the answer that is being generated.
import * as gateway from "/page/gateway.js";
import { copyButton, element, make, show, Speaker } from "/page/text.js";

const log = element("log");
let controller = null; // of the answer that is being generated

export const busy = () => controller !== null;

export function stop() {
  controller?.abort();
}

// Run change(), and keep the end of the conversation in view if it was.
function following(change) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  change();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function article(kind, title, ...children) {
  const node = make("article", { className: kind }, make("h2", {}, title), ...children);
  log.append(node);
  return node;
}

function folded(title, text) {
  const inner = make("div");
  show(inner, text);
  return make("details", {}, make("summary", {}, title), inner);
}

export function note(text) {
  article("failed", "Error", make("p", {}, text)).setAttribute("role", "alert");
  log.scrollTop = log.scrollHeight;
}

// An answer: its thinking, its text, its figures.
class Answer {
  constructor() {
    this.text = this.thought = "";
    this.thinking = make("details", { hidden: true }, make("summary", {}, "Thinking"), make("div"));
    this.body = make("div");
    this.foot = make("p", { className: "foot" });
    this.node = article("answer", "Answer", this.thinking, this.body, this.foot);
    this.drawn = true;
  }
  add(text, thought) {
    this.text += text;
    this.thought += thought;
    if (this.drawn) requestAnimationFrame(() => this.draw());
    this.drawn = false;
  }
  draw() {
    if (this.drawn) return;
    this.drawn = true;
    following(() => {
      this.thinking.hidden = !this.thought;
      show(this.thinking.lastElementChild, this.thought);
      show(this.body, this.text);
    });
  }
  end(figures) {
    this.draw();
    following(() => this.foot.replaceChildren(figures, " ", copyButton(() => this.text)));
  }
}

export function clear() {
  stop();
  log.replaceChildren();
}

function showMessage(m) {
  const node = article(m.role === "user" ? "you" : m.role === "assistant" ? "answer" : "other",
    { user: "You", assistant: "Answer", system: "System", tool: "Tool" }[m.role] ?? m.role);
  const body = make("div");
  if (m.thinking) node.append(folded("Thinking", m.thinking));
  for (const x of m.media ?? []) node.append(make("div", {}, `[${x.kind}: ${x.bytes} bytes]`));
  if (m.role === "system" || m.role === "tool") node.append(folded(m.role === "tool" ? "Result" : "System prompt", m.content));
  else show(body, m.content ?? "");
  for (const call of m.tool_calls ?? []) node.append(folded(`Call of ${call.name ?? call.function?.name}`, JSON.stringify(call, null, 1)));
  node.append(body);
}

// A stored session, as /hob/session has it.
export function showSession(session) {
  clear();
  if (session.raw) article("other", "Text", make("pre", { tabIndex: 0 }, session.text));
  for (const m of session.messages ?? []) showMessage(m);
  if (session.failed) note(session.failed);
  log.scrollTop = log.scrollHeight;
}

function figures(usage, reason, seconds) {
  const words = [];
  if (reason === "length") words.push("cut at the limit of tokens");
  if (usage) {
    const rate = seconds > 0.2 ? `, ${((usage.completion_tokens - 1) / seconds).toFixed(0)} per second` : "";
    words.push(`${usage.completion_tokens} tokens${rate}`);
    words.push(`prompt ${usage.prompt_tokens}, cached ${usage.prompt_tokens_details.cached_tokens}`);
  }
  return words.join(" · ");
}

// Add the chunks of the answer to @request.body to @answer. Returns its figures.
async function receive(request, answer, speaker, signal) {
  let usage = null, reason = "", first = 0, last = 0;
  for await (const chunk of gateway.chat(request, signal)) {
    usage = chunk.usage ?? usage;
    const choice = chunk.choices[0];
    reason = choice?.finish_reason ?? reason;
    const text = choice?.delta.content ?? "", thought = choice?.delta.reasoning_content ?? "";
    if (!text && !thought) continue;
    last = performance.now();
    first ||= last;
    answer.add(text, thought);
    speaker.add(text);
  }
  return figures(usage, reason, (last - first) / 1000);
}

// Ask @question by the chat completion @request, and show the answer. Returns whether the question was answered, at
// least in part.
export async function ask(question, request) {
  controller = new AbortController();
  for (const node of log.querySelectorAll(".failed")) node.remove();
  const { signal } = controller;
  const asked = article("you", "You", make("div"));
  show(asked.lastElementChild, question);
  const answer = new Answer(), speaker = new Speaker(element("said"));
  log.scrollTop = log.scrollHeight;
  answer.foot.textContent = "…";
  let words = "";
  try {
    words = await receive(request, answer, speaker, signal);
    speaker.end(answer.text ? "" : "The answer is empty.");
  } catch (e) {
    words = "stopped";
    speaker.end(signal.aborted ? "Stopped." : "");
    if (!signal.aborted) {
      words = "incomplete";
      if (asked.isConnected) note(e.message);
    }
  }
  controller = null;
  const some = Boolean(answer.text || answer.thought || words !== "incomplete");
  answer.end(words);
  if (!some) {
    asked.remove();
    answer.node.remove();
  }
  return some;
}
