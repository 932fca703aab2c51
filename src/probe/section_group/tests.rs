//! Probes that share a process: each has its own answer, or its own reason for a missing one.

use super::*;
use crate::probe::UnansweredReason;
use crate::probe::query::Probe;
use crate::probe::section::testing::{answers, printed};

const T: &str = "0123456789abcdef0123456789abcdef";

fn part(name: &'static str, user: &str) -> ProbeSection {
    let read = |section: &ProbeSection, raw: &SectionOutput, out: &mut Observation| {
        let why = match raw.is_complete(&[0]) {
            true => UnansweredReason::new(String::from_utf8_lossy(&raw.stdout))
                .with_message(crate::probe::section::parse_utf8(&raw.stderr).unwrap_or("")),
            false => raw.explain_missing(section),
        };
        section.answer_all_unknown(&why, out);
    };
    ProbeSection { cap: 8, ..ProbeSection::new(name, vec![Probe::User { name: user.into() }], read) }
}

fn asked() -> ProbeSection {
    group_sections(vec![part("`a`", "a"), part("`b`", "b"), part("`c`", "c")], T).remove(0)
}

fn told(raw: &SectionOutput) -> Vec<(String, String)> {
    let seen = answers(&asked(), raw);
    let of = |user: &str| seen.get(&Probe::User { name: user.into() }).expect_err("no reading");
    ["a", "b", "c"].map(of).map(|u| (u.why, u.said.map_or(String::new(), |said| said.raw().to_owned()))).to_vec()
}

fn pair(why: &str, said: &str) -> (String, String) {
    (why.to_owned(), said.to_owned())
}

fn frames(parts: &str) -> SectionOutput {
    printed(parts.replace('T', T))
}

#[test]
fn each_section_has_its_own_stdout_status_and_stderr() {
    let raw = frames("\nT 0\none\0\n\nT =0\n\nT 1\n\nT =127\nforge-missing stat\nT 2\n\nT =3\nno such thing");
    assert_eq!(
        told(&raw),
        [pair("one\0\n", ""), pair("`stat` is missing", ""), pair("`c` failed with status 3", "no such thing")]
    );
}

#[test]
fn output_that_resembles_a_separator_is_kept() {
    let raw = frames("\nT 0\n\nt =0\n\nT =0\n\nT 1\n2\nT =0\nx\nT 2\n\nT =0\n");
    assert_eq!(told(&raw), [pair("\nt =0\n", ""), pair("2", "x"), pair("", "")]);
}

#[test]
fn hanging_section_times_out_the_following_ones() {
    let raw = SectionOutput { end: SectionEnd::TimedOut, ..frames("\nT 0\none\nT =0\n\nT 1\npart of") };
    assert_eq!(told(&raw), [pair("one", ""), pair("timed out after 20 s", ""), pair("timed out after 20 s", "")]);
}

#[test]
fn flooding_section_is_named_and_keeps_earlier_answers() {
    let raw = frames("\nT 0\none\nT =0\n\nT 1\n123456789\nT =0\n\nT 2\nend\nT =0\n");
    assert_eq!(told(&raw), [pair("one", ""), pair("`b` printed more than 8 bytes", ""), pair("end", "")]);
    let raw = SectionOutput { truncated: true, ..frames("\nT 0\none\nT =0\n\nT 1\n1234567") };
    let flooded = pair("`b` printed more than 8 bytes", "");
    assert_eq!(told(&raw), [pair("one", ""), flooded.clone(), flooded]);
}

#[test]
fn long_sections_are_split_across_processes() {
    let long = |name| {
        let part = part("`x`", name);
        ProbeSection { body: ShellFragment::new().word("x".repeat(60_000)), ..part }
    };
    let names: Vec<Vec<Probe>> =
        group_sections(vec![long("a"), long("b"), part("`y`", "c")], T).into_iter().map(|group| group.probes).collect();
    let user = |name: &str| Probe::User { name: name.into() };
    assert_eq!(names, [vec![user("a"), user("c")], vec![user("b")]]);
}
