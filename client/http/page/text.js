// SPDX-License-Identifier: MIT
// Text of models and users as nodes. It never becomes HTML: paragraphs, fenced blocks of code, `code` and **strong** text
// are nodes that this file makes, and everything else is text in them.

export const element = (id) => document.getElementById(id);

// make("p", {className: "x"}, "text", node)
export function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// A button that copies text().
export function copyButton(text) {
  const button = make("button", { type: "button", className: "small" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part, i) => {
    if (i % 2 === 0) return part;
    return part[0] === "`" ? make("code", {}, part.slice(1, -1)) : make("strong", {}, part.slice(2, -2));
  });
}

function code(block) {
  const head = make("div", { className: "code-head" }, make("span", {}, block.language || "code"), copyButton(() => block.text));
  const pre = make("pre", { tabIndex: 0 }, make("code", {}, block.text));
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", `Code ${block.language}`.trim());
  return make("div", { className: "code-block" }, head, pre);
}

// Paragraphs {text}, and blocks of code {text, language}; an open fence ends at the end of the text. JSON is one block.
function split(text) {
  if (/^\s*[{[]\s*["{[\]}\d]/.test(text)) return [{ text: text.trim(), language: "JSON" }];
  const blocks = [];
  let lines = [], language = null;
  const end = () => {
    const joined = lines.join("\n");
    if (language !== null) blocks.push({ text: joined, language });
    else for (const p of joined.split(/\n{2,}/)) if (p.trim()) blocks.push({ text: p.replace(/^\n+|\s+$/g, "") });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const fence = line.match(/^\s*```(.*)$/);
    if (fence) {
      end();
      language = language === null ? fence[1].trim() : null;
    } else {
      lines.push(line);
    }
  }
  if (lines.length) end();
  return blocks;
}

// Make @node show @text. Blocks that have not changed stay, so that a growing text keeps the selection in them.
export function show(node, text) {
  const blocks = split(text);
  blocks.forEach((block, i) => {
    const old = node.children[i];
    const source = JSON.stringify(block);
    if (old?.source === source) return;
    const made = block.language === undefined ? make("p", {}, ...inline(block.text)) : code(block);
    made.source = source;
    if (old) old.replaceWith(made);
    else node.append(made);
  });
  while (node.children.length > blocks.length) node.lastElementChild.remove();
}

// Speaks a growing text through the live region @node, sentence by sentence.
export class Speaker {
  constructor(node) {
    this.node = node;
    this.rest = "";
    node.replaceChildren();
  }
  add(text) {
    this.rest += text;
    const end = Math.max(...[". ", "! ", "? ", ": ", "\n"].map((mark) => this.rest.lastIndexOf(mark)));
    if (end < 0) return;
    this.say(this.rest.slice(0, end + 1));
    this.rest = this.rest.slice(end + 1);
  }
  end(last = "") {
    this.say(this.rest);
    this.say(last);
    this.rest = "";
  }
  say(text) {
    if (text.trim()) this.node.append(make("p", {}, text.trim()));
  }
}
