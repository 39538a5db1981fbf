"""The site of a study: its files, its links and its texts, as files and in a browser."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bnn_atlas.report.page import write_page
from bnn_atlas.report.site import MOST_UNFOLDED, write_site, write_start
from tests.report.making import STUDY, partly_made_here, study

ODD = '<script>document.title = "taken"</script> & "quoted"'
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of one study, whose title is no HTML."""
    folder = tmp_path_factory.mktemp("site")
    view = study(folder, study=STUDY | {"title": ODD})
    write_page(folder / "site" / "small", view)
    write_site(folder / "site" / "small", view)
    write_start(folder / "site")
    return folder / "site"


class Page(HTMLParser):
    """What a page refers to, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str | None] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [link for name in ("href", "src") if (link := given.get(name))]
        self.anchors.add(given.get("id"))


def test_every_link_leads_to_a_file_of_the_site_and_none_outside(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html")}
    assert {file.relative_to(site).as_posix() for file in pages} == {
        "index.html", "small/index.html", "small/claims.html", "small/figure-few.html", "small/figure-many.html",
        "small/figure-uci.html", "small/run-mile.html", "small/run-gone.html",
    }  # fmt: skip
    for file, page in pages.items():
        for link in page.links:
            if link == "data:,":
                continue
            target, _, anchor = link.partition("#")
            found = (file.parent / target).resolve() if target else file
            assert found.is_file(), (file.name, link)
            assert found.is_relative_to(site.resolve()), (file.name, link)
            assert not anchor or anchor in pages[site / found.relative_to(site.resolve())].anchors, (file.name, link)
    for file in site.rglob("*.*"):
        if file.suffix in (".html", ".css", ".svg"):
            assert not re.search(r"url\(|@import|(?<!xmlns=\")https?://", file.read_text()), file.name


def test_a_phone_is_told_that_wide_parts_scroll(site: Path) -> None:
    assert ".scroll:has(.wide)::before" in (site / "style.css").read_text(encoding="utf-8")


def test_texts_are_escaped(site: Path) -> None:
    for file in (site / "index.html", site / "small/index.html"):
        assert "&lt;script&gt;document.title" in file.read_text(encoding="utf-8")
        assert "<script>document" not in file.read_text(encoding="utf-8")


def test_a_page_has_what_was_asked_of_it(site: Path) -> None:
    start, figure, run = (
        (site / name).read_text(encoding="utf-8")
        for name in ("index.html", "small/figure-few.html", "small/run-mile.html")
    )
    assert "Agrees in part</b> (2 claims: 1 agrees, 1 does not hold): Few errors are made (reduced)</li>" in start
    assert (
        '<b class="bad">Differs</b> (3 claims: 1 agrees, 1 does not hold, 1 to run): Errors are gone (same)<' in start
    )
    assert 'On other problems: <span class="key open">1 cannot tell</span>' in start
    assert "1 figure" not in start
    assert "3 figures · 2 runs" in start
    assert "<i>W</i><sub>1</sub>, in <code>file.csv</code>" in figure
    assert "<pre>snakemake --cores 2 small_few --config scale=laptop</pre>" in figure
    assert "<td>rhat_function_max</td>" in run
    assert "<th>dataset</th><td>airfoil</td>" in run


def test_a_study_page_unfolds_the_first_open_claims(tmp_path: Path) -> None:
    view = study(tmp_path)
    more = view._replace(unsettled={title: of * (MOST_UNFOLDED + 1) for title, of in view.unsettled.items()})
    write_page(tmp_path / "made", more)
    write_site(tmp_path / "made", more)
    text = (tmp_path / "made" / "index.html").read_text(encoding="utf-8")
    folded = re.findall(r"<details><summary>(.+?)</summary>(.*?)</details>", text, re.DOTALL)
    counts = {title: rows.count('<a href="claims.html#') for title, rows in folded}
    assert counts == {f"{MOST_UNFOLDED + 2} more": MOST_UNFOLDED + 2, "1 more": 1, "1 claim to run": 0,
                      "2 runs with settings and diagnostics": 0}  # fmt: skip


def test_a_page_that_counts_what_was_made_here_marks_the_rest(tmp_path: Path) -> None:
    view = partly_made_here(tmp_path)
    write_page(tmp_path / "made" / "small", view)
    write_site(tmp_path / "made" / "small", view)
    write_start(tmp_path / "made")

    def html(name: str) -> str:
        return (tmp_path / "made" / name).read_text(encoding="utf-8")

    start, study_page = html("index.html"), html("small/index.html")
    assert "scale laptop · made here: 2 of 3 figures, 1 of 2 runs" in start
    assert "Only those from runs made here are counted." in start
    counted, _, folded = start.partition("<details>")
    assert counted.count("<li>") == 2
    assert "None is small" not in counted
    assert "<summary>1 finding that results made here do not answer, not counted</summary>" in folded
    assert "Not decided</b> (came with the clone): None is small</li>" in folded
    assert '<span class="small soft">same, came with the clone</span>' in html("small/claims.html")
    assert "Of earlier code." in html("small/figure-many.html")
    assert "Split 0 (came with the clone): " in html("small/run-gone.html")
    assert "(came with the clone)</td>" in study_page
    assert study_page.count("<h2>Not made here</h2>") == 1
    readme = html("small/README.md")
    assert "\n## Not made here\n" in readme
    assert "\n- Not decided (came with the clone): None is small\n" in readme
    assert "\nMade here: mile.\n" in html("small/scores.md")
    assert "(of earlier code) |" in readme


def test_the_start_page_has_all_studies_of_the_folder(site: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copyfile(site / "small/start.json", tmp_path / name / "start.json")
    write_start(tmp_path)
    assert "BNN Atlas: 2 studies" in (tmp_path / "index.html").read_text()


class Browser:
    """Chromium without a window, told what to do through its DevTools protocol over a pipe."""

    def __init__(self, profile: Path) -> None:
        ours, theirs = os.pipe(), os.pipe()
        flags = (
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        )
        command = f'exec "$0" {flags} --user-data-dir="$1" 3<&{ours[0]} 4>&{theirs[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(CHROMIUM), str(profile)],
            pass_fds=(ours[0], theirs[1]),
            stderr=subprocess.DEVNULL,
        )
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = os.fdopen(ours[1], "wb", buffering=0), os.fdopen(theirs[0], "rb")
        self._number, self._session = 0, ""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its result; errors of the page are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.call("Page.navigate", url=file.resolve().as_uri())
        self.js("new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press a key and let it go."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._to.close()
        self._from.close()

    def _read(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        answer: dict[str, Any] = json.loads(data)
        params = answer.get("params", {})
        kind = answer.get("method")
        bad = kind in ("Runtime.exceptionThrown", "Network.loadingFailed")
        bad |= kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning")
        if bad or kind == "Runtime.consoleAPICalled":
            self.errors.append(str(params))
        return answer


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


WIDER = "document.documentElement.scrollWidth > innerWidth"


@pytest.mark.parametrize("width", [390, 1200])
def test_every_page_shows_its_pictures_and_says_no_error(site: Path, browser: Browser, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    for file in site.rglob("*.html"):
        browser.open(file)
        shown = "Promise.all([...document.images].map((one) => { one.loading = 'eager'; return one.decode(); }))"
        assert browser.js(f"{shown}.then((all) => all.length)") == browser.js("document.images.length"), file.name
        assert browser.js("getComputedStyle(document.querySelector('.skip')).position") == "absolute", "it has a style"
        assert not browser.js(WIDER), f"{file.name} is wider than {width} pixels"
        assert browser.js("document.title") != "taken"
    assert browser.errors == []


def test_claims_are_filtered_searched_and_sorted(site: Path, browser: Browser) -> None:
    browser.open(site / "small" / "claims.html")
    rows = (
        "[...document.querySelectorAll('#claims tbody tr')].filter((row) => !row.hidden).map((row) => row.id).join(' ')"
    )
    event = "one.dispatchEvent(new Event('input', { bubbles: true }))"
    choose = f"(name, value) => {{ const one = document.getElementById(name); one.value = value; {event}; }}"
    assert browser.js(rows) == "error growth gone far ours"
    browser.js(f"({choose})('verdict', 'differs')")
    assert (browser.js(rows), browser.js("document.getElementById('shown').textContent")) == ("far", "1 of 5 claims")
    browser.js(f"({choose})('verdict', '')")
    browser.js(f"({choose})('search', 'grows')")
    assert browser.js(rows) == "growth"
    browser.js(f"({choose})('search', '')")
    browser.js("document.querySelectorAll('#claims th button')[0].click()")
    assert browser.js(rows) == "error ours far growth gone"
    assert browser.errors == []


def test_the_keyboard_reaches_links_filters_and_folded_parts(site: Path, browser: Browser) -> None:
    browser.open(site / "small" / "claims.html")
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(browser.js("(document.activeElement.id || document.activeElement.tagName).toLowerCase()"))
    assert seen[0] == "a"
    assert {"search", "verdict", "identity", "read_in", "button", "summary", "div"} <= set(seen)
    browser.js("document.querySelector('summary').focus()")
    browser.press("Enter", "\r")
    assert browser.js("document.querySelector('details').open")
    browser.js("document.querySelector('.skip').focus()")
    browser.press("Enter", "\r")
    assert browser.js("location.hash") == "#main"
