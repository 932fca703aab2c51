//! Drift as SARIF 2.1.0: a result for each finding, located at the line that declares it.
//!
//! `logicalLocations` names the host. Steps that could not be evaluated are not results but notifications of the run,
//! which then counts as unsuccessful, so that "not observed" is not mistaken for "no drift".

use super::{DriftReportInput, finding_details, is_conclusive};
use crate::drift::{DriftFinding, DriftReport, FindingNovelty, FindingSeverity, KnownFinding};
use crate::model::{HostName, UntrustedText, to_hex};
use crate::view::escape;
use crate::view::json::write_json;
use crate::view::recording_files::FROM_RECORDINGS;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};

const SARIF_SCHEMA_URL: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Maximum characters of a value. The JSON output has the complete value.
const MAX_VALUE_CHARS: usize = 400;

/// The rules of a run: names by id. Results refer to a rule by its position.
type SarifRules = BTreeMap<String, String>;

/// Writes one document.
pub fn write_sarif(told: &DriftReportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let drift = told.drift;
    let rules = collect_rules(drift);
    let found = drift.findings.iter().map(|finding| finding_result(finding, drift, &rules));
    let gone = drift.resolved.iter().map(|known| resolved_result(known, &rules));
    let run = json!({
        "tool": { "driver": { "name": "forge", "semanticVersion": drift.forge, "rules": list_rules(&rules) } },
        "automationDetails": { "id": format!("forge-drift/{}/{}", escape::escape_line(&drift.cluster), escape::escape_line(&drift.run)) },
        "columnKind": "unicodeCodePoints",
        "invocations": [build_invocation(told)],
        "results": found.chain(gone).collect::<Vec<_>>(),
    });
    write_json(&json!({ "$schema": SARIF_SCHEMA_URL, "version": "2.1.0", "runs": [run] }), out)
}

/// Returns the id of a rule: the step without the key of an instance.
fn format_rule_id(recipe: &UntrustedText, step: &UntrustedText) -> String {
    let name = finding_details::format_step_name(recipe, step);
    name.split('[').next().unwrap_or(&name).to_owned()
}

fn collect_rules(drift: &DriftReport) -> SarifRules {
    let mut rules = SarifRules::new();
    for finding in &drift.findings {
        rules
            .entry(format_rule_id(&finding.recipe, &finding.step))
            .or_insert_with(|| finding_details::describe_subject(finding));
    }
    for known in &drift.resolved {
        let id = format_rule_id(&known.recipe, &known.step);
        rules.entry(id.clone()).or_insert(id);
    }
    rules
}

fn list_rules(rules: &SarifRules) -> Vec<Value> {
    let rule = |(id, what): (&String, &String)| json!({ "id": escape::escape_line(id), "shortDescription": { "text": escape_message(what) } });
    rules.iter().map(rule).collect()
}

fn finding_result(finding: &DriftFinding, drift: &DriftReport, rules: &SarifRules) -> Value {
    let id = format_rule_id(&finding.recipe, &finding.step);
    let mut result = json!({
        "ruleId": escape::escape_line(&id),
        "ruleIndex": rules.keys().position(|known| *known == id),
        "level": sarif_level(finding.severity),
        "message": { "text": finding_message(finding) },
        "locations": [build_location(&finding.host, &finding.place)],
        "partialFingerprints": finding_fingerprint(&finding.host, &finding.recipe, &finding.step, finding.attribute.as_deref()),
        "properties": property_bag(finding, &drift.time),
    });
    if drift.no_history.is_none() {
        result["baselineState"] = baseline_state(finding.standing).into();
    }
    result
}

/// Returns the result for a resolved finding.
fn resolved_result(known: &KnownFinding, rules: &SarifRules) -> Value {
    let id = format_rule_id(&known.recipe, &known.step);
    json!({
        "ruleId": escape::escape_line(&id),
        "ruleIndex": rules.keys().position(|rule| *rule == id),
        "level": sarif_level(known.severity),
        "message": { "text": format!("resolved on {}: matches again", escape_message(known.host.as_str())) },
        "locations": [build_location(&known.host, "")],
        "partialFingerprints": finding_fingerprint(&known.host, &known.recipe, &known.step, known.attribute.as_deref()),
        "baselineState": "absent",
    })
}

fn sarif_level(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Critical | FindingSeverity::High => "error",
        FindingSeverity::Medium => "warning",
        FindingSeverity::Low => "note",
    }
}

fn baseline_state(standing: FindingNovelty) -> &'static str {
    match standing {
        FindingNovelty::New | FindingNovelty::Again => "new",
        FindingNovelty::Changed => "updated",
        FindingNovelty::Same => "unchanged",
    }
}

/// Escapes text for a message, in which `[text](target)` is a link and `{0}` a placeholder.
fn escape_message(text: &str) -> String {
    escape::escape_line(text).replace("](", "] (").replace('{', "{{").replace('}', "}}")
}

fn finding_message(finding: &DriftFinding) -> String {
    let what = format!(
        "{} on {}: {}",
        finding_details::describe_subject(finding),
        finding.host,
        finding_details::explain_cause(&[finding])
    );
    let value = finding_details::attribute_difference(finding);
    let shown = finding_details::describe_difference(&value, |text| escape::escape_value(text, MAX_VALUE_CHARS));
    match (&finding.attribute, shown.is_empty()) {
        (Some(attribute), false) => escape_message(&format!("{what}; {attribute}: {shown}")),
        _ => escape_message(&what),
    }
}

/// Returns the source location and the host of a finding.
fn build_location(host: &HostName, place: &str) -> Value {
    let mut location = Map::new();
    if let Some((file, line, column)) = split_location(place) {
        let region = json!({ "startLine": line, "startColumn": column });
        let file = json!({ "artifactLocation": { "uri": encode_uri(file) }, "region": region });
        location.insert("physicalLocation".into(), file);
    }
    let host = escape::escape_line(host.as_str());
    location.insert("logicalLocations".into(), json!([{ "fullyQualifiedName": host, "kind": "host" }]));
    location.into()
}

/// Splits `file:line:col`.
fn split_location(place: &str) -> Option<(&str, u32, u32)> {
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((file, line.parse().ok().filter(|line| *line > 0)?, column.parse().ok().filter(|column| *column > 0)?))
}

/// Returns a path as a URI reference, with reserved characters percent-encoded.
fn encode_uri(path: &str) -> String {
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
fn finding_fingerprint(
    host: &HostName,
    recipe: &UntrustedText,
    step: &UntrustedText,
    attribute: Option<&str>,
) -> Value {
    let name = [host.as_str(), recipe.raw(), step.raw(), attribute.unwrap_or_default()].join("\0");
    json!({ "forgeFinding/v1": to_hex(&Sha256::digest(name.as_bytes())[..16]) })
}

fn property_bag(finding: &DriftFinding, now: &str) -> Value {
    let mut bag = Map::new();
    bag.insert("host".into(), finding.host.as_str().into());
    bag.insert("severity".into(), finding.severity.name().into());
    bag.insert("firstSeen".into(), finding.first_seen.as_str().into());
    if let finding_details::AttributeDifference::Diff { diff, .. } = finding_details::attribute_difference(finding) {
        bag.insert("diff".into(), diff.into());
    }
    if let Some(check) = finding.check.as_ref().filter(|check| !check.output.is_empty()) {
        bag.insert("checkOutput".into(), check.output.raw().into());
    }
    bag.extend(
        finding_details::list_details(&[finding], now)
            .into_iter()
            .map(|(label, text)| (label.replace(' ', "-"), text.into())),
    );
    bag.into()
}

/// Returns the invocation of the run. It is successful only if every host was evaluated completely.
fn build_invocation(told: &DriftReportInput<'_>) -> Value {
    let note = |level: &str, text: String, location: Value| json!({ "level": level, "message": { "text": text }, "locations": [location] });
    let recordings = told.list_recordings();
    let recorded = (!recordings.is_empty()).then(|| {
        let text = escape_message(&format!("{FROM_RECORDINGS}: {}", recordings.join(", ")));
        json!({ "level": "note", "message": { "text": text } })
    });
    let unknown = told.drift.unknown.iter().map(|unsure| {
        let name = finding_details::format_step_name(&unsure.recipe, &unsure.step);
        note(
            "warning",
            escape_message(&format!("unknown: {name}: {}", unsure.reason.raw())),
            build_location(&unsure.host, &unsure.place),
        )
    });
    let silent = told.drift.hosts.iter().filter_map(|host| match &host.reach {
        crate::plan::HostReachability::Observed => None,
        crate::plan::HostReachability::Unreachable(why) => Some(note(
            "error",
            escape_message(&format!("unreachable: {}", why.why.raw())),
            build_location(&host.host, ""),
        )),
    });
    json!({
        "executionSuccessful": is_conclusive(told.exit),
        "exitCode": told.exit.code(),
        "endTimeUtc": told.drift.time,
        "toolExecutionNotifications": recorded.into_iter().chain(silent).chain(unknown).collect::<Vec<_>>(),
    })
}
