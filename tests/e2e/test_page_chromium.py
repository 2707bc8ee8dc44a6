# SPDX-License-Identifier: MIT
"""The page in headless Chromium, with real daemons, or with one that does what the test says."""
import http.server
import json
import threading

import browser
import pytest
from browser import ENTER, ESCAPE, Answering, Page
from conftest import Home
from httpgate import DONE, Gateway, run_http


@pytest.fixture(scope="module")
def chromium():
    d = browser.start()
    yield d
    d.quit()


@pytest.fixture(scope="module")
def served(tmp_path_factory, tiny):
    """A gateway with a daemon of its own, whose sessions all tests of this file share."""
    home = Home(tmp_path_factory.mktemp("home"), tiny)
    home.daemon()
    home.gateway = Gateway(home)
    yield home
    home.stop()


@pytest.fixture
def visit(chromium):
    """visit(gateway, …): open the page. At the end no script may have failed."""
    pages, first = [], chromium.current_window_handle

    def make(gateway, **more):
        pages.append(Page(chromium, gateway, **more))
        return pages[-1]

    yield make
    for handle in chromium.window_handles[1:]:
        chromium.switch_to.window(handle)
        chromium.close()
    chromium.switch_to.window(first)


@pytest.fixture
def page(visit, served):
    p = visit(served.gateway)
    p.fill_options(max_tokens=12, temperature=0)
    yield p
    p.check()


@pytest.fixture
def scripted(visit, fake):
    """The page before a daemon that does what the test says."""
    fake.answering = Answering(fake)
    p = visit(fake.gateway)
    p.call = fake.answering.call
    p.fake = fake
    yield p
    p.check()


def stored(gateway, name):
    return gateway.get(f"/hob/session?name={name.replace(' ', '%20')}").json["messages"]


def test_an_answer_is_shown_spoken_and_stored(page, served):
    answer = page.ask("Tell me one thing")
    page.shows("Tell me one thing")
    page.until("document.querySelector('#session-list .name').textContent === 'Tell me one thing'")
    messages = stored(served.gateway, page.title())
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert answer == messages[1]["content"].strip() != ""
    assert page.texts(".foot")[0].startswith("12 tokens") or "tokens" in page.texts(".foot")[0]
    assert "".join(page.js("return document.getElementById('said').textContent").split()) == "".join(answer.split())
    assert page.focused() == "prompt" and page.id("prompt").get_attribute("value") == ""
    page.ask("and another")
    assert len(stored(served.gateway, page.title())) == 4
    assert "cached" in page.texts(".foot")[1]


def test_text_appears_while_it_is_generated(scripted):
    scripted.send("hello")
    call = scripted.call()
    assert call.request["session"] == "hello" and call.request["messages"] == [{"role": "user", "content": "hello"}]
    call.event("prefill", done=1, total=5, cached=2)
    call.event("text", channel="thinking", text="let me see")
    scripted.until("document.querySelector('.answer details:not([hidden])')")
    assert scripted.js("return document.querySelector('.answer details').open") is False
    assert scripted.js("return document.querySelector('.answer details div').textContent") == "let me see"
    call.event("text", text="One sentence. And")
    scripted.until("document.querySelector('.answer > div').textContent === 'One sentence. And'")
    assert scripted.js("return document.getElementById('said').textContent") == "One sentence."
    assert scripted.id("stop").is_displayed() and not scripted.id("send").is_displayed()
    call.event("text", text=" more")
    call.event("done", **DONE)
    scripted.idle()
    assert scripted.texts(".answer > div") == ["One sentence. And more"]
    assert "prompt 5, cached 2" in scripted.texts(".foot")[0]
    assert scripted.texts("#said p") == ["One sentence.", "And more"]


HOSTILE = """<img src=x onerror="violations.push('html')"> <script>violations.push('script')</script> &amp;
</textarea><iframe src="javascript:alert(1)"></iframe> [x](javascript:alert(1)) `<b>x</b>` **<i>y</i>**

```js" onclick="alert(1)
<svg onload=alert(1)>
```
"""


def test_no_text_becomes_html(scripted):
    scripted.js("document.getElementById('prompt').value = arguments[0]", HOSTILE)
    scripted.keys(ENTER, to="prompt")
    call = scripted.call()
    name = call.request["session"]
    assert call.request["messages"][0]["content"] == HOSTILE
    scripted.fake.answering.list = json.dumps([{"name": name, "used": 1, "messages": 2, "raw": False}])
    call.event("text", text=HOSTILE)
    call.event("done", **DONE)
    scripted.idle()
    scripted.until("document.querySelector('#session-list .name')")
    scripted.shows(name, [name])
    found = scripted.js("return [...document.querySelectorAll('#log *, #session-list *, #title *')].map((n) => n.localName)")
    assert set(found) <= {"article", "h2", "p", "div", "span", "button", "pre", "code", "strong", "details", "summary", "li"}, set(found)
    shown = scripted.js("return document.querySelector('.answer > div').textContent")
    for part in ('<img src=x onerror="violations', "<script>violations.push('script')</script> &amp;", "<b>x</b>", "<i>y</i>", "<svg onload=alert(1)>"):
        assert part in shown, shown
    assert scripted.texts(".answer pre code") == ["<svg onload=alert(1)>"]


def test_escape_stops_the_answer(scripted):
    scripted.send("a long story")
    call = scripted.call()
    call.event("text", text="Once")
    scripted.until("document.querySelector('.answer > div').textContent === 'Once'")
    scripted.keys(ESCAPE)
    assert call.ended()
    scripted.idle()
    assert scripted.texts(".answer > div") == ["Once"] and scripted.texts(".foot")[0].startswith("stopped")
    assert scripted.focused() == "prompt" and scripted.id("send").is_displayed() and not scripted.texts(".failed")
    scripted.send("another")
    call = scripted.call()
    call.event("text", text="x")
    scripted.until("document.querySelectorAll('.answer > div')[1].textContent === 'x'")
    scripted.click("stop")
    assert call.ended()
    scripted.idle()


def test_an_answer_that_was_stopped_is_in_the_session(page, served):
    page.fill_options(max_tokens=400)
    page.js("""new MutationObserver(() => document.querySelector(".answer > div")?.textContent && document.getElementById("stop").click())
        .observe(document.getElementById("log"), {childList: true, subtree: true})""")
    page.send("stop this one")
    page.idle()
    shown = page.texts(".answer > div")[0]
    page.fill_options(max_tokens=4)
    page.ask("again")  # the session may still be in use for a moment
    messages = stored(served.gateway, "stop this one")
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2 and messages[1]["content"].strip().startswith(shown) and shown


def test_errors_are_the_words_of_the_daemon(scripted):
    scripted.send("what now?")
    scripted.call().event("error", code="E2BIG", message="prompt: 9 tokens <b>too</b> many")
    scripted.until("document.querySelector('.failed')")
    assert scripted.texts(".failed p") == ["prompt: 9 tokens <b>too</b> many"]
    assert scripted.js("return document.querySelector('.failed').getAttribute('role')") == "alert"
    scripted.until("document.getElementById('prompt').value === 'what now?'")
    assert not scripted.texts(".you") and not scripted.texts(".answer")
    scripted.until("document.getElementById('title').textContent === 'New session'")
    scripted.keys(ENTER, to="prompt")
    call = scripted.call()
    call.event("text", text="half")
    scripted.until("document.querySelector('.answer > div').textContent === 'half'")
    assert not scripted.texts(".failed")
    call.event("error", code="EIO", message="the model failed")
    scripted.until("document.querySelector('.failed')")
    assert scripted.texts(".failed p") == ["the model failed"] and scripted.texts(".answer > div") == ["half"]
    scripted.send("more")
    call = scripted.call()
    call.event("text", text="half")
    call.s.close()
    scripted.until("document.querySelectorAll('.answer').length === 2 && document.querySelector('.failed')")
    assert "closed the connection" in scripted.texts(".failed p")[0]


def test_a_session_in_use_is_tried_again(scripted):
    scripted.send("x")
    scripted.call().event("error", code="EBUSY", message="session x is in use")
    call = scripted.call()
    call.event("text", text="yes")
    call.event("done", **DONE)
    scripted.idle()
    assert scripted.texts(".answer > div") == ["yes"]


def test_sessions_are_opened_forked_renamed_and_removed(page, served):
    page.click("show-options")
    page.fill("system", "Be kind.")
    first = page.ask("session one")
    assert page.id("system").get_attribute("readOnly") == "true"
    page.click("new")
    page.shows("New session")
    assert not page.texts("article")
    assert page.id("system").get_attribute("value") == "Be kind." and not page.id("system").get_attribute("readOnly")
    page.fill("system", "")
    page.ask("session two")
    page.until("document.querySelectorAll('#session-list li').length >= 2")
    assert page.sessions()[:2] == ["session two", "session one"]
    assert [m["role"] for m in stored(served.gateway, "session one")] == ["system", "user", "assistant"]
    assert [m["role"] for m in stored(served.gateway, "session two")] == ["user", "assistant"]

    page.open("session one")
    assert page.texts(".you p") == ["session one"] and page.texts(".answer > div") == [first]
    assert page.id("system").get_attribute("value") == "Be kind."
    page.click("fork")
    assert page.id("name").get_attribute("value") == "session one 2"
    page.fill("name", "side")
    page.keys(ENTER, to="name")
    page.until("document.getElementById('title').textContent === 'side'")
    page.fill_options(max_tokens=4)
    page.ask("only here")
    assert len(stored(served.gateway, "side")) == 5 and len(stored(served.gateway, "session one")) == 3

    page.click("rename")
    page.fill("name", "session two")
    page.keys(ENTER, to="name")
    page.until("document.getElementById('name-fault').textContent")
    assert "session two" in page.id("name-fault").text
    page.fill("name", "other side")
    page.keys(ENTER, to="name")
    page.until("document.getElementById('title').textContent === 'other side'")
    page.until("[...document.querySelectorAll('#session-list .name')].some((n) => n.textContent === 'other side')")

    page.d.refresh()
    page.until("document.querySelectorAll('.you').length === 2")
    page.shows("other side")
    page.click("remove")
    page.d.find_element("css selector", "#remove-dialog .main").click()
    page.until("document.getElementById('title').textContent === 'New session'")
    page.until("![...document.querySelectorAll('#session-list .name')].some((n) => n.textContent === 'other side')")
    assert served.gateway.get("/hob/session?name=other%20side").status == 404


def test_a_schema_constrains_the_answer(page):
    page.click("show-options")
    page.fill("schema", '{"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": false}')
    page.fill_options(max_tokens=40)
    assert "The answer follows the schema" in page.texts("#ask .note")[0]
    page.send("json please")
    page.idle()
    assert json.loads(page.texts(".answer pre code")[0])["n"] in (1, 2)


@pytest.mark.parametrize("schema", ['{"type": "object", "minProperties": 3, "maxProperties": 1}', '{"type": "nothing"}', '{"$ref": "#/none"}'])
def test_a_refused_schema(page, served, schema):
    r = served.gateway.chat("x", response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": json.loads(schema)}})
    assert r.status == 400
    page.click("show-options")
    page.fill("schema", schema)
    page.send("refuse this")
    page.idle()
    assert page.texts(".failed p") == [r.json["error"]["message"]]
    page.shows("New session")
    assert page.id("prompt").get_attribute("value") == "refuse this"


def test_a_schema_that_is_no_json(page):
    page.click("show-options")
    page.fill("schema", "{")
    page.send("x")
    page.until("document.querySelector('.failed')")
    assert page.texts(".failed p")[0].startswith("The schema is not JSON") and page.id("prompt").get_attribute("value") == "x"


def test_the_key_box(visit, home):
    home.daemon()
    keys = home.root / "keys"
    key = run_http(home, "key", "add", "ada", "--keys", keys).stdout.strip()
    g = Gateway(home, "--keys", keys)
    p = visit(g, wait=False)
    p.until("document.getElementById('key-dialog').open")
    assert p.focused() == "key"
    p.keys("sk-wrong", ENTER, to="key")
    p.until("document.getElementById('key-fault').textContent")
    assert p.texts("#key-fault") == ["this key is not valid"]
    p.fill("key", key)
    p.keys(ENTER, to="key")
    p.until("!document.getElementById('key-dialog').open")
    p.until("document.getElementById('session-note').textContent === 'No sessions yet.'")
    p.fill_options(max_tokens=4)
    p.ask("with a key")
    p.shows("with a key", ["with a key"])
    assert p.js("return JSON.stringify([localStorage, document.cookie])") == '[{},""]'
    p.d.refresh()
    p.until("document.querySelector('#session-list .name')")
    p.click("show-options")
    p.click("forget-key")
    p.until("document.getElementById('key-dialog')?.open")
    assert p.js("return sessionStorage.length") == 0
    p.check()


def test_a_choice_of_models(visit, home, tiny):
    other = home.socket.with_name("other.sock")
    home.daemon()
    (home.models / "other.gguf").symlink_to(tiny)
    home.daemon("-m", "other", socket=other)
    p = visit(Gateway(home, sockets=[home.socket, other]))
    assert p.texts("#model option") == ["default", "other"]
    p.fill_options(max_tokens=4)
    p.ask("to the first")
    p.js("const s = document.getElementById('model'); s.value = 'other'; s.dispatchEvent(new Event('change'))")
    p.until("document.getElementById('session-note').textContent")
    p.shows("New session")
    assert not p.texts("article")
    home.hob("stop", check=0)
    p.ask("to the second")
    p.until("document.querySelector('#session-list .name')")
    p.check()


def test_one_model_is_no_choice(page):
    assert not page.id("models").is_displayed()


def test_without_a_daemon(visit, tmp_path):
    home = Home(tmp_path)
    p = visit(Gateway(home))
    assert "no daemon listens" in p.texts("#session-note")[0]
    p.send("hello?")
    p.until("document.querySelector('.failed')")
    assert "no daemon listens" in p.texts(".failed p")[0]
    p.check()
    home.stop()


def test_the_status_view_asks_only_while_it_is_visible(page):
    pending = "seconds.size"
    assert page.js(f"return {pending}") == 0
    page.click("show-status")
    page.until(f"{pending} === 1 && document.querySelector('#figures dd')")
    rows = dict(zip(page.texts("#figures dt"), page.texts("#figures dd")))
    assert rows["State"] == "ready" and "running" in rows["Batch"] and "waiting" in rows["Queue"] and "in memory" in rows["Cache"], rows
    page.until("document.querySelector('#plot polyline')")
    assert page.js("return document.getElementById('plot').getAttribute('aria-label')").startswith("Tokens per second in the last minute: now ")
    page.click("show-status")
    page.until(f"{pending} === 0")
    assert not page.id("status").is_displayed()
    page.click("show-status")
    page.until(f"{pending} === 1")
    page.js("Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
    page.until(f"{pending} === 0")


OTHER = """<!doctype html><form id=f method=post enctype=text/plain action="G/v1/chat/completions" target=t>
<input name='{"messages":[{"role":"user","content":"' value='x"}],"max_tokens":1}'></form><iframe name=t></iframe><iframe id=i src="G/"></iframe>
<script>
const done = [];
const body = '{"messages":[{"role":"user","content":"x"}],"max_tokens":1}';
const go = (path, how) => fetch("G" + path, how).then((r) => done.push(`${path} ${r.type} ${r.status}`), (e) => done.push(`${path} ${e.name}`));
const img = new Image(); img.onload = img.onerror = (e) => done.push(`image ${e.type}`); img.src = "G/page/icon.svg";
document.getElementById("f").submit();
go("/v1/models"); go("/v1/models", {mode: "no-cors"}); go("/hob/sessions", {mode: "no-cors"}); go("/", {mode: "no-cors"});
go("/v1/chat/completions", {method: "POST", body, headers: {"Content-Type": "application/json"}});
go("/v1/chat/completions", {method: "POST", body, mode: "no-cors"});
</script>"""


def test_a_page_of_another_origin_gets_nothing(chromium, home):
    home.daemon()
    g = Gateway(home)

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            data = OTHER.replace("G/", f"http://127.0.0.1:{g.port}/").replace('"G"', f'"http://127.0.0.1:{g.port}"').encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    for host in ("localhost", "127.0.0.1"):
        p = Page.__new__(Page)
        p.d, p.gateway = chromium, g
        chromium.get(f"http://{host}:{site.server_port}/")
        done = p.until("done.length === 7 && done")
        assert sorted(done) == sorted(["image error", "/v1/models TypeError", "/v1/models TypeError", "/hob/sessions TypeError", "/ TypeError",
                                       "/v1/chat/completions TypeError", "/v1/chat/completions TypeError"]), done
        frame = p.js("try { return document.getElementById('i').contentDocument?.body.innerText ?? 'other' } catch (e) { return e.name }")
        assert frame == "other"
    assert json.loads(home.hob("status", "--json", check=0).out)["requests"] == 0
    counts = g.get("/metrics").body.decode()
    assert 'status="403"' in counts
    chromium.get("about:blank")
    site.shutdown()
