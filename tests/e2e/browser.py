# SPDX-License-Identifier: MIT
"""Headless Chromium, by Debian's chromium-driver and python3-selenium."""
import queue
import shutil
import threading
import time

import pytest

# Before the page's own scripts: collect violations of the policy, and the timers of one second, which the status view uses.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(`${e.violatedDirective} ${e.blockedURI}`));
window.seconds = new Set();
const set = window.setTimeout, clear = window.clearTimeout;
window.setTimeout = (f, ms, ...more) => {
  const id = set(() => { seconds.delete(id); f(...more); }, ms);
  if (ms === 1000) seconds.add(id);
  return id;
};
window.clearTimeout = (id) => { seconds.delete(id); clear(id); };
"""
# Names of keys, as WebDriver has them. NULL lets go of SHIFT and ALT.
NULL, TAB, ENTER, SHIFT, ALT, ESCAPE, UP, DOWN = "\ue000", "\ue004", "\ue007", "\ue008", "\ue00a", "\ue00c", "\ue013", "\ue015"
WIDE, NARROW = (1200, 800), (390, 760)


def start():
    webdriver = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("chromium or chromium-driver is not installed")
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


class Page:
    """The page of a gateway in a new window of the browser @d."""

    def __init__(self, d, gateway, size=WIDE, dark=False, hash="", wait=True):
        self.d, self.gateway = d, gateway
        d.switch_to.new_window("window")
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        self.cdp("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        self.media("dark" if dark else "light")
        d.get_log("browser")
        d.get(f"http://127.0.0.1:{gateway.port}/{hash}")
        if wait:
            self.until("document.querySelector('#session-list li') || document.getElementById('session-note').textContent")

    def cdp(self, command, **more):
        return self.d.execute_cdp_cmd(command, more)

    def media(self, scheme):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def js(self, text, *args):
        return self.d.execute_script(text, *args)

    def until(self, condition, seconds=60):
        """Wait until @condition is true; that of an element which is not there yet is not."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.js(f"try {{ return {condition} }} catch (e) {{ if (!(e instanceof TypeError)) throw e }}"):
                return found
            time.sleep(0.02)
        raise AssertionError((condition, self.js("return document.body.innerText"), self.d.get_log("browser")))

    def id(self, name):
        return self.d.find_element("id", name)

    def click(self, name):
        self.id(name).click()

    def keys(self, *keys, to=None):
        """Press keys, in the focused element if @to is not given."""
        if to:
            self.id(to).send_keys(*keys)
            return
        from selenium.webdriver import ActionChains
        chain, held = ActionChains(self.d, duration=0), []
        for key in keys:
            if key in (SHIFT, ALT):
                held.append(key)
                chain.key_down(key)
            elif key == NULL:
                while held:
                    chain.key_up(held.pop())
            else:
                chain.send_keys(key)
        chain.perform()

    def fill(self, name, text):
        self.id(name).clear()
        self.id(name).send_keys(text)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((n) => n.innerText.trim())", selector)

    def focused(self):
        return self.js("return document.activeElement.id")

    def fill_options(self, **values):
        """Options by their names, such as max_tokens."""
        for name, value in values.items():
            self.js("document.getElementById(arguments[0]).value = arguments[1]", name.replace("_", "-"), str(value))

    def send(self, question):
        self.fill("prompt", question)
        self.keys(ENTER, to="prompt")

    def idle(self):
        """Wait until no answer is generated, and the list of sessions is new."""
        self.until("document.getElementById('stop').hidden && document.querySelector('.answer .foot button, .failed')")

    def ask(self, question):
        """The text of the answer."""
        n = len(self.texts(".answer .foot button"))
        self.send(question)
        self.until(f"document.querySelectorAll('.answer .foot button').length > {n}")
        self.until("document.getElementById('stop').hidden")
        return self.texts(".answer > div")[-1]

    def sessions(self):
        return self.texts("#session-list .name")

    def open(self, name):
        self.js("[...document.querySelectorAll('#session-list button')].find((b) => b.title === arguments[0]).click()", name)
        self.until(f"document.getElementById('title').textContent === '{name}' && document.querySelector('article')")

    def title(self):
        return self.id("title").text

    def shows(self, title, sessions=None):
        """Wait for this title, and for these names in the list of sessions."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.title() == title and sessions in (None, self.sessions()):
                return
            time.sleep(0.02)
        raise AssertionError((self.title(), title, self.sessions(), sessions))

    def check(self):
        """No script failed, no policy was violated. A refused request is logged by the browser; it is no error of the page."""
        assert self.js("return violations") == []
        said = [e["message"] for e in self.d.get_log("browser") if e["level"] == "SEVERE" and "Failed to load resource" not in e["message"]]
        assert not said, said


class Answering(threading.Thread):
    """Answers the page's requests for lists and status in place of a FakeDaemon; hands out the others."""

    def __init__(self, fake):
        super().__init__(daemon=True)
        self.fake, self.calls, self.list = fake, queue.Queue(), "[]"
        self.start()

    def run(self):
        while True:
            try:
                call = self.fake.call()
            except (OSError, AssertionError):
                return
            if call.request["type"] == "session.list":
                call.event("sessions", sessions=self.list)
            elif call.request["type"] == "status":
                call.event("status", status='{"state": "ready", "model": "fake"}')
            else:
                self.calls.put(call)

    def call(self):
        return self.calls.get(timeout=60)
