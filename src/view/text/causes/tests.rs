//! Blocked and unknown steps in text and Markdown, compared with the JSON output.

use crate::model::{BlockClass, ExitCode, StepVerdict};
use crate::plan::{Plan, StepPlan};
use crate::view::{JsonWriter, ResultWriter, TextWriter, markdown, sample};
use proptest::prelude::*;
use std::collections::BTreeSet;

const CLASSES: [BlockClass; 5] =
    [BlockClass::Hardware, BlockClass::Rule, BlockClass::Busy, BlockClass::Host, BlockClass::Declaration];

/// Returns a verdict for a number. Most are blocked or unknown.
fn pick_verdict(number: u8) -> StepVerdict {
    match number {
        0..=4 => StepVerdict::Blocked(CLASSES[usize::from(number)]),
        5 => StepVerdict::Unknown,
        6 => StepVerdict::Change,
        7 => StepVerdict::Pending,
        _ => StepVerdict::Ok,
    }
}

/// Per step: its verdict, its reason, whether it waits for another step, and whether its title is host-specific.
type GeneratedStep = (u8, u8, bool, bool);

fn build_plan(hosts: &[Vec<GeneratedStep>]) -> Plan {
    let step = |host: usize, at: usize, (kind, why, waits, own): GeneratedStep| {
        let title = if own { format!("/etc/{at}-{host}") } else { format!("/etc/{at}") };
        let step = sample::step(&format!("s{at}"), "file", &title, pick_verdict(kind), &format!("cause {why}"));
        let waits = waits && !step.verdict.is_settled();
        StepPlan { waits_for: waits.then(|| Box::new(crate::plan::UnmetDependency::on_step("base/s0"))), ..step }
    };
    let steps =
        |host: usize, made: &[GeneratedStep]| made.iter().enumerate().map(|(at, made)| step(host, at, *made)).collect();
    let all = hosts.iter().enumerate();
    sample::plan(all.map(|(n, made)| sample::observed_host(&format!("gpu{n:02}"), steps(n, made))).collect())
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let step = (0u8..10, 0u8..3, any::<bool>(), prop::bool::weighted(0.2));
    let host = prop::collection::vec(step, 0..24);
    prop::collection::vec(host, 1..6).prop_map(|hosts| build_plan(&hosts))
}

/// Number of blocked and unknown steps (steps times hosts) in a document, and their ids.
#[derive(Debug, Default, PartialEq)]
struct NamedSteps {
    blocked: usize,
    unknown: usize,
    ids: BTreeSet<String>,
}

/// Reads the JSON output.
fn names_in_json(plan: &Plan) -> NamedSteps {
    let mut out = Vec::new();
    JsonWriter::default().write_plan(plan, ExitCode::Done, &mut out).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let hosts = value["plan"]["hosts"].as_array().unwrap();
    let mut named = NamedSteps::default();
    for step in hosts.iter().flat_map(|host| host["steps"].as_array().unwrap()) {
        let (blocked, unknown) = (step["verdict"].get("blocked").is_some(), step["verdict"] == "unknown");
        named.blocked += usize::from(blocked);
        named.unknown += usize::from(unknown);
        if blocked || unknown {
            named.ids.insert(format!("base/{}", step["id"]["step"].as_str().unwrap()));
        }
    }
    let counts = &value["counts"];
    assert_eq!(counts["blocked"].as_u64(), Some(named.blocked as u64));
    assert_eq!(counts["unknown"].as_u64(), Some(named.unknown as u64));
    named
}

/// Reads the text output: entries of a section, steps times hosts.
fn names_in_text(text: &str) -> NamedSteps {
    let mut named = NamedSteps::default();
    let (mut blocked, mut unknown, mut steps) = (false, false, 0);
    for line in text.lines() {
        let number = |rest: &str| rest.split(' ').next().and_then(|word| word.parse::<usize>().ok());
        match line {
            "" => (blocked, unknown) = (false, false),
            _ if !line.starts_with([' ', 'x', '?']) => {
                (blocked, unknown) = (line.starts_with("blocked"), line.starts_with("unknown"));
            }
            _ if !blocked && !unknown => {}
            _ if line.starts_with("x ") || line.starts_with("? ") => steps = number(&line[2..]).unwrap_or(1),
            _ => {
                let alone = line.starts_with("    on ").then_some(1);
                let hosts = alone.or_else(|| number(line.strip_prefix("    = same on ")?)).unwrap_or(0);
                named.blocked += if blocked { steps * hosts } else { 0 };
                named.unknown += if unknown { steps * hosts } else { 0 };
            }
        }
        if blocked || unknown {
            let words = line.split([' ', ',']).filter(|word| word.starts_with("base/"));
            named.ids.extend(words.map(str::to_owned));
        }
    }
    named
}

fn render_text(plan: &Plan, verbose: u8) -> String {
    let mut out = Vec::new();
    TextWriter { verbose, target: None, resume: None }.write_plan(plan, ExitCode::Done, &mut out).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

fn render_markdown(plan: &Plan) -> String {
    let mut out = Vec::new();
    markdown::write_plan(plan, None, &[], &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the number before a word in the closing line.
fn closing_count(text: &str, word: &str) -> usize {
    let line = text.lines().find(|line| line.starts_with("plan: ")).unwrap_or_default();
    let part = line.split([',', ';', ':']).find_map(|part| part.trim().strip_suffix(&format!(" {word}")));
    part.map_or(0, |number| number.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn text_and_markdown_name_every_blocked_and_unknown_step(plan in any_plan()) {
        let expected = names_in_json(&plan);
        let (short, long, page) = (render_text(&plan, 0), render_text(&plan, 1), render_markdown(&plan));
        for (name, text) in [("text", &short), ("-v", &long), ("Markdown", &page)] {
            let named = names_in_text(text);
            // With -v a waiting step names its dependency, which may have another verdict.
            prop_assert_eq!((named.blocked, named.unknown), (expected.blocked, expected.unknown), "{}: {}", name, text);
            prop_assert!(expected.ids.is_subset(&named.ids), "{}: {}", name, text);
            prop_assert_eq!(closing_count(text, "blocked"), expected.blocked, "{}: {}", name, text);
            prop_assert_eq!(closing_count(text, "unknown"), expected.unknown, "{}: {}", name, text);
        }
    }
}

/// A rule blocks a recipe of 13 steps, each of which also needs the previous one.
#[test]
fn every_step_blocked_by_a_rule_is_named() {
    let blocked: Vec<GeneratedStep> = (0..13).map(|at| (1, 0, at > 0, false)).collect();
    let plan = build_plan(&[blocked.clone(), blocked]);
    let text = render_text(&plan, 0);
    let entry = "blocked by a rule\nx 13 steps\n    base/s0, base/s1, base/s2, base/s3, base/s4, base/s5, base/s6, \
                 base/s7, base/s8, base/s9, base/s10,\n    base/s11, base/s12\n    cause 0\n    = same on 2 hosts: \
                 gpu[00:01]\n";
    assert!(text.contains(entry) && !text.contains("waiting"), "{text}");
    assert!(text.ends_with("plan: no changes; steps: 26 blocked\n"), "{text}");
    let first = render_markdown(&plan).lines().next().unwrap().to_owned();
    assert_eq!(first, "### forge plan: no changes on 2 hosts, 26 blocked, nothing unknown");
    assert_eq!(plan.exit_code(false), ExitCode::HostsFailed);
}

/// A comment may be too short to name all steps of a plan: then it counts them and says how to list them.
#[test]
fn markdown_counts_blocked_steps_it_cannot_list() {
    let own = |host: usize| (0..60).map(move |at| (1, (host * 60 + at) as u8 % 200, true, true)).collect();
    let hosts: Vec<Vec<GeneratedStep>> = (0..40).map(own).collect();
    let mut plan = build_plan(&hosts);
    plan.hosts[0].steps.push(sample::motd_step());
    let page = render_markdown(&plan);
    assert!(page.len() <= 65_000, "{}", page.len());
    assert!(page.contains("\nblocked by a rule: 2400 steps\n    = same on 40 hosts: gpu[00:39]\n"), "{page}");
    assert!(page.contains("run `forge show FILE` to list them"), "{page}");
    assert!(page.contains("/etc/motd"), "the change is still shown: {page}");
}
