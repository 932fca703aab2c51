//! A plan as a comment: complete, with hostile texts, and too large.

use super::*;
use crate::model::StepVerdict;
use crate::view::sample::{self, observed_host, step};

fn render_plan(of: &Plan) -> String {
    let mut out = Vec::new();
    write_plan(of, Some("sha256:22"), &[], &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn rich_plan_matches_snapshot() {
    insta::assert_snapshot!(render_plan(&sample::rich_plan()));
}

#[test]
fn first_line_reports_nothing_unknown() {
    let of = sample::plan(vec![observed_host("a", vec![sample::motd_step()])]);
    assert!(
        render_plan(&of).starts_with("### forge plan: 1 change on 1 of 1 host, nothing unknown\n"),
        "{}",
        render_plan(&of)
    );
}

#[test]
fn cluster_api_is_not_counted_as_a_host() {
    let of = |hosts: Vec<crate::plan::HostPlan>| render_plan(&sample::plan(hosts));
    let api = || observed_host(HostName::CLUSTER, vec![sample::motd_step()]);
    let page = of(vec![observed_host("a", vec![sample::motd_step()]), observed_host("b", vec![]), api()]);
    assert!(page.starts_with("### forge plan: 2 changes on 1 of 2 hosts and the cluster, nothing"), "{page}");
    assert!(page.contains(" on 1 host and the cluster: ") && !page.contains("3 hosts"), "{page}");
    let page = of(vec![observed_host("a", vec![]), api()]);
    assert!(page.starts_with("### forge plan: 1 change on the cluster, nothing unknown\n"), "{page}");
}

#[test]
fn first_line_counts_and_names_unknown_steps() {
    let open = || step("gsp", "command", "gsp", StepVerdict::Unknown, "timed out");
    let of = sample::plan(vec![observed_host("gpu01", vec![open()]), observed_host("gpu02", vec![open()])]);
    let first = render_plan(&of).lines().next().unwrap().to_owned();
    assert_eq!(first, "### forge plan: no changes on 2 hosts, 2 unknown (?): ` base/gsp ` on ` gpu[01:02] `");
}

/// Text of a host is plain text in every place.
#[test]
fn host_text_is_escaped() {
    let bad = "x</code></details><script>alert(1)</script> ![a](http://b) @everyone ``` \u{1b}[31m\n# y";
    let mut change = AttributeChange::new("content", Some(bad), Some(bad));
    change.diff = Some(format!("@@ -1 +1 @@\n-{bad}\n+````\n").as_str().into());
    let own = StepPlan {
        changes: vec![change, AttributeChange::new("owner", Some(bad), Some(bad))],
        ..step("s", "file", bad, StepVerdict::Change, bad)
    };
    let blocked = StepPlan { reason: bad.into(), ..step("t", "file", bad, StepVerdict::Unknown, bad) };
    let text =
        render_plan(&sample::plan(vec![observed_host("a", vec![own, blocked]), sample::unreachable_host("b", bad)]));
    let outside = text_outside_fences(&text);
    for active in ["<script", "](http", "@everyone", "\u{1b}"] {
        assert!(!outside.contains(active), "{active:?} acts:\n{outside}");
    }
    assert_eq!(outside.matches("<details>").count(), outside.matches("</details>").count(), "{outside}");
    assert!(!text.contains('\u{1b}'));
}

/// Returns the lines outside of fences. A fence ends at a line of at least as many backticks and nothing else.
pub fn text_outside_fences(text: &str) -> String {
    let (mut fence, mut out) = (0, String::new());
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            0 if ticks >= 3 => fence = ticks,
            0 => out += &format!("{}\n", remove_code_spans(line)),
            open if ticks >= open && line.trim_start_matches('`').trim().is_empty() => fence = 0,
            _ => {}
        }
    }
    assert_eq!(fence, 0, "a fence stays open");
    out
}

#[test]
fn large_plan_fits_a_comment_and_counts_omitted_changes() {
    let steps = |host: usize| {
        (0..40).map(move |at| {
            let mut change = AttributeChange::new("content", None, None);
            change.diff = Some("+a line\n".repeat(100).as_str().into());
            // Texts that differ only in words would fold, so each host has a text of another shape.
            let reason = "differs ".repeat(host + 1);
            StepPlan {
                changes: vec![change],
                ..step(&format!("s{at}"), "file", "/etc/x", StepVerdict::Change, &reason)
            }
        })
    };
    let hosts = (0..100).map(|host| observed_host(&format!("gpu{host:03}"), steps(host).collect())).collect();
    let text = render_plan(&sample::plan(hosts));
    assert!(text.len() <= page::MAX_PAGE_BYTES && text.len() > page::MAX_PAGE_BYTES / 2, "{}", text.len());
    let shown = text.matches(" on 1 host: ").count();
    let cut = text.split("**Cut to fit a comment: ").nth(1).unwrap();
    let number = |before: &str| -> usize {
        let end = cut.find(before).unwrap();
        cut[..end].rsplit([' ', '*']).next().unwrap().parse().unwrap()
    };
    assert_eq!(shown + number(" changes"), 4000, "{cut}");
}

/// Removes code spans: a run of backticks up to the next run of the same length.
fn remove_code_spans(line: &str) -> String {
    let (mut rest, mut out) = (line, String::new());
    while let Some(at) = rest.find('`') {
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let after = &rest[at + run..];
        let closing = after.split_inclusive(|c| c != '`').scan(0, |from, part| {
            let at = *from;
            *from += part.len();
            Some((at, part))
        });
        let end =
            closing.filter(|(_, part)| part.bytes().filter(|b| *b == b'`').count() == run).map(|(at, _)| at).next();
        out += &rest[..at];
        match end {
            Some(end) => rest = &after[end + run..],
            None => return out + &rest[at..],
        }
    }
    out + rest
}
