//! One host that attacks every grammar at once, in every format. Each format is read by a parser of that format:
//! markup, JSON, Markdown, promtool, and the browser's own tree.

use super::{chrome, promtool, sample};
use forge::drift::DriftReport;
use forge::model::ExitCode;
use forge::view::{JsonWriter, ResultWriter, TextWriter, drift, escape};
use pulldown_cmark::{Event, Parser, Tag};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Escapes of terminals, markup, Markdown and labels; section ends; characters that reorder text, and noncharacters.
const HOSTILE: &str = "\u{1b}[31m\u{1b}]0;x\u{7}<script>alert(1)</script><img src=x onerror=alert(2)>]]>\"'`&amp;\n# x\r\0\u{8}\u{9b}2J\
                       \u{202e}\u{2066}\u{200b}\u{fffe}\u{ffff}[a](javascript:alert(3)) {label=\"} 1 {0} | \\ --> <!-- </textarea>\t```";

fn hostile() -> DriftReport {
    let mut finding = sample::finding(HOSTILE, HOSTILE, HOSTILE, "high", "machine-changed");
    for field in ["kind", "title", "reason", "hint", "attribute"] {
        finding[field] = HOSTILE.into();
    }
    finding["place"] = format!("{HOSTILE}:1:1").into();
    finding["diff"] = format!("-{HOSTILE}\n+{HOSTILE}\n").into();
    for field in ["time", "run", "user", "controller"] {
        finding["last_applied"][field] = HOSTILE.into();
    }
    let mut values = finding.clone();
    values["step"] = "values".into();
    values["diff"] = Value::Null;
    (values["desired"], values["observed"]) = (HOSTILE.into(), HOSTILE.into());
    let mut drift = sample::drift(&[HOSTILE.to_owned(), "silent".to_owned()], vec![finding, values]);
    drift.cluster = HOSTILE.to_owned();
    drift.simulated = vec![forge::model::HostName::new(HOSTILE)];
    drift.hosts[1].reach =
        serde_json::from_value(json!({ "unreachable": { "why": HOSTILE, "hint": HOSTILE } })).unwrap();
    drift.unknown = serde_json::from_value(json!([{
        "host": HOSTILE, "recipe": HOSTILE, "step": HOSTILE, "aspect": "step", "reason": HOSTILE, "hint": HOSTILE, "place": HOSTILE,
    }]))
    .unwrap();
    drift
}

type Render<'w> = &'w dyn Fn(&mut dyn Write) -> io::Result<()>;

fn text(write: Render<'_>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the Markdown elements of a page that no report writes: links, images, headings after the first, HTML
/// elements other than forge's.
fn acting(page: &str) -> Vec<String> {
    const OURS: [&str; 8] =
        ["<details>", "</details>", "<summary>", "</summary>", "<strong>", "</strong>", "<code>", "</code>"];
    let mut headings = 0;
    let mut acting = Vec::new();
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => headings += 1,
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => acting.push(format!("{event:?}")),
            Event::Html(html) | Event::InlineHtml(html) => {
                let rest = OURS.iter().fold(html.to_string(), |rest, ours| rest.replace(ours, ""));
                acting.extend(rest.contains('<').then_some(rest));
            }
            _ => {}
        }
    }
    acting.extend((headings != 1).then(|| format!("{headings} headings")));
    acting
}

#[test]
fn hostile_host_text_is_escaped_in_every_format() {
    let Some(mut chrome) = chrome::start() else { return };
    let hostile = hostile();
    let shown = escape::escape_line(HOSTILE).into_owned();
    let exit = hostile.exit_code();
    assert_eq!(exit, ExitCode::Unreachable);
    let coloured = text(&|out| TextWriter::default().write_drift(&hostile, exit, out));
    let formats = [
        ("text", anstream::adapter::strip_str(&coloured).to_string()),
        ("json", text(&|out| JsonWriter::default().write_drift(&hostile, exit, out))),
        ("ndjson", text(&|out| JsonWriter::default().write_drift_messages(&hostile, exit, out))),
        ("markdown", sample::written(&hostile, drift::write_markdown)),
        ("junit", sample::written(&hostile, drift::write_junit)),
        ("sarif", sample::written(&hostile, drift::write_sarif)),
        ("prometheus", sample::written(&hostile, drift::write_prometheus)),
        ("html", sample::written(&hostile, drift::write_html)),
    ];
    for (format, text) in &formats {
        let acts: Vec<char> = text.chars().filter(|c| escape::is_hidden_char(*c)).collect();
        assert!(acts.is_empty(), "{format}: {acts:?}");
    }
    let of = |name: &str| formats.iter().find(|(format, _)| *format == name).unwrap().1.as_str();

    let json: Value = serde_json::from_str(of("json")).unwrap();
    assert_eq!(json["drift"]["findings"][0]["reason"], HOSTILE, "the parsed text must equal the host's text");
    let lines: Vec<Value> = of("ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["message"], &lines[1]["host"]), (&json!("version"), &json!(HOSTILE)));
    let sarif: Value = serde_json::from_str(of("sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["properties"]["host"], HOSTILE);
    assert_eq!(sarif["runs"][0]["results"][0]["properties"]["diff"], format!("-{HOSTILE}\n+{HOSTILE}\n"));

    let xml = roxmltree::Document::parse(of("junit")).unwrap();
    let suite = xml.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    assert_eq!(suite.attribute("hostname"), Some(shown.as_str()));
    let failure = xml.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    assert_eq!(failure.attribute("message"), Some(format!("the machine changed: {shown}").as_str()));

    assert_eq!(acting(of("markdown")), [""; 0]);

    if let Some(said) = promtool::check_metrics(of("prometheus")) {
        assert_eq!(said, "", "the linter has warnings");
    }

    let folder = tempfile::tempdir().unwrap();
    let page = sample::page(folder.path(), &hostile);
    chrome.open(&page, "");
    let heading = chrome.text("document.querySelector('h1').textContent");
    assert_eq!(heading, format!("forge drift: {shown}"));
    assert_eq!(chrome.text("document.querySelector('tbody th').textContent"), shown);
    assert_eq!(chrome.text("document.querySelector('.e dl .on').textContent"), format!("1 host: {shown}"));
    let expected = json!(["DETAILS", "HEADER", "SCRIPT", "SECTION", "P"]);
    let odd = format!(
        "[...document.body.children].map((e) => e.tagName).filter((name) => !{expected}.includes(name)).join(' ')"
    );
    assert_eq!(chrome.text(&odd), "", "the host's text created elements");
    assert_eq!(chrome.evaluate("document.scripts.length"), 2, "only the JSON data and the page's own script");
    assert_eq!(chrome.evaluate("document.querySelectorAll('img, iframe, object, form, base').length"), 0);
    let links = "[...document.links].filter((link) => !link.getAttribute('href').startsWith('#')).length";
    assert_eq!(chrome.evaluate(links), 0, "a link leaves the page");
    assert_eq!(chrome.evaluate("JSON.parse(document.querySelector('#data').textContent).hosts[0]"), HOSTILE);
    // The hostile name works as a filter, too.
    chrome.evaluate("document.querySelector('tbody th a').click()");
    chrome.evaluate("new Promise((done) => setTimeout(done, 50))");
    assert_eq!(chrome.evaluate("document.querySelectorAll('.e:not([hidden])').length"), 3);
    let everything = chrome.text("document.body.innerText");
    let acts: Vec<char> = everything.chars().filter(|c| escape::is_hidden_char(*c)).collect();
    assert!(acts.is_empty(), "in text that the script shows: {acts:?}");
    assert_eq!(chrome.troubles(), [""; 0]);
    chrome.picture("hostile");
}
