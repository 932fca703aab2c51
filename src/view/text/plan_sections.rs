//! Sections of a plan after its changes: waiting, blocked and unknown steps, warnings, verifications, leftovers.

use super::causes::{self, CauseGroup};
use super::check_output::{self, describe_check};
use super::group::{self, StepGroup};
use super::shared_lines::format_hosts;
use super::step;
use crate::model::{BlockClass, HostName, StepVerdict, UntrustedText};
use crate::plan::{
    HostPlan, HostReachability, HostWarning, Plan, PlanCounts, RELEASE_HINT, StepPlan, UndeclaredResource,
    UnmetDependency, UnreachableReason, VerifyPlan,
};
use crate::view::style::{BAD, DIM, HEAD, REMOVE, UNKNOWN, paint};
use crate::view::{escape, format_count, formatting};
use anstyle::Style;
use indexmap::IndexMap;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// Writes every part that is not empty.
pub fn write_sections(plan: &Plan, counts: &PlanCounts, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    write_warnings(plan, out)?;
    match verbose {
        true => WAITING_SECTION.write_section(plan, verbose, out)?,
        false => write_waiting(plan, out)?,
    }
    PLAN_SECTIONS.iter().try_for_each(|part| part.write_section(plan, verbose, out))?;
    write_refused(plan, out)?;
    write_on_hold(plan, out)?;
    write_unreachable(plan, out)?;
    write_missing_cluster(plan, out)?;
    write_verification(plan, counts, out)?;
    write_undeclared(plan, out)
}

/// Counts the steps of every section, for outputs that are too short to name them.
pub fn summarize_sections(plan: &Plan) -> String {
    let mut lines = String::new();
    for part in std::iter::once(&WAITING_SECTION).chain(PLAN_SECTIONS) {
        let on: Vec<&HostName> = hosts_with_step(plan, part.keep).collect();
        let steps = plan.hosts.iter().flat_map(|host| &host.steps).filter(|step| (part.keep)(step)).count();
        if steps > 0 {
            lines += &format!("{}: {}\n    {}\n", part.head, format_count(steps, "step"), format_hosts(&on));
        }
    }
    let silent: Vec<&HostName> =
        plan.hosts.iter().filter(|host| unreachable_reason(host).is_some()).map(|host| &host.host).collect();
    if !silent.is_empty() {
        lines += &format!("unreachable\n    {}\n", format_hosts(&silent));
    }
    if let Some(missing) = plan.hosts.iter().find_map(|host| host.missing.as_ref()) {
        lines +=
            &format!("the cluster does not exist yet\n    {}\n", escape::escape_line(&missing.describe_creation()));
    }
    let mut add = |head: &str, what: &str, of: &dyn Fn(&HostPlan) -> usize| {
        let on: Vec<&HostName> = plan.hosts.iter().filter(|host| of(host) > 0).map(|host| &host.host).collect();
        if !on.is_empty() {
            let sum = plan.hosts.iter().map(of).sum();
            lines += &format!("{head}: {}\n    {}\n", format_count(sum, what), format_hosts(&on));
        }
    };
    add("warnings", "warning", &|host| host.warnings.len());
    add("refused: apply will not change these hosts", "host", &|host| usize::from(host.refused.is_some()));
    add("on hold: apply leaves these hosts alone", "host", &|host| usize::from(host.hold.is_some()));
    let verifications = |host: &HostPlan, verdicts: &[StepVerdict]| {
        host.verify.iter().filter(|verify| verdicts.contains(&verify.verdict)).count()
    };
    let fails = |host: &HostPlan| {
        let blocked = host.verify.iter().filter(|verify| matches!(verify.verdict, StepVerdict::Blocked(_))).count();
        blocked + verifications(host, &[StepVerdict::Change])
    };
    add("failed", "verification", &fails);
    add("unknown", "verification", &|host| verifications(host, &[StepVerdict::Unknown]));
    add("no longer declared: applied earlier, not removed", "step", &|host| host.undeclared.len());
    lines + "too many to list in a comment: run `forge show FILE` to list them\n"
}

fn hosts_with_step(plan: &Plan, keep: fn(&StepPlan) -> bool) -> impl Iterator<Item = &HostName> {
    plan.hosts.iter().filter(move |host| host.steps.iter().any(keep)).map(|host| &host.host)
}

/// A section: steps of one verdict, with a hint.
struct PlanSection {
    head: &'static str,
    symbol: &'static str,
    style: Style,
    hint: &'static str,
    keep: fn(&StepPlan) -> bool,
}

const fn new_section(head: &'static str, keep: fn(&StepPlan) -> bool, hint: &'static str) -> PlanSection {
    PlanSection { head, symbol: "x", style: BAD, hint, keep }
}

const WAITING_SECTION: PlanSection = PlanSection {
    symbol: ".",
    style: DIM,
    ..new_section("waiting: skipped, a dependency cannot run", StepPlan::is_waiting, "")
};

const PLAN_SECTIONS: &[PlanSection] = &[
    PlanSection {
        symbol: ".",
        style: UNKNOWN,
        ..new_section("held back", |s| s.held.is_some() && s.waits_for.is_none(), "")
    },
    PlanSection {
        symbol: ".",
        style: UNKNOWN,
        ..new_section("pending: configured, not yet effective", |s| has_verdict(s, StepVerdict::Pending), "")
    },
    new_section(
        "blocked by hardware",
        |s| has_verdict(s, StepVerdict::Blocked(BlockClass::Hardware)),
        "exclude these hosts with `--on`, or add the missing hardware",
    ),
    new_section(
        "blocked by a rule",
        |s| has_verdict(s, StepVerdict::Blocked(BlockClass::Rule)),
        "change the recipe's parameters for these hosts, or exclude them: permanently with `on:` in its entry, once with `--on`",
    ),
    new_section(
        "blocked: missing prerequisite or conflict on the host",
        |s| has_verdict(s, StepVerdict::Blocked(BlockClass::Host)),
        "",
    ),
    new_section(
        "blocked: invalid declaration",
        |s| has_verdict(s, StepVerdict::Blocked(BlockClass::Declaration)),
        "fix the declaration, or exclude these hosts with `--on`",
    ),
    new_section(
        "blocked: busy",
        |s| has_verdict(s, StepVerdict::Blocked(BlockClass::Busy)),
        "run again when they are idle",
    ),
    PlanSection {
        symbol: "?",
        style: UNKNOWN,
        ..new_section(
            "unknown: could not be evaluated",
            |s| has_verdict(s, StepVerdict::Unknown),
            "unknown steps are not applied; fix the cause and run again",
        )
    },
];

fn has_verdict(step: &StepPlan, verdict: StepVerdict) -> bool {
    step.verdict == verdict && !step.is_waiting()
}

impl PlanSection {
    fn write_section(&self, plan: &Plan, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let groups = match verbose {
            true => group::group_steps(plan, self.keep).into_iter().map(single_step_group).collect(),
            false => causes::group_by_cause(plan, self.keep),
        };
        if groups.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", paint(HEAD, self.head))?;
        groups.iter().try_for_each(|group| self.write_group(group, verbose, out))?;
        write_hint(self.hint, out)?;
        writeln!(out)
    }

    fn write_group(&self, group: &CauseGroup<'_>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
        let symbol = paint(self.style, self.symbol);
        let Some(first) = group.steps.first() else { return Ok(()) };
        match group.steps.len() {
            1 => writeln!(out, "{symbol} {}", step::format_step_head(first))?,
            some => {
                writeln!(out, "{symbol} {}", paint(HEAD, format_count(some, "step")))?;
                causes::wrap_step_ids(&group.steps).iter().try_for_each(|line| writeln!(out, "    {line}"))?;
            }
        }
        step::write_reason(first, out)?;
        if let Some(why) = &first.held {
            writeln!(out, "    {}", escape::escape_line(why))?;
        }
        if let Some(other) = first.waits_for.as_ref().filter(|_| verbose) {
            writeln!(out, "    waits for {}", escape::escape_line(&other.to_string()))?;
        }
        step::write_location(first, verbose, out)?;
        writeln!(out, "    {}", paint(DIM, format_hosts(&group.hosts)))
    }
}

fn single_step_group(group: StepGroup<'_>) -> CauseGroup<'_> {
    CauseGroup { steps: vec![group.step], hosts: group.hosts }
}

/// Lists waiting steps grouped by root dependency: a step that cannot run stops all of its dependents.
fn write_waiting(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: IndexMap<(String, Vec<String>), Vec<&HostName>> = IndexMap::new();
    for host in &plan.hosts {
        for behind in group_waiting_steps(host) {
            groups.entry(behind).or_default().push(&host.host);
        }
    }
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, WAITING_SECTION.head))?;
    for ((root, steps), hosts) in &groups {
        let verb = if steps.len() == 1 { "waits" } else { "wait" };
        let (steps, root) = (formatting::list_names(steps), escape::escape_line(root));
        writeln!(out, "{} {} {verb} for {root}", paint(DIM, "."), paint(HEAD, escape::escape_line(&steps)))?;
        writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))?;
    }
    writeln!(out)
}

/// Returns the root dependencies of a host's waiting steps, each with the steps that wait for it.
fn group_waiting_steps(host: &HostPlan) -> IndexMap<String, Vec<String>> {
    // Dependencies name a step with `each` without the key of the instance.
    let names = |step: &StepPlan| [step.id.to_string(), format!("{}/{}", step.id.recipe, step.id.step)];
    let waits = host.steps.iter().filter_map(|step| Some((names(step), step.waits_for.as_deref()?)));
    let direct: HashMap<String, &UnmetDependency> =
        waits.flat_map(|(names, root)| names.map(|name| (name, root))).collect();
    let mut roots: IndexMap<String, Vec<String>> = IndexMap::new();
    for step in host.steps.iter().filter(|step| step.is_waiting()) {
        let mut root = UnmetDependency::on_step(&step.id);
        // Bounded by the number of steps: a plan that was read from a file may contain a cycle.
        for _ in 0..direct.len() {
            match direct.get(&root.step).filter(|_| root.shortfall.is_none()) {
                Some(next) => root = (*next).clone(),
                None => break,
            }
        }
        roots.entry(root.to_string()).or_default().push(step.id.to_string());
    }
    roots
}

fn write_hint(hint: &str, out: &mut dyn Write) -> io::Result<()> {
    match hint {
        "" => Ok(()),
        hint => writeln!(out, "  hint: {}", escape::escape_line(hint)),
    }
}

fn write_refused(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let refused = |host: &HostPlan| host.refused.as_ref().map(|refused| (refused.why.clone(), refused.hint.clone()));
    write_unchanged_hosts(plan, ("refused: apply will not change these hosts", paint(BAD, "x")), refused, out)
}

fn write_on_hold(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let held = |host: &HostPlan| host.hold.as_ref().map(|hold| (hold.describe().into(), RELEASE_HINT.into()));
    write_unchanged_hosts(plan, ("on hold: apply leaves these hosts alone", paint(UNKNOWN, "-")), held, out)
}

/// Writes a section of hosts that apply does not change, each reason and its hint once.
fn write_unchanged_hosts(
    plan: &Plan,
    (head, mark): (&str, impl std::fmt::Display),
    reason: impl Fn(&HostPlan) -> Option<(UntrustedText, UntrustedText)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let reasons: Vec<_> = plan.hosts.iter().filter_map(|host| Some((&host.host, reason(host)?))).collect();
    let groups = group::group_equal(reasons.iter().map(|(host, reason)| (*host, reason)), |reason| reason);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    for ((why, hint), hosts) in groups.values() {
        writeln!(out, "{mark} {}", escape::escape_untrusted(why))?;
        writeln!(out, "    hint: {}", escape::escape_untrusted(hint))?;
        writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))?;
    }
    writeln!(out)
}

/// Writes that the cluster does not exist yet, and which steps create it.
fn write_missing_cluster(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let Some((host, missing)) = plan.hosts.iter().find_map(|host| Some((host, host.missing.as_ref()?))) else {
        return Ok(());
    };
    writeln!(out, "{}", paint(HEAD, "the cluster does not exist yet"))?;
    writeln!(out, "{} {}", paint(UNKNOWN, "?"), escape::escape_untrusted(&missing.why))?;
    writeln!(out, "    {}", escape::escape_line(&missing.describe_creation()))?;
    match host.steps.iter().filter(|step| step.will_run()).count() {
        0 => writeln!(out),
        1 => writeln!(out, "    1 step of the cluster runs after that, in the same apply\n"),
        many => writeln!(out, "    {many} steps of the cluster run after that, in the same apply\n"),
    }
}

fn write_unreachable(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let silent = plan.hosts.iter().filter_map(|host| Some((&host.host, unreachable_reason(host)?)));
    let groups = group::group_unreachable(silent);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unreachable"))?;
    for (why, hosts) in &groups {
        write_unreachable_group(why, hosts, out)?;
    }
    writeln!(out)
}

fn unreachable_reason(host: &HostPlan) -> Option<&UnreachableReason> {
    match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some(why),
    }
}

/// Writes the hosts that are unreachable for one reason.
pub fn write_unreachable_group(why: &UnreachableReason, hosts: &[&HostName], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", paint(BAD, "x"), escape::escape_untrusted(&why.why))?;
    if let Some(text) = &why.hint {
        writeln!(out, "    hint: {}", escape::escape_untrusted(text))?;
    }
    writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))
}

fn write_verification(plan: &Plan, counts: &PlanCounts, out: &mut dyn Write) -> io::Result<()> {
    let all = || plan.hosts.iter().flat_map(|host| host.verify.iter().map(move |verify| (&host.host, verify)));
    let (later, never) = count_deferred(plan);
    if counts.verify_failed + counts.verify_unknown + later + never == 0 {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "verification"))?;
    let open = all().filter(|(_, verify)| {
        !matches!(verify.verdict, StepVerdict::Pending | StepVerdict::Ok | StepVerdict::NotApplicable)
    });
    let mut groups: IndexMap<_, VerifyGroup<'_>> = IndexMap::new();
    for (host, verify) in open {
        let check = check_output::check_identity(verify.check.as_ref());
        let key = (&verify.recipe, &verify.name, verify.verdict, &verify.reason, check);
        let new = || VerifyGroup { verify, hosts: Vec::new(), differs: false };
        let group = groups.entry(key).or_insert_with(new);
        group.hosts.push(host);
        group.differs |= group.verify.check != verify.check;
    }
    groups.values().try_for_each(|group| write_verify_group(group, out))?;
    if later > 0 {
        writeln!(out, "{} {} evaluated after the changes", paint(DIM, "."), format_count(later, "verification"))?;
    }
    if never > 0 {
        let why = "not evaluated: steps of the recipe cannot run";
        writeln!(out, "{} {} {why}", paint(DIM, "."), format_count(never, "verification"))?;
    }
    writeln!(out)
}

/// Counts the verifications that run after the changes of their recipes, and those whose recipes change nothing.
fn count_deferred(plan: &Plan) -> (usize, usize) {
    let put_off = |host: &HostPlan| {
        let all = host.verify.iter().filter(|verify| verify.verdict == StepVerdict::Pending);
        let acts = |verify: &VerifyPlan| host.steps.iter().any(|s| s.will_run() && *s.id.recipe == *verify.recipe);
        let (later, never): (Vec<_>, Vec<_>) = all.partition(|verify| acts(verify));
        (later.len(), never.len())
    };
    plan.hosts.iter().map(put_off).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// A verification that fails in the same way on some hosts.
struct VerifyGroup<'a> {
    verify: &'a VerifyPlan,
    hosts: Vec<&'a HostName>,
    /// Whether the output of its command differs between hosts.
    differs: bool,
}

fn write_verify_group(group: &VerifyGroup<'_>, out: &mut dyn Write) -> io::Result<()> {
    let VerifyGroup { verify, hosts, differs } = group;
    let (style, symbol, word) = match verify.verdict {
        StepVerdict::Unknown => (UNKNOWN, "?", "unknown"),
        _ => (BAD, "x", "failed"),
    };
    let (recipe, name) = (escape::escape_line(&verify.recipe), escape::escape_line(&verify.name));
    writeln!(out, "{} {recipe}: {name}: {word}", paint(style, symbol))?;
    if !verify.reason.is_empty() {
        writeln!(out, "    {}", escape::escape_untrusted(&verify.reason))?;
    }
    let check = describe_check(verify.check.as_ref(), hosts.first().copied().filter(|_| *differs));
    check.lines().skip(1).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))
}

/// Writes the warnings about hosts, then the accepted rules.
fn write_warnings(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let warnings = plan.hosts.iter().flat_map(|host| host.warnings.iter().map(|warning| (warning, &host.host)));
    write_warning_section("warnings", warnings, out)?;
    write_accepted_rules(plan.hosts.iter().flat_map(|host| host.accepted.iter().map(|rule| (rule, &host.host))), out)
}

/// Writes broken rules that the inventory accepts, with their reasons.
pub fn write_accepted_rules<'a>(
    all: impl Iterator<Item = (&'a HostWarning, &'a HostName)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_warning_section("accepted rules", all, out)
}

/// Writes a section of warnings, equal ones once.
fn write_warning_section<'a>(
    head: &str,
    all: impl Iterator<Item = (&'a HostWarning, &'a HostName)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut groups: IndexMap<&HostWarning, Vec<&HostName>> = IndexMap::new();
    all.for_each(|(warning, host)| groups.entry(warning).or_default().push(host));
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    groups.iter().try_for_each(|(warning, hosts)| write_warning_group(warning, hosts, out))?;
    writeln!(out)
}

/// Writes one warning with its hosts.
pub fn write_warning_group(warning: &HostWarning, hosts: &[&HostName], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} {}", paint(UNKNOWN, "!"), escape::escape_untrusted(&warning.why))?;
    warning.hint.iter().try_for_each(|hint| writeln!(out, "    hint: {}", escape::escape_line(hint)))?;
    writeln!(out, "    {}", paint(DIM, format_hosts(hosts)))
}

fn write_undeclared(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    write_left_behind(plan.hosts.iter().flat_map(|host| host.undeclared.iter().map(|left| (left, &host.host))), out)
}

/// Writes resources that were applied earlier and are no longer declared, and how to remove them.
pub fn write_left_behind<'a>(
    all: impl Iterator<Item = (&'a UndeclaredResource, &'a HostName)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut groups: IndexMap<&UndeclaredResource, Vec<&HostName>> = IndexMap::new();
    all.for_each(|(left, host)| groups.entry(left).or_default().push(host));
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "no longer declared: applied earlier, not removed"))?;
    for (left, hosts) in &groups {
        let head = format!("{} {}", escape::escape_line(left.kind.raw()), escape::escape_line(left.title.raw()));
        let step = format!("{}  {}", escape::escape_line(left.step.raw()), format_hosts(hosts));
        // Two lines of one file, say, differ only in what their records keep.
        let count = match hosts.len() - hosts.iter().collect::<BTreeSet<_>>().len() {
            0 => String::new(),
            _ => format!(" ({} records)", hosts.len()),
        };
        writeln!(out, "{} {head}{count}  {}", paint(REMOVE, "-"), paint(DIM, step))?;
    }
    if groups.keys().any(|left| !left.applied) {
        write_hint("to remove the resources of a recipe, declare its entry with `ensure: absent`", out)?;
    }
    if groups.keys().any(|left| left.applied) {
        write_hint(
            "to remove a resource while its recipe stays, declare it in a step with `otherwise: absent` whose `when` is false",
            out,
        )?;
    }
    writeln!(out)
}

/// Writes unchanged and inapplicable steps with their reasons.
pub fn write_unchanged_steps(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let settled = |s: &StepPlan| s.verdict.is_settled() && s.waits_for.is_none();
    let groups = group::group_steps(plan, settled);
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "unchanged"))?;
    for group in &groups {
        writeln!(out, "{} {}", paint(DIM, "="), step::format_step_head(group.step))?;
        step::write_reason(group.step, out)?;
        step::write_location(group.step, true, out)?;
        writeln!(out, "    {}", paint(DIM, format_hosts(&group.hosts)))?;
    }
    writeln!(out)
}
