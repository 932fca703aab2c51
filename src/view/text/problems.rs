//! Problems of a run, each once with all affected hosts.

use super::check_output::{self, CheckOutput, describe_check, describe_output};
use super::shared_lines::format_hosts;
use crate::acceptance::TestVerdict;
use crate::engine::{
    HostReport, NotUndoneChange, ReturnTest, RunReport, StepFailure, StepReport, StepResult, VerifyReport, VerifyResult,
};
use crate::model::{HostName, HostOutcome, UntrustedText};
use crate::plan::CheckRun;
use crate::view::style::{BAD, DIM, HEAD, UNKNOWN, paint};
use crate::view::{escape, formatting};
use anstyle::Style;
use indexmap::IndexMap;
use std::io::{self, Write};

/// Sorts of problems, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ProblemKind {
    Failed,
    Verification,
    ReturnTest,
    Stale,
    Blocked,
    Unknown,
    Hosts,
    Pending,
    Held,
    NotUndone,
    Skipped,
}

impl ProblemKind {
    const ALL: [ProblemKind; 11] = [
        Self::Failed,
        Self::Verification,
        Self::ReturnTest,
        Self::Stale,
        Self::Blocked,
        Self::Unknown,
        Self::Hosts,
        Self::Pending,
        Self::Held,
        Self::NotUndone,
        Self::Skipped,
    ];

    fn heading(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Verification => "verification failed",
            Self::ReturnTest => "tests before return",
            Self::Stale => "stale: changed since the plan, skipped",
            Self::Blocked => "blocked",
            Self::Unknown => "unknown: could not be evaluated",
            Self::Hosts => "hosts that did not finish",
            Self::Pending => "pending: configured, not yet effective",
            Self::Held => "held back",
            Self::NotUndone => "not undone",
            Self::Skipped => "skipped",
        }
    }

    fn symbol(self) -> (Style, &'static str) {
        match self {
            Self::Unknown => (UNKNOWN, "?"),
            Self::Pending | Self::Held | Self::NotUndone => (UNKNOWN, "."),
            Self::Skipped => (DIM, "."),
            _ => (BAD, "x"),
        }
    }
}

/// Problems with equal text are one problem. Only the output of a check may differ.
type ProblemGroups<'a> = IndexMap<(ProblemKind, String, Option<(&'a UntrustedText, i32)>), SharedProblem<'a>>;

/// The hosts of one problem.
struct SharedProblem<'a> {
    hosts: Vec<&'a HostName>,
    verify: Option<&'a VerifyReport>,
    /// The check of a pending step.
    step_check: Option<&'a CheckRun>,
    test: Option<&'a ReturnTest>,
    /// Whether the check or the test printed something else on some of them.
    differs: bool,
}

/// Writes every problem of the report under its head.
pub fn write_problems(report: &RunReport, out: &mut dyn Write) -> io::Result<()> {
    let problems = collect_problems(report);
    for sort in ProblemKind::ALL {
        let mut of_sort = problems.iter().filter(|((s, ..), _)| *s == sort).peekable();
        if of_sort.peek().is_none() {
            continue;
        }
        writeln!(out, "{}", paint(HEAD, sort.heading()))?;
        of_sort.try_for_each(|((sort, text, _), shared)| write_problem(*sort, text, shared, out))?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_problem(sort: ProblemKind, text: &str, shared: &SharedProblem<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (style, symbol) = sort.symbol();
    let mut text = text.to_owned();
    if let Some(verify) = shared.verify {
        let shown_for = shared.hosts.first().copied().filter(|_| shared.differs);
        text = append_location(text + &describe_check(verify.check.as_ref(), shown_for), &verify.place);
    }
    if let Some(check) = shared.step_check.filter(|check| !check.output.is_empty()) {
        let shown_for = shared.hosts.first().copied().filter(|_| shared.differs);
        text += &describe_output(CheckOutput { text: check.output.raw(), shown_for });
    }
    if let Some(test) = shared.test {
        text += &describe_outputs(test, shared.hosts.first().copied().filter(|_| shared.differs));
    }
    writeln!(out, "{} {text}", paint(style, symbol))?;
    writeln!(out, "    {}", paint(DIM, format_hosts(&shared.hosts)))
}

fn collect_problems(report: &RunReport) -> ProblemGroups<'_> {
    let mut problems = ProblemGroups::new();
    for host in &report.hosts {
        let of_host = host_problem(host).into_iter().chain(skipped_steps(host)).chain(skipped_verifications(host));
        let of_host = of_host.chain(host.not_undone.iter().map(describe_left_change));
        let of_steps = host.steps.iter().filter_map(|step| Some((step_problem(step)?, None, step.check.as_deref())));
        let of_verify = host.verify.iter().filter_map(|verify| Some((verify_problem(verify)?, Some(verify), None)));
        for ((sort, text), verify, step_check) in
            of_host.map(|problem| (problem, None, None)).chain(of_steps).chain(of_verify)
        {
            let check = verify.and_then(|verify| verify.check.as_ref()).or(step_check);
            let new = || SharedProblem { hosts: Vec::new(), verify, step_check, test: None, differs: false };
            let shared = problems.entry((sort, text, check_output::check_identity(check))).or_insert_with(new);
            shared.hosts.push(&host.host);
            shared.differs |= shared.verify.and_then(|first| first.check.as_ref()).or(shared.step_check) != check;
        }
        for (test, text) in host.return_tests.iter().filter_map(|test| Some((test, describe_return_test(test)?))) {
            let new = || SharedProblem {
                hosts: Vec::new(),
                verify: None,
                step_check: None,
                test: Some(test),
                differs: false,
            };
            let shared = problems.entry((ProblemKind::ReturnTest, text, None)).or_insert_with(new);
            shared.hosts.push(&host.host);
            shared.differs |= shared.test.is_some_and(|first| first.outputs != test.outputs);
        }
    }
    problems
}

/// Returns the host's own reason, unless one of its steps, verifications or tests explains the outcome.
fn host_problem(host: &HostReport) -> Option<(ProblemKind, String)> {
    let own = matches!(host.outcome, HostOutcome::Unreachable | HostOutcome::Locked | HostOutcome::Cancelled);
    let failed_without_step = matches!(host.outcome, HostOutcome::Failed | HostOutcome::Blocked | HostOutcome::Stale)
        && host.steps.iter().filter_map(step_problem).next().is_none()
        && host.verify.iter().filter_map(verify_problem).next().is_none()
        && host.return_tests.iter().filter_map(describe_return_test).next().is_none();
    // The host's own hint is shown nowhere else.
    let verified = host.steps.is_empty() && host.hint.is_some() && host.outcome != HostOutcome::Ok;
    if !own && !failed_without_step && !verified {
        return None;
    }
    let mut text = match host.reason.is_empty() {
        true => host.outcome.name().to_owned(),
        false => format!("{}: {}", host.outcome.name(), escape::escape_untrusted(&host.reason)),
    };
    push_hint(&mut text, host.hint.as_ref());
    Some((ProblemKind::Hosts, text))
}

fn describe_left_change(left: &NotUndoneChange) -> (ProblemKind, String) {
    let step = left.step.as_ref().map_or_else(|| "the whole run".to_owned(), ToString::to_string);
    let why = escape::escape_untrusted(&left.why);
    (ProblemKind::NotUndone, format!("{}\n    {why}", paint(HEAD, escape::escape_line(&step))))
}

/// Lists skipped steps together by reason: they follow from the problems listed above.
fn skipped_steps(host: &HostReport) -> Vec<(ProblemKind, String)> {
    group_skipped(host.steps.iter().filter_map(|step| match &step.result {
        StepResult::Skipped { reason } => Some((step.id.to_string(), reason)),
        _ => None,
    }))
}

fn skipped_verifications(host: &HostReport) -> Vec<(ProblemKind, String)> {
    group_skipped(host.verify.iter().filter_map(|verify| match &verify.result {
        VerifyResult::Skipped { reason } => Some((format!("{}: {}", verify.recipe, verify.name), reason)),
        _ => None,
    }))
}

/// Groups names by reason, in the order of their first names.
fn group_skipped<'r>(all: impl Iterator<Item = (String, &'r UntrustedText)>) -> Vec<(ProblemKind, String)> {
    let mut groups: Vec<(&UntrustedText, Vec<String>)> = Vec::new();
    for (name, reason) in all {
        match groups.iter_mut().find(|(of, _)| *of == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    let describe = |(reason, names): (&UntrustedText, Vec<String>)| {
        let names = escape::escape_line(&formatting::list_names(&names)).into_owned();
        (ProblemKind::Skipped, format!("{}\n    {}", paint(HEAD, names), escape_reason(reason)))
    };
    groups.into_iter().map(describe).collect()
}

fn step_problem(step: &StepReport) -> Option<(ProblemKind, String)> {
    let (sort, why) = match &step.result {
        StepResult::Failed { failure } => (ProblemKind::Failed, describe_failure(failure)),
        StepResult::Blocked { class, reason } => {
            (ProblemKind::Blocked, format!("{}: {}", class.name(), escape::escape_untrusted(reason)))
        }
        StepResult::Unknown { reason } => (ProblemKind::Unknown, escape_reason(reason)),
        StepResult::Stale { reason } => (ProblemKind::Stale, escape_reason(reason)),
        StepResult::Pending { reason } => (ProblemKind::Pending, escape_reason(reason)),
        StepResult::Held { reason } => (ProblemKind::Held, escape_reason(reason)),
        StepResult::Changed
        | StepResult::Skipped { .. }
        | StepResult::AlreadyOk { .. }
        | StepResult::NotApplicable { .. }
        | StepResult::Cancelled => {
            return None;
        }
    };
    let id = step.id.to_string();
    let head = format!("{} ({})", escape::escape_line(&id), escape::escape_untrusted(&step.title));
    let hint = step.hint.iter().map(|hint| format!("\n    hint: {}", escape::escape_line(hint))).collect::<String>();
    let diffs = match &step.result {
        StepResult::Stale { .. } => format_stale_diffs(step),
        _ => String::new(),
    };
    let why = why + &diffs + &hint;
    Some((sort, append_location(format!("{}\n    {why}", paint(HEAD, head)), &step.place)))
}

fn verify_problem(verify: &VerifyReport) -> Option<(ProblemKind, String)> {
    let (sort, reason) = match &verify.result {
        VerifyResult::Failed { reason } => (ProblemKind::Verification, reason),
        VerifyResult::Unknown { reason } => (ProblemKind::Unknown, reason),
        VerifyResult::Held | VerifyResult::Skipped { .. } | VerifyResult::NotApplicable { .. } => return None,
    };
    let head = format!("{}: {}", escape::escape_line(&verify.recipe), escape::escape_line(&verify.name));
    Some((sort, format!("{}\n    {}", paint(HEAD, head), escape_reason(reason))))
}

/// Names a test that keeps a host out of service, with the reason.
fn describe_return_test(test: &ReturnTest) -> Option<String> {
    let reason = match &test.verdict {
        TestVerdict::Pass { .. } => return None,
        TestVerdict::Fail { reason, .. } => reason.clone(),
        TestVerdict::NotMeasured { reason } => format!("not measured: {reason}"),
    };
    let rail = test.rail.iter().map(|rail| format!(" on {rail}")).collect::<String>();
    let head = format!("{}{rail}", test.test);
    Some(format!("{}\n    {}", paint(HEAD, escape::escape_line(&head)), escape::escape_line(&reason)))
}

/// Returns the last lines that each program of a test printed, each after a line break. `shown_for` is the host of the
/// shown output if other hosts printed something else.
fn describe_outputs(test: &ReturnTest, shown_for: Option<&HostName>) -> String {
    let mut text = String::new();
    let printed = test.outputs.iter().filter(|output| !output.is_empty());
    for (at, output) in printed.enumerate() {
        if let (0, Some(host)) = (at, shown_for) {
            text += &format!("\n    on {} it printed:", escape::escape_line(host.as_str()));
        }
        escape::escape_block(output.last_lines().raw()).for_each(|line| text += &format!("\n      | {line}"));
    }
    text
}

/// Returns the diffs of a stale step, because its reason only names the attributes that differ.
fn format_stale_diffs(step: &StepReport) -> String {
    let mut text = String::new();
    for change in step.changes.iter().filter(|change| !change.secret) {
        let Some(diff) = &change.diff else { continue };
        text += &format!("\n    {} now (- on the host, + declared):", escape::escape_line(&change.attribute));
        escape::escape_block(diff.raw()).for_each(|line| text += &format!("\n      {line}"));
    }
    text
}

fn escape_reason(reason: &UntrustedText) -> String {
    escape::escape_untrusted(reason).into_owned()
}

/// Returns the reason, the last output lines, the hint and the path of the log.
fn describe_failure(failure: &StepFailure) -> String {
    let mut text = escape_reason(&failure.why);
    if !failure.tail.is_empty() {
        for line in escape::escape_block(failure.tail.raw()) {
            text.push_str(&format!("\n      | {line}"));
        }
    }
    push_hint(&mut text, failure.hint.as_ref());
    if let Some(log) = &failure.log {
        text.push_str(&format!("\n    log on the host: {}", escape::escape_line(log)));
    }
    text
}

fn push_hint(text: &mut String, hint: Option<&UntrustedText>) {
    if let Some(hint) = hint {
        text.push_str(&format!("\n    hint: {}", escape::escape_untrusted(hint)));
    }
}

fn append_location(text: String, place: &str) -> String {
    match place {
        "" => text,
        place => format!("{text}\n    {}", paint(DIM, format!("at {}", escape::escape_line(place)))),
    }
}
