//! The parts of a plan beside its changes: what waits, what is impossible, what could not be told.

use super::causes::{self, CauseGroup};
use super::check::{self, describe_check};
use super::group::{self, Group};
use super::{on_hosts, step};
use crate::model::{BlockClass, HostName, Verdict};
use crate::plan::{Counts, HostPlan, LeftBehind, Plan, Reach, StepPlan, Unreachable, VerifyPlan, Warning};
use crate::view::style::{BAD, DIM, HEAD, REMOVE, UNKNOWN, paint};
use crate::view::{count, escape, words};
use anstyle::Style;
use indexmap::IndexMap;
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes every part that is not empty.
pub fn write(plan: &Plan, counts: &Counts, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    warnings(plan, out)?;
    match verbose {
        true => WAITING.write(plan, verbose, out)?,
        false => waiting(plan, out)?,
    }
    PARTS.iter().try_for_each(|part| part.write(plan, verbose, out))?;
    refused(plan, out)?;
    unreachable(plan, out)?;
    verification(plan, counts, out)?;
    undeclared(plan, out)
}

/// Counts the steps of every part, for a place that has no room for their names.
pub fn sums(plan: &Plan) -> String {
    let mut lines = String::new();
    for part in std::iter::once(&WAITING).chain(PARTS) {
        let on: Vec<&HostName> = hosts_of(plan, part.keep).collect();
        let steps = plan.hosts.iter().flat_map(|host| &host.steps).filter(|step| (part.keep)(step)).count();
        if steps > 0 {
            lines += &format!("{}: {}\n    {}\n", part.head, count(steps, "step"), on_hosts(&on));
        }
    }
    let silent: Vec<&HostName> = plan.hosts.iter().filter(|host| why(host).is_some()).map(|host| &host.host).collect();
    if !silent.is_empty() {
        lines += &format!("unreachable\n    {}\n", on_hosts(&silent));
    }
    let mut add = |head: &str, what: &str, of: &dyn Fn(&HostPlan) -> usize| {
        let on: Vec<&HostName> = plan.hosts.iter().filter(|host| of(host) > 0).map(|host| &host.host).collect();
        if !on.is_empty() {
            let sum = plan.hosts.iter().map(of).sum();
            lines += &format!("{head}: {}\n    {}\n", count(sum, what), on_hosts(&on));
        }
    };
    add("warnings", "warning", &|host| host.warnings.len());
    add("refused: apply would change nothing on these hosts", "host", &|host| usize::from(host.refused.is_some()));
    let verifications = |host: &HostPlan, verdicts: &[Verdict]| {
        host.verify.iter().filter(|verify| verdicts.contains(&verify.verdict)).count()
    };
    let fails = |host: &HostPlan| {
        let blocked = host.verify.iter().filter(|verify| matches!(verify.verdict, Verdict::Blocked(_))).count();
        blocked + verifications(host, &[Verdict::Change])
    };
    add("does not hold", "verification", &fails);
    add("unknown", "verification", &|host| verifications(host, &[Verdict::Unknown]));
    add("no longer declared: applied once, left as they are", "step", &|host| host.undeclared.len());
    lines + "too many to name in a comment: `forge show FILE` names each\n"
}

fn hosts_of(plan: &Plan, keep: fn(&StepPlan) -> bool) -> impl Iterator<Item = &HostName> {
    plan.hosts.iter().filter(move |host| host.steps.iter().any(keep)).map(|host| &host.host)
}

/// Steps of one verdict, and what to do about them.
struct Part {
    head: &'static str,
    symbol: &'static str,
    style: Style,
    hint: &'static str,
    keep: fn(&StepPlan) -> bool,
}

const fn part(head: &'static str, keep: fn(&StepPlan) -> bool, hint: &'static str) -> Part {
    Part { head, symbol: "x", style: BAD, hint, keep }
}

const WAITING: Part =
    Part { symbol: ".", style: DIM, ..part("waiting: skipped for what they need", StepPlan::is_waiting, "") };

const PARTS: &[Part] = &[
    Part { symbol: ".", style: UNKNOWN, ..part("held back", |s| s.held.is_some() && s.waits_for.is_none(), "") },
    Part {
        symbol: ".",
        style: UNKNOWN,
        ..part("pending: configured, not yet effective", |s| is(s, Verdict::Pending), "")
    },
    part(
        "blocked by hardware",
        |s| is(s, Verdict::Blocked(BlockClass::Hardware)),
        "leave these hosts out with `--on`, or give them what is missing",
    ),
    part(
        "blocked by a rule",
        |s| is(s, Verdict::Blocked(BlockClass::Rule)),
        "change the parameters of the recipe for these hosts, or leave them out: with `on:` of its entry for good, with `--on` for this run",
    ),
    part("blocked: something on the host is missing or in the way", |s| is(s, Verdict::Blocked(BlockClass::Host)), ""),
    part(
        "blocked: what is declared does not fit",
        |s| is(s, Verdict::Blocked(BlockClass::Declaration)),
        "correct what is named, or leave these hosts out with `--on`",
    ),
    part("blocked, busy", |s| is(s, Verdict::Blocked(BlockClass::Busy)), "run again when they are free"),
    Part {
        symbol: "?",
        style: UNKNOWN,
        ..part(
            "unknown: could not be judged",
            |s| is(s, Verdict::Unknown),
            "what cannot be judged is not touched; remove the cause and run again",
        )
    },
];

fn is(step: &StepPlan, verdict: Verdict) -> bool {
    step.verdict == verdict && !step.is_waiting()
}

impl Part {
    fn write(&self, plan: &Plan, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let groups = match verbose {
            true => group::steps(plan, self.keep).into_iter().map(alone).collect(),
            false => causes::group_by_cause(plan, self.keep),
        };
        if groups.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", paint(HEAD, self.head))?;
        groups.iter().try_for_each(|group| self.group(group, verbose, out))?;
        hint(self.hint, out)?;
        writeln!(out)
    }

    fn group(&self, group: &CauseGroup<'_>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let symbol = paint(self.style, self.symbol);
        let Some(first) = group.steps.first() else { return Ok(()) };
        match group.steps.len() {
            1 => writeln!(out, "{symbol} {}", step::head(first))?,
            some => {
                writeln!(out, "{symbol} {}", paint(HEAD, count(some, "step")))?;
                causes::list_ids(&group.steps).iter().try_for_each(|line| writeln!(out, "    {line}"))?;
            }
        }
        step::reason(first, out)?;
        if let Some(why) = &first.held {
            writeln!(out, "    {}", escape::line(why))?;
        }
        if let Some(other) = first.waits_for.as_ref().filter(|_| verbose) {
            writeln!(out, "    waits for {}", escape::line(other))?;
        }
        step::place(first, verbose, out)?;
        writeln!(out, "    {}", paint(DIM, on_hosts(&group.hosts)))
    }
}

fn alone(group: Group<'_>) -> CauseGroup<'_> {
    CauseGroup { steps: vec![group.step], hosts: group.hosts }
}

/// Names all steps that wait for one thing in one go: a step that cannot run stops everything behind it.
fn waiting(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: IndexMap<(String, Vec<String>), Vec<&HostName>> = IndexMap::new();
    for host in &plan.hosts {
        for behind in behind(host) {
            groups.entry(behind).or_default().push(&host.host);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, WAITING.head))?;
    for ((root, steps), hosts) in &groups {
        let verb = if steps.len() == 1 { "waits" } else { "wait" };
        let (steps, root) = (words::some(steps), escape::line(root));
        writeln!(out, "{} {} {verb} for {root}", paint(DIM, "."), paint(HEAD, escape::line(&steps)))?;
        writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))?;
    }
    writeln!(out)
}

/// Returns what a host's steps wait for in the end, with the steps that wait for it.
fn behind(host: &HostPlan) -> IndexMap<String, Vec<String>> {
    // A step with `each` is waited for by its name, without the key of a turn.
    let names = |step: &StepPlan| [step.id.to_string(), format!("{}/{}", step.id.recipe, step.id.step)];
    let waits = host.steps.iter().filter_map(|step| Some((names(step), step.waits_for.as_ref()?)));
    let direct: HashMap<String, &String> = waits.flat_map(|(names, root)| names.map(|name| (name, root))).collect();
    let mut roots: IndexMap<String, Vec<String>> = IndexMap::new();
    for step in host.steps.iter().filter(|step| step.is_waiting()) {
        let mut root = step.id.to_string();
        // As many hops as there are steps at most: a plan that was read from a file may hold a circle.
        for _ in 0..direct.len() {
            match direct.get(&root) {
                Some(next) => root = (*next).clone(),
                None => break,
            }
        }
        roots.entry(root).or_default().push(step.id.to_string());
    }
    roots
}

fn hint(hint: &str, out: &mut dyn Write) -> io::Result<()> {
    match hint {
        "" => Ok(()),
        hint => writeln!(out, "  hint: {}", escape::line(hint)),
    }
}

fn refused(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let hosts = plan.hosts.iter().filter_map(|host| Some((&host.host, host.refused.as_ref()?)));
    let groups = group::equal(hosts, |refused| (&refused.why, &refused.hint));
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "refused: apply would change nothing on these hosts"))?;
    for (refused, hosts) in groups.values() {
        writeln!(out, "{} {}", paint(BAD, "x"), escape::text(&refused.why))?;
        writeln!(out, "    hint: {}", escape::text(&refused.hint))?;
        writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))?;
    }
    writeln!(out)
}

fn unreachable(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let silent = plan.hosts.iter().filter_map(|host| Some((&host.host, why(host)?)));
    let groups = group::silent(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unreachable"))?;
    for (why, hosts) in &groups {
        unreachable_group(why, hosts, out)?;
    }
    writeln!(out)
}

fn why(host: &HostPlan) -> Option<&Unreachable> {
    match &host.reach {
        Reach::Observed => None,
        Reach::Unreachable(why) => Some(why),
    }
}

/// Writes hosts that did not answer for one reason.
pub fn unreachable_group(why: &Unreachable, hosts: &[&HostName], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", paint(BAD, "x"), escape::text(&why.why))?;
    if let Some(text) = &why.hint {
        writeln!(out, "    hint: {}", escape::text(text))?;
    }
    writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))
}

fn verification(plan: &Plan, counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    let all = || plan.hosts.iter().flat_map(|host| host.verify.iter().map(move |verify| (&host.host, verify)));
    let (later, never) = later(plan);
    if counts.verify_failed + counts.verify_unknown + later + never == 0 {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "verification"))?;
    let open =
        all().filter(|(_, verify)| !matches!(verify.verdict, Verdict::Pending | Verdict::Ok | Verdict::NotApplicable));
    let mut groups: IndexMap<_, VerifyGroup<'_>> = IndexMap::new();
    for (host, verify) in open {
        let check = check::identity(verify.check.as_ref());
        let key = (&verify.recipe, &verify.name, verify.verdict, &verify.reason, check);
        let new = || VerifyGroup { verify, hosts: Vec::new(), differs: false };
        let group = groups.entry(key).or_insert_with(new);
        group.hosts.push(host);
        group.differs |= group.verify.check != verify.check;
    }
    groups.values().try_for_each(|group| write_verify(group, out))?;
    if later > 0 {
        writeln!(out, "{} {} judged after the changes", paint(DIM, "."), count(later, "verification"))?;
    }
    if never > 0 {
        let why = "not judged: steps of the recipe do not get through";
        writeln!(out, "{} {} {why}", paint(DIM, "."), count(never, "verification"))?;
    }
    writeln!(out)
}

/// Counts verifications that the changes of their recipes put off, and those whose recipes change nothing.
fn later(plan: &Plan) -> (usize, usize) {
    let put_off = |host: &HostPlan| {
        let all = host.verify.iter().filter(|verify| verify.verdict == Verdict::Pending);
        let acts = |verify: &VerifyPlan| host.steps.iter().any(|s| s.acts() && *s.id.recipe == *verify.recipe);
        let (later, never): (Vec<_>, Vec<_>) = all.partition(|verify| acts(verify));
        (later.len(), never.len())
    };
    plan.hosts.iter().map(put_off).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// A verification that fails alike on some hosts.
struct VerifyGroup<'a> {
    verify: &'a VerifyPlan,
    hosts: Vec<&'a HostName>,
    /// Whether its command printed something else on some of them.
    differs: bool,
}

fn write_verify(group: &VerifyGroup<'_>, out: &mut dyn Write) -> io::Result<()> {
    let VerifyGroup { verify, hosts, differs } = group;
    let (style, symbol, word) = match verify.verdict {
        Verdict::Unknown => (UNKNOWN, "?", "unknown"),
        _ => (BAD, "x", "does not hold"),
    };
    let (recipe, name) = (escape::line(&verify.recipe), escape::line(&verify.name));
    writeln!(out, "{} {recipe}: {name}: {word}", paint(style, symbol))?;
    if !verify.reason.is_empty() {
        writeln!(out, "    {}", escape::text(&verify.reason))?;
    }
    let check = describe_check(verify.check.as_ref(), hosts.first().copied().filter(|_| *differs));
    check.lines().skip(1).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))
}

/// Names what is odd about hosts, equal things once.
fn warnings(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: IndexMap<&Warning, Vec<&HostName>> = IndexMap::new();
    for host in &plan.hosts {
        host.warnings.iter().for_each(|warning| groups.entry(warning).or_default().push(&host.host));
    }
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "warnings"))?;
    groups.iter().try_for_each(|(warning, hosts)| warning_group(warning, hosts, out))?;
    writeln!(out)
}

/// Writes what is odd about some hosts.
pub fn warning_group(warning: &Warning, hosts: &[&HostName], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", paint(UNKNOWN, "!"), escape::text(&warning.why))?;
    warning.hint.iter().try_for_each(|hint| writeln!(out, "    hint: {}", escape::line(hint)))?;
    writeln!(out, "    {}", paint(DIM, on_hosts(hosts)))
}

fn undeclared(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    left_behind(plan.hosts.iter().flat_map(|host| host.undeclared.iter().map(|left| (left, &host.host))), out)
}

/// Writes what was applied once and is declared no more, and how to have it removed.
pub fn left_behind<'a>(
    all: impl Iterator<Item = (&'a LeftBehind, &'a HostName)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut groups: IndexMap<&LeftBehind, Vec<&HostName>> = IndexMap::new();
    all.for_each(|(left, host)| groups.entry(left).or_default().push(host));
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "no longer declared: applied once, left as they are"))?;
    for (left, hosts) in &groups {
        let head = format!("{} {}", escape::line(left.kind.raw()), escape::line(left.title.raw()));
        let step = format!("{}  {}", escape::line(left.step.raw()), on_hosts(hosts));
        writeln!(out, "{} {head}  {}", paint(REMOVE, "-"), paint(DIM, step))?;
    }
    if groups.keys().any(|left| !left.applied) {
        hint("declare an entry with `ensure: absent` to remove what a recipe made", out)?;
    }
    if groups.keys().any(|left| left.applied) {
        hint(
            "a step that declares it, with `when: \"false\"` and `otherwise: absent`, removes what is left of a recipe that stays",
            out,
        )?;
    }
    writeln!(out)
}

/// Writes steps with nothing to do, each with the reason why not.
pub fn as_declared(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let settled = |s: &StepPlan| s.verdict.is_settled() && s.waits_for.is_none();
    let groups = group::steps(plan, settled);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "nothing to do"))?;
    for group in &groups {
        writeln!(out, "{} {}", paint(DIM, "="), step::head(group.step))?;
        step::reason(group.step, out)?;
        step::place(group.step, true, out)?;
        writeln!(out, "    {}", paint(DIM, on_hosts(&group.hosts)))?;
    }
    writeln!(out)
}
