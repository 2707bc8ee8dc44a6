// SPDX-License-Identifier: MIT
// The status view. It asks the daemon once a second, only while it is visible.
import * as gateway from "/page/gateway.js";
import { element, make } from "/page/text.js";

const SECONDS = 60, WIDTH = 240, HEIGHT = 80, TOP = 12;
const SVG = "http://www.w3.org/2000/svg";

let timer = null, model = "";
let current = 0; // number of the polling; the answers of an earlier one are dropped
let last = null; // the last {at, tokens}
let rates = []; // {at: ms, rate: tokens/s}

const size = (n) => {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
};

function svg(name, attributes, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// The smallest of 1, 2, 3, 5, 10, 20, 30, 50, … that is at least @n.
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 2, 3, 5, 10].map((k) => k * power).find((v) => v >= n);
}

function draw() {
  const plot = element("plot"), now = rates.at(-1)?.at ?? 0;
  const most = Math.max(0, ...rates.map((r) => r.rate)), limit = roundUp(most);
  const points = rates.map(({ at, rate }) => {
    const x = WIDTH * (1 - (now - at) / (SECONDS * 1000));
    return [x.toFixed(1), (HEIGHT - (HEIGHT - TOP) * (rate / limit)).toFixed(1)];
  });
  const nodes = [TOP, (HEIGHT + TOP) / 2, HEIGHT].map((y) => svg("line", { x1: 0, x2: WIDTH, y1: y, y2: y }));
  nodes.push(svg("text", { x: 0, y: TOP - 3 }, `${limit} tokens/s`));
  if (points.length > 1) {
    const line = points.map((p) => p.join(",")).join(" ");
    nodes.push(svg("polygon", { points: `${points[0][0]},${HEIGHT} ${line} ${points.at(-1)[0]},${HEIGHT}` }));
    nodes.push(svg("polyline", { points: line }));
  }
  plot.replaceChildren(...nodes);
  const rate = Math.round(rates.at(-1)?.rate ?? 0);
  plot.setAttribute("aria-label", `Tokens per second in the last minute: now ${rate}, at most ${Math.round(most)}`);
}

function figures(s) {
  const rows = [["State", s.error ? `${s.state}: ${s.error}` : s.state], ["Model", s.name ?? s.model]];
  const cache = s.cache;
  if (s.running !== undefined) rows.push(["Batch", `${s.running} of ${s.parallel} running`], ["Queue", `${s.queued} of ${s.queue} waiting`]);
  if (s.rolling) rows.push(["Step", s.rolling.steps ? `${s.step_ms.toFixed(1)} ms, ${s.rolling.batch.toFixed(1)} answers` : "idle"]);
  if (cache) {
    rows.push(["Cache hits", `${Math.round(100 * cache.hit_rate)} % of ${cache.tokens_asked} tokens`]);
    const host = cache.bytes_host === undefined ? "" : `${size(cache.bytes_host)} in host memory, `;
    rows.push(["Cache", `${size(cache.bytes_memory)} in memory, ${host}${size(cache.bytes_disk)} on disk`]);
  }
  if (s.own) rows.push(["Sessions", `${s.own.sessions}, ${size(s.own.sessions_bytes)}`]);
  if (s.ctx) rows.push(["Context", `${s.ctx} tokens`]);
  element("figures").replaceChildren(...rows.flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, String(v))]));
}

async function poll(run) {
  let s;
  try {
    s = await gateway.status(model);
  } catch (e) {
    s = { state: "unknown", error: e.message, model };
  }
  if (run !== current) return;
  const at = performance.now(), tokens = s.tokens_generated;
  if (last && tokens >= last.tokens) rates.push({ at, rate: (tokens - last.tokens) / ((at - last.at) / 1000) });
  rates = rates.filter((r) => at - r.at <= SECONDS * 1000);
  last = tokens === undefined ? null : { at, tokens };
  figures(s);
  draw();
  timer = setTimeout(poll, 1000, run);
}

// Poll if the view is visible. The polling from before ends.
function update() {
  clearTimeout(timer);
  current++;
  last = null;
  if (!element("status").hidden && document.visibilityState === "visible") poll(current);
}

// The view is shown or hidden, or its model changes.
export function change(name) {
  if (name !== model) rates = [];
  model = name;
  update();
}

document.addEventListener("visibilitychange", update);
