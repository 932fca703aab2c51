//! The findings of a rehearsal as single lines, which the writers for people share. Their text is not escaped yet.

use super::{format_count, format_size};
use crate::model::UntrustedText;
use crate::plan::{
    AccountEffect, FileChange, FileEffect, HostRehearsal, PackageEffect, RehearsalReport, UnitEffect, ViewSpace,
};

/// Returns everything that changed beyond the plan: the kind of the object, and what happened to it.
pub(super) fn list_undeclared_lines(host: &HostRehearsal) -> Vec<(&'static str, String)> {
    let beyond = &host.beyond;
    let units = beyond.units.iter().map(|unit| ("unit", describe_unit(unit)));
    let packages = beyond.packages.iter().map(|package| ("package", describe_package(package)));
    let accounts = beyond.accounts.iter().map(describe_account);
    let files = beyond.files.iter().map(|file| ("file", describe_file(file)));
    let unlisted =
        (beyond.unlisted > 0).then(|| ("file", format!("{} more changed", format_count(beyond.unlisted, "file"))));
    units.chain(packages).chain(accounts).chain(files).chain(unlisted).collect()
}

fn describe_unit(unit: &UnitEffect) -> String {
    let mut line = format!("`{}` {}", unit.unit.raw(), unit.action.name());
    match (&unit.package, &unit.script, &unit.caller) {
        (Some(package), Some(script), _) => line += &format!(" by {} of package `{}`", script.raw(), package.raw()),
        (Some(package), None, _) => line += &format!(" by a script of package `{}`", package.raw()),
        (None, _, Some(caller)) => line += &format!(" by `{}`", caller.raw().trim()),
        (None, _, None) => {}
    }
    line += &describe_step(unit.step.as_ref());
    match &unit.not_started {
        Some(kind) => line + &format!(" (a view cannot start {}: not tried)", kind.raw()),
        None => line,
    }
}

fn describe_step(step: Option<&UntrustedText>) -> String {
    step.map(|step| format!(" during `{}`", step.raw())).unwrap_or_default()
}

fn describe_package(package: &PackageEffect) -> String {
    let name = package.name.raw();
    match (&package.before, &package.after) {
        (None, Some(after)) => format!("`{name}` installed: {}", after.raw()),
        (Some(before), None) => format!("`{name}` removed: {}", before.raw()),
        (Some(before), Some(after)) => format!("`{name}` changed: {} to {}", before.raw(), after.raw()),
        (None, None) => format!("`{name}` changed"),
    }
}

fn describe_account(account: &AccountEffect) -> (&'static str, String) {
    let kind = if account.group { "group" } else { "user" };
    (kind, format!("`{}` {}", account.name.raw(), account.change.name()))
}

fn describe_file(file: &FileEffect) -> String {
    let what = match file.change {
        FileChange::Created if file.entries > 0 => format!("created with {}", format_count(file.entries, "entry")),
        FileChange::Created => "created".to_owned(),
        FileChange::Changed if file.detail.is_empty() => "changed".to_owned(),
        FileChange::Changed => format!("changed, {}", file.detail.raw()),
        FileChange::Attributes => file.detail.raw().to_owned(),
        FileChange::Removed => "removed".to_owned(),
    };
    let owner = file.package.as_ref().map(|package| format!(" (of package `{}`)", package.raw())).unwrap_or_default();
    format!("`{}` {what}{owner}{}", file.path.raw(), describe_step(file.step.as_ref()))
}

/// Returns the counts of changes that are not listed one by one.
pub(super) fn list_folded_lines(host: &HostRehearsal) -> Vec<String> {
    let of_package = |files: usize, package: &str| format!("{} of package `{package}`", format_count(files, "file"));
    let mut lines: Vec<String> =
        host.installed.iter().map(|installed| of_package(installed.files, installed.package.raw())).collect();
    if host.beyond.bookkeeping > 0 {
        lines.push(format_count(host.beyond.bookkeeping, "log, cache or package database file"));
    }
    lines
}

/// Returns the memory that a view used.
pub(super) fn describe_space(space: ViewSpace) -> String {
    format!("{} of {}", format_size(space.used_kib * 1024), format_size(space.size_kib * 1024))
}

/// Returns the totals in one line.
pub(super) fn summarize_rehearsal(report: &RehearsalReport) -> String {
    let sum = report.summarize();
    let counts = [(sum.failed, "failed"), (sum.not_rehearsed, "not rehearsed")];
    let rest = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!(", {count} {word}"));
    let verify = if sum.verify > 0 {
        format!(", {} not passed", format_count(sum.verify, "verification"))
    } else {
        String::new()
    };
    let beyond = match sum.beyond {
        0 => "nothing beyond the plan".to_owned(),
        many => format!("{} beyond the plan", format_count(many, "change")),
    };
    let steps: String = rest.collect();
    format!(
        "{} rehearsed on {}{steps}{verify}; {beyond}",
        format_count(sum.rehearsed, "step"),
        format_count(sum.hosts, "host")
    )
}
