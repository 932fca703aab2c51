//! What the host printed about a view, parsed: one finding per line, fields separated by tabs.

use super::accounts::{AccountDifference, compare_accounts};
use super::model::{FileChange, InstalledFiles, PackageEffect};
use super::view_space::ViewSpace;
use crate::model::UntrustedText;

/// Everything that changed in a view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewChanges {
    /// The memory that was used; `None` if it was not read.
    pub space: Option<ViewSpace>,
    /// File systems of the host that the view does not contain, with their types.
    pub hidden: Vec<(String, String)>,
    pub(super) packages: Vec<PackageEffect>,
    /// Files of those packages, which are not among `files`.
    pub installed: Vec<InstalledFiles>,
    pub(super) files: Vec<ChangedFile>,
    /// Files that were not printed.
    pub(super) unlisted: usize,
    pub(super) accounts: Vec<AccountDifference>,
    pub(super) calls: Vec<UnitCall>,
    pub(super) starts: Vec<StepStart>,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChangedFile {
    pub path: String,
    pub change: FileChange,
    pub is_directory: bool,
    /// Seconds since 1970; `None` for a removed file.
    pub at: Option<f64>,
    pub detail: String,
    pub package: Option<String>,
}

/// A call of systemctl that may have changed a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnitCall {
    pub verb: String,
    pub unit: String,
    pub failed: bool,
    /// `active` and the state of the unit file, before and after.
    pub before: (String, String),
    pub after: (String, String),
    pub not_started: Option<String>,
    pub step: Option<String>,
    pub package: Option<String>,
    pub script: Option<String>,
    pub caller: Option<String>,
}

/// The start of a step's actions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepStart {
    /// Seconds since 1970.
    pub at: f64,
    pub step: String,
}

impl ViewChanges {
    /// Parses what the host printed.
    ///
    /// # Errors
    /// The output is cut off, or has a line that it should not have: a lowercase fragment.
    pub fn parse(output: &str) -> Result<Self, String> {
        let mut changes = Self::default();
        let mut accounts: [Vec<&str>; 4] = Default::default();
        let mut has_ended = false;
        for line in output.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["end"] => has_ended = true,
                ["passwd-before", line] => accounts[0].push(line),
                ["passwd-after", line] => accounts[1].push(line),
                ["group-before", line] => accounts[2].push(line),
                ["group-after", line] => accounts[3].push(line),
                _ => changes.add_line(&fields).ok_or_else(|| format!("unexpected line `{}`", shorten(line)))?,
            }
        }
        if !has_ended {
            return Err("the list of changes is cut off".to_owned());
        }
        let [users_before, users_after, groups_before, groups_after] = accounts;
        changes.accounts = compare_accounts(false, &users_before, &users_after);
        changes.accounts.extend(compare_accounts(true, &groups_before, &groups_after));
        changes.starts.sort_by(|a, b| a.at.total_cmp(&b.at));
        Ok(changes)
    }

    fn add_line(&mut self, fields: &[&str]) -> Option<()> {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let version = |text: &str| some(text).map(UntrustedText::from);
        match *fields {
            ["space", used, size] => {
                self.space = Some(ViewSpace { used_kib: used.parse().ok()?, size_kib: size.parse().ok()? });
            }
            ["hidden", path, kind] => self.hidden.push((path.to_owned(), kind.to_owned())),
            ["software", name, before, after] => {
                self.packages.push(PackageEffect { name: name.into(), before: version(before), after: version(after) })
            }
            ["expected", package, count] => {
                self.installed.push(InstalledFiles { package: package.into(), files: count.parse().ok()? });
            }
            ["path", change, kind, path, at, detail, package] => self.files.push(ChangedFile {
                path: path.to_owned(),
                change: parse_file_change(change)?,
                is_directory: kind == "d",
                at: at.parse().ok(),
                detail: detail.to_owned(),
                package: some(package),
            }),
            ["more", count] => self.unlisted = count.parse().ok()?,
            ["step", at, step] => self.starts.push(StepStart { at: at.parse().ok()?, step: step.to_owned() }),
            ["reboot", ..] => {}
            [
                "unit",
                _,
                verb,
                unit,
                status,
                active,
                files,
                active_after,
                files_after,
                why,
                step,
                package,
                script,
                caller,
            ] => {
                self.calls.push(UnitCall {
                    verb: verb.to_owned(),
                    unit: unit.to_owned(),
                    failed: status != "0",
                    before: (active.to_owned(), files.to_owned()),
                    after: (active_after.to_owned(), files_after.to_owned()),
                    not_started: some(why),
                    step: some(step),
                    package: some(package),
                    script: some(script),
                    caller: some(caller),
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the last step that had started at a time.
    pub(super) fn find_step_at(&self, at: f64) -> Option<&str> {
        self.starts.iter().rev().find(|start| start.at <= at).map(|start| start.step.as_str())
    }
}

fn parse_file_change(word: &str) -> Option<FileChange> {
    match word {
        "created" => Some(FileChange::Created),
        "changed" => Some(FileChange::Changed),
        "attributes" => Some(FileChange::Attributes),
        "removed" => Some(FileChange::Removed),
        _ => None,
    }
}

fn shorten(line: &str) -> String {
    line.chars().take(60).collect()
}
