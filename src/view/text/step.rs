//! One changing step, for all hosts on which it is equal.

use super::diff;
use super::host_values::FoldedStep;
use super::shared_lines::format_hosts;
use crate::model::{DisruptionClass, StepScope};
use crate::plan::{ChangeCertainty, PredictedEffects, StepPlan};
use crate::resource::AttributeChange;
use crate::view::fold::fold_names;
use crate::view::style::{ADD, CHANGE, DIM, DISRUPT, HEAD, REMOVE, UNKNOWN, paint};
use crate::view::{escape, formatting};
use anstyle::Style;
use std::io::{self, Write};

/// Longer values are cut. The JSON output has the complete value.
const VALUE_CHARS: usize = 160;

/// Whether a change creates, alters or removes a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepChangeKind {
    Create,
    Alter,
    Remove,
}

impl StepChangeKind {
    fn from_change(change: &AttributeChange) -> Option<Self> {
        match (&change.from, &change.to) {
            (None, Some(_)) => Some(Self::Create),
            (Some(_), None) => Some(Self::Remove),
            (Some(_), Some(_)) => Some(Self::Alter),
            (None, None) => None,
        }
    }

    /// Returns the sort shared by all changes of a step, else `Alter`. Changes without values are ignored. A part of an
    /// object that stays creates or removes no resource.
    pub fn from_changes(changes: &[AttributeChange]) -> Self {
        let sort_of = |change: &AttributeChange| match change.inner {
            true => Some(Self::Alter),
            false => Self::from_change(change),
        };
        let mut sorts = changes.iter().filter_map(sort_of);
        let Some(first) = sorts.next() else { return Self::Alter };
        match sorts.all(|sort| sort == first) {
            true => first,
            false => Self::Alter,
        }
    }

    /// Returns `+`, `~` or `-`.
    pub fn sign(self) -> &'static str {
        self.symbol().1
    }

    fn symbol(self) -> (Style, &'static str) {
        match self {
            Self::Create => (ADD, "+"),
            Self::Alter => (CHANGE, "~"),
            Self::Remove => (REMOVE, "-"),
        }
    }
}

/// Writes a step that would change, with its reason, changes and disruption.
pub fn write_step(folded: &FoldedStep<'_>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let step = folded.group.step;
    let (style, symbol) = match step.changes.is_empty() && step.envelope.is_some() {
        true => (UNKNOWN, "?"),
        false => StepChangeKind::from_changes(&step.changes).symbol(),
    };
    writeln!(out, "{} {}", paint(style, symbol), format_step_head(step))?;
    write_reason(step, out)?;
    folded.check_output().iter().try_for_each(|printed| printed.write_lines(out))?;
    step.changes
        .iter()
        .filter(|change| !is_redundant(step, change))
        .try_for_each(|change| write_change(step, change, out))?;
    write_disruption(step.disruption, out)?;
    write_guard(step, out)?;
    write_irreversible(step, out)?;
    if let Some(envelope) = step.envelope.as_ref().filter(|envelope| envelope.foresight != ChangeCertainty::Certain) {
        write_envelope(step, envelope, out)?;
    }
    write_location(step, verbose, out)?;
    folded.describe_items().iter().try_for_each(|items| writeln!(out, "    {}", paint(DIM, format!("= {items}"))))?;
    write_hosts(folded, verbose, out)
}

/// Writes the hosts of a step and the values that differ between them.
fn write_hosts(folded: &FoldedStep<'_>, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let hosts = &folded.group.hosts;
    if folded.values.is_empty() {
        return writeln!(out, "    {}", paint(DIM, format_hosts(hosts)));
    }
    let names = fold_names(hosts.iter().map(|host| host.as_str()));
    let on = format!("on {}: {}", formatting::summarize_hosts(hosts.iter().copied()), escape::escape_line(&names));
    writeln!(out, "    {}", paint(DIM, on))?;
    folded.describe_values(verbose).iter().try_for_each(|line| writeln!(out, "    {line}"))
}

/// Returns `file /etc/motd  base/banner`.
pub fn format_step_head(step: &StepPlan) -> String {
    let what = format!("{} {}", escape::escape_line(&step.kind), escape::escape_untrusted(&step.title));
    let scope = match step.scope {
        StepScope::Host => String::new(),
        scope => format!(" (scope {})", scope.name()),
    };
    format!("{}  {}{scope}", paint(HEAD, what), escape::escape_line(&step.id.to_string()))
}

/// Writes the reason and the hint of a step, if present.
pub fn write_reason(step: &StepPlan, out: &mut dyn Write) -> io::Result<()> {
    if !step.reason.is_empty() {
        writeln!(out, "    {}", escape::escape_untrusted(&step.reason))?;
    }
    step.hint
        .iter()
        .filter(|hint| !hint.is_empty())
        .try_for_each(|hint| writeln!(out, "    hint: {}", escape::escape_line(hint)))
}

/// Writes the source location of the step if `verbose`.
pub fn write_location(step: &StepPlan, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    match verbose && !step.place.is_empty() {
        true => writeln!(out, "    {}", paint(DIM, format!("at {}", escape::escape_line(&step.place)))),
        false => Ok(()),
    }
}

/// Reports whether the head and the reason of a step already show the whole change. This is the case for commands,
/// unless the head shows only part of the command.
fn is_redundant(step: &StepPlan, change: &AttributeChange) -> bool {
    change.attribute == step.kind && !change.secret && change.to.as_ref() == Some(&step.title)
}

/// Writes one attribute with its values or its diff. Secret values are not shown.
fn write_change(step: &StepPlan, change: &AttributeChange, out: &mut dyn Write) -> io::Result<()> {
    let attribute = escape::escape_line(&change.attribute);
    let (style, symbol) = StepChangeKind::from_change(change).unwrap_or(StepChangeKind::Alter).symbol();
    let symbol = paint(style, symbol);
    if change.secret {
        return writeln!(out, "    {symbol} {attribute}: (secret, not shown)");
    }
    if let Some(diff) = &change.diff {
        writeln!(out, "    {symbol} {attribute}:")?;
        return diff::write_diff(diff, "      ", out);
    }
    writeln!(out, "    {symbol} {attribute}{}", format_values(step, change))
}

fn format_values(step: &StepPlan, change: &AttributeChange) -> String {
    let show = |text: &crate::model::UntrustedText| escape::escape_value(text.raw(), VALUE_CHARS);
    match (&change.from, &change.to) {
        // The line above already shows `from`.
        (Some(from), Some(to)) if *from == step.reason => format!(": {}", show(to)),
        (Some(from), Some(to)) => format!(": {} → {}", show(from), show(to)),
        (Some(one), None) | (None, Some(one)) => format!(": {}", show(one)),
        (None, None) => String::new(),
    }
}

fn write_disruption(class: DisruptionClass, out: &mut dyn Write) -> io::Result<()> {
    match class {
        DisruptionClass::D0 => Ok(()),
        class => writeln!(out, "    {} {class}: {}", paint(DISRUPT, "!"), class.meaning()),
    }
}

fn write_guard(step: &StepPlan, out: &mut dyn Write) -> io::Result<()> {
    match step.guard_s {
        Some(seconds) => writeln!(out, "    {} {}", paint(DISRUPT, "!"), formatting::describe_guard(seconds)),
        None => Ok(()),
    }
}

/// Writes why the change cannot be undone, if it cannot, or what an undo of it does not restore.
fn write_irreversible(step: &StepPlan, out: &mut dyn Write) -> io::Result<()> {
    let Some(why) = &step.irreversible else { return Ok(()) };
    let what = formatting::describe_reversibility(step);
    writeln!(out, "    {}", paint(DIM, format!("({what}: {})", escape::escape_untrusted(why))))
}

/// Writes the predicted effects of a step. The step is evaluated again right before it runs and may not exceed the
/// prediction. Names the resource if nothing else about the step is known.
fn write_envelope(step: &StepPlan, envelope: &PredictedEffects, out: &mut dyn Write) -> io::Result<()> {
    let until = escape::escape_untrusted(&envelope.until);
    let class = envelope.disruption.max(step.disruption);
    let most = match step.changes.is_empty() {
        true => format!("at most {}, {class}; evaluated once {until}", escape::escape_untrusted(&envelope.resource)),
        false => format!("predicted, at most {class}; evaluated again after {until}"),
    };
    writeln!(out, "    {} {most}", paint(UNKNOWN, "?"))
}
