//! Users and groups before and after, compared by name.

use super::model::AccountChange;
use std::collections::BTreeMap;

/// An account that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccountDifference {
    pub group: bool,
    pub name: String,
    pub change: AccountChange,
}

/// Compares the lines of `/etc/passwd`, or of `/etc/group` for groups.
pub(super) fn compare_accounts(group: bool, before: &[&str], after: &[&str]) -> Vec<AccountDifference> {
    let (before, after) = (by_name(before), by_name(after));
    let mut found = Vec::new();
    let mut add = |name: &str, change| found.push(AccountDifference { group, name: name.to_owned(), change });
    for (name, line) in &before {
        match after.get(name) {
            None => add(name, AccountChange::Removed),
            Some(now) if now != line => add(name, AccountChange::Changed),
            Some(_) => {}
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        add(name, AccountChange::Created);
    }
    found
}

fn by_name<'l>(lines: &[&'l str]) -> BTreeMap<&'l str, &'l str> {
    lines
        .iter()
        .filter_map(|line| Some((line.split(':').next()?, *line)))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}
