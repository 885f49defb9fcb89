"""The page in a browser: it sorts, draws, fits a phone, and asks the network for nothing."""

import json
import shutil

import pytest
from pages import write_many, write_sweep

from mrcjax.report.html import page, write_page

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver on the PATH"
)
LIGHT, DARK = "light", "dark"


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    target = folder / "page.html"
    write_page(target, page(write_many(folder / "many.h5"), command="mrcjax report many.h5"))
    return target.as_uri()


@pytest.fixture(scope="module")
def sweep_address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    target = folder / "page.html"
    write_page(target, page(write_sweep(folder / "many.h5"), command="mrcjax report many.h5"))
    return target.as_uri()


@pytest.fixture
def shown(browser, address):
    show(browser, address)
    return browser


def show(browser, address, *, width=1100, scheme=LIGHT):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(address)


def requests(browser) -> list[str]:
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def column(table, number: int) -> list[str]:
    rows = table.find_elements("css selector", "tbody tr")
    return [row.find_elements("css selector", "th, td")[number].text for row in rows]


def table_named(browser, title: str):
    heading = next(h for h in browser.find_elements("tag name", "h3") if h.text == title)
    key = heading.get_attribute("id")
    return browser.find_element("css selector", f'table[aria-labelledby="{key}"]')


def test_no_complaints_and_no_requests(shown, address):
    assert shown.get_log("browser") == []
    asked = [url for url in requests(shown) if not url.startswith("data:")]
    assert asked == [address]


def test_the_check_for_requests_finds_one(browser, tmp_path):
    target = tmp_path / "asks.html"
    target.write_text('<img src="http://127.0.0.1:9/x.png">')
    show(browser, target.as_uri())
    assert "http://127.0.0.1:9/x.png" in requests(browser)
    assert browser.get_log("browser") != []


def test_tables_sort_when_their_heads_are_clicked(shown):
    table = table_named(shown, "Side by side")
    heads = table.find_elements("css selector", "thead th")
    assert column(table, 0) == ["fat tree", "flat rails", "no value", "10 racks"]
    heads[1].find_element("tag name", "button").click()
    assert heads[1].get_attribute("aria-sort") == "ascending"
    # by value (1,500 ms is written with a comma), what has none stays last
    assert column(table, 1) == ["2.1", "41.6", "1,500", "-"]
    heads[1].find_element("tag name", "button").click()
    assert heads[1].get_attribute("aria-sort") == "descending"
    assert column(table, 1) == ["1,500", "41.6", "2.1", "-"]
    heads[3].find_element("tag name", "button").send_keys("\n")  # by key, too
    assert column(table, 3) == ["9 planes", "hashed", "none", "-"]
    assert heads[1].get_attribute("aria-sort") == "none"


def test_tables_are_filtered(shown):
    table = table_named(shown, "Long")
    (field,) = table.find_elements("xpath", "../..//input")
    field.send_keys("RAIL 1 ")
    assert [text for text in column(table, 1) if text] == [
        "rail 1",
        *(f"rail {i}" for i in range(10, 20)),
    ]
    field.clear()
    field.send_keys("rail 13")
    assert [text for text in column(table, 1) if text] == ["rail 13"]


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
@pytest.mark.parametrize("width", [1100, 375])
def test_figures_are_seen_and_nothing_sticks_out(browser, address, width, scheme):
    show(browser, address, width=width, scheme=scheme)
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map("
        "s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])"
    )
    assert len(sizes) > 8
    assert min(min(size) for size in sizes) > 80
    reach = browser.execute_script("return document.documentElement.scrollWidth")
    assert reach <= width
    # inks of page and figures differ clearly from what is behind them
    for element in ("body", "figure svg text", "td", "figcaption", ".about, .notes li"):
        assert contrast(browser, element) > 4.5, element


def test_the_page_of_a_sweep(browser, sweep_address):
    show(browser, sweep_address, width=375, scheme=DARK)
    assert browser.get_log("browser") == []
    assert [url for url in requests(browser) if not url.startswith("data:")] == [sweep_address]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 375
    heights = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].map("
        "s => s.getBoundingClientRect().height)"
    )
    assert len(heights) > 8
    assert min(heights) > 80
    table = table_named(browser, "All points")
    head = table.find_elements("css selector", "thead th")[1]
    for direction in ("ascending", "descending"):
        head.find_element("tag name", "button").click()
        assert head.get_attribute("aria-sort") == direction
    assert column(table, 1)[0] == "1,024"


def contrast(browser, selector: str) -> float:
    """WCAG contrast of an element's text and the page."""
    colours = browser.execute_script(
        "const e = document.querySelector(arguments[0]), s = getComputedStyle(e);"
        "return [e.namespaceURI.endsWith('svg') ? s.fill : s.color,"
        " getComputedStyle(document.body).backgroundColor]",
        selector,
    )
    light = sorted(_luminance(colour) for colour in colours)
    return (light[1] + 0.05) / (light[0] + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
