//! The values that a step depends on, in readable form: the observed attributes that were evaluated, and the facts that
//! its templates, `when` and rules read. Their digest is the basis; the values show which part of it changed.

use super::assessment::read_fact;
use super::canonical_json::{digest_text, to_canonical_json};
use super::former_secrets::{declares_secret, may_hold_secret};
use super::host_context::{HostContext, StepInstance};
use super::model::Precondition;
use crate::config::ExpansionState;
use crate::model::{UntrustedText, Value};
use crate::resource::Assessment;

/// Length in bytes above which a value is replaced by its digest.
const MAX_VALUE_BYTES: usize = 160;

/// Returns the values that the judgement of a step instance depends on, facts first.
pub fn collect_preconditions(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    judgement: &Assessment,
) -> Vec<Precondition> {
    if let ExpansionState::Resource(resource) = &turn.expanded.state
        && may_hold_secret(case, &turn.expanded.id, resource.as_ref())
    {
        return Vec::new();
    }
    let facts = turn.expanded.reads.iter().map(|path| (format!("facts.{path}"), read_fact(case, path)));
    let mut seen = Vec::new();
    flatten_attributes("", &judgement.basis, &mut seen);
    let entry = |(what, value): (String, Value)| Precondition { what: what.into(), value: redact_value(case, &value) };
    facts.chain(seen).map(entry).collect()
}

/// Splits a value into its attributes: `hello.version` for the observed version of the package `hello`.
fn flatten_attributes(name: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(map) => {
            for (key, part) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten_attributes(&name, part, out);
            }
        }
        Value::Null if name.is_empty() => {}
        value if name.is_empty() => out.push(("it".to_owned(), value.clone())),
        value => out.push((name.to_owned(), value.clone())),
    }
}

/// Returns the digest of what a step instance declares, as the host's record of it will contain it. A declaration with
/// a secret has none here: only the host's key makes that digest safe.
pub fn digest_declared(turn: &StepInstance<'_>) -> Option<String> {
    let ExpansionState::Resource(resource) = &turn.expanded.state else { return None };
    (!declares_secret(resource.as_ref())).then(|| digest_text(&to_canonical_json(&resource.desired_value())))
}

fn redact_value(case: &HostContext<'_>, value: &Value) -> UntrustedText {
    let text = case.ground.secrets.scrub_secrets(&to_canonical_json(value));
    match text.len() > MAX_VALUE_BYTES {
        true => digest_text(&text).into(),
        false => text.into(),
    }
}

/// Returns the values that changed since: `` `version` was "1.0" and is "1.1" ``. `None` if the listed values show no
/// difference.
pub fn describe_changed_preconditions(before: &[Precondition], now: &[Precondition]) -> Option<String> {
    let of =
        |list: &[Precondition], what: &str| list.iter().find(|part| part.what == what).map(|part| part.value.clone());
    let gone = before.iter().map(|part| (&part.what, Some(&part.value), of(now, &part.what)));
    let new = now.iter().filter(|part| of(before, &part.what).is_none());
    let all = gone.chain(new.map(|part| (&part.what, None, Some(part.value.clone()))));
    let set = |value: Option<&UntrustedText>| value.filter(|value| value.raw() != "null").cloned();
    let differ = all.filter(|(_, from, to)| set(*from) != set(to.as_ref()));
    let parts: Vec<String> = differ.map(|(what, from, to)| describe_changed_value(what, from, to.as_ref())).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn describe_changed_value(what: &str, from: Option<&UntrustedText>, to: Option<&UntrustedText>) -> String {
    // Two digests show a reader only that the value changed.
    if from.is_some_and(is_digest) && to.is_some_and(is_digest) {
        return format!("`{what}` changed since the plan");
    }
    if let Some(to) = to
        && let Some((from, to)) = from.and_then(join_list).zip(join_list(to))
    {
        return format!("`{what}` differs: {from} in the plan, {to} now");
    }
    let value = |value: Option<&UntrustedText>| match value.map(UntrustedText::raw) {
        None | Some("null") => "unset".to_owned(),
        Some(text) => text.to_owned(),
    };
    format!("`{what}` was {} and is {}", value(from), value(to))
}

/// Returns the entries of a list of texts, in one line; `None` for any other value.
fn join_list(value: &UntrustedText) -> Option<String> {
    let entries: Vec<String> = serde_json::from_str(value.raw()).ok()?;
    Some(if entries.is_empty() { "nothing".to_owned() } else { entries.join(" and ") })
}

/// Returns whether a value is a digest: in place of a long value, or as the value itself.
fn is_digest(value: &UntrustedText) -> bool {
    let digits = value.raw().trim_matches('"').trim_start_matches("sha256:");
    digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(&str, &str)]) -> Vec<Precondition> {
        list.iter().map(|(what, value)| Precondition { what: (*what).into(), value: (*value).into() }).collect()
    }

    #[test]
    fn changed_digest_is_described_without_the_digests() {
        let digest = |text: &str| digest_text(text);
        let (old, new) = (digest_text("a"), format!("\"{}\"", digest("b").trim_start_matches("sha256:")));
        let moved = describe_changed_preconditions(&parts(&[("content", &old)]), &parts(&[("content", &new)]));
        assert_eq!(moved.as_deref(), Some("`content` changed since the plan"));
    }

    #[test]
    fn changed_preconditions_show_old_and_new_values() {
        let before = parts(&[("facts.os.id", "\"debian\""), ("version", "\"1.0\""), ("held", "true")]);
        assert_eq!(describe_changed_preconditions(&before, &before), None);
        let now =
            [("facts.os.id", "\"debian\""), ("version", "\"1.1\""), ("status", "\"broken\""), ("mounted", "null")];
        let now = parts(&now);
        assert_eq!(
            describe_changed_preconditions(&before, &now).as_deref(),
            Some(
                "`version` was \"1.0\" and is \"1.1\", `held` was true and is unset, `status` was unset and is \"broken\""
            )
        );
    }

    #[test]
    fn changed_lists_are_described_in_a_sentence() {
        let before = parts(&[("restart", r#"["`web/conf` changes"]"#), ("enabled", "[]")]);
        let now = parts(&[("restart", r#"["`web/conf` changed", "`b` was replaced"]"#), ("enabled", r#"["a"]"#)]);
        assert_eq!(
            describe_changed_preconditions(&before, &now).as_deref(),
            Some(
                "`restart` differs: `web/conf` changes in the plan, `web/conf` changed and `b` was replaced now, \
                 `enabled` differs: nothing in the plan, a now"
            )
        );
    }

    #[test]
    fn nested_attributes_are_flattened_to_dotted_names() {
        let mut out = Vec::new();
        flatten_attributes("", &serde_json::json!({"hello": {"version": "1", "held": null}, "list": [1]}), &mut out);
        let names: Vec<&str> = out.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["hello.version", "hello.held", "list"]);
    }

    #[test]
    fn empty_preconditions_report_no_change() {
        assert_eq!(describe_changed_preconditions(&[], &[]), None);
    }
}
