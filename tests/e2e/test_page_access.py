# SPDX-License-Identifier: MIT
"""The page for everyone: keyboard, screen reader, contrast, narrow windows, light and dark."""
import browser
import pytest
from browser import ALT, DOWN, ENTER, ESCAPE, NARROW, NULL, SHIFT, TAB, UP, Page
from conftest import Home
from httpgate import Gateway

# The roles of controls and landmarks that need a name of their own.
CONTROLS = {"button", "textbox", "searchbox", "spinbutton", "combobox", "link", "checkbox", "DisclosureTriangle", "image", "dialog"}
LANDMARKS = {"navigation", "region", "complementary"}

# Pairs of a text and its contrast, for each text that is visible.
CONTRASTS = """
const probe = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const rgba = (color) => { probe.clearRect(0, 0, 1, 1); probe.fillStyle = color; probe.fillRect(0, 0, 1, 1); return [...probe.getImageData(0, 0, 1, 1).data]; };
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const ground = (node) => { for (; node; node = node.parentElement) { const c = rgba(getComputedStyle(node).backgroundColor); if (c[3] === 255) return c; } };
const found = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || node.placeholder;
  if (!own || !node.checkVisibility({visibilityProperty: true}) || node.closest(".unseen") || node.closest("svg")) continue;
  const style = getComputedStyle(node, node.placeholder ? "::placeholder" : null);
  const pair = [light(rgba(style.color)), light(ground(node))].sort((a, b) => b - a);
  found.push([(node.innerText || node.placeholder).slice(0, 40), (pair[0] + .05) / (pair[1] + .05)]);
}
return found;
"""


@pytest.fixture(scope="module")
def chromium():
    d = browser.start()
    yield d
    d.quit()


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny):
    home = Home(tmp_path_factory.mktemp("home"), tiny)
    home.daemon()
    home.gateway = Gateway(home)
    for name in ("first", "second", "third"):
        home.gateway.chat("some `code` here\n\n```c\nint x;\n```", session=name)
    yield home
    home.stop()


@pytest.fixture
def page(chromium, served):
    first = chromium.current_window_handle
    p = Page(chromium, served.gateway)
    p.fill_options(max_tokens=6, temperature=0)
    yield p
    p.check()
    chromium.close()
    chromium.switch_to.window(first)


def tree(page):
    """The nodes of the accessibility tree that a screen reader sees: (role, name)."""
    page.cdp("Accessibility.enable")
    nodes = page.cdp("Accessibility.getFullAXTree")["nodes"]
    return [(n["role"]["value"], n.get("name", {}).get("value", "").strip(), {p["name"]: p["value"].get("value") for p in n.get("properties", [])})
            for n in nodes if not n.get("ignored") and "role" in n]


def check_names(page):
    nodes = tree(page)
    unnamed = [n for n in nodes if n[0] in CONTROLS | LANDMARKS and not n[1]]
    assert not unnamed, unnamed
    focusable = [n for n in nodes if n[2].get("focusable") and n[0] not in ("RootWebArea", "generic")]
    assert focusable and not [n for n in focusable if not n[1]], focusable
    return nodes


def test_every_control_has_a_name(page):
    page.click("show-options")
    page.click("show-status")
    page.until("document.querySelector('#figures dd')")
    page.ask("a question")
    page.send("second question")
    page.until("document.querySelectorAll('.answer').length === 2")
    nodes = check_names(page)
    names = {role: [n for r, n, _ in nodes if r == role] for role in {n[0] for n in nodes}}
    assert {"banner", "main", "navigation", "region"} <= set(names)
    assert {"Sessions"} == set(names["navigation"]) and {"Conversation", "Options", "Status"} <= set(names["region"])
    assert {"Question", "System prompt", "JSON Schema of the answer"} <= set(names["textbox"])
    assert page.js("return document.querySelectorAll('h1').length") == 1
    assert page.js("return document.documentElement.lang") == "en"
    live = page.js("const n = document.getElementById('said'); return [n.getAttribute('aria-live'), n.getAttribute('aria-atomic')]")
    assert live == ["polite", None]
    ids = page.js("return [...document.querySelectorAll('[id]')].map((n) => n.id)")
    assert len(ids) == len(set(ids))
    wrong = page.js("""return [...document.querySelectorAll("[aria-controls], [aria-describedby], [aria-labelledby], label[for]")].flatMap((n) =>
        ["aria-controls", "aria-describedby", "aria-labelledby", "for"].map((a) => n.getAttribute(a)).filter((v) => v && !document.getElementById(v)))""")
    assert wrong == []


@pytest.mark.parametrize("button,dialog", [("fork", "name-dialog"), ("rename", "name-dialog"), ("remove", "remove-dialog"), ("show-help", "help-dialog")])
def test_dialogs(page, button, dialog):
    page.open("third")
    page.click(button)
    assert page.js(f"return document.getElementById('{dialog}').open")
    nodes = check_names(page)
    assert [n for n in nodes if n[0] == "dialog"]
    page.keys(ESCAPE)
    page.until(f"!document.getElementById('{dialog}').open")
    assert page.focused() == button


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_enough_contrast(page, dark):
    page.media("dark" if dark else "light")
    page.click("show-options")
    page.click("show-status")
    page.until("document.querySelector('#figures dd')")
    page.open("third")
    page.fill("schema", "{")
    page.send("x")
    page.until("document.querySelector('.failed')")
    found = page.js(CONTRASTS)
    assert len(found) > 30 and [t for t, _ in found if t == "Ask something"] and [t for t, _ in found if t.startswith("The schema is not JSON")]
    assert not [pair for pair in found if pair[1] < 4.5], found


def background(page):
    return page.js("return getComputedStyle(document.body).backgroundColor")


def test_light_and_dark(page):
    light = background(page)
    page.media("dark")
    dark = background(page)
    assert light != dark and sum(map(int, light[4:-1].split(","))) > 700 and sum(map(int, dark[4:-1].split(","))) < 120
    for label, want in (("Theme: light", light), ("Theme: dark", dark)):
        page.click("theme")
        assert page.id("theme").text == label and background(page) == want
    page.media("light")
    assert background(page) == dark
    page.d.refresh()
    page.until("document.getElementById('theme').textContent === 'Theme: dark'")
    assert background(page) == dark
    page.click("theme")
    assert page.id("theme").text == "Theme: auto" and background(page) == light
    assert page.js("return localStorage.length") == 0


def test_a_run_with_the_keyboard_only(page):
    """Ask, open, fork, rename, remove, options, status: no pointer."""
    page.until("document.activeElement.id === 'prompt'")
    page.keys("line one", SHIFT, ENTER, NULL, "line two")
    assert page.id("prompt").get_attribute("value") == "line one\nline two"
    page.keys(ENTER)
    page.idle()
    assert page.title() == "line one line two"
    page.keys(ALT, "n", NULL)
    assert page.title() == "New session" and page.focused() == "prompt"
    page.keys(ALT, "l", NULL)
    assert not page.id("sessions").is_displayed() and page.focused() == "show-sessions"
    page.keys(ALT, "l", NULL)
    assert page.focused() == "new"
    page.keys(TAB, DOWN, UP, DOWN)
    row = page.js("return document.activeElement.title")
    assert row == page.js("return document.querySelectorAll('#session-list button')[1].title")
    page.keys(ENTER)
    page.until("document.querySelector('article')")
    assert page.title() == row and page.focused() == "prompt"
    for _ in range(20):
        if page.focused() != "fork":
            page.keys(SHIFT, TAB, NULL)
    assert page.focused() == "fork"
    page.keys(ENTER)
    page.keys("kept", ENTER)
    page.until("document.getElementById('title').textContent === 'kept'")
    page.until("document.activeElement.id === 'fork'")
    page.keys(TAB, ENTER)
    page.keys("gone", ENTER)
    page.until("document.getElementById('title').textContent === 'gone'")
    page.until("document.activeElement.id === 'rename'")
    page.keys(TAB, ENTER)
    page.until("document.getElementById('remove-dialog').open")
    page.keys(ENTER)
    page.until("document.getElementById('title').textContent === 'New session'")
    page.until("document.activeElement.id === 'prompt'")
    page.keys(ALT, "o", NULL)
    assert page.focused() == "system"
    page.keys("Be brief.", ESCAPE)
    assert page.focused() == "prompt" and page.id("options").is_displayed()
    page.keys(ALT, "u", NULL)
    assert page.id("status").is_displayed()
    page.keys(ALT, "k", NULL)
    assert page.js("return document.getElementById('help-dialog').open")
    shown = {k: v for k, v in zip(page.texts("#help-dialog dt"), page.texts("#help-dialog dd"))}
    wanted = {k.replace("Escape", "Esc") for k in page.js("return [...document.querySelectorAll('[aria-keyshortcuts]')].map((n) => n.getAttribute('aria-keyshortcuts'))")}
    assert wanted <= set(shown) and len(wanted) == 6
    page.keys(ENTER)
    page.until("!document.getElementById('help-dialog').open")


def test_tab_reaches_everything_visibly_and_is_never_trapped(page):
    page.click("show-options")
    page.click("show-status")
    page.open("third")
    wanted = page.js("""window.wanted = [...document.querySelectorAll("button, input, select, textarea, [tabindex='0']")].filter((n) => n.checkVisibility());
        document.activeElement.blur(); return wanted.length""")
    seen = []
    for _ in range(wanted + 4):
        page.keys(TAB)
        i, style, width = page.js("""const n = document.activeElement, s = getComputedStyle(n);
            return [wanted.indexOf(n), s.outlineStyle, parseFloat(s.outlineWidth)]""")
        if i < 0:
            continue
        assert style == "solid" and width >= 2, (i, style, width)
        seen.append(i)
    assert set(seen) == set(range(wanted)), page.js("return arguments[0].map((i) => wanted[i].outerHTML)", sorted(set(range(wanted)) - set(seen)))
    assert all((b - a) % wanted == 1 for a, b in zip(seen, seen[1:])), seen


@pytest.mark.parametrize("size", [NARROW, (320, 640)])
def test_a_narrow_window(chromium, served, size):
    first = chromium.current_window_handle
    p = Page(chromium, served.gateway, size=size)
    fits = "document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight"
    assert not p.id("sessions").is_displayed() and p.js(f"return {fits}")
    for name in ("options", "status", "sessions"):
        p.click(f"show-{name}")
        assert p.texts(".panel:not([hidden]) h2, nav:not([hidden]) #new") and p.js(f"return {fits}")
        box = p.js(f"const r = document.getElementById('{name}').getBoundingClientRect(); return [r.left, r.right]")
        assert box == [0, size[0]] and p.js("return document.querySelectorAll('.panel:not([hidden])').length") == 1
        assert p.js("return document.getElementById('main').inert")
    p.keys(ENTER)
    p.until("!document.getElementById('main').inert")
    p.click("show-sessions")
    p.keys(TAB, ENTER)
    p.until("document.querySelector('article')")
    assert not p.id("sessions").is_displayed() and p.js(f"return {fits}") and p.focused() == "prompt"
    p.click("show-options")
    p.keys(ESCAPE)
    assert not p.id("options").is_displayed() and p.focused() == "prompt"
    p.check()
    chromium.close()
    chromium.switch_to.window(first)
