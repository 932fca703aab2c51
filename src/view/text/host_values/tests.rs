//! The fold is lossless: one host's text and the named values reproduce each host's own text.

use super::*;
use crate::model::{DisruptionClass, StepVerdict};
use crate::plan::Plan;
use crate::resource::AttributeChange;
use crate::view::sample;
use crate::view::text::group;
use proptest::prelude::*;

fn diff_step(title: &str, diff: &str) -> StepPlan {
    let change = AttributeChange { diff: Some(diff.into()), ..AttributeChange::new("content", None, None) };
    StepPlan { changes: vec![change], ..sample::step("x", "file", title, StepVerdict::Change, "content differs") }
}

fn plan_from_steps(steps: Vec<StepPlan>) -> Plan {
    let hosts = steps.into_iter().enumerate();
    sample::plan(hosts.map(|(at, step)| sample::observed_host(&format!("gpu{:02}", at + 1), vec![step])).collect())
}

fn fold_plan(plan: &Plan) -> Vec<FoldedStep<'_>> {
    fold_host_values(group::group_steps(plan, StepPlan::will_run))
}

fn describe_steps(steps: Vec<StepPlan>, verbose: bool) -> Vec<Vec<String>> {
    let plan = plan_from_steps(steps);
    fold_plan(&plan).iter().map(|step| step.describe_values(verbose)).collect()
}

/// Returns the whole text of a step.
fn step_text(step: &StepPlan) -> String {
    split_words(step).map(|word| word.text).collect()
}

/// Reconstructs the text of a host like a reader does: from the shown text and the differing words.
fn rebuild_host_text(folded: &FoldedStep<'_>, host: &HostName) -> String {
    let own = |word: &TextWord<'_>| {
        let numbered = format!("{}, word {}", word.place, word.number);
        let meant = |value: &&HostValue<'_>| {
            let shown = value.words.iter().find(|(of, _)| *of == folded.shown).map(|(_, word)| *word);
            let place = word.place.to_string();
            value.places.contains(&numbered) || (value.places.contains(&place) && shown == Some(word.text))
        };
        let value = folded.values.iter().find(meant).filter(|_| word.is_value);
        value
            .and_then(|value| value.words.iter().find(|(of, _)| *of == host))
            .map_or(word.text, |(_, own)| *own)
            .to_owned()
    };
    split_words(folded.group.step).map(|word| own(&word)).collect()
}

#[test]
fn steps_that_differ_only_in_host_values_are_folded() {
    let own = |n: usize| diff_step("/etc/x", &format!("@@ -0,0 +1,2 @@\n+name = gpu{n:02}\n+address = 10.0.0.{n}\n"));
    let steps: Vec<StepPlan> = (1..=16).map(own).collect();
    let shown = describe_steps(steps.clone(), false);
    assert_eq!(
        shown,
        [[
            "shown for gpu01; on the other hosts only these words differ:",
            "  content line 1: the host name",
            "  content line 2: 10.0.0.1 on gpu01, 10.0.0.2 on gpu02, 10.0.0.3 on gpu03 and 13 more values; -v shows all",
        ]]
    );
    assert!(describe_steps(steps, true)[0][2].ends_with("10.0.0.15 on gpu15, 10.0.0.16 on gpu16"));
}

#[test]
fn dissimilar_or_few_texts_are_not_folded() {
    let line = |text: &str| diff_step("/etc/x", &format!("@@ -0,0 +1 @@\n+{text}\n"));
    let texts = |steps| describe_steps(steps, false).len();
    assert_eq!(texts(vec![line("a 1"), line("a 2")]), 2, "two texts are as short as a fold");
    assert_eq!(texts(vec![line("a 1"), line("a 2"), line("a = 3"), line("a 4")]), 2, "the text between words differs");
    let removed = |n: usize| diff_step("/etc/x", &format!("@@ -1 +0,0 @@\n-a {n}\n"));
    assert_eq!(texts(vec![line("a 1"), removed(2), removed(3), removed(4)]), 2, "a removed line is not an added line");
    let many = |n: usize| line(&(0..9).map(|at| format!("w{n}{at}")).collect::<Vec<_>>().join(" "));
    assert_eq!(texts((1..=3).map(many).collect()), 3, "nothing in common");
    let class = |n: usize| StepPlan {
        disruption: [DisruptionClass::D0, DisruptionClass::D1][n % 2],
        ..line(&format!("a {n}"))
    };
    assert_eq!(texts((1..=6).map(class).collect()), 2, "the disruption class is not a word");
}

/// `1` occurs twice, and only one of the two is host-specific.
#[test]
fn repeated_word_is_identified_by_its_number() {
    let own = |n: usize| diff_step("/etc/x", &format!("@@ -0,0 +1 @@\n+{n} 1\n"));
    let shown = describe_steps((1..=3).map(own).collect(), false);
    assert_eq!(shown[0][1], "  content line 1, word 1: 1 on gpu01, 2 on gpu02, 3 on gpu03");
}

#[test]
fn lines_have_the_numbers_that_they_have_in_the_file() {
    let own = |n: usize| {
        let mut step = diff_step("/etc/hosts", &format!("@@ -7,3 +7,3 @@\n a\n-b {n}\n+c {n}0\n d {n}00\n"));
        step.changes[0].attribute = "line".into();
        step
    };
    let shown = describe_steps((1..=3).map(own).collect(), false);
    assert_eq!(
        shown[0][1..],
        [
            "  removed line 8: 1 on gpu01, 2 on gpu02, 3 on gpu03",
            "  line 8: 10 on gpu01, 20 on gpu02, 30 on gpu03",
            "  line 9: 100 on gpu01, 200 on gpu02, 300 on gpu03",
        ]
    );
}

/// Folding thousands of hosts with individual files must not need a multiple of the size of their texts.
#[test]
fn folding_many_long_texts_uses_little_memory() {
    let own = |host: usize| {
        let lines = (0..200).map(|at| format!("+gpu{host:04} {at}\n")).collect::<String>();
        diff_step("/etc/x", &format!("@@ -0,0 +1,200 @@\n{lines}"))
    };
    let plan = sample::plan((0..2000).map(|at| sample::observed_host(&format!("gpu{at:04}"), vec![own(at)])).collect());
    let groups = group::group_steps(&plan, StepPlan::will_run);
    let mut folded = Vec::new();
    let used = allocation_counter::measure(|| folded = fold_host_values(groups));
    assert_eq!(folded.len(), 1);
    let [value] = folded[0].values.as_slice() else { panic!("{:?}", folded[0].values) };
    assert_eq!((value.places.len(), value.words.len()), (200, 2000));
    assert!(folded[0].describe_values(false)[1].ends_with(": the host name"), "{:?}", value.places);
    assert!(used.bytes_max < 8 << 20, "{} bytes", used.bytes_max);
    assert!(used.count_total < 2000 * 50, "{} allocations", used.count_total);
}

/// A text is only compared with texts of the same shape.
#[test]
fn comparing_many_dissimilar_texts_uses_little_memory() {
    let own = |host: usize| diff_step("/etc/x", &format!("@@ -0,0 +1 @@\n+{}=\n", "+".repeat(host)));
    let other = |host: usize| {
        let words = (0..20).map(|at| format!(" w{host}x{at}")).collect::<String>();
        diff_step("/etc/x", &format!("@@ -0,0 +1 @@\n+{words}\n"))
    };
    for make in [&own as &dyn Fn(usize) -> StepPlan, &other] {
        let plan =
            sample::plan((0..2000).map(|at| sample::observed_host(&format!("gpu{at:04}"), vec![make(at)])).collect());
        let groups = group::group_steps(&plan, StepPlan::will_run);
        let mut folded = Vec::new();
        let used = allocation_counter::measure(|| folded = fold_host_values(groups));
        assert_eq!(folded.len(), 2000, "all are shown in full");
        assert!(folded.iter().all(|step| step.values.is_empty()));
        assert!(used.bytes_max < 8 << 20, "{} bytes", used.bytes_max);
        assert!(used.count_total < 2000 * 20, "{} allocations", used.count_total);
    }
}

#[test]
fn equal_texts_have_no_host_values() {
    let shown = describe_steps(
        vec![diff_step("/etc/x", "+a\n"), diff_step("/etc/x", "+a\n"), diff_step("/etc/x", "+a\n")],
        false,
    );
    assert_eq!(shown, [[""; 0]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn text_of_each_host_can_be_rebuilt_from_the_fold(
        lines in prop::collection::vec("[+-][ab1 ={}]{0,12}", 1..4),
        values in prop::collection::vec(("[ab1]{1,2}", "[ab1]{1,2}"), 3..9),
    ) {
        let own = |(first, second): &(String, String)| {
            let text = lines.join("\n").replace('{', first).replace('}', second);
            diff_step(&format!("/etc/{first}"), &format!("{text}\n"))
        };
        let plan = plan_from_steps(values.iter().map(own).collect());
        let folded = fold_plan(&plan);
        let hosts: usize = folded.iter().map(|step| step.group.hosts.len()).sum();
        prop_assert_eq!(hosts, plan.hosts.len(), "no host is left out");
        for step in &folded {
            for host in &step.group.hosts {
                let own = plan.hosts.iter().find(|plan| plan.host == **host).unwrap();
                prop_assert_eq!(rebuild_host_text(step, host), step_text(&own.steps[0]));
            }
        }
    }
}
