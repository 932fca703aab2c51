//! Drift as SARIF 2.1.0: a result for each finding, located at the line that declares it.
//!
//! `logicalLocations` names the host. Steps that could not be evaluated are not results but notifications of the run,
//! which then counts as unsuccessful, so that "not observed" is not mistaken for "no drift".

use super::{DriftReportInput, about, is_whole};
use crate::drift::{DriftFinding, DriftReport, FindingNovelty, FindingSeverity, KnownFinding};
use crate::model::{HostName, UntrustedText, hex};
use crate::view::escape;
use crate::view::json::document;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Maximum characters of a value. The JSON output has the complete value.
const VALUE: usize = 400;

/// The rules of a run: names by id. Results refer to a rule by its position.
type SarifRules = BTreeMap<String, String>;

/// Writes one document.
pub fn sarif(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let drift = told.drift;
    let rules = rules(drift);
    let found = drift.findings.iter().map(|finding| result(finding, drift, &rules));
    let gone = drift.resolved.iter().map(|known| absent(known, &rules));
    let run = json!({
        "tool": { "driver": { "name": "forge", "semanticVersion": drift.forge, "rules": listed(&rules) } },
        "automationDetails": { "id": format!("forge-drift/{}/{}", escape::line(&drift.cluster), escape::line(&drift.run)) },
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation(told)],
        "results": found.chain(gone).collect::<Vec<_>>(),
    });
    document(&json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] }), out)
}

/// Returns the id of a rule: the step without the key of an instance.
fn rule(recipe: &UntrustedText, step: &UntrustedText) -> String {
    let name = about::name(recipe, step);
    name.split('[').next().unwrap_or(&name).to_owned()
}

fn rules(drift: &DriftReport) -> SarifRules {
    let mut rules = SarifRules::new();
    for finding in &drift.findings {
        rules.entry(rule(&finding.recipe, &finding.step)).or_insert_with(|| about::what(finding));
    }
    for known in &drift.resolved {
        let id = rule(&known.recipe, &known.step);
        rules.entry(id.clone()).or_insert(id);
    }
    rules
}

fn listed(rules: &SarifRules) -> Vec<Value> {
    let rule =
        |(id, what): (&String, &String)| json!({ "id": escape::line(id), "shortDescription": { "text": plain(what) } });
    rules.iter().map(rule).collect()
}

fn result(finding: &DriftFinding, drift: &DriftReport, rules: &SarifRules) -> Value {
    let id = rule(&finding.recipe, &finding.step);
    let mut result = json!({
        "ruleId": escape::line(&id),
        "ruleIndex": rules.keys().position(|known| *known == id),
        "level": level(finding.severity),
        "message": { "text": message(finding) },
        "locations": [location(&finding.host, &finding.place)],
        "partialFingerprints": fingerprint(&finding.host, &finding.recipe, &finding.step, finding.attribute.as_deref()),
        "properties": properties(finding, &drift.time),
    });
    if drift.no_history.is_none() {
        result["baselineState"] = standing(finding.standing).into();
    }
    result
}

/// Returns the result for a resolved finding.
fn absent(known: &KnownFinding, rules: &SarifRules) -> Value {
    let id = rule(&known.recipe, &known.step);
    json!({
        "ruleId": escape::line(&id),
        "ruleIndex": rules.keys().position(|rule| *rule == id),
        "level": level(known.severity),
        "message": { "text": format!("resolved on {}: matches again", plain(known.host.as_str())) },
        "locations": [location(&known.host, "")],
        "partialFingerprints": fingerprint(&known.host, &known.recipe, &known.step, known.attribute.as_deref()),
        "baselineState": "absent",
    })
}

fn level(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Critical | FindingSeverity::High => "error",
        FindingSeverity::Medium => "warning",
        FindingSeverity::Low => "note",
    }
}

fn standing(standing: FindingNovelty) -> &'static str {
    match standing {
        FindingNovelty::New | FindingNovelty::Again => "new",
        FindingNovelty::Changed => "updated",
        FindingNovelty::Same => "unchanged",
    }
}

/// Escapes text for a message, in which `[text](target)` is a link and `{0}` a placeholder.
fn plain(text: &str) -> String {
    escape::line(text).replace("](", "] (").replace('{', "{{").replace('}', "}}")
}

fn message(finding: &DriftFinding) -> String {
    let what = format!("{} on {}: {}", about::what(finding), finding.host, about::why(&[finding]));
    let value = about::value(finding);
    let shown = about::pair(&value, |text| escape::value(text, VALUE));
    match (&finding.attribute, shown.is_empty()) {
        (Some(attribute), false) => plain(&format!("{what}; {attribute}: {shown}")),
        _ => plain(&what),
    }
}

/// Returns the source location and the host of a finding.
fn location(host: &HostName, place: &str) -> Value {
    let mut location = Map::new();
    if let Some((file, line, column)) = parts(place) {
        let region = json!({ "startLine": line, "startColumn": column });
        let file = json!({ "artifactLocation": { "uri": uri(file) }, "region": region });
        location.insert("physicalLocation".into(), file);
    }
    let host = escape::line(host.as_str());
    location.insert("logicalLocations".into(), json!([{ "fullyQualifiedName": host, "kind": "host" }]));
    location.into()
}

/// Splits `file:line:col`.
fn parts(place: &str) -> Option<(&str, u32, u32)> {
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|line| *line > 0)?, column.parse().ok().filter(|column| *column > 0)?))
}

/// Returns a path as a URI reference, with reserved characters percent-encoded.
fn uri(path: &str) -> String {
    let mut out = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            byte if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            byte => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Returns the stable id of a finding across runs, independent of its values.
fn fingerprint(host: &HostName, recipe: &UntrustedText, step: &UntrustedText, attribute: Option<&str>) -> Value {
    let name = [host.as_str(), recipe.raw(), step.raw(), attribute.unwrap_or_default()].join("\0");
    json!({ "forgeFinding/v1": hex(&Sha256::digest(name.as_bytes())[..16]) })
}

fn properties(finding: &DriftFinding, now: &str) -> Value {
    let mut bag = Map::new();
    bag.insert("host".into(), finding.host.as_str().into());
    bag.insert("severity".into(), finding.severity.name().into());
    bag.insert("firstSeen".into(), finding.first_seen.as_str().into());
    if let about::AttributeDifference::Diff { diff, .. } = about::value(finding) {
        bag.insert("diff".into(), diff.into());
    }
    bag.extend(about::rows(&[finding], now).into_iter().map(|(label, text)| (label.replace(' ', "-"), text.into())));
    bag.into()
}

/// Returns the invocation of the run. It is successful only if every host was evaluated completely.
fn invocation(told: &DriftReportInput<'_>) -> Value {
    let note = |level: &str, text: String, location: Value| json!({ "level": level, "message": { "text": text }, "locations": [location] });
    let unknown = told.drift.unknown.iter().map(|unsure| {
        let name = about::name(&unsure.recipe, &unsure.step);
        note(
            "warning",
            plain(&format!("unknown: {name}: {}", unsure.reason.raw())),
            location(&unsure.host, &unsure.place),
        )
    });
    let silent = told.drift.hosts.iter().filter_map(|host| match &host.reach {
        crate::plan::HostReachability::Observed => None,
        crate::plan::HostReachability::Unreachable(why) => {
            Some(note("error", plain(&format!("unreachable: {}", why.why.raw())), location(&host.host, "")))
        }
    });
    json!({
        "executionSuccessful": is_whole(told.exit),
        "exitCode": told.exit.code(),
        "endTimeUtc": told.drift.time,
        "toolExecutionNotifications": silent.chain(unknown).collect::<Vec<_>>(),
    })
}
