//! The page as users see it: searched, filtered, in dark mode, on a phone, and without its script.

use super::chrome::{self, Chrome};
use super::sample;
use serde_json::json;

/// Returns the number of shown entries.
fn shown(chrome: &mut Chrome) -> i64 {
    let count = "document.querySelectorAll('.e:not([hidden])').length";
    chrome.evaluate(count).as_i64().unwrap()
}

/// Returns the hosts whose rows are shown.
fn rows(chrome: &mut Chrome) -> String {
    chrome
        .text("[...document.querySelectorAll('tr[data-h]:not([hidden]) th')].map((head) => head.textContent).join(' ')")
}

fn is_quiet(chrome: &mut Chrome) {
    let troubles = chrome.troubles();
    assert!(troubles.is_empty(), "{troubles:#?}");
}

#[test]
fn search_and_filters_show_matching_entries() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    chrome.open(&page, "");
    let all = shown(&mut chrome);
    assert_eq!(all, 8, "six findings, one unknown step, one unreachable host");
    assert_eq!(chrome.text("document.querySelector('#shown').textContent"), "8 of 8 shown");
    chrome.picture("desktop-light");

    chrome.open(&page, "#q=node-07");
    assert_eq!(
        (shown(&mut chrome), rows(&mut chrome)),
        (1, "node-07".to_owned()),
        "a host in a folded range was not found"
    );
    chrome.open(&page, "#q=node-2+SYSCTL");
    assert_eq!(rows(&mut chrome), "node-20 node-22 node-24 node-26 node-28", "words of the text and of the name");
    chrome.open(&page, "#q=nowhere");
    assert_eq!((shown(&mut chrome), rows(&mut chrome)), (0, String::new()));
    chrome.open(&page, "#severity=critical");
    assert_eq!((shown(&mut chrome), rows(&mut chrome)), (1, "node-20 node-40".to_owned()));
    chrome.open(&page, "#severity=unreachable");
    assert_eq!((shown(&mut chrome), rows(&mut chrome)), (1, "node-39".to_owned()));
    chrome.open(&page, "#cause=recipe-changed&host=node-06");
    assert_eq!((shown(&mut chrome), rows(&mut chrome)), (1, "node-06".to_owned()));
    is_quiet(&mut chrome);
}

#[test]
fn filters_are_kept_in_the_url() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    chrome.open(&page, "");
    chrome.evaluate("document.querySelector('#q').focus()");
    chrome.call("Input.insertText", json!({ "text": "node-14 site" }));
    assert_eq!(chrome.text("location.hash"), "#q=node-14+site");
    assert_eq!(shown(&mut chrome), 1);
    chrome.evaluate("document.querySelector('#clear').click()");
    assert_eq!(shown(&mut chrome), 8);
    // The cell of node-14 under nginx: columns are sorted by name.
    let cell = "document.querySelector('tr[data-h=\"13\"]').cells[4]";
    assert_eq!(chrome.text(&format!("{cell}.textContent.trim()")), "1");
    chrome.evaluate(&format!("{cell}.click()"));
    assert_eq!(chrome.text("location.hash"), "#host=node-14&recipe=nginx");
    assert_eq!((shown(&mut chrome), rows(&mut chrome)), (1, "node-14".to_owned()));
    assert_eq!(chrome.text("document.querySelector('#chips').textContent"), "host: node-14recipe: nginx");
    // The address changes while the page is open.
    chrome.evaluate("location.hash = '#severity=low'");
    chrome.evaluate("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(shown(&mut chrome), 2);
    is_quiet(&mut chrome);
}

#[test]
fn theme_follows_the_preference_and_the_toggle() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    let ground = "getComputedStyle(document.body).backgroundColor";
    let (light, dark) = ("rgb(255, 255, 255)", "rgb(13, 17, 23)");
    for (scheme, expected, other) in [("light", light, dark), ("dark", dark, light)] {
        chrome.prefers(scheme);
        chrome.open(&page, "");
        assert_eq!(chrome.text(ground), expected, "{scheme}");
        chrome.evaluate("document.querySelector('#theme').click()");
        assert_eq!(chrome.text(ground), other, "{scheme}, toggled");
        chrome.evaluate("document.querySelector('#theme').click()");
        assert_eq!(chrome.text(ground), expected, "{scheme}, toggled back");
        chrome.evaluate("localStorage.clear()");
    }
    chrome.evaluate("document.querySelector('.e').open = true");
    chrome.picture("desktop-dark");
    is_quiet(&mut chrome);
}

#[test]
fn page_fits_a_phone_without_horizontal_scrolling() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    chrome.screen(390, 844, true);
    chrome.prefers("dark");
    chrome.open(&page, "");
    chrome.evaluate("for (const entry of document.querySelectorAll('.e')) entry.open = true");
    assert_eq!(chrome.evaluate("document.documentElement.scrollWidth"), 390);
    let small = "[...document.querySelectorAll('p, summary, dd, h2')].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 12).length";
    assert_eq!(chrome.evaluate(small), 0, "text that is too small to read");
    chrome.evaluate("for (const entry of document.querySelectorAll('.e')) entry.open = false; scrollTo(0, 0)");
    chrome.picture("phone-dark");
    chrome.evaluate("const entry = document.querySelector('.e.medium'); entry.open = true; entry.scrollIntoView()");
    chrome.picture("phone-dark-finding");
    is_quiet(&mut chrome);
}

#[test]
fn page_is_complete_without_its_script() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    chrome.open(&page, "#q=nowhere");
    assert_eq!(shown(&mut chrome), 0);
    chrome.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    chrome.call("Page.reload", json!({}));
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Scripts are disabled, so the document comes from the browser itself.
    let document = chrome.call("DOM.getDocument", json!({ "depth": 0 }))["root"]["nodeId"].clone();
    let html = chrome.call("DOM.getOuterHTML", json!({ "nodeId": document }))["outerHTML"].as_str().unwrap().to_owned();
    assert!(!html.contains("class=\"js\""), "the script ran");
    assert!(!html.contains("class=\"e medium\" hidden"), "an entry is hidden");
    assert!(html.contains("<section id=\"controls\" hidden"), "controls that do not work without the script are shown");
    for told in ["44 findings", "hosts by recipes", "sysctl = 2", "the machine changed", "node-39", "<svg"] {
        assert!(html.contains(told), "{told}");
    }
    chrome.picture("no-script");
}

#[test]
fn content_security_policy_blocks_injected_content() {
    let Some(mut chrome) = chrome::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &sample::rich());
    chrome.open(&page, "");
    // Proves the check that all other tests use: here it must find violations.
    chrome.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.evil = 1' }))",
    );
    chrome.evaluate(
        "document.body.append(Object.assign(document.createElement('img'), { src: 'http://192.0.2.1/x.png' }))",
    );
    chrome.evaluate("document.body.setAttribute('onclick', 'window.evil = 1'); document.body.click()");
    chrome.evaluate("new Promise((done) => setTimeout(done, 100))");
    assert!(chrome.evaluate("window.evil").is_null());
    let troubles = chrome.troubles().join("\n");
    for refused in ["script-src-elem", "script-src-attr", "img-src http://192.0.2.1/x.png"] {
        assert!(troubles.contains(refused), "{refused}: {troubles}");
    }
}
