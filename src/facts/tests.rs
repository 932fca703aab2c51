//! Tests all facts at once: on this machine, and with arbitrary answers.

use super::*;
use crate::model::SecretStore;
use crate::probe::{ProbeOutput, compile_probes, parse_output};
use crate::script::{ScriptToken, ShellScript};
use proptest::prelude::*;
use secrecy::ExposeSecret;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn fact_names_are_unique_and_documented() {
    let names: std::collections::BTreeSet<_> = all_facts().iter().map(|fact| fact.name).collect();
    assert_eq!(names.len(), all_facts().len());
    for fact in all_facts() {
        assert_eq!(fact.name, fact.snippet.name);
        assert!(!fact.doc.is_empty() && fact.snippet.timeout_s > 0, "{}", fact.name);
        assert!(fact.fields.iter().all(|(_, doc)| !doc.is_empty()), "{}", fact.name);
    }
}

/// Returns the keys of the part of a fact that has the fields.
fn list_field_names(shape: FactShape, value: &Value) -> Vec<String> {
    let of = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    match shape {
        FactShape::Map => of(value),
        FactShape::List => value.as_array().into_iter().flatten().flat_map(of).collect(),
        FactShape::ByName => value.as_object().into_iter().flat_map(|map| map.values()).flat_map(of).collect(),
        FactShape::Value => Vec::new(),
    }
}

/// Recipes reject names that are not documented.
#[test]
fn every_reported_field_is_documented() {
    let facts = observe_locally("dash");
    for fact in all_facts() {
        assert_eq!(fact.fields.is_empty(), fact.shape == FactShape::Value, "{}", fact.name);
        let Ok(value) = &facts.0[fact.name] else { continue };
        for key in list_field_names(fact.shape, value) {
            assert!(key == "unknown" || fact.fields.iter().any(|(name, _)| *name == key), "{}.{key}", fact.name);
        }
    }
}

fn observe_locally(shell: &str) -> Facts {
    let compiled = compile_probes(
        &fact_probes().collect(),
        &fact_snippets(),
        ScriptToken::new("0123456789abcdef0123456789abcdef"),
        None,
    );
    let device = compiled.device.as_ref().map(|script| run_script(shell, script));
    Facts::from_observation(
        &parse_output(&compiled, &run_script(shell, &compiled.script), device.as_deref()).expect("well-formed"),
    )
}

fn run_script(shell: &str, script: &ShellScript) -> Vec<u8> {
    let text = script.render_text(&SecretStore::default()).expect("no NUL");
    let mut child = Command::new(shell).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the shell starts");
    child.stdin.take().expect("is piped").write_all(text.expose_secret().as_bytes()).expect("the shell reads");
    child.wait_with_output().expect("the shell ends").stdout
}

#[test]
fn facts_of_this_machine_are_collected() {
    for shell in ["dash", "bash"] {
        let facts = observe_locally(shell);
        assert_eq!(facts.0.len(), all_facts().len(), "every fact has an answer");
        let value = |name: &str| facts.0[name].clone().unwrap_or_else(|why| panic!("{name} is unknown: {why:?}"));
        assert_eq!(
            value("kernel")["release"],
            Value::from(std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux").trim())
        );
        assert_eq!(
            value("boot")["id"],
            Value::from(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux").trim())
        );
        assert_eq!(value("cpu")["count"].as_u64(), std::thread::available_parallelism().ok().map(|n| n.get() as u64));
        assert!(value("memory")["total"].as_u64() > Some(1 << 20));
        assert!(value("disk")["/"]["total"].as_u64() > Some(1 << 20));
        assert!(value("os")["id"].is_string());
        assert!(value("identity")["hostname"].is_string());
        assert_eq!(value("tools")["stat"], Value::Bool(true));
        // On a machine without devices these facts are empty, not unknown.
        let has = |path: &str| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        assert_eq!(value("rdma").as_array().is_some_and(|list| !list.is_empty()), has("/sys/class/infiniband"));
        let loaded = std::path::Path::new("/proc/driver/nvidia/version").exists();
        assert_eq!(value("driver")["loaded"].is_null(), !loaded);
        assert!(loaded || value("gpu_state") == Value::Array(vec![]));
        // Facts that this machine cannot report contain the reason.
        let reasons: Vec<_> = facts.0.values().filter_map(|fact| fact.as_ref().err()).collect();
        assert!(reasons.iter().all(|unknown| !unknown.why.is_empty()), "{reasons:?}");
    }
}

proptest! {
    #[test]
    fn parsers_do_not_panic_on_any_output(text in "\\PC{0,80}|([a-z0-9 \t\n\u{1e}/\"'\\\\={}\\[\\]:,.-]{0,120})|(\u{1e}(gpu|device|port|disk|files|status|information|process|kernel)[\t\n][a-zA-Z0-9_ \t\n:/]{0,60}){0,4}", status in 0i32..3) {
        let output = ProbeOutput { status, stdout: text.into(), ..ProbeOutput::default() };
        for fact in all_facts() {
            let _ = (fact.parse)(&output);
        }
    }
}
