//! A recording replays the observation, and contains no key.

use super::*;
use crate::model::SecretStore;
use crate::probe::query::AptOfferPolicy;
use crate::probe::{CheckProbe, ProbeReading, compile_probes, parse_output};
use crate::script::ScriptToken;
use base64::Engine as _;
use secrecy::ExposeSecret;
use std::collections::BTreeSet;

fn probes() -> BTreeSet<Probe> {
    let path = |path: &str, want: Option<&str>| Probe::Path { path: path.into(), want: want.map(str::to_owned) };
    let check = |id: &str, script: &str| {
        Probe::Check(Box::new(CheckProbe {
            id: id.into(),
            script: script.into(),
            user: None,
            cwd: None,
            env: Vec::new(),
            timeout_s: Some(5),
        }))
    };
    let fact = |name: &str| Probe::Fact { name: name.into() };
    [
        path("/etc/passwd", Some("0")),
        path("/etc", None),
        path("/nonexistent", None),
        path("\0", None),
        Probe::Package { name: "dpkg".into(), offers: AptOfferPolicy::UnlessInstalled },
        Probe::Package { name: "no-such-package".into(), offers: AptOfferPolicy::Unneeded },
        Probe::PackageManager,
        Probe::User { name: "root".into() },
        Probe::Unit { name: "ssh.service".into() },
        Probe::Records,
        Probe::Account,
        check("good", "echo out; echo err >&2"),
        check("bad", "printf '\\377'; exit 3"),
        check("slow", "sleep 60"),
        fact("os"),
        fact("packages"),
        fact("kernel"),
    ]
    .into()
}

/// Probes this machine, with one check that exceeds its limit.
fn observe() -> Observation {
    let mut probes = probes();
    probes = probes
        .into_iter()
        .map(|probe| match probe {
            Probe::Check(check) if check.id == "slow" => {
                Probe::Check(Box::new(CheckProbe { timeout_s: Some(1), ..*check }))
            }
            probe => probe,
        })
        .collect();
    let snippets: Vec<FactSnippet> = crate::facts::fact_snippets();
    let compiled = compile_probes(&probes, &snippets, ScriptToken::new("0123456789abcdef0123456789abcdef"), None)
        .with_raw_answers();
    let text = compiled.script.render_text(&SecretStore::default()).expect("no NUL");
    let output = std::process::Command::new("sh").arg("-c").arg(text.expose_secret()).output().expect("sh runs");
    parse_output(&compiled, &output.stdout, None).expect("well-formed")
}

#[test]
fn recorded_exchanges_replay_to_the_same_answers() {
    let seen = observe();
    let exchanges = seen.exchanges().to_vec();
    assert!(exchanges.len() > 5, "{exchanges:?}");
    let text = serde_json::to_string(&exchanges).unwrap();
    let exchanges: Vec<ProbeExchange> = serde_json::from_str(&text).unwrap();
    let again = crate::probe::recall_answers(
        &replay_exchanges(&exchanges, &crate::facts::fact_snippets(), &ReplaySections::default()),
        &seen.iter().map(|(probe, _)| probe.clone()).collect(),
        &crate::facts::fact_snippets(),
    );
    for (probe, answer) in seen.iter() {
        assert_eq!(again.get(probe).cloned(), answer.clone(), "{probe:?}");
    }
    let slow = seen.iter().find(|(probe, _)| matches!(probe, Probe::Check(check) if check.id == "slow")).unwrap().1;
    assert_eq!(slow.as_ref().unwrap_err().why, "timed out after 1 s");
}

#[test]
fn exchanges_are_not_recorded_by_default() {
    let compiled = compile_probes(&probes(), &[], ScriptToken::new("t"), None);
    assert!(!compiled.keep);
}

fn records(key: &str) -> ProbeExchange {
    let files = "units\0\0record\0a.json\0lines\0./a.json\0{}\n";
    let stdout = ExchangeBytes::Text(format!("account\0key\0key\0{key}\0{files}"));
    let printed = ExchangeOutput {
        end: ExchangeEnd::Exited(0),
        began: true,
        stdout,
        stderr: ExchangeBytes::Text(String::new()),
        truncated: false,
    };
    let answer = ExchangeAnswer::Printed(printed);
    ProbeExchange { asked: "the records".into(), probes: vec![Probe::Records], at: String::new(), limit_s: 20, answer }
}

#[test]
fn host_key_is_redacted_with_a_marker() {
    let key = " 0123456789abcdef".repeat(4);
    let mut exchange = records(&key);
    exchange.remove_secrets(&str::to_owned);
    assert!(!serde_json::to_string(&exchange).unwrap().contains("0123456789abcdef"));
    let state = |exchange: ProbeExchange| match replay_exchanges(&[exchange], &[], &ReplaySections::default())
        .get(&Probe::Records)
        .cloned()
    {
        Ok(ProbeReading::Records(state)) => state,
        other => panic!("{other:?}"),
    };
    let left = state(exchange);
    assert_eq!((left.key.as_deref(), left.records.len()), (Some(KEY_LEFT_OUT), 1), "the records stay");
    let mut bare = records("");
    bare.remove_secrets(&str::to_owned);
    assert_eq!(state(bare).key, None);
}

/// One section of code sends the query, another removes the key: this machine's output goes through both.
#[test]
fn records_replay_without_the_host_key() {
    let seen = observe();
    let mut exchanges = seen.exchanges().to_vec();
    exchanges.iter_mut().for_each(|exchange| exchange.remove_secrets(&str::to_owned));
    let again = replay_exchanges(&exchanges, &crate::facts::fact_snippets(), &ReplaySections::default());
    let records = |seen: &Observation| match seen.get(&Probe::Records).cloned() {
        Ok(ProbeReading::Records(state)) => (state.records, state.running),
        other => panic!("{other:?}"),
    };
    assert_eq!(records(&again), records(&seen));
    assert_eq!(again.get(&Probe::Account), seen.get(&Probe::Account));
}

#[test]
fn secrets_are_removed_from_text_and_encoded_bodies() {
    let body = base64::engine::general_purpose::STANDARD.encode("token=hunter2\n");
    let stdout = ExchangeBytes::Text(format!("errors\0hunter2\0sums\0\0body\x000\0{body}\0"));
    let printed = ExchangeOutput {
        end: ExchangeEnd::Exited(0),
        began: true,
        stdout,
        stderr: ExchangeBytes::Text("hunter2".into()),
        truncated: false,
    };
    let probes = vec![Probe::Path { path: "/x".into(), want: Some("0".into()) }];
    let mut exchange = ProbeExchange { probes, answer: ExchangeAnswer::Printed(printed), ..records("") };
    exchange.remove_secrets(&|text| text.replace("hunter2", "(secret)"));
    let ExchangeAnswer::Printed(printed) = &exchange.answer else { panic!("{exchange:?}") };
    let text = String::from_utf8(printed.stdout.to_bytes()).unwrap();
    let encoded = base64::engine::general_purpose::STANDARD.encode("token=(secret)\n");
    assert_eq!(text, format!("errors\0(secret)\0sums\0\0body\x000\0{encoded}\0"));
    assert_eq!(printed.stderr, ExchangeBytes::Text("(secret)".into()));
}

#[test]
fn exchange_in_unsupported_format_is_unknown() {
    let exchange = ProbeExchange { asked: "`dpkg-query --other`".into(), ..records("") };
    let why = replay_exchanges(&[exchange], &[], &ReplaySections::default()).get(&Probe::Records).unwrap_err().why;
    assert_eq!(why, "was recorded in a format that this version cannot read");
}
